/* SPDX-License-Identifier: Apache-2.0
 * For tests of what is logged: each case has a file that the log is written to, and reads of it
 * what came since it asked last.
 */
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/log/log.h"

static FILE *received_file;
static char received_text[1 << 20];
static off_t received_bytes; /* that were asked for */

static inline void received_begin(const char *level) {
    received_file = tmpfile();
    check(received_file);
    received_bytes = 0;
    log_start("text", level, false);
    log_write_to(fileno(received_file));
}

static inline void received_end(void) {
    log_finish();
    log_write_to(STDERR_FILENO);
    fclose(received_file);
}

/* What was said since it was asked last, without its first time. The text lasts until the next
 * call. */
static inline const char *received_news(void) {
    ssize_t count =
        pread(fileno(received_file), received_text, sizeof received_text - 1, received_bytes);
    check(count >= 0);
    received_text[count] = 0;
    received_bytes += count;
    return count ? received_text + sizeof "2026-11-23T12:00:00.123Z" : received_text;
}
