/* SPDX-License-Identifier: Apache-2.0
 * The logging options of a serving process (host/process/log/log.h).
 */
#pragma once

#include "base/options.h"
#include "host/process/log/log.h"

struct log_values {
    const char *format, *level;
};

/* Rows for an option table of struct `owner` with a member struct log_values `log`. */
#define LOG_OPTIONS(owner)                                                                         \
    OPTION_ROW(                                                                                    \
        "log-format", OPTION_CHOICE, "text",                                                       \
        "format of the log on stderr: text, or one JSON object per line (docs/operations.md)",     \
        .offset = offsetof(owner, log.format), .choices = "text|json"),                            \
        OPTION_ROW("log-level", OPTION_CHOICE, "info",                                             \
                   "lowest level that is logged; each request's line is info",                     \
                   .offset = offsetof(owner, log.level), .choices = "error|warning|info|debug")
