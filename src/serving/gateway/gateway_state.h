/* SPDX-License-Identifier: Apache-2.0
 * The gateway's state, which all of its files share. Only serving/gateway/request.c changes a
 * request's state and the counts and lists that depend on it.
 */
#pragma once

#include "contract/machine.h"
#include "serving/cache/prefix_affinity.h"
#include "serving/gateway/accounts.h"
#include "serving/gateway/fleet.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/metrics.h"
#include "serving/gateway/models.h"
#include "serving/gateway/prompt_outline.h"
#include "serving/gateway/request.h"
#include "serving/policy/choose_roles.h"
#include "serving/policy/predict_length.h"
#include "serving/policy/predict_ttft.h"

struct gateway_entries {      /* serving/gateway/usage_record.h */
    uint64_t said, committed; /* sequences of the last ones sent and committed */
    uint64_t *commit_pending; /* ring of the sequences of charged entries that are not committed */
    uint32_t commit_pending_first, commit_pending_count;
};

struct usage_mark { /* a position to roll back to: how much had been sent */
    uint32_t outbox_used;
    uint64_t said;
};

struct gateway {
    struct gateway_options options;
    struct models models;
    struct bytes model_name, version;          /* model_name: the first of the names */
    char fingerprints[FLEET_NUMERICS_MAX][96]; /* system_fingerprint, by index of fleet.numerics */
    struct outbox outbox;
    size_t token_bytes; /* outbox bytes of the CANCEL and CONTINUE that new tokens may cause */
    struct pool pool;   /* memory of requests' arenas */
    struct request_table requests;
    struct tokenize_queue tokenize_queue; /* queue of texts for the tokenizer */
    struct tokenize_queue constraints;    /* queue of constraints for the host's checker */
    struct arena scratch;                 /* scratch memory of one call */
    struct tokenizer_scratch *tokenizer_scratch;
    struct metrics metrics;
    struct accounts accounts;
    struct predict_length lengths; /* predicted lengths of the accounts' answers */
    struct predict_ttft ttft;
    uint64_t begun_tokens; /* predicted work of requests at units that have no token yet */
    struct gateway_entries entries;
    const struct endpoint_call *call; /* the HTTP request that is being handled; NULL: none */
    struct fleet fleet;
    struct choose_roles roles;
    uint64_t role_changes_total;               /* role changes by policy, not by an operator */
    struct prefix_affinity affinity;           /* which unit has which prompt prefixes */
    struct prompt_outlines outlines;           /* of chats that asked for a receipt */
    uint64_t unit_choices[UNITS_REASON_COUNT]; /* a waiting request counts once for each reason */
    uint64_t resumed_total, handed_over_total;
    bool changed;       /* something has changed since the lists of requests were served */
    int64_t retry_ns;   /* earliest time at which a failed request may retry the same unit */
    int64_t served_ns;  /* last time at which any unit took requests */
    int64_t started_ns; /* time of the first event; MACHINE_NEVER before it */
    int64_t tallied_ns; /* time of the last UNIT_TOTALS; at first started_ns */
    bool draining;
    bool tallied_end;      /* UNIT_TOTALS were sent after a drain's last request */
    int64_t drain_ends_ns; /* a drain's deadline for requests; MACHINE_NEVER */
};

static inline uint32_t gateway_held_count(const struct gateway *gateway) {
    return gateway->options.requests_max - gateway->requests.counts[REQUEST_FREE];
}

/* Counts requests that wait for a unit or that the next step ends. */
static inline uint32_t gateway_queued_count(const struct gateway *gateway) {
    const struct request_table *requests = &gateway->requests;
    return requests->unchecked.count + requests->waiting.count + requests->finishing.count;
}

static inline bool gateway_can_put(const struct gateway *gateway, size_t bytes) {
    return outbox_room(&gateway->outbox) >= bytes;
}
