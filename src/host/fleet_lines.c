/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/format.h"
#include "host/process/log/log.h"
#include "host/process/log/log_request.h"

#define SUBJECT "unit"

static const char *role_name(uint32_t role) {
    static const char *const names[UNIT_ROLE_COUNT] = {"both", "prefill", "decode"};
    return role < UNIT_ROLE_COUNT ? names[role] : "?";
}

/* Finds the entry of a unit, or a free one if `connection` is 0. NULL: there is none. */
static struct fleet_lines_unit *find(struct fleet_lines *lines, uint32_t connection) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (lines->units[i].connection == connection) return &lines->units[i];
    return NULL;
}

/* The value of a numeric field; NAN: the field is left out. */
static double number_or_none(bool is_there, uint32_t number) {
    return is_there ? (double)number : NAN;
}

static double fleet_lines_job_of(struct fleet_lines *lines, uint32_t connection) {
    const struct fleet_lines_unit *unit = connection ? find(lines, connection) : NULL;
    return unit ? number_or_none(unit->job != 0, unit->job) : NAN;
}

static uint32_t fleet_lines_number_of(const struct fleet_lines *lines, uint32_t connection) {
    return lines->number_of ? lines->number_of(lines->number_context, (struct unit_id){connection})
                            : connection;
}

/* ---- the requests of a lost unit ---- */

static struct request_id whatever_attempt(struct request_id request) {
    request.attempt = 0;
    return request;
}

static void say_moved(const struct fleet_lines_loss *loss) {
    char to[LIMIT_FLEET_UNITS * 16];
    size_t used = 0;
    to[0] = 0;
    for (uint32_t i = 0; i < loss->to_count; i++)
        used += format_text(to + used, sizeof to - used, "%s%u:%u", i ? "," : "", loss->to[i],
                            loss->counts[i]);
    log_say(LOG_INFO, SUBJECT,
            "its requests are elsewhere unit=%u job=%.0f requests=%u moved=%u to=%s ended=%.0f "
            "after_s=%.2f",
            loss->unit, number_or_none(loss->job != 0, loss->job), loss->requests, loss->moved, to,
            number_or_none(loss->ended != 0, loss->ended),
            (double)(clock_now_ns() - loss->since_ns) * 1e-9);
}

static void end_if_done(struct fleet_lines_loss *loss) {
    if (loss->moved + loss->ended < loss->requests) return;
    say_moved(loss);
    loss->unit = 0;
}

struct taking {
    struct fleet_lines *lines;
    uint32_t loss;
};

static void take_request(void *context, struct request_id request) {
    struct taking *taking = context;
    request_set_add(&taking->lines->moving, whatever_attempt(request), taking->loss);
}

static void fleet_lines_drop_request(void *context, struct request_id request) {
}

/* Starts to follow the requests of a lost unit. Returns their number. */
static uint32_t follow_requests(struct fleet_lines *lines, struct fleet_lines_unit *unit) {
    uint32_t place = lines->losses_used++ % FLEET_LINES_LOSSES;
    struct fleet_lines_loss *loss = &lines->losses[place];
    struct taking taking = {lines, place};
    if (loss->unit) { /* an older loss, replaced by this one */
        loss->ended += request_set_take(&lines->moving, place, fleet_lines_drop_request, NULL);
        end_if_done(loss);
    }
    *loss = (struct fleet_lines_loss){
        .unit = unit->number, .job = unit->job, .since_ns = clock_now_ns()};
    loss->requests = request_set_take(&unit->holds, 0, take_request, &taking);
    if (loss->requests == 0) loss->unit = 0;
    return loss->requests;
}

static void count_moved(struct fleet_lines_loss *loss, uint32_t unit) {
    uint32_t i = 0;
    while (i < loss->to_count && loss->to[i] != unit)
        i++;
    loss->moved++;
    if (i == LIMIT_FLEET_UNITS) return;
    if (i == loss->to_count) loss->to[loss->to_count++] = unit;
    loss->counts[i]++;
}

/* Takes the request from its previous unit, if that is connected but silent. Returns that unit, or
 * 0. */
static uint32_t take_from_silent(struct fleet_lines *lines, struct request_id request) {
    if (request.attempt == 0) return 0;
    request.attempt--;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        if (request_set_remove(&lines->units[i].holds, request) != REQUEST_SET_NOBODY)
            return lines->units[i].number;
    return 0;
}

static void fleet_lines_receive_submit(struct fleet_lines *lines, uint32_t connection,
                                       const struct record_submit *submit) {
    struct fleet_lines_unit *unit = find(lines, connection);
    uint32_t number = fleet_lines_number_of(lines, connection);
    char text[LOG_REQUEST_BYTES];
    struct bytes name = {submit_name(submit), submit->name_bytes};
    uint32_t before = take_from_silent(lines, submit->request);
    uint32_t place = request_set_remove(&lines->moving, whatever_attempt(submit->request));
    struct fleet_lines_loss *loss = place == REQUEST_SET_NOBODY ? NULL : &lines->losses[place];
    if (unit) request_set_add(&unit->holds, submit->request, 0);
    if (loss) before = loss->unit;
    if (!before) return;
    log_say(LOG_DEBUG, SUBJECT,
            "gets what another had unit=%u job=%.0f request=%s x_request_id=%.*s before=%u "
            "output=%u",
            number, fleet_lines_job_of(lines, connection), log_request_name(submit->request, text),
            log_request_given(submit->request, name), name.data, before, submit->resumed_count);
    if (!loss) return;
    count_moved(loss, number);
    end_if_done(loss);
}

void fleet_lines_ended(struct fleet_lines *lines, struct request_id request) {
    uint32_t place = request_set_remove(&lines->moving, whatever_attempt(request));
    if (place == REQUEST_SET_NOBODY) return;
    lines->losses[place].ended++;
    end_if_done(&lines->losses[place]);
}

