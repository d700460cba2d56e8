/* SPDX-License-Identifier: Apache-2.0
 * Chooses the DP rank of a request from the offers of all ranks: to prefill a prompt, to decode an
 * answer after another unit has computed the prompt, or to continue a request that leaves its rank.
 * This header also declares the state of serving/unit/rank_units.c, which calls these functions and
 * binds the requests.
 */
#pragma once

#include "base/map.h"
#include "serving/cache/recent_blocks.h"
#include "serving/policy/balance/balance.h"
#include "serving/policy/balance/balance_decode.h"
#include "serving/policy/balance/balance_prefill.h"
#include "serving/unit/pages.h"
#include "serving/unit/waiting_line.h"

struct rank_unit {
    struct unit *unit;
    struct machine machine;
    struct recent_blocks memory; /* estimate of the blocks in the memory of its KV storage */
    struct step_work work;       /* work of the step in flight; valid when the step is done */
    struct step_plan *plan;      /* in the outbox, while a step is planned */
    bool planned;
    bool masked; /* accepts no new request */
    /* process id of the restarted rank, until the requests of the old process have ended; 0:
     * none */
    int64_t pid;
};

struct rank_units {
    struct rank_unit *ranks; /* [rank_count] */
    /* Inputs of the rank choice, [rank_count] each. */
    struct balance_rank *loads;
    struct prefill_rank *prefills;
    struct prefill_hit *hits;
    struct decode_rank *decodes;
    struct unit_offer *offers; /* set by view_offers */
    uint64_t *offer_rounds;    /* offers[rank] is of this round */
    uint32_t *requests;        /* requests in each rank */
    /* Load reports of the ranks. Only ranks with a change are asked again. */
    struct record_unit_load *loads_reported; /* report of each rank, included in the sums */
    struct unit_rank_load *rank_loads;
    struct record_unit_load load_sums;
    uint32_t *changed; /* [changed_count] ranks */
    bool *has_changed; /* true for ranks in `changed` */
    uint32_t changed_count;
    /* no rank has space for a request with this turn or a later one; INT64_MAX: some rank has space
     * for any. Set by view_room */
    int64_t room_turn;
    uint64_t offer_round;        /* incremented when all offers have changed; starts at 1 */
    struct prompt_blocks blocks; /* scratch for the current SUBMIT */
    uint32_t near_count;         /* rank_count, or 0: capacity of blocks.near */
    struct waiting_line line;
    struct predict_length lengths;
    struct unit_capacity capacity; /* limits of a rank; requests of all ranks */
    uint64_t prefill_choices[PREFILL_REASON_COUNT], decode_choices[DECODE_REASON_COUNT];
    int64_t patience_ns, retry_ns; /* time at which the first patience in the line ends */
    bool line_wanted;              /* something has changed since the line was last processed */
    enum balance_method method;
    /* cost of a step of all ranks, learnt from the most expensive one */
    struct step_cost cost;
    double *full_ns;          /* [rank_count] scratch */
    int64_t step_ns;          /* duration of this step, the longest that a rank has reported */
    bool step_failed, awaits; /* awaits: no rank has a row in this step */
    bool on_arrival, levels;
    uint64_t choices;
    uint32_t rank_count;
    uint32_t missing;   /* STEP_DONEs that have not arrived */
    struct map rank_of; /* request id -> rank, or IN_LINE */
    struct outbox outbox;
    struct pool prompts;
    struct unit_shared shared; /* outbox and prompts, and scratch of the unit that is called */
    size_t unit_bytes;         /* space in the outbox for the largest output of one unit */
    uint32_t role;             /* enum unit_role */
    bool hello_sent, load_changed;
    uint32_t returning;            /* ranks with a pid */
    struct record_experts experts; /* initial state; zeros: nothing to report */
};

/* Updates the offers of the ranks that have changed. Must be called before a choice. */
void rank_binding_view_offers(struct rank_units *units);

/* Updates room_turn, before the waiting line is processed and after a rank has changed. */
void rank_binding_view_room(struct rank_units *units);

/* Computes the block keys of a prompt into units->blocks. Called once, when the prompt arrives. */
void rank_binding_view_blocks(struct rank_units *units, const struct record_submit *submit);

/* The rank that would finish a prompt of that turn first. `patient`: the prompt may wait for a rank
 * that has its prefix cached. */
struct prefill_choice rank_binding_by_work(struct rank_units *units,
                                           const struct record_submit *submit,
                                           const struct prompt_blocks *blocks, int64_t turn,
                                           bool patient);

/* The rank for a request that is bound on arrival; BALANCE_NO_RANK: none has space. */
uint32_t rank_binding_on_arrival(struct rank_units *units, const struct record_submit *submit);

/* The rank that will decode an answer after another unit has computed the prompt. */
uint32_t rank_binding_to_reserve(struct rank_units *units, const struct record_submit *submit);

/* The rank that continues an answer. The rank `but` is excluded. */
struct decode_choice rank_binding_to_decode(struct rank_units *units,
                                            const struct decode_need *need, uint32_t but);
