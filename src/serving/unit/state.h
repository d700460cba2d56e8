/* SPDX-License-Identifier: Apache-2.0
 * The state shared by the unit's files: requests, the unit, and common queries. Only
 * serving/unit/unit_request.c changes a request's `state` and the unit's `counts`.
 */
#pragma once

#include <stddef.h>

#include "base/check.h"
#include "base/map.h"
#include "contract/step_plan.h"
#include "serving/cache/page_table.h"
#include "serving/cache/prefix_tree.h"
#include "serving/policy/admit.h"
#include "serving/policy/balance/balance_decode.h"
#include "serving/policy/evict_pages.h"
#include "serving/policy/kv_path.h"
#include "serving/policy/schedule.h"
#include "serving/policy/speculate.h"
#include "serving/unit/history.h"
#include "serving/unit/unit.h"

/* The transitions are in serving/unit/unit_request.h. A request runs from PREFILL on. */
enum unit_request_state {
    UNIT_REQUEST_FREE,
    UNIT_REQUEST_WAITING, /* has no pages and waits for its turn */
    UNIT_REQUEST_PARKED,  /* blocks are being written to its pages; will need a row */
    UNIT_REQUEST_LEAVING, /* a transfer still uses its pages; ends with the transfer */
    UNIT_REQUEST_PREFILL,
    UNIT_REQUEST_DECODE,
    UNIT_REQUEST_STATE_COUNT
};

/* The last few tokens of the answer are stored in the request itself. The memory of `tokens` has
 * left the CPU caches since the last token, and a write of four bytes there would wait for
 * memory. */
#define REQUEST_RECENT 16

_Static_assert(KV_BLOCK_TOKENS % REQUEST_RECENT == 0, "a block that is whole is settled");

/* Fields are grouped into cache lines by use. Planning reads the first two lines and the sampling.
 * Processing a result reads the first two lines, the recent tokens and the line of the id. */
struct unit_request {
    _Alignas(64) uint8_t state; /* enum unit_request_state */
    bool in_step;               /* has a row with row_tokens tokens in the step in flight */
    bool cancelled;
    bool fresh;   /* has had no row since it started or resumed */
    bool pushes;  /* blocks are sent to another unit */
    bool listed;  /* unit->line contains its slot */
    bool started; /* its prompt was looked up in the unit's pages */
    bool adjusts; /* rows have a history, biases or masked stop tokens */
    uint32_t row_tokens;
    uint32_t prompt_count;
    uint32_t new_tokens_max;
    uint32_t tokens_here_max; /* maximum of tokens for which this unit needs space */
    uint32_t resumed_count;   /* leading tokens of the answer that the SUBMIT had */
    /* known tokens of the answer. The last one, and forced tokens before it, are not computed
     * yet */
    uint32_t output_count;
    /* last known token. Most rows compute only this one and need not read `tokens`, which is rarely
     * in the CPU caches */
    uint32_t last_token;
    uint32_t computed_count; /* leading tokens with KV rows in its pages */
    /* leading prompt tokens without missing scores: reported, or not requested */
    uint32_t scored_count;
    /* maximum of computed_count so far; tokens below it were obtained before */
    uint32_t computed_peak;
    uint32_t page_count; /* leased pages; the first shared_count are cached blocks */
    /* leading pages that earlier rows have sent to the engine; not valid if `fresh` */
    uint32_t reported_count;
    uint32_t shared_count; /* read-only pages: complete, in the prefix tree */
    uint32_t node;         /* node of the last shared block; PREFIX_NONE: none */

    uint32_t constraint_bytes; /* 0: no constraint */
    uint32_t stop_token_count;
    int32_t priority;
    uint16_t recent_count;
    bool work_reported; /* `work` was sent with TOKENS and has not changed */
    uint8_t bind;       /* enum request_bind (serving/unit/binding.h) */
    int64_t turn;
    uint64_t arrival;
    /* [prompt_count + new_tokens_max] in arena: prompt, then answer. Complete for all whole blocks,
     * and for the rest after request_fill_tokens */
    uint32_t *tokens;
    struct page_id *pages; /* [maximum of pages] in arena */
    struct request_kv_offload
        *kv_offload;         /* in arena; NULL: nothing can be loaded from the KV storage */
    struct handoff *handoff; /* in arena; NULL: this unit generates the whole answer */

    /* [recent_count] last known tokens that are not in `tokens` yet */
    uint32_t recent[REQUEST_RECENT];

    struct sampling sampling;
    int64_t arrived_ns;

    struct request_id id;
    uint32_t stop_tokens[2 * LIMIT_STOP_TOKENS];

