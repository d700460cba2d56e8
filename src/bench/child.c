/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/child.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "bench/machine_limits.h"
#include "host/process/child_process.h"

#define OUTPUT_BYTES_MAX ((long)64 << 20)
#define START_SECONDS_MAX 600 /* for our own servers */
#define STOP_SECONDS_MAX 10
#define LINE_BYTES_MAX 200

/* ---- a command line ---- */

void child_add(struct child_command *command, const char *format, ...) {
    va_list arguments;
    check(command->count < CHILD_WORDS_MAX);
    char *text = command->texts[command->count];
    va_start(arguments, format);
    format_va(text, CHILD_WORD_BYTES, format, arguments);
    va_end(arguments);
    command->argv[command->count++] = text;
    command->argv[command->count] = NULL;
}

void child_own(struct child_command *command, const char *first, ...) {
    va_list words;
    command->count = 0;
    child_add(command, "/proc/self/exe");
    va_start(words, first);
    for (const char *word = first; word; word = va_arg(words, const char *))
        child_add(command, "%s", word);
    va_end(words);
}

void child_add_option(struct child_command *command, const char *name, const char *value) {
    if (value) child_add(command, "--%s=%s", name, value);
}

void child_add_count(struct child_command *command, const char *name, uint64_t value) {
    child_add(command, "--%s=%llu", name, (unsigned long long)value);
}

void child_add_model(struct child_command *command, const struct model_run_values *run) {
    child_add_option(command, "model", run->model);
    child_add_option(command, "device", run->device);
    child_add_option(command, "activations", run->activations);
    child_add_option(command, "expert-sum", run->expert_sum);
    child_add_option(command, "cpu-mask", run->cpu_mask);
    child_add_option(command, "schedule", run->schedule);
    child_add_count(command, "threads", run->threads);
}

/* ---- processes ---- */

static void child_wait_a_moment(void) {
    struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
}

/* The content of the file so far, with a terminator; NULL: out of memory. */
static char *contents(FILE *file, size_t *count_out) {
    off_t end = lseek(fileno(file), 0, SEEK_END);
    if (end < 0 || end > OUTPUT_BYTES_MAX) end = end < 0 ? 0 : OUTPUT_BYTES_MAX;
    char *text = malloc((size_t)end + 1);
    if (!text) return NULL;
    ssize_t count = pread(fileno(file), text, (size_t)end, 0);
    *count_out = count > 0 ? (size_t)count : 0;
    text[*count_out] = 0;
    return text;
}

/* The last line that is not blank, for a message. */
static void child_last_line(FILE *file, char out[LINE_BYTES_MAX]) {
    size_t count = 0;
    char *text = contents(file, &count);
    out[0] = 0;
    if (!text) return;
    while (count && (unsigned char)text[count - 1] <= ' ')
        count--;
    size_t from = count;
    while (from && text[from - 1] != '\n')
        from--;
    if (count - from >= LINE_BYTES_MAX) count = from + LINE_BYTES_MAX - 1;
    for (size_t i = from; i < count; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i - from] = c < ' ' || c >= 0x7F ? '?' : (char)c;
    }
    out[count - from] = 0;
    free(text);
}

static enum status spawn(const char *const *argv, FILE *output, FILE *errors, pid_t *pid_out,
                         struct error *error) {
    if (!output || !errors)
        return error_set(error, STATUS_IO, "cannot start %s: %s", argv[0], strerror(errno));
    const struct child_process_options child = {
        .words = argv, .output = fileno(output), .errors = fileno(errors), .end_signal = SIGTERM};
    struct error why;
    enum status status = child_process_start(&child, pid_out, &why);
    return status ? error_set(error, status, "cannot run %s", why.text) : STATUS_OK;
}

static enum status ended(const char *name, int how, FILE *errors, struct error *error) {
    char line[LINE_BYTES_MAX];
    child_last_line(errors, line);
    return error_set(error, STATUS_IO, "%s ended with %s %d; its last line: %s", name,
                     WIFEXITED(how) ? "status" : "signal",
                     WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), line);
}

