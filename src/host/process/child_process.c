/* SPDX-License-Identifier: Apache-2.0
 * The child reports a failed exec by its errno through a pipe that exec closes. Between fork and
 * exec it calls only functions that are safe in a child of a threaded process.
 */
#include "host/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define FILES 4 /* descriptors that a child may have */
#define COMPLAINT_BYTES 2048
#define LOOK_MS 2 /* interval of checks for the exit */

extern char **environ;

/* ---- starting ---- */

/* In the child: makes its descriptors those of `files`, [count], and has exec close all others. The
 * first copies are higher than any descriptor that a second copy replaces. */
static bool set_files(int *files, int count) {
    for (int i = 0; i < count; i++)
        if (files[i] != i && (files[i] = fcntl(files[i], F_DUPFD_CLOEXEC, FILES)) < 0) return false;
    for (int i = 0; i < count; i++)
        if (files[i] == i)
            fcntl(i, F_SETFD, 0);
        else if (dup2(files[i], i) < 0)
            return false;
    return close_range((unsigned)count, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
}

/* In the child: becomes the program, or returns. */
static void child_process_become(const struct child_process_options *options, pid_t parent) {
    sigset_t none;
    int files[FILES] = {options->input, options->output ? options->output : STDOUT_FILENO,
                        options->errors ? options->errors : STDERR_FILENO, options->extra};
    if (options->end_signal) {
        setpgid(0, 0); /* a terminal's Ctrl-C reaches only the parent */
        prctl(PR_SET_PDEATHSIG, options->end_signal);
        if (getppid() != parent) _exit(126);
    } else {
        setsid();
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    if (options->input < 0) files[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (set_files(files, options->extra ? FILES : FILES - 1))
        execvpe(options->words[0], (char *const *)(uintptr_t)options->words,
                options->environment ? options->environment : environ);
}

enum status child_process_start(const struct child_process_options *options, pid_t *pid_out,
                                struct error *error) {
    int report[2], why = 0;
    const char *program = options->words[0];
    if (pipe2(report, O_CLOEXEC))
        return error_set(error, STATUS_IO, "%.200s: %s", program, strerror(errno));
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int file = fcntl(report[1], F_DUPFD_CLOEXEC, FILES);
        child_process_become(options, parent);
        why = errno;
        ssize_t written = write(file, &why, sizeof why);
        _exit(written < 0 ? 126 : 127);
    }
    if (pid < 0) why = errno;
    close(report[1]);
    while (pid > 0 && read(report[0], &why, sizeof why) < 0 && errno == EINTR)
        continue;
    close(report[0]);
    if (why && pid > 0) waitpid(pid, NULL, 0);
    if (why) return error_set(error, STATUS_IO, "%.200s: %s", program, strerror(why));
    *pid_out = pid;
    return STATUS_OK;
}

bool child_process_wait(pid_t pid, int64_t wait_ns, int *status_out) {
    int64_t until_ns = clock_now_ns() + wait_ns;
    for (;;) {
        pid_t ended = waitpid(pid, status_out, WNOHANG);
        if (ended == pid || (ended < 0 && errno == ECHILD)) return true;
        if (clock_now_ns() >= until_ns) return false;
        poll(NULL, 0, LOOK_MS);
    }
}

/* ---- running to the end ---- */

struct stream {
    int file; /* -1: closed */
    char *text;
    size_t bytes, room;
};

static void child_process_take(struct stream *stream) {
    char lost[512];
    size_t left = stream->room - 1 - stream->bytes;
    ssize_t count = left ? read(stream->file, stream->text + stream->bytes, left)
                         : read(stream->file, lost, sizeof lost);
    if (count < 0 && errno == EINTR) return;
    if (count > 0) {
        if (left) stream->bytes += (size_t)count;
        return;
    }
    close(stream->file);
    stream->file = -1;
}

/* Reads both streams. Returns false on timeout. */
static bool child_process_read_streams(struct stream *out, struct stream *complaint,
                                       int64_t until_ns) {
    while (out->file >= 0 || complaint->file >= 0) {
        struct pollfd files[2] = {{out->file, POLLIN, 0}, {complaint->file, POLLIN, 0}};
        int64_t left_ns = until_ns - clock_now_ns();
        if (left_ns <= 0) return false;
        if (poll(files, 2, (int)(left_ns / 1000000) + 1) <= 0) continue;
        if (files[0].revents) child_process_take(out);
        if (files[1].revents) child_process_take(complaint);
    }
    return true;
}

static const char *child_process_last_line(char *text) {
    size_t bytes = strlen(text);
    while (bytes && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
        text[--bytes] = 0;
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

enum status child_process_run(const struct command_line *line, int timeout_ms, char *out,
                              size_t room, struct error *error) {
    char complaint_text[COMPLAINT_BYTES];
    int pipes[2][2], how = 0;
    pid_t pid;
    if (pipe2(pipes[0], O_CLOEXEC)) return error_set(error, STATUS_IO, "%s", strerror(errno));
    if (pipe2(pipes[1], O_CLOEXEC)) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return error_set(error, STATUS_IO, "%s", strerror(errno));
    }
    int64_t until_ns = clock_now_ns() + (int64_t)timeout_ms * 1000000;
    const struct child_process_options options = {.words = line->words,
                                                  .input = CHILD_PROCESS_NO_INPUT,
                                                  .output = pipes[0][1],
                                                  .errors = pipes[1][1],
                                                  .end_signal = SIGKILL};
    enum status status = child_process_start(&options, &pid, error);
    close(pipes[0][1]);
    close(pipes[1][1]);
    struct stream said = {pipes[0][0], out, 0, room};
    struct stream complaint = {pipes[1][0], complaint_text, 0, sizeof complaint_text};
    bool in_time = !status && child_process_read_streams(&said, &complaint, until_ns) &&
                   child_process_wait(pid, until_ns - clock_now_ns(), &how);
    if (!status && !in_time) {
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (said.file >= 0) close(said.file);
    if (complaint.file >= 0) close(complaint.file);
    out[said.bytes] = 0;
    complaint_text[complaint.bytes] = 0;
    if (status) return status;
    if (!in_time) return error_set(error, STATUS_TIMEOUT, "%s does not answer", line->words[0]);
    if (how)
        return error_set(error, STATUS_IO, "%s: %s", line->words[0],
                         child_process_last_line(complaint_text));
    return STATUS_OK;
}
