/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fleet/gateway_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/tree.h"
#include "host/fleet/admin_call.h"
#include "host/fleet/launcher.h"

#define TREE_BYTES ((size_t)32 << 20)

struct watched_gateway {
    const char *url;
    struct admin_call *call; /* NULL: its host could not be looked up yet */
    uint32_t unit_count;
    struct {
        uint32_t number, id; /* the fleet's number, the gateway's id */
    } units[LIMIT_FLEET_UNITS];
};

struct gateway_watch {
    const struct fleet_file *file;
    char mark[FLEET_MARK_DIGITS + 1];
    uint32_t count;
    struct watched_gateway gateways[FLEET_GATEWAYS_MAX];
    void *memory;
};

enum status gateway_watch_open(const struct fleet_file *file, const char *mark,
                               struct gateway_watch **watch_out, struct error *error) {
    struct gateway_watch *watch = calloc(1, sizeof *watch);
    if (watch) watch->memory = malloc(TREE_BYTES);
    if (!watch || !watch->memory) {
        free(watch);
        return error_set(error, STATUS_NO_MEMORY, "no memory for what gateways say");
    }
    watch->file = file;
    snprintf(watch->mark, sizeof watch->mark, "%s", mark);
    watch->count = file->gateways.count;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->gateways[i].url = file->gateways.words[i];
    *watch_out = watch;
    return STATUS_OK;
}

void gateway_watch_close(struct gateway_watch *watch) {
    if (!watch) return;
    for (uint32_t i = 0; i < watch->count; i++)
        admin_call_close(watch->gateways[i].call);
    free(watch->memory);
    free(watch);
}

static enum status gateway_watch_ask(struct watched_gateway *gateway, const char *path,
                                     const char *body, struct bytes *answer_out,
                                     struct error *error) {
    enum status status = STATUS_OK;
    if (!gateway->call) status = admin_call_open(gateway->url, &gateway->call, error);
    return status ? status : admin_call_ask(gateway->call, path, body, answer_out, error);
}

/* ---- metrics ---- */

/* The value behind `name` at the beginning of a line; false: there is none. */
static bool gateway_watch_find_value(struct bytes text, const char *name, double *value_out) {
    size_t length = strlen(name);
    const char *at = text.data, *end = text.data + text.count;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if ((size_t)(line_end - at) > length && !memcmp(at, name, length) && at[length] == ' ') {
            char number[64] = "";
            size_t bytes = (size_t)(line_end - at) - length - 1;
            memcpy(number, at + length + 1, bytes < sizeof number ? bytes : sizeof number - 1);
            *value_out = strtod(number, NULL);
            return true;
        }
        at = line_end + 1;
    }
    return false;
}

static uint64_t value(struct bytes text, const char *name) {
    double found = 0;
    return gateway_watch_find_value(text, name, &found) && found > 0 ? (uint64_t)found : 0;
}

/* Values above the limit, or above the next bound if no bound is the limit. */
static uint64_t gateway_watch_count_above(struct bytes text, const char *histogram,
                                          int64_t limit_ns, uint64_t *count_out) {
    const char *at = text.data, *end = text.data + text.count;
    char start[128], name[128];
    snprintf(start, sizeof start, "%s_bucket{le=\"", histogram);
    snprintf(name, sizeof name, "%s_count", histogram);
    uint64_t below = *count_out = value(text, name);
    size_t length = strlen(start);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if ((size_t)(line_end - at) > length && !memcmp(at, start, length)) {
            double bound = strtod(at + length, NULL); /* "+Inf", too */
            const char *space = memchr(at + length, ' ', (size_t)(line_end - at) - length);
            if (space && bound * 1e9 >= (double)limit_ns * (1 - 1e-9)) {
                below = (uint64_t)strtod(space + 1, NULL);
                break;
            }
        }
        at = line_end + 1;
    }
    return *count_out > below ? *count_out - below : 0;
}

