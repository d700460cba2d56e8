/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define COMPLAINT_BYTES 2048
#define LOOK_MS 10 /* interval of checks for the exit after the streams are closed */

bool run_command_line_add(struct command_line *line, const char *word) {
    if (line->count == RUN_COMMAND_WORDS) return false;
    line->words[line->count++] = word;
    line->words[line->count] = NULL;
    return true;
}

bool run_command_quote(char *text, size_t room, const char *word) {
    size_t before = strlen(text), at = before;
    bool fits = at + 2 < room;
    if (fits) text[at++] = '\'';
    for (; fits && *word; word++) {
        const char *piece = *word == '\'' ? "'\\''" : (char[]){*word, 0};
        size_t bytes = strlen(piece);
        fits = at + bytes + 2 < room;
        if (fits) memcpy(text + at, piece, bytes);
        at += bytes;
    }
    if (fits) text[at++] = '\'';
    text[fits ? at : before] = 0;
    return fits;
}

struct stream {
    int file; /* -1: closed */
    char *text;
    size_t bytes, room;
};

static void run_command_take(struct stream *stream) {
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

/* In the child: becomes the command. */
static void run_command_become(const struct command_line *line, const int out[2],
                               const int complaint[2]) {
    int input = open("/dev/null", O_RDONLY);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    setpgid(0, 0);
    if (input >= 0 && dup2(input, 0) >= 0 && dup2(out[1], 1) >= 0 && dup2(complaint[1], 2) >= 0)
        execvp(line->words[0], (char *const *)(uintptr_t)line->words);
    fprintf(stderr, "%s\n", strerror(errno));
    _exit(127);
}

/* Reads both streams. Returns false on timeout. */
static bool run_command_listen_to(struct stream *out, struct stream *complaint, int64_t until_ns) {
    while (out->file >= 0 || complaint->file >= 0) {
        struct pollfd files[2] = {{out->file, POLLIN, 0}, {complaint->file, POLLIN, 0}};
        int64_t left_ns = until_ns - clock_now_ns();
        if (left_ns <= 0) return false;
        if (poll(files, 2, (int)(left_ns / 1000000) + 1) <= 0) continue;
        if (files[0].revents) run_command_take(out);
        if (files[1].revents) run_command_take(complaint);
    }
    return true;
}

static bool run_command_wait_for(pid_t pid, int64_t until_ns, int *code_out) {
    int status = 0;
    *code_out = 0;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) *code_out = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        if (ended == pid) return true;
        if (clock_now_ns() >= until_ns) return false;
        poll(NULL, 0, LOOK_MS);
    }
}

static const char *run_command_last_line(char *text) {
    size_t bytes = strlen(text);
    while (bytes && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
        text[--bytes] = 0;
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

enum status run_command(const struct command_line *line, int timeout_ms, char *out, size_t room,
                        struct error *error) {
    char complaint_text[COMPLAINT_BYTES];
    int pipes[2][2], code = 0;
    if (pipe2(pipes[0], O_CLOEXEC)) return error_set(error, STATUS_IO, "%s", strerror(errno));
    if (pipe2(pipes[1], O_CLOEXEC)) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return error_set(error, STATUS_IO, "%s", strerror(errno));
    }
    int64_t until_ns = clock_now_ns() + (int64_t)timeout_ms * 1000000;
    pid_t pid = fork();
    if (pid == 0) run_command_become(line, pipes[0], pipes[1]);
    close(pipes[0][1]);
    close(pipes[1][1]);
    struct stream said = {pipes[0][0], out, 0, room};
    struct stream complaint = {pipes[1][0], complaint_text, 0, sizeof complaint_text};
    bool in_time = pid > 0 && run_command_listen_to(&said, &complaint, until_ns) &&
                   run_command_wait_for(pid, until_ns, &code);
    if (pid > 0 && !in_time) {
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (said.file >= 0) close(said.file);
    if (complaint.file >= 0) close(complaint.file);
    out[said.bytes] = 0;
    complaint_text[complaint.bytes] = 0;
    if (pid < 0) return error_set(error, STATUS_IO, "%s: cannot be started", line->words[0]);
    if (!in_time) return error_set(error, STATUS_TIMEOUT, "%s does not answer", line->words[0]);
    if (code)
        return error_set(error, STATUS_IO, "%s: %s", line->words[0],
                         run_command_last_line(complaint_text));
    return STATUS_OK;
}