/* ---- units ---- */

/* A unit that connects again may have its number before the loss of its old connection is
 * detected. The gateway has moved the old connection's requests. */
static void end_former(struct fleet_lines *lines, uint32_t connection, uint32_t number) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_lines_unit *unit = &lines->units[i];
        if (unit->connection && unit->connection != connection && unit->number == number)
            fleet_lines_lost(lines, unit->connection, false);
    }
}

static void fleet_lines_receive_hello(struct fleet_lines *lines, uint32_t connection,
                                      const struct record_unit_hello *hello) {
    struct fleet_lines_unit *unit = find(lines, connection);
    uint32_t number = fleet_lines_number_of(lines, connection);
    bool is_known = unit != NULL;
    if (!is_known) end_former(lines, connection, number);
    if (!unit) unit = find(lines, 0);
    if (is_known && unit->role != hello->role)
        log_say(LOG_INFO, SUBJECT, "has changed its role unit=%u job=%.0f role=%s before=%s",
                number, fleet_lines_job_of(lines, connection), role_name(hello->role),
                role_name(unit->role));
    int64_t pid = hello->rank_count ? hello_ranks(hello)[0].pid : 0;
    uint32_t job = lines->job_of ? lines->job_of(lines->job_context, pid) : 0;
    if (unit) {
        unit->connection = connection;
        unit->number = number;
        unit->job = job;
        unit->role = hello->role;
        unit->pid = pid;
        unit->is_refused &= is_known;
    }
    if (is_known) return;
    log_say(LOG_INFO, SUBJECT,
            "serves unit=%u connection=%.0f job=%.0f role=%s ranks=%u pid=%" PRId64
            " pages=%u requests_max=%u numerics=%.*s",
            number, number_or_none(connection != number, connection), number_or_none(job != 0, job),
            role_name(hello->role), hello->rank_count, pid, hello->page_count, hello->requests_max,
            (int)sizeof hello->numerics_id, hello->numerics_id);
}

void fleet_lines_received(struct fleet_lines *lines, uint32_t connection,
                          const struct record *record) {
    if (record->kind == RECORD_UNIT_HELLO)
        fleet_lines_receive_hello(lines, connection, (const struct record_unit_hello *)record);
    if (record->kind != RECORD_FINISHED) return;
    uint32_t reason = ((const struct record_finished *)record)->reason;
    struct fleet_lines_unit *unit = find(lines, connection);
    if (unit) request_set_remove(&unit->holds, record_request(record));
    if (reason == FINISH_STOP_TOKEN ||
        reason == FINISH_LENGTH) /* the request's other unit is lost */
        fleet_lines_ended(lines, record_request(record));
}

void fleet_lines_refused(struct fleet_lines *lines, uint32_t connection,
                         const struct record *record) {
    struct fleet_lines_unit *unit = find(lines, connection);
    if (!unit || unit->is_refused) return;
    unit->is_refused = true;
    log_say(
        LOG_WARNING, SUBJECT, "is refused unit=%u job=%.0f role=%s pid=%" PRId64 " why=%s",
        unit->number, fleet_lines_job_of(lines, connection), role_name(unit->role), unit->pid,
        record->kind == RECORD_UNIT_HELLO
            ? "it serves another checkpoint than this gateway's --model, or than the units here, "
              "or has sizes that no unit has: give it the same --model"
            : "what it says of a request cannot be true");
}

static void notify_drain(double unit, double job, const struct record_drain *drain) {
    double rank = number_or_none(drain->one_rank, drain->rank);
    if (drain->dead && drain->back)
        log_say(LOG_INFO, SUBJECT, "has a rank again unit=%.0f job=%.0f rank=%.0f", unit, job,
                rank);
    else if (drain->dead)
        log_say(LOG_ERROR, SUBJECT, "has lost a rank unit=%.0f job=%.0f rank=%.0f", unit, job,
                rank);
    else if (drain->back)
        log_say(LOG_INFO, SUBJECT, "resumes requests unit=%.0f job=%.0f rank=%.0f", unit, job,
                rank);
    else
        log_say(LOG_INFO, SUBJECT, "drains unit=%.0f job=%.0f rank=%.0f", unit, job, rank);
}

void fleet_lines_reported(struct fleet_lines *lines, uint32_t connection,
                          const struct record *record) {
    double unit = connection ? fleet_lines_number_of(lines, connection) : NAN;
    double job = fleet_lines_job_of(lines, connection);
    if (record->kind == RECORD_SUBMIT && connection)
        fleet_lines_receive_submit(lines, connection, (const struct record_submit *)record);
    else if (record->kind == RECORD_DRAIN)
        notify_drain(unit, job, (const struct record_drain *)record);
    else if (record->kind == RECORD_ROLE)
        log_say(LOG_INFO, SUBJECT, "gets its role unit=%.0f job=%.0f role=%s", unit, job,
                role_name(((const struct record_role *)record)->role));
}

void fleet_lines_lost(struct fleet_lines *lines, uint32_t connection, bool is_asked) {
    struct fleet_lines_unit *unit = find(lines, connection);
    if (!unit) return; /* it had not sent its hello yet */
    uint32_t requests = follow_requests(lines, unit);
    log_say(is_asked ? LOG_INFO : LOG_WARNING, SUBJECT,
            "is gone unit=%u job=%.0f role=%s pid=%" PRId64 " requests=%u", unit->number,
            fleet_lines_job_of(lines, connection), role_name(unit->role), unit->pid, requests);
    unit->connection = 0;
}

void fleet_lines_close(struct fleet_lines *lines) {
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        request_set_close(&lines->units[i].holds);
    request_set_close(&lines->moving);
}