    /* account (serving/unit/account.h); changed only through request_work */
    struct unit_work work;
    struct history history;             /* empty unless the sampling needs it */
    struct tenant_salt tenant, account; /* from the SUBMIT */
    uint32_t bias_count;
    struct token_bias *biases; /* [bias_count] in arena */
    char *constraint;          /* [constraint_bytes] in arena, from the SUBMIT */
    /* [maximum of pages] in arena: the number of leading tokens of each block with the mode PROMPT;
     * the rest are GENERATED */
    uint8_t *block_prompt;
    /* [maximum of pages] in arena, the first key_count from pages_set_keys; NULL: not needed
     * twice */
    struct block_key *keys;
    uint32_t key_count;
    int64_t waits_since_ns; /* time of its arrival or last interruption */
    int64_t began_ns;       /* time of its first step; set with work.queue_ns */
    int64_t progress_ns;    /* time of its last PROGRESS, or of its arrival */
    struct arena arena;
};

#define REQUEST_LINE 64

_Static_assert(offsetof(struct unit_request, constraint_bytes) == REQUEST_LINE &&
                   offsetof(struct unit_request, recent) == 2 * REQUEST_LINE &&
                   offsetof(struct unit_request, sampling) == 3 * REQUEST_LINE &&
                   offsetof(struct unit_request, id) == 4 * REQUEST_LINE,
               "a request's first lines are as they are prefetched");

struct kv_offload {            /* state of the KV offload (serving/unit/kv_offload.c) */
    struct load_rate rates[2]; /* disk, host memory */
    uint64_t keep_leases;      /* leases of pages that are being copied */
    uint32_t keeping_count;    /* KV_PUTs without a KV_STORED */
    uint32_t computed_instead; /* consecutive choices to compute everything */
    uint32_t loading_blocks;   /* blocks of all loads in progress */
    /* the earliest time at which a request stops waiting for KV_FOUND and starts */
    int64_t answer_by_ns;
    bool read_only;
};

struct unit {
    struct unit_options options;
    char numerics_id[32];
    uint8_t model_id[32];
    int64_t pid;
    char kv_address[KV_ADDRESS_BYTES];
    struct outbox *outbox; /* shared by ranks */
    struct page_table pages;
    struct prefix_tree tree;
    struct unit_scratch scratch;   /* shared by ranks */
    struct pool *prompts;          /* shared by ranks */
    struct map slots;              /* request id -> slot */
    struct unit_request *requests; /* [requests_max] the first slot_end are initialized */
    uint32_t slot_end;             /* slots from here on have never held a request */
    uint32_t *free_slots;          /* [counts[UNIT_REQUEST_FREE]] stack */
    /* [step_row_count] slots in the step in flight, in row order */
    uint32_t *step_slots;
    /* [line_count] slots of requests that may have rows: first in the order of the last plan, then
     * those that entered later. Some of them may have left */
    uint32_t *line;
    uint32_t line_count;
    uint32_t counts[UNIT_REQUEST_STATE_COUNT]; /* number of requests in each state */
    uint32_t step_row_count;                   /* rows of the step in flight */
    uint32_t step_constraints;                 /* constraints in its plan */
    /* waiting or running requests that the last plan excluded because of their constraints */
    uint32_t held_count;
    uint32_t held_running;  /* running requests among them */
    uint32_t unasked_count; /* constrained requests in BIND_NONE */
    uint32_t unready_count; /* constrained requests in any but BIND_READY */
    uint32_t *over_slots;   /* [over_count] slots with constraints that the rank must release */
    uint32_t over_count;
    uint32_t last_step_rows, last_step_tokens;
    int64_t last_step_ns;
    struct step_cost cost;              /* learnt from earlier steps */
    struct speculate speculate;         /* learnt from earlier steps */
    struct step_work work;              /* work of the step in flight, or of the last one */
    double prompt_saved_ns;             /* result of schedule_earn */
    const struct step_cost *level_cost; /* cost model for level_ns; NULL: no limit */
    double level_ns;                    /* limit of the next step's cost (level.h) */
    uint64_t step;                      /* number of the last step planned */
    struct unit_counters totals;
    uint64_t arrivals;
    struct kv_offload kv_offload;
    /* [lent_key_count] result of pages_keys for the SUBMIT that is being received, so that it is
     * not computed again; NULL: none */
    const struct block_key *lent_keys;
    uint32_t lent_key_count;
    /* measurements of transfers to this unit, of prompts that other units computed */
    struct kv_transfers transfers;
    /* the earliest time at which the unit may stop waiting for a transfer */
    int64_t give_up_ns;
    bool load_changed, plan_wanted;
    /* the rank's engine and pages are lost: all requests end as FAILED with the next steps, and new
     * ones are refused */
    bool abandoned;
    size_t token_bytes; /* bytes of a TOKENS record of a single token, the most frequent one */
    bool step_in_flight;
    bool drafts; /* a row of the step in flight has drafts */
    /* requests at other ranks, or in the waiting line, wait for the end of the step; set before
     * each step */
    bool others;
};

