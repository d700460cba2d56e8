/* SPDX-License-Identifier: Apache-2.0
 * The options that say how a process that serves logs (host/process/log/log.h).
 */
#pragma once

#include "base/options.h"
#include "host/process/log/log.h"

struct log_values {
    const char *format, *level;
};

/* Rows for an option table of `owner`, which has a struct log_values `log`. */
#define LOG_OPTIONS(owner)                                                                         \
    OPTION_ROW(                                                                                    \
        "log-format", OPTION_CHOICE, "text",                                                       \
        "format of the log on stderr: text, or one JSON object per line (docs/operations.md)",     \
        .offset = offsetof(owner, log.format), .choices = "text|json"),                            \
        OPTION_ROW("log-level", OPTION_CHOICE, "info",                                             \
                   "lowest level that is logged; each request's line is info",                     \
                   .offset = offsetof(owner, log.level), .choices = "error|warning|info|debug")
