/* SPDX-License-Identifier: Apache-2.0
 * stderr is shared with other processes, so it is not made nonblocking. Each write has whole lines
 * of at most PIPE_BUF bytes, which a pipe accepts all or not at all, and has the flag RWF_NOWAIT.
 * If the kernel does not support it for a pipe, poll(2) reports whether there is enough room.
 */
#include "host/process/log/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/log/limit_lines.h"

#define KEPT_BYTES_MAX ((size_t)64 << 10)
#define FINISH_MS 1000

/* A kind of lines, to report the number of those left out. */
struct log_kind {
    uint64_t key;
    enum log_level level;
    const char *subject, *format;
    uint32_t message_bytes, named_count;
    char named[LOG_NAMED_BYTES];
};

static struct {
    pthread_mutex_t lock;
    enum log_form form;
    enum log_level level;
    int64_t pid;
    int file;
    bool is_known, never_blocks; /* properties of the file */
    bool is_gathering, finishes;
    pthread_t gatherer;
    uint64_t lost; /* lines dropped for lack of room */
    struct limit_lines limits;
    struct log_kind kinds[LIMIT_LINES_KINDS];
    struct log_line line; /* the current line */
    size_t kept_count;
    char kept[KEPT_BYTES_MAX]; /* [kept_count], whole lines; the first may be partly written */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_INFO, .file = STDERR_FILENO};

static struct log_head log_head_of(enum log_level level, const char *subject) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (struct log_head){own.form, level, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                             subject, own.pid};
}

/* ---- writing ---- */

/* The size of the whole lines that fit into one write. */
static size_t count_piece(const char *lines, size_t bytes) {
    if (own.never_blocks || bytes <= LOG_LINE_BYTES) return bytes;
    const char *last = memrchr(lines, '\n', LOG_LINE_BYTES);
    return last ? (size_t)(last - lines) + 1 : LOG_LINE_BYTES;
}

static ssize_t log_write_piece(const char *lines, size_t bytes) {
    const struct iovec piece = {(void *)(uintptr_t)lines, bytes};
    if (own.never_blocks) return write(own.file, lines, bytes);
    ssize_t written = pwritev2(own.file, &piece, 1, -1, RWF_NOWAIT);
    if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return written;
    struct pollfd ready = {.fd = own.file, .events = POLLOUT};
    errno = EAGAIN;
    return poll(&ready, 1, 0) == 1 ? write(own.file, lines, bytes) : -1;
}

static void look_at_file(void) {
    struct stat about;
    own.is_known = true;
    own.never_blocks = fstat(own.file, &about) == 0 && S_ISREG(about.st_mode);
}

/* Writes buffered lines. Returns false if the reader accepts no more now. Lines are dropped if
 * writing fails. */
static bool write_kept(void) {
    size_t done = 0;
    bool is_slow = false;
    if (!own.is_known) look_at_file();
    while (done < own.kept_count) {
        size_t bytes = count_piece(own.kept + done, own.kept_count - done);
        ssize_t written = log_write_piece(own.kept + done, bytes);
        if (written < 0 && errno == EINTR) continue;
        is_slow = written < 0 && errno == EAGAIN;
        if (is_slow) break;
        done += written < 0 ? bytes : (size_t)written; /* a full disk, or no reader */
    }
    own.kept_count -= done;
    memmove(own.kept, own.kept + done, own.kept_count);
    return !is_slow;
}

static bool log_keep(const struct log_line *line) {
    if (own.kept_count + line->writer.count > KEPT_BYTES_MAX) return false;
    memcpy(own.kept + own.kept_count, line->text, line->writer.count);
    own.kept_count += line->writer.count;
    return true;
}

/* Buffers a line with the number of lost lines. */
static void report_lost(void) {
    const struct log_head head = log_head_of(LOG_WARNING, "log");
    struct log_line line = {.key = 0};
    log_line_make_more(&line, &head, BYTES_LITERAL("stderr took no more lines"),
                       (struct bytes){NULL, 0}, own.lost, 0);
    if (log_keep(&line)) own.lost = 0;
}

static void log_flush(void) {
    if (write_kept() && own.lost) {
        report_lost();
        write_kept();
    }
}

static void add(const struct log_line *line) {
    if (log_keep(line)) return;
    log_flush();
    if (!log_keep(line)) own.lost++;
}

/* ---- floods ---- */

