/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/kernel/fleet_log.h"

#include "base/format.h"
#include "contract/record.h"

void fleet_log_add(struct fleet_log *log, int64_t now_ns, const char *what, uint32_t unit,
                   uint32_t rank, uint64_t a, uint64_t b) {
    log->events[log->count++ % FLEET_LOG_EVENTS] =
        (struct fleet_event){now_ns, what, (uint8_t)unit, (uint8_t)rank, 0, FLEET_LOG_NOBODY, a, b};
}

void fleet_log_request(struct fleet_log *log, int64_t now_ns, const char *what, uint32_t unit,
                       uint32_t rank, struct request_id request, uint64_t a, uint64_t b) {
    log->events[log->count++ % FLEET_LOG_EVENTS] = (struct fleet_event){
        now_ns, what, (uint8_t)unit, (uint8_t)rank, request.attempt, request.low, a, b};
}

size_t fleet_log_line(const struct fleet_log *log, uint32_t back, char *line, size_t line_bytes) {
    if (back >= log->count || back >= FLEET_LOG_EVENTS) return 0;
    const struct fleet_event *event = &log->events[(log->count - 1 - back) % FLEET_LOG_EVENTS];
    size_t used = format_text(line, line_bytes, "%9.3f ms", (double)event->now_ns / 1e6);
    if (event->unit != FLEET_LOG_NOWHERE)
        used += format_text(line + used, line_bytes - used, " unit %u", event->unit);
    if (event->rank != FLEET_LOG_NOWHERE)
        used += format_text(line + used, line_bytes - used, ".%u", event->rank);
    if (event->request != FLEET_LOG_NOBODY)
        used += format_text(line + used, line_bytes - used, " client %llu.%llu attempt %u",
                            (unsigned long long)event->request / 64,
                            (unsigned long long)event->request % 64, event->attempt);
    return used + format_text(line + used, line_bytes - used, ": %s %llu %llu", event->what,
                              (unsigned long long)event->a, (unsigned long long)event->b);
}