bool gateway_watch_add_metrics(struct bytes text, int64_t ttft_limit_ns, int64_t tpot_limit_ns,
                               struct record_fleet_load *load_io) {
    double arrived;
    uint64_t count;
    if (!gateway_watch_find_value(text, "fathom_arrived_answers_total", &arrived)) return false;
    load_io->arrived_requests += (uint64_t)arrived;
    load_io->arrived_tokens += value(text, "fathom_arrived_prompt_tokens_total");
    load_io->hit_tokens += value(text, "fathom_prompt_cache_hit_tokens_total");
    load_io->miss_tokens += value(text, "fathom_prompt_cache_miss_tokens_total");
    load_io->answers += value(text, "fathom_output_length_tokens_count");
    load_io->answer_tokens += value(text, "fathom_output_length_tokens_sum");
    load_io->late_first += gateway_watch_count_above(text, "fathom_time_to_first_token_seconds",
                                                     ttft_limit_ns, &count);
    load_io->first_tokens += count;
    load_io->slow_answers += gateway_watch_count_above(text, "fathom_time_per_output_token_seconds",
                                                       tpot_limit_ns, &count);
    load_io->timed_answers += count;
    load_io->queued += (uint32_t)value(text, "fathom_requests_queued");
    load_io->held += (uint32_t)value(text, "fathom_requests_held");
    return true;
}

/* ---- units ---- */

static struct watched_unit *gateway_watch_find_unit(struct gateway_sight *sight, uint32_t number) {
    for (uint32_t i = 0; i < sight->unit_count; i++)
        if (sight->units[i].number == number) return &sight->units[i];
    if (sight->unit_count == MANAGED_UNITS_MAX) return NULL;
    struct watched_unit *unit = &sight->units[sight->unit_count++];
    *unit = (struct watched_unit){.number = number, .sight = FLEET_SEEN_COUNT};
    return unit;
}

static uint32_t gateway_watch_sight_of(struct bytes state) {
    if (bytes_equal(state, bytes_of("draining"))) return FLEET_SEEN_DRAINING;
    return bytes_equal(state, bytes_of("serving")) ? FLEET_SEEN_SERVING : FLEET_SEEN_STARTING;
}

static uint32_t gateway_watch_role_of(struct bytes role) {
    if (bytes_equal(role, bytes_of("prefill"))) return UNIT_PREFILL;
    return bytes_equal(role, bytes_of("decode")) ? UNIT_DECODE : UNIT_BOTH;
}

/* If gateways differ, the one that would send it requests counts: it gets the order again. */
static void gateway_watch_merge(struct watched_unit *unit, uint32_t sight) {
    if (unit->sight == FLEET_SEEN_COUNT || sight == FLEET_SEEN_SERVING) unit->sight = sight;
    if (unit->sight == FLEET_SEEN_STARTING) unit->sight = sight;
}

static void take_unit(struct gateway_watch *watch, struct watched_gateway *gateway,
                      const struct tree *reported, struct gateway_sight *sight) {
    struct bytes instance, state, role, numerics;
    char digits[17] = "";
    int64_t id, requests = 0;
    if (!tree_get_string(tree_member(reported, "instance"), &instance) || instance.count != 16 ||
        !tree_get_string(tree_member(reported, "state"), &state) ||
        !tree_get_string(tree_member(reported, "role"), &role) ||
        !tree_get_integer(tree_member(reported, "id"), &id))
        return;
    memcpy(digits, instance.data, 2 * FLEET_MARK_DIGITS);
    uint32_t number = launcher_number(watch->mark, digits);
    struct watched_unit *unit = number ? gateway_watch_find_unit(sight, number) : NULL;
    if (!unit || gateway->unit_count == LIMIT_FLEET_UNITS) return;
    gateway->units[gateway->unit_count].number = number;
    gateway->units[gateway->unit_count++].id = (uint32_t)id;
    if (tree_get_integer(tree_member(reported, "requests_bound"), &requests) && requests > 0)
        unit->requests += (uint32_t)requests;
    unit->role = gateway_watch_role_of(role);
    if (tree_get_string(tree_member(reported, "numerics"), &numerics))
        snprintf(unit->numerics, sizeof unit->numerics, "%.*s", (int)numerics.count, numerics.data);
    unit->refused |= bytes_equal(state, bytes_of("refused"));
    gateway_watch_merge(unit, gateway_watch_sight_of(state));
}

