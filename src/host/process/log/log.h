/* SPDX-License-Identifier: Apache-2.0
 * The log of a process: one line on stderr for each event, as text or as JSON
 * (host/process/log/log_line.h). docs/operations.md lists the subjects. A line never contains a
 * key, a prompt or an answer.
 *
 *     log_say(LOG_WARNING, "unit", "lost unit=%u", number);
 *
 * All functions are thread-safe. If many lines of one kind come at once, some are left out and
 * counted (host/process/log/limit_lines.h).
 *
 * The reader of stderr may be slow, and the loop must not wait for it. Lines are written if that
 * does not block, and are otherwise buffered, up to 64 KiB. Further lines are lost and counted. The
 * thread that called log_gather, which is the loop's, buffers its lines until the end of its turn,
 * so that one write(2) has many lines. Errors and warnings, and lines of other threads, are written
 * at once. Regular files are assumed never to block.
 */
#pragma once

#include <stdbool.h>

#include "host/process/log/log_line.h"

/* Sets form and level by the values of --log-format and --log-level. Call it before the first line;
 * the defaults are text and info. with_pid: each line contains this process's pid, because several
 * processes share stderr. */
void log_start(const char *form, const char *level, bool with_pid);

/* For tests and measurements: writes lines to this file. */
void log_write_to(int file);

void log_say(enum log_level level, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void log_say_va(enum log_level level, const char *subject, const char *format, va_list arguments);

/* log_say without a limit on the number of lines. */
void log_say_all(enum log_level level, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum log_form log_form(void);

/* True if lines of this level are written. */
bool log_is_level_written(enum log_level level);

/* Buffers this thread's lines until it calls log_turn, which it does regularly. */
void log_gather(void);

/* Writes buffered lines, and reports the number of lines left out when it is due. */
void log_turn(void);

/* Latest time for the next log_turn, by clock_now_ns; INT64_MAX: none. */
int64_t log_next_ns(void);

/* Reports all lines left out and writes all buffered lines. Waits up to a second for a slow reader.
 * Also called when the process exits. */
void log_finish(void);
