/* SPDX-License-Identifier: Apache-2.0
 * What the gateway's files share: its tables. Of the requests, serving/gateway/request.c alone
 * changes the state and all that follows from it.
 */
#ifndef SERVING_GATEWAY_GATEWAY_STATE_H
#define SERVING_GATEWAY_GATEWAY_STATE_H

#include "contract/machine.h"
#include "serving/cache/prefix_affinity.h"
#include "serving/gateway/accounts.h"
#include "serving/gateway/fleet.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/metrics.h"
#include "serving/gateway/models.h"
#include "serving/gateway/request.h"
#include "serving/policy/choose_roles.h"
#include "serving/policy/predict_length.h"
#include "serving/policy/predict_ttft.h"

struct gateway_entries {    /* serving/gateway/entry.h */
    uint64_t said, settled; /* sequences of the last ones */
    uint64_t *unsettled;    /* ring of the sequences of charged ones that are not settled */
    uint32_t unsettled_first, unsettled_count;
};

struct entry_mark { /* as far as the gateway had spoken */
    uint32_t outbox_used;
    uint64_t said;
};

struct gateway {
    struct gateway_options options;
    struct models models;
    struct bytes model_name, version;          /* the first of the names */
    char fingerprints[FLEET_NUMERICS_MAX][96]; /* of answers, by the fleet's numerics */
    struct outbox outbox;
    size_t token_bytes; /* of what newly chosen tokens may have it say to units: CANCEL, CONTINUE */
    struct pool pool;   /* requests' arenas */
    struct request_table requests;
    struct texts texts;       /* to the tokenizer */
    struct texts constraints; /* to whoever says whether they can be held */
    struct arena scratch;     /* of one call */
    struct tokenizer_scratch *tokenizer_scratch;
    struct metrics metrics;
    struct accounts accounts;
    struct predict_length lengths; /* of accounts' answers */
    struct predict_ttft ttft;
    uint64_t begun_tokens; /* work that units have, without a token yet */
    struct gateway_entries entries;
    const struct endpoint_call *call; /* that is being received; NULL */
    struct fleet fleet;
    struct choose_roles roles;
    uint64_t role_changes_total;     /* by policy, not by order */
    struct prefix_affinity affinity; /* which unit has which prompts' beginnings */
    uint64_t
        unit_choices[UNITS_REASON_COUNT]; /* a request that waits counts once for each reason */
    uint64_t resumed_total, handed_over_total;
    bool changed;       /* something has, since those in the requests' lists were served */
    int64_t retry_ns;   /* when the first of those that a unit failed may be tried there again */
    int64_t served_ns;  /* when a unit was last seen that takes requests */
    int64_t started_ns; /* first event; MACHINE_NEVER before */
    int64_t tallied_ns; /* units, the last time; at first that */
    bool draining;
    bool tallied_end;      /* while draining, when nothing was held any more */
    int64_t drain_ends_ns; /* what is left then is ended; MACHINE_NEVER */
};

static inline uint32_t gateway_held_count(const struct gateway *gateway) {
    return gateway->options.requests_max - gateway->requests.counts[REQUEST_FREE];
}

/* Those that wait for a unit, and those that the next step ends. */
static inline uint32_t gateway_queued_count(const struct gateway *gateway) {
    const struct request_table *requests = &gateway->requests;
    return requests->unsettled.count + requests->waiting.count + requests->ending.count;
}

static inline bool gateway_can_put(const struct gateway *gateway, size_t bytes) {
    return outbox_room(&gateway->outbox) >= bytes;
}

#endif
