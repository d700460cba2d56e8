/* SPDX-License-Identifier: Apache-2.0
 * For tests of what is logged: each case has a file that the log is written to, and reads of it what
 * came since it asked last.
 */
#ifndef TESTS_HOST_HEARD_H
#define TESTS_HOST_HEARD_H

#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/log.h"

static FILE *heard_file;
static char heard_text[1 << 20];
static off_t heard_bytes; /* that were asked for */

static inline void heard_begin(const char *level) {
    heard_file = tmpfile();
    check(heard_file);
    heard_bytes = 0;
    log_start("text", level, false);
    log_write_to(fileno(heard_file));
}

static inline void heard_end(void) {
    log_finish();
    log_write_to(STDERR_FILENO);
    fclose(heard_file);
}

/* What was said since it was asked last, without its first time. The text lasts until the next call. */
static inline const char *heard_news(void) {
    ssize_t count = pread(fileno(heard_file), heard_text, sizeof heard_text - 1, heard_bytes);
    check(count >= 0);
    heard_text[count] = 0;
    heard_bytes += count;
    return count ? heard_text + sizeof "2026-11-23T12:00:00.123Z" : heard_text;
}

#endif
