/* SPDX-License-Identifier: Apache-2.0
 * How long a process that serves may take to end: what has begun when it gets a SIGTERM is finished for
 * --drain-timeout; a few seconds later the process ends in any case.
 */
#pragma once

#include <stdint.h>

#include "base/options.h"

#define DRAIN_END_SECONDS 5 /* for the last answers to leave */

/* A row for an option table of `owner`, of its double `field`. */
#define DRAIN_TIMEOUT_OPTION(owner, field)                                                         \
    OPTION_ROW("drain-timeout", OPTION_NUMBER, "30",                                               \
               "seconds to finish running requests after SIGTERM; a gateway then ends the rest "   \
               "with an error, a unit's requests continue on other units; 5 s later the process "  \
               "ends in any case",                                                                 \
               .offset = offsetof(owner, field), .minimum = 0.001, .maximum = 86400)

/* When the process ends in any case, from the signal on. */
static inline int64_t drain_option_end_ns(double seconds) {
    return (int64_t)((seconds + DRAIN_END_SECONDS) * 1e9);
}
