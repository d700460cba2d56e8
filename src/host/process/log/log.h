/* SPDX-License-Identifier: Apache-2.0
 * The log of a process: one line on stderr for each thing that happened, in a form that people or
 * programs read (host/process/log/log_line.h). docs/operations.md has the subjects. A line never says
 * a key, a prompt or an answer.
 *
 *     log_say(LOG_WARNING, "unit", "lost unit=%u", number);
 *
 * Any thread may say something. Lines are left out and counted where a kind of them comes in floods
 * (host/process/log/limit_lines.h).
 *
 * The reader of stderr may be slow, and the loop must not wait for it: lines are written if that
 * does not block, and otherwise buffered, up to 64 KiB of them. Further lines are lost and
 * counted. The thread that called log_gather (the loop's) keeps its lines until its turn ends, so
 * that one write(2) takes many; errors and warnings go out at once, as all lines of other threads.
 * A file is taken for one that never blocks.
 */
#ifndef HOST_PROCESS_LOG_LOG_H
#define HOST_PROCESS_LOG_LOG_H

#include <stdbool.h>

#include "host/process/log/log_line.h"

/* Before the first line, or the form is text and the level info. The names are those of the options
 * --log-format and --log-level. with_pid: each line contains this process's pid, since another
 * process shares its stderr. */
void log_start(const char *form, const char *level, bool with_pid);

/* For tests and measurements: lines go to this file. */
void log_write_to(int file);

void log_say(enum log_level level, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void log_say_va(enum log_level level, const char *subject, const char *format, va_list arguments);

/* log_say for a kind of line that is never thinned out. */
void log_say_all(enum log_level level, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum log_form log_form(void);

/* Whether a line of this level is written at all. */
bool log_says(enum log_level level);

/* This thread calls log_turn again and again; until then its lines are kept. */
void log_gather(void);

/* Writes what is kept, and tells what was left out when it is time. */
void log_turn(void);

/* When log_turn is wanted at the latest, by clock_now_ns; INT64_MAX: at no time. */
int64_t log_next_ns(void);

/* Tells all that was left out, and writes all that is kept; waits a second for a slow reader. Also
 * called as the process exits. */
void log_finish(void);

#endif
