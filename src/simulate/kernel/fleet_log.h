/* SPDX-License-Identifier: Apache-2.0
 * The last events of a simulated fleet, for debugging a breach. Events are stored as numbers and
 * formatted only on request.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "contract/ids.h"

enum { FLEET_LOG_EVENTS = 4096, FLEET_LOG_LINE_BYTES = 160, FLEET_LOG_NOWHERE = 255 };

struct fleet_event {
    int64_t now_ns;
    const char *what; /* a string literal */
    uint8_t unit, rank;
    uint32_t attempt;
    uint64_t request; /* the client's number * 64 + choice, or FLEET_LOG_NOBODY */
    uint64_t a, b;
};

#define FLEET_LOG_NOBODY UINT64_MAX

struct fleet_log {
    struct fleet_event events[FLEET_LOG_EVENTS];
    uint64_t count;
};

/* Adds an event without a request. */
void fleet_log_add(struct fleet_log *log, int64_t now_ns, const char *what, uint32_t unit,
                   uint32_t rank, uint64_t a, uint64_t b);

void fleet_log_request(struct fleet_log *log, int64_t now_ns, const char *what, uint32_t unit,
                       uint32_t rank, struct request_id request, uint64_t a, uint64_t b);

/* Formats an event; `back` 0 is the last one. Returns the length of the line, or 0 if there is
 * none. */
size_t fleet_log_line(const struct fleet_log *log, uint32_t back, char *line, size_t line_bytes);
