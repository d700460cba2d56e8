/* SPDX-License-Identifier: Apache-2.0
 * A rank's part of a unit: prefill and decode in one machine, for one engine. A unit has one or
 * several ranks (serving/unit/rank_units.h). The part owns the rank's KV pages and the order of its
 * requests: continuous batching, chunked prefill, the prefix cache, preemption and
 * resumption when pages run out, stop tokens, length, cancellation. It does not handle text,
 * compute, or keep answers. A request may be submitted with the first tokens of its answer, chosen
 * by a unit that was lost: it continues as if it had been interrupted here. If the engine may use
 * drafts, an answer may grow by two tokens in a step; the unit never sees a wrong draft. It
 * forwards the answer's constraint to the engine without reading it; tokens that the constraint
 * forces need no row.
 *
 * Prefill and decode may be separate: a unit may be asked for only the prompt and the first token,
 * and send the KV blocks to another unit, which has reserved pages for them
 * (serving/unit/handoff.h).
 *
 * It receives and sends the records that contract/record_forms.c routes to and from a unit: those
 * of the gateway, of the engine, of the KV pages and of the KV storage. It has at most one RUN_STEP
 * in flight, and ends each SUBMIT with exactly one FINISHED. UNIT_HELLO, UNIT_LOAD, ROLE and DRAIN
 * concern all ranks together: serving/unit/rank_units.h handles them.
 *
 * Only step() plans a step, receive() never does. If a host passes all available records before it
 * calls step(), cancellations and new arrivals take effect in the very next step. receive() returns
 * STATUS_FULL only while the outbox holds records; step() then does nothing.
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "serving/cache/block_key.h"
#include "serving/policy/predict_length.h"

struct unit;

/* How blocks in the KV storage are obtained: by the faster of loading and computing, as measured,
 * or always by one of the two. */
enum kv_choice { KV_CHOICE_MEASURED, KV_CHOICE_LOAD, KV_CHOICE_COMPUTE, KV_CHOICE_COUNT };

struct unit_options {
    uint32_t requests_max;       /* waiting and running; 1..LIMIT_UNIT_REQUESTS */
    uint32_t page_count;         /* KV pages of KV_BLOCK_TOKENS positions: model_page_count() */
    uint32_t context_tokens_max; /* prompt and answer of one request; at most LIMIT_CONTEXT */
    uint32_t step_rows_max;      /* limit of running requests; at most LIMIT_STEP_ROWS */
    uint32_t step_tokens_max;    /* >= step_rows_max + KV_BLOCK_TOKENS; at most LIMIT_STEP_TOKENS */
    uint32_t chunk_tokens_max; /* tokens of one prompt in one step; 0: as many as the step allows */
    uint32_t vocab_count;
    bool prefix_cache; /* do not compute blocks again that are in the pages */
    /* Reuses blocks of answers in later prompts. They were computed in another mode, so the next
     * answer may differ in a last bit from one computed without them. */
    bool reuse_generated;
    uint32_t evict_rule; /* enum evict_rule */
    /* enum speculate_mode; all except SPECULATE_NEVER need an engine with an MTP layer */
    uint32_t speculate;
    uint32_t tpot_stretch_percent; /* schedule_pace; 0: a default */
    int64_t tpot_target_ns;        /* schedule_pace; 0: use the stretch */
    int64_t prompt_patience_ns;    /* schedule_pace; 0: a default */
    int64_t priority_ns;           /* schedule_turn; 0: a default */
    /* memory for prompts per rank; 0: a default. When it is out, a SUBMIT is refused as with a full
     * queue */
    size_t prompt_bytes;
    size_t outbox_bytes; /* 0: the size of the largest reaction, which is the minimum */
    bool kv_storage;    /* a host stores blocks in memory and on disk (serving/unit/kv_offload.h) */
    uint32_t kv_choice; /* enum kv_choice */
    uint64_t page_bytes; /* bytes of a block; only with kv_storage */
    /* parts of a load's layers for which the engine can wait separately; 0 or 1: a row begins when
     * all have arrived */
    uint32_t kv_load_parts;
    const uint8_t *model_id;   /* [32], from model_identity() */
    const char *numerics_id;   /* up to 31 bytes, from model_numerics_id() */
    uint32_t kv_memory_blocks; /* approximate capacity of a rank's storage in memory; 0: none */
    uint32_t rank_balance;     /* enum balance_method that chooses the rank of a request */
    bool level_steps;     /* ranks deep in a long context take fewer tokens per step (level.h) */
    bool bind_on_arrival; /* bind a request to a rank on arrival, not when a rank can accept it */
    uint32_t role;        /* enum unit_role in the hello until a ROLE */
    const int64_t *pids;  /* [ranks, or 1] process ids for the hello; NULL: not reported */
    /* [as pids] addresses that receive KV blocks; NULL: none */
    const char (*kv_addresses)[KV_ADDRESS_BYTES];
    uint64_t instance; /* random bits of this start, for the hello */
    /* state of all ranks' experts, sent after the hello; NULL: none */
    const struct record_experts *experts;
};

