/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "host/process/log.h"

#define SUBJECT "unit"

static const char *role_name(uint32_t role) {
    static const char *const names[UNIT_ROLE_COUNT] = {"both", "prefill", "decode"};
    return role < UNIT_ROLE_COUNT ? names[role] : "?";
}

/* Of a unit of which the log has not spoken: its number is new. NULL: no place is free. */
static struct fleet_lines_unit *find(struct fleet_lines *lines, uint32_t number) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (lines->units[i].number == number) return &lines->units[i];
    return NULL;
}

static void hear_hello(struct fleet_lines *lines, uint32_t number,
                       const struct record_unit_hello *hello) {
    struct fleet_lines_unit *unit = find(lines, number);
    bool is_known = unit != NULL;
    if (!unit) unit = find(lines, 0);
    if (is_known && unit->role != hello->role)
        log_say(LOG_INFO, SUBJECT, "has changed its role unit=%u role=%s before=%s", number,
                role_name(hello->role), role_name(unit->role));
    int64_t pid = hello->rank_count ? hello_ranks(hello)[0].pid : 0;
    if (unit) *unit = (struct fleet_lines_unit){number, hello->role, pid};
    if (is_known) return;
    log_say(LOG_INFO, SUBJECT,
            "serves unit=%u role=%s ranks=%u pid=%" PRId64
            " pages=%u requests_max=%u numerics=%.*s",
            number, role_name(hello->role), hello->rank_count, pid, hello->page_count,
            hello->requests_max, (int)sizeof hello->numerics_id, hello->numerics_id);
}

void fleet_lines_heard(struct fleet_lines *lines, uint32_t number, const struct record *record) {
    if (record->kind == RECORD_UNIT_HELLO)
        hear_hello(lines, number, (const struct record_unit_hello *)record);
}

static double number_or_none(bool is_there, uint32_t number) {
    return is_there ? (double)number : NAN;
}

static void tell_drain(double unit, const struct record_drain *drain) {
    double rank = number_or_none(drain->one_rank, drain->rank);
    if (drain->dead)
        log_say(LOG_ERROR, SUBJECT, "has lost a rank unit=%.0f rank=%.0f", unit, rank);
    else if (drain->back)
        log_say(LOG_INFO, SUBJECT, "is told to take requests again unit=%.0f rank=%.0f", unit,
                rank);
    else
        log_say(LOG_INFO, SUBJECT, "is told to drain unit=%.0f rank=%.0f", unit, rank);
}

void fleet_lines_told(uint32_t number, const struct record *record) {
    double unit = number_or_none(number != 0, number);
    if (record->kind == RECORD_DRAIN)
        tell_drain(unit, (const struct record_drain *)record);
    else if (record->kind == RECORD_ROLE)
        log_say(LOG_INFO, SUBJECT, "is told its role unit=%.0f role=%s", unit,
                role_name(((const struct record_role *)record)->role));
}

void fleet_lines_lost(struct fleet_lines *lines, uint32_t number, bool is_asked) {
    struct fleet_lines_unit *unit = find(lines, number);
    if (!unit) return; /* it had said nothing yet */
    log_say(is_asked ? LOG_INFO : LOG_WARNING, SUBJECT, "is gone unit=%u role=%s pid=%" PRId64,
            number, role_name(unit->role), unit->pid);
    unit->number = 0;
}
