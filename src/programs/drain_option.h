/* SPDX-License-Identifier: Apache-2.0
 * The drain time of a serving process. After SIGTERM it finishes running requests for at most
 * --drain-timeout seconds. DRAIN_END_SECONDS later the process ends in any case.
 */
#pragma once

#include <stdint.h>

#include "base/options.h"

#define DRAIN_END_SECONDS 5 /* to send the last answers */

/* A row for an option table of struct `owner`. The value is its double `field`. */
#define DRAIN_TIMEOUT_OPTION(owner, field)                                                         \
    OPTION_ROW("drain-timeout", OPTION_NUMBER, "30",                                               \
               "seconds to finish running requests after SIGTERM; a gateway then ends the rest "   \
               "with an error, a unit's requests continue on other units; 5 s later the process "  \
               "ends in any case",                                                                 \
               .offset = offsetof(owner, field), .minimum = 0.001, .maximum = 86400)

/* Nanoseconds from the signal until the process ends in any case. */
static inline int64_t drain_option_end_ns(double seconds) {
    return (int64_t)((seconds + DRAIN_END_SECONDS) * 1e9);
}
