/* SPDX-License-Identifier: Apache-2.0
 * One line of the log, as text or as JSON. Both have the same parts: time, level, subject, message,
 * and fields with a name and a value. They are printed from one format,
 *
 *     log_line_make(&line, &head, "joined unit=%u role=%s", 3, "decode")
 *
 *     2026-11-23T12:00:00.123Z info unit  joined unit=3 role=decode
 *     {"ts":"2026-11-23T12:00:00.123Z","level":"info","subject":"unit","message":"joined",
 *      "unit":3,"role":"decode"}
 *
 * A format is a message of plain words, followed by fields. A field is a blank, a name, `=` and one
 * of %s, %.*s, %d, %u, %ld, %lu, %lld, %llu, %zu (or PRIu64 and the like) and %.Nf. If a text is
 * empty or NULL, its field is left out. A value cannot end the line, begin another field or send
 * control bytes to a terminal: control bytes are escaped, bytes beyond ASCII are replaced by `?`,
 * and long values are truncated.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>

#include "base/json_writer.h"

/* Including the end of line. Not more than PIPE_BUF, so that lines of several processes do not mix
 * in a pipe. */
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
    int64_t
        pid; /* of the writing process: the last field, unless another field is a pid; 0: none */
};

struct log_line {
    struct json_writer writer; /* count: of the line, its end included */
    /* Hash of the kind of line: its subject, its message, and the fields that name an object (a
     * unit, a rank, an account, a status). Lines that differ only in other fields have the same
     * key. */
    uint64_t key;
    bool reports_pid;       /* one of its fields is a pid */
    uint32_t message_bytes; /* of the format */
    uint32_t named_count;
    char named[LOG_NAMED_BYTES]; /* the fields in `key`, as printed */
    char text[LOG_LINE_BYTES];   /* [writer.count] */
};

void log_line_make(struct log_line *line, const struct log_head *head, const char *format,
                   va_list arguments);

/* Prints "<message> more=12 seconds=10.0" with the fields in `named`: the number of lines of this
 * kind that were left out, and the time over which they were. seconds 0: without that field. */
void log_line_make_more(struct log_line *line, const struct log_head *head, struct bytes message,
                        struct bytes named, uint64_t more, double seconds);