enum status child_run(const char *const *argv, struct bytes *output_out, struct error *error) {
    FILE *output = tmpfile(), *errors = tmpfile();
    int how = 0;
    pid_t pid;
    enum status status = spawn(argv, output, errors, &pid, error);
    while (!status && waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    if (!status && (!WIFEXITED(how) || WEXITSTATUS(how)))
        status = ended(argv[0], how, errors, error);
    if (!status) {
        size_t count = 0;
        char *text = contents(output, &count);
        if (text)
            *output_out = (struct bytes){text, count};
        else
            status = error_set(error, STATUS_NO_MEMORY, "no memory for the output of %s", argv[0]);
    }
    if (output) fclose(output);
    if (errors) fclose(errors);
    return status;
}

enum status child_read(const char *const *argv, const char *name,
                       struct child_document *document_out, struct error *error) {
    struct arena arena;
    struct bytes text;
    struct child_document document;
    enum status status = child_run(argv, &text, error);
    if (status) return status;
    size_t room = text.count * 64 + 65536;
    document.memory = malloc(room);
    arena_over(&arena, document.memory, document.memory ? room : 0);
    status = tree_parse(&arena, text, name, &document.root, error);
    free((void *)(uintptr_t)text.data);
    if (status)
        free(document.memory);
    else
        *document_out = document;
    return status;
}

double child_number(const struct tree *object, const char *name) {
    double value = 0;
    return tree_get_number(tree_member(object, name), &value) ? value : 0;
}

/* True if the output has the mark, and white space after the text that follows it. */
static bool find_mark(FILE *output, const char *mark, char *text_out, size_t text_bytes) {
    size_t count;
    char *text = contents(output, &count);
    if (!text) return false;
    char *at = strstr(text, mark);
    size_t bytes = 0;
    if (at) {
        at += strlen(mark);
        bytes = strcspn(at, " \t\r\n");
    }
    bool found = at && at[bytes] && bytes < text_bytes;
    if (found) {
        memcpy(text_out, at, bytes);
        text_out[bytes] = 0;
    }
    free(text);
    return found;
}

enum status child_start(const char *const *argv, const char *mark, double seconds_max,
                        struct child *child_out, char *text_out, size_t text_bytes,
                        struct error *error) {
    struct child child = {.output = tmpfile()};
    enum status status = spawn(argv, child.output, child.output, &child.pid, error);
    if (status) {
        if (child.output) fclose(child.output);
        return status;
    }
    double until = machine_limits_now() + seconds_max;
    while (!find_mark(child.output, mark, text_out, text_bytes)) {
        int how;
        if (waitpid(child.pid, &how, WNOHANG) == child.pid) {
            status = ended(argv[0], how, child.output, error);
            fclose(child.output);
            return status;
        }
        if (machine_limits_now() > until) {
            child_stop(&child);
            return error_set(error, STATUS_TIMEOUT, "%s has not said '%s' within %.0f seconds",
                             argv[0], mark, seconds_max);
        }
        child_wait_a_moment();
    }
    *child_out = child;
    return STATUS_OK;
}

enum status child_serve(const char *const *argv, struct child *child_out,
                        char url_out[CHILD_URL_BYTES], struct error *error) {
    char port[200];
    enum status status = child_start(argv, "listening on http://127.0.0.1:", START_SECONDS_MAX,
                                     child_out, port, sizeof port, error);
    if (!status) format_text(url_out, CHILD_URL_BYTES, "http://127.0.0.1:%s", port);
    return status;
}

void child_stop(struct child *child) {
    double until = machine_limits_now() + STOP_SECONDS_MAX;
    int how;
    kill(child->pid, SIGTERM);
    while (waitpid(child->pid, &how, WNOHANG) == 0) {
        if (machine_limits_now() > until) kill(child->pid, SIGKILL);
        child_wait_a_moment();
    }
    fclose(child->output);
    *child = (struct child){0};
}