static inline uint32_t request_known(const struct unit_request *request) {
    return request->prompt_count + request->output_count;
}

/* True if the request still needs scores of prompt tokens. Every token of its prompt must then be
 * computed here, in its own mode. */
static inline bool state_request_scores(const struct unit_request *request) {
    return request->scored_count < request->prompt_count;
}

/* Returns the account of the request for a caller that changes it, and marks it to be reported to
 * the gateway again. */
static inline struct unit_work *request_work(struct unit_request *request) {
    request->work_reported = false;
    return &request->work;
}

/* Writes all known tokens to `tokens`. */
static inline void request_fill_tokens(struct unit_request *request) {
    uint32_t count = request->recent_count;
    memcpy(request->tokens + request_known(request) - count, request->recent,
           count * sizeof *request->recent);
    request->recent_count = 0;
}

/* Adds a token to the answer. Only requests with `adjusts` can have a history, so others skip
 * it. */
static inline void request_add_token(struct unit_request *request, uint32_t token) {
    if (request->adjusts) history_add(&request->history, token);
    request->recent[request->recent_count++] = token;
    request->last_token = token;
    request->output_count++;
    if (request_known(request) % REQUEST_RECENT == 0) request_fill_tokens(request);
}

static inline struct admit_need request_need(const struct unit_request *request) {
    return (struct admit_need){request->prompt_count, request->tokens_here_max};
}

static inline bool request_runs(const struct unit_request *request) {
    return request->state >= UNIT_REQUEST_PREFILL;
}

#define UNIT_AHEAD 4 /* requests to prefetch while one is processed */

/* Prefetch the data that planning, or the processing of a result, will read soon. */
static inline void request_prefetch_to_plan(const struct unit_request *request) {
    const char *at = (const char *)request;
    __builtin_prefetch(at, 1);
    __builtin_prefetch(at + REQUEST_LINE, 1);
    __builtin_prefetch(&request->sampling);
}

static inline void request_prefetch_for_result(const struct unit_request *request) {
    const char *at = (const char *)request;
    __builtin_prefetch(at, 1);
    __builtin_prefetch(at + REQUEST_LINE, 1);
    __builtin_prefetch(&request->recent, 1);
    __builtin_prefetch(&request->id);
}

#define UNIT_SCHEDULE_AHEAD 16 /* UNIT_AHEAD for loops that read little of each request */

/* For loops over all requests by slot: prefetches the state of a later one. */
static inline void unit_prefetch_slot(const struct unit *unit, uint32_t slot) {
    if (slot + UNIT_SCHEDULE_AHEAD < unit->slot_end)
        __builtin_prefetch(&unit->requests[slot + UNIT_SCHEDULE_AHEAD]);
}

/* True if the request may have a row in the next step. */
static inline bool request_steps(const struct unit_request *request) {
    return request->state == UNIT_REQUEST_WAITING || request_runs(request);
}

static inline uint32_t unit_held_count(const struct unit *unit) {
    return unit->options.requests_max - unit->counts[UNIT_REQUEST_FREE];
}

static inline uint32_t unit_running_count(const struct unit *unit) {
    return unit->counts[UNIT_REQUEST_PREFILL] + unit->counts[UNIT_REQUEST_DECODE];
}

/* Requests that wait or run. */
static inline uint32_t unit_active_count(const struct unit *unit) {
    return unit->counts[UNIT_REQUEST_WAITING] + unit_running_count(unit);
}

/* Requests with a transfer or a load in progress. */
static inline uint32_t unit_parked_count(const struct unit *unit) {
    return unit->counts[UNIT_REQUEST_PARKED] + unit->counts[UNIT_REQUEST_LEAVING];
}

/* The limits and the current use of rows and pages, which decide whether a request can start
 * now. */
static inline struct unit_capacity unit_rows_and_pages(const struct unit *unit) {
    return (struct unit_capacity){
        .pages_available = unit->pages.free_count + unit->pages.cached_count,
        .rows_max = unit->options.step_rows_max,
        .rows_running = unit_running_count(unit) + unit->counts[UNIT_REQUEST_PARKED],
    };
}

static inline bool unit_can_put(const struct unit *unit, size_t bytes) {
    return outbox_room(unit->outbox) >= bytes;
}

/* Puts a record. The outbox must have space. */
static inline void *unit_put(struct unit *unit, enum record_kind kind, const void *fixed) {
    void *record = machine_outbox_put(unit->outbox, kind, fixed);
    check(record);
    return record;
}
