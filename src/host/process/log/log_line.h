/* SPDX-License-Identifier: Apache-2.0
 * One line of the log, as text or as JSON. Both have the same parts: when, how grave, which subject,
 * what happened, and fields that are a name with a value. They are made from one format,
 *
 *     log_line_make(&line, &head, "joined unit=%u role=%s", 3, "decode")
 *
 *     2026-11-23T12:00:00.123Z info unit  joined unit=3 role=decode
 *     {"ts":"2026-11-23T12:00:00.123Z","level":"info","subject":"unit","message":"joined","unit":3,"role":"decode"}
 *
 * A format is a message of plain words, and then fields of one blank, a name, `=` and one of %s,
 * %.*s, %d, %u, %ld, %lu, %lld, %llu, %zu (or PRIu64 and the like) and %.Nf. A text that is empty or
 * NULL leaves its field out. What a value says cannot end a line, begin another field or reach a
 * terminal: control bytes are escaped, bytes beyond ASCII come as `?`, and long values are cut.
 */
#ifndef HOST_PROCESS_LOG_LOG_LINE_H
#define HOST_PROCESS_LOG_LOG_LINE_H

#include <stdarg.h>
#include <stdint.h>

#include "base/json_writer.h"

/* With its end of line. Not more than what a pipe takes at once (PIPE_BUF), so lines of several
 * processes do not mix. */
#define LOG_LINE_BYTES 4096
#define LOG_VALUE_BYTES 480 /* of a text, before it is escaped */
#define LOG_NAMED_BYTES 200

enum log_form { LOG_TEXT, LOG_JSON };
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };

const char *log_line_level_name(enum log_level level);

struct log_head {
    enum log_form form;
    enum log_level level;
    int64_t unix_ns;     /* nanoseconds since 1970 */
    const char *subject; /* one word */
    int64_t pid; /* who writes it, a field behind the others where none of them is a pid; 0: none */
};

struct log_line {
    struct json_writer writer; /* count: of the line, its end included */
    /* Names what the line is about: its subject, its message, and which of them (a unit, a rank, an
     * account, a status); lines that differ in other fields alone have the same. */
    uint64_t key;
    bool reports_pid;       /* one of its fields is the pid of the process that it is about */
    uint32_t message_bytes; /* of the format */
    uint32_t named_count;
    char named[LOG_NAMED_BYTES]; /* those fields, as they stand in the line */
    char text[LOG_LINE_BYTES];   /* [writer.count] */
};

void log_line_make(struct log_line *line, const struct log_head *head, const char *format,
                   va_list arguments);

/* "<message> more=12 seconds=10.0", with the fields that `named` says: so many lines of this kind
 * were left out. seconds 0: left out. */
void log_line_make_more(struct log_line *line, const struct log_head *head, struct bytes message,
                        struct bytes named, uint64_t more, double seconds);

#endif