static void report_left_out(int64_t now_ns) {
    uint64_t count;
    int64_t took_ns;
    uint32_t at;
    while ((at = limit_lines_report(&own.limits, now_ns, &count, &took_ns)) != LIMIT_LINES_NONE) {
        const struct log_kind *kind = &own.kinds[at];
        const struct log_head head = log_head_of(kind->level, kind->subject);
        log_line_make_more(&own.line, &head, (struct bytes){kind->format, kind->message_bytes},
                           (struct bytes){kind->named, kind->named_count}, count,
                           (double)took_ns * 1e-9);
        add(&own.line);
    }
}

static void note_kind(struct log_kind *kind, const struct log_head *head,
                      const struct log_line *line, const char *format) {
    kind->key = line->key;
    kind->level = head->level;
    kind->subject = head->subject;
    kind->format = format;
    kind->message_bytes = line->message_bytes;
    kind->named_count = line->named_count;
    memcpy(kind->named, line->named, line->named_count);
}

/* True if the current line is written, and not only counted. */
static bool log_is_line_written(const struct log_head *head, const char *format) {
    uint32_t at;
    bool says = limit_lines_say(&own.limits, own.line.key, clock_now_ns(), &at);
    if (at != LIMIT_LINES_NONE && own.kinds[at].key != own.line.key)
        note_kind(&own.kinds[at], head, &own.line, format);
    return says;
}

/* ---- saying ---- */

static void finish_at_exit(void) {
    log_finish();
}

static void log_say_each(enum log_level level, const char *subject, bool is_limited,
                         const char *format, va_list arguments) {
    pthread_mutex_lock(&own.lock);
    const struct log_head head = log_head_of(level, subject);
    if (!own.finishes) own.finishes = atexit(finish_at_exit) == 0;
    log_line_make(&own.line, &head, format, arguments);
    if (!is_limited || log_is_line_written(&head, format)) add(&own.line);
    bool waits = own.is_gathering && pthread_equal(own.gatherer, pthread_self());
    if (!waits) report_left_out(clock_now_ns());
    if (!waits || level <= LOG_WARNING) log_flush();
    pthread_mutex_unlock(&own.lock);
}

enum log_form log_form(void) {
    return own.form;
}

bool log_is_level_written(enum log_level level) {
    return level <= own.level;
}

void log_say_va(enum log_level level, const char *subject, const char *format, va_list arguments) {
    if (log_is_level_written(level)) log_say_each(level, subject, true, format, arguments);
}

void log_say(enum log_level level, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_say_va(level, subject, format, arguments);
    va_end(arguments);
}

void log_say_all(enum log_level level, const char *subject, const char *format, ...) {
    va_list arguments;
    if (!log_is_level_written(level)) return;
    va_start(arguments, format);
    log_say_each(level, subject, false, format, arguments);
    va_end(arguments);
}

/* ---- life ---- */

void log_start(const char *form, const char *level, bool with_pid) {
    pthread_mutex_lock(&own.lock);
    own.form = strcmp(form, "json") == 0 ? LOG_JSON : LOG_TEXT;
    for (int i = 0; i < LOG_LEVEL_COUNT; i++)
        if (strcmp(level, log_line_level_name((enum log_level)i)) == 0)
            own.level = (enum log_level)i;
    own.pid = with_pid ? getpid() : 0;
    pthread_mutex_unlock(&own.lock);
}

void log_write_to(int file) {
    pthread_mutex_lock(&own.lock);
    own.file = file;
    own.is_known = false;
    pthread_mutex_unlock(&own.lock);
}

void log_gather(void) {
    pthread_mutex_lock(&own.lock);
    own.gatherer = pthread_self();
    own.is_gathering = true;
    pthread_mutex_unlock(&own.lock);
}

void log_turn(void) {
    pthread_mutex_lock(&own.lock);
    if (own.limits.counting) report_left_out(clock_now_ns());
    log_flush();
    pthread_mutex_unlock(&own.lock);
}

int64_t log_next_ns(void) {
    pthread_mutex_lock(&own.lock);
    int64_t next_ns = limit_lines_next_ns(&own.limits);
    bool waits = own.kept_count > 0; /* the reader was slow */
    pthread_mutex_unlock(&own.lock);
    int64_t soon_ns = waits ? clock_now_ns() + 10000000 : INT64_MAX;
    return soon_ns < next_ns ? soon_ns : next_ns;
}

void log_finish(void) {
    pthread_mutex_lock(&own.lock);
    own.is_gathering = false;
    report_left_out(LIMIT_LINES_NEVER);
    struct pollfd ready = {.fd = own.file, .events = POLLOUT};
    int64_t until_ns = clock_now_ns() + FINISH_MS * 1000000;
    log_flush();
    while (own.kept_count && clock_now_ns() < until_ns) {
        poll(&ready, 1, FINISH_MS / 10);
        log_flush();
    }
    pthread_mutex_unlock(&own.lock);
}