static bool gateway_watch_has_others(const struct gateway_sight *sight,
                                     const struct watched_unit *unit, uint32_t role) {
    for (uint32_t i = 0; i < sight->unit_count; i++) {
        const struct watched_unit *other = &sight->units[i];
        if (other != unit && other->sight == FLEET_SEEN_SERVING &&
            (other->role == role || other->role == UNIT_BOTH) &&
            strcmp(other->numerics, unit->numerics) == 0)
            return true;
    }
    return false;
}

/* An answer goes on where its prompt can be computed again and its tokens made, as they were. */
static void note_alone(struct gateway_sight *sight) {
    for (uint32_t i = 0; i < sight->unit_count; i++)
        sight->units[i].alone = !gateway_watch_has_others(sight, &sight->units[i], UNIT_PREFILL) ||
                                !gateway_watch_has_others(sight, &sight->units[i], UNIT_DECODE);
}

static enum status gateway_watch_look_at(struct gateway_watch *watch,
                                         struct watched_gateway *gateway,
                                         struct gateway_sight *sight, struct error *error) {
    const struct fleet_manager_options *options = &watch->file->manager;
    struct bytes text;
    struct arena arena;
    const struct tree *root;
    gateway->unit_count = 0;
    enum status status = gateway_watch_ask(gateway, "/metrics", NULL, &text, error);
    if (status) return status;
    if (!gateway_watch_add_metrics(text, options->ttft_limit_ns, options->tpot_limit_ns,
                                   &sight->load))
        return error_set(error, STATUS_INVALID,
                         "%.200s/metrics: expected fathom_arrived_answers_total; is it the "
                         "operator's port of a Fathom gateway?",
                         gateway->url);
    status = gateway_watch_ask(gateway, "/debug/fleet", NULL, &text, error);
    if (status) return status;
    arena_over(&arena, watch->memory, TREE_BYTES);
    status = tree_parse(&arena, text, "/debug/fleet", &root, error);
    const struct tree *units = status ? NULL : tree_member(root, "units");
    for (size_t i = 0; i < tree_count(units); i++)
        take_unit(watch, gateway, tree_at(units, i), sight);
    return status;
}

enum status gateway_watch_look(struct gateway_watch *watch, struct gateway_sight *sight_out,
                               struct error *error) {
    enum status first = STATUS_OK;
    struct error why;
    *sight_out = (struct gateway_sight){0};
    for (uint32_t i = 0; i < watch->count; i++) {
        enum status status = gateway_watch_look_at(watch, &watch->gateways[i], sight_out, &why);
        if (!status || first) continue;
        first = status;
        *error = why;
    }
    note_alone(sight_out);
    sight_out->has_load = !first;
    record_set_head(&sight_out->load, RECORD_FLEET_LOAD);
    return first;
}

/* ---- orders ---- */

enum status gateway_watch_order(struct gateway_watch *watch,
                                const struct record_fleet_action *action, struct error *error) {
    bool is_role = action->act == FLEET_ACT_ROLE, found = false;
    const char *path = is_role ? "/debug/fleet/role" : "/debug/fleet/drain";
    for (uint32_t i = 0; i < watch->count; i++)
        for (uint32_t unit = 0; unit < watch->gateways[i].unit_count; unit++) {
            struct bytes answer;
            char body[96];
            uint32_t id = watch->gateways[i].units[unit].id;
            if (watch->gateways[i].units[unit].number != action->number) continue;
            if (is_role)
                snprintf(body, sizeof body, "{\"unit\":%u,\"role\":\"%s\"}", id,
                         action->role == UNIT_PREFILL ? "prefill" : "decode");
            else
                snprintf(body, sizeof body, "{\"unit\":%u,\"back\":%s}", id,
                         action->act == FLEET_ACT_BACK ? "true" : "false");
            enum status status = gateway_watch_ask(&watch->gateways[i], path, body, &answer, error);
            if (status) return status;
            found = true;
        }
    if (found) return STATUS_OK;
    return error_set(error, STATUS_NOT_FOUND, "no gateway knows unit %u", action->number);
}