/* ---- creation ---- */

/* Scratch memory of a call. All ranks share it, so that it stays in the CPU caches while they plan
 * one after the other. */
struct unit_scratch {
    struct schedule_item *items;        /* [requests_max] items of one plan */
    struct schedule_choice *choices;    /* [requests_max] */
    uint32_t *order;                    /* [requests_max] */
    struct decode_running *leavers;     /* [requests_max] candidates for moving to another rank */
    struct evict_candidate *candidates; /* [page_count] candidates of one eviction */
};

size_t unit_scratch_bytes(const struct unit_options *options);
enum status unit_scratch_open(struct arena *arena, const struct unit_options *options,
                              struct unit_scratch *scratch_out) MUST_USE;

/* Memory for the prompts of `ranks` ranks. Each rank may use memory that the others do not need. */
size_t unit_prompts_bytes(const struct unit_options *options, uint32_t ranks);
enum status unit_prompts_open(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct pool *prompts_out) MUST_USE;

struct unit_shared {       /* shared by all ranks; outlives them */
    struct outbox *outbox; /* has space for a rank's records at every call: unit_outbox_bytes */
    struct pool *prompts;
    struct unit_scratch scratch;
};

/* Arena bytes that unit_create needs, and the largest output of one call of the rank. */
size_t unit_memory_bytes(const struct unit_options *options);
size_t unit_outbox_bytes(const struct unit_options *options);

/* Allocates everything else from `arena`. Returns STATUS_INVALID with an error that names the option
 * out of range, or STATUS_NO_MEMORY. */
enum status unit_create(struct arena *arena, const struct unit_options *options,
                        const struct unit_shared *shared, struct unit **unit_out,
                        struct error *error) MUST_USE;

struct machine unit_machine(struct unit *unit);

/* ---- questions of serving/unit/rank_units.c ---- */

/* Write the hello and the load report of the rank as a unit of one rank, with its tail element. */
void unit_hello(const struct unit *unit, struct record_unit_hello *hello_out,
                struct unit_rank *rank_out);
void unit_load(const struct unit *unit, struct record_unit_load *load_out,
               struct unit_rank_load *rank_out);

/* The number of requests in the unit, waiting and running. A drained unit may stop at 0. */
uint32_t unit_request_count(const struct unit *unit);

/* A rank's state, for the choice of a rank for a request. */
struct unit_offer {
    uint32_t pages_available; /* free, or cached and not leased, minus those of waiting requests */
    uint32_t pages_held;
    uint32_t pages_expected; /* expected growth of its answers */
    uint32_t requests;       /* requests in the rank */
    uint32_t rows;           /* rows that run, or are about to run */
    /* the next step is full for requests with this turn or a later one; INT64_MAX: it is not
     * full */
    int64_t full_turn;
    uint64_t tokens_ahead; /* known tokens of all requests that are not computed yet */
};
struct unit_offer unit_offer(const struct unit *unit, const struct predict_length *lengths);

/* The request that leaves a rank before its running requests need more pages than it has, so that
 * none is interrupted (serving/policy/balance/balance_decode). */
struct unit_leaver {
    struct request_id request;
    uint32_t page_count;     /* pages that it needs to start on another rank */
    uint32_t pages_expected; /* expected growth */
};

/* Chooses the request that leaves. Returns false if there are enough pages, or no request can
 * leave, because their blocks are being transferred. No step may be in flight. */
bool unit_relieve(const struct unit *unit, const struct predict_length *lengths,
                  struct unit_leaver *leaver_out);

/* Moves a request to `to`, a unit of the same engine and options with a free slot. It continues
 * there like an interrupted request, from its tokens so far, with its account. Returns false, and
 * the request stays, if the prompts' memory of `to` is out. */
bool unit_move(struct unit *from, struct request_id id, struct unit *to, int64_t now_ns) MUST_USE;

/* The turn (serving/policy/schedule.h) of a submission that arrives at now_ns. */
int64_t unit_turn(const struct unit *unit, const struct record_submit *submit, int64_t now_ns);

/* Recounts all redundant state (pages, lists, indexes) and checks it. Slow. */
void unit_audit(const struct unit *unit);
