/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/fleet_log.h"

#include "base/format.h"
#include "contract/record.h"

const char *fleet_log_name(uint16_t kind) {
    static const char *const names[RECORD_KIND_COUNT] = {
        [RECORD_SUBMIT] = "SUBMIT",       [RECORD_CANCEL] = "CANCEL",
        [RECORD_CONTINUE] = "CONTINUE",   [RECORD_DRAIN] = "DRAIN",
        [RECORD_TOKENS] = "TOKENS",       [RECORD_FINISHED] = "FINISHED",
        [RECORD_SCORES] = "SCORES",       [RECORD_RESERVED] = "RESERVED",
        [RECORD_KV_EXPECT] = "KV_EXPECT", [RECORD_KV_PUSH] = "KV_PUSH",
        [RECORD_KV_CANCEL] = "KV_CANCEL", [RECORD_KV_DONE] = "KV_DONE",
        [RECORD_KV_FIND] = "KV_FIND",     [RECORD_KV_FOUND] = "KV_FOUND",
        [RECORD_KV_LOAD] = "KV_LOAD",     [RECORD_KV_LOADED] = "KV_LOADED",
        [RECORD_KV_KEEP] = "KV_KEEP",     [RECORD_KV_KEPT] = "KV_KEPT",
    };
    const char *name = kind < RECORD_KIND_COUNT ? names[kind] : NULL;
    return name ? name : "another record";
}

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
