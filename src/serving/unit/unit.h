/* SPDX-License-Identifier: Apache-2.0
 * One rank's part of a unit: prefill and decode in one machine, for one engine. A unit has one or
 * several ranks (serving/unit/rank_units.h). The part owns the KV pages of its rank and the order
 * of its requests. It implements continuous batching, chunked prefill, the prefix cache, preemption
 * and resumption when pages run out, stop tokens, length limits and cancellation. It does not
 * handle text, compute, or keep answers. A SUBMIT may include the first tokens of an answer, chosen
 * by a unit that was lost. Such a request continues as if it had been interrupted here. If the
 * engine may use speculative drafts, an answer may grow by two tokens in a step; the unit never
 * sees a wrong draft. It forwards the constraint of an answer to the engine without reading it.
 * Tokens that the constraint forces need no row.
 *
 * Prefill and decode may be disaggregated: a unit may be asked for only the prompt and the first
 * token, and then sends the KV blocks to another unit, which has reserved pages for them
 * (serving/unit/handoff.h).
 *
 * The machine receives and sends the records that contract/record_forms.c routes to and from a
 * unit: those of the gateway, the engine, the KV pages and the KV storage. It has at most one
 * RUN_STEP in flight, and ends each SUBMIT with exactly one FINISHED. UNIT_HELLO, UNIT_LOAD, ROLE
 * and DRAIN concern all ranks together, and serving/unit/rank_units.h handles them.
 *
 * Only step() plans a step; receive() never does. If a host passes all available records before it
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

/* How blocks that are in the KV storage are obtained: by the faster of loading and computing, as
 * measured, or always by the same one. */
enum kv_choice { KV_CHOICE_MEASURED, KV_CHOICE_LOAD, KV_CHOICE_COMPUTE, KV_CHOICE_COUNT };

struct unit_options {
    uint32_t requests_max;       /* waiting and running; 1..LIMIT_UNIT_REQUESTS */
    uint32_t page_count;         /* KV pages of KV_BLOCK_TOKENS positions: model_page_count() */
    uint32_t context_tokens_max; /* prompt and answer of one request; at most LIMIT_CONTEXT */
    uint32_t step_rows_max;      /* maximum of running requests; at most LIMIT_STEP_ROWS */
    /* >= step_rows_max + KV_BLOCK_TOKENS; at most LIMIT_STEP_TOKENS */
    uint32_t step_tokens_max;
    /* tokens of one prompt in one step; 0: as many as the step allows */
    uint32_t chunk_tokens_max;
    uint32_t vocab_count;
    bool prefix_cache; /* reuse blocks that are still in the pages */
    /* Reuse generated blocks in later prompts. They were computed in another mode, so the next
     * answer may differ in a last bit from one computed without them. */
    bool reuse_generated;
    uint32_t evict_rule; /* enum evict_rule */
    /* enum speculate_mode; all except SPECULATE_NEVER need an engine with an MTP layer */
    uint32_t speculate;
    uint32_t tpot_stretch_percent; /* schedule_pace; 0: a default */
    int64_t tpot_target_ns;        /* schedule_pace; 0: use the stretch */
    int64_t prompt_patience_ns;    /* schedule_pace; 0: a default */
    int64_t priority_ns;           /* schedule_turn; 0: a default */
    /* memory for prompts per rank; 0: a default. When it is exhausted, a SUBMIT is refused as if
     * the queue were full */
    size_t prompt_bytes;
    size_t outbox_bytes; /* 0: the minimum, which is the largest output of one call */
    /* a host stores blocks in memory and on disk (serving/unit/kv_offload.h) */
    bool kv_storage;
    uint32_t kv_choice;  /* enum kv_choice */
    uint64_t page_bytes; /* bytes of a block; only with kv_storage */
    /* number of parts of a load (groups of layers) for which the engine can wait separately; 0 or
     * 1: a row begins when all layers have arrived */
    uint32_t kv_load_parts;
    const uint8_t *model_id;   /* [32], from model_identity() */
    const char *numerics_id;   /* up to 31 bytes, from model_numerics_id() */
    uint32_t kv_memory_blocks; /* approximate capacity of a rank's storage in memory; 0: none */
    uint32_t rank_balance;     /* enum balance_method that chooses the rank of a request */
    /* a rank deep in a long context takes fewer tokens per step (level.h) */
    bool level_steps;
    /* bind a request to a rank on arrival, not only when a rank can accept it */
    bool bind_on_arrival;
    uint32_t role;       /* enum unit_role, sent in the hello, until a ROLE changes it */
    const int64_t *pids; /* [ranks, or 1] process ids for the hello; NULL: not reported */
    /* [as pids] addresses that receive KV blocks; NULL: none */
    const char (*kv_addresses)[KV_ADDRESS_BYTES];
    uint64_t instance; /* random id of this start, for the hello */
    /* state of all ranks' experts, sent after the hello; NULL: none */
    const struct record_experts *experts;
};

/* ---- creation ---- */

/* Scratch memory of one call. All ranks share it, so that it stays in the CPU caches while they
 * plan one after another. */
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

/* Memory for the prompts of `ranks` ranks. A rank may use what the others do not need. */
size_t unit_prompts_bytes(const struct unit_options *options, uint32_t ranks);
enum status unit_prompts_open(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct pool *prompts_out) MUST_USE;

struct unit_shared {       /* shared by all ranks; outlives them */
    struct outbox *outbox; /* has space for a rank's records at every call: unit_outbox_bytes */
    struct pool *prompts;
    struct unit_scratch scratch;
};

/* The arena bytes that unit_create needs, and the maximum output in bytes of one call of the
 * rank. */
size_t unit_memory_bytes(const struct unit_options *options);
size_t unit_outbox_bytes(const struct unit_options *options);

/* Creates a unit and allocates everything else from `arena`. Returns STATUS_INVALID with an error
 * that names the option out of range, or STATUS_NO_MEMORY. */
enum status unit_create(struct arena *arena, const struct unit_options *options,
                        const struct unit_shared *shared, struct unit **unit_out,
                        struct error *error) MUST_USE;

struct machine unit_machine(struct unit *unit);

/* ---- questions of serving/unit/rank_units.c ---- */

/* Write the hello and the load report of this rank, as a unit of one rank, with its tail
 * element. */
void unit_hello(const struct unit *unit, struct record_unit_hello *hello_out,
                struct unit_rank *rank_out);
void unit_load(const struct unit *unit, struct record_unit_load *load_out,
               struct unit_rank_load *rank_out);

/* The number of requests in the unit, waiting and running. A drained unit may stop at 0. */
uint32_t unit_request_count(const struct unit *unit);

/* A rank's state, for the choice of a rank for a request. */
struct unit_offer {
    /* free, or cached and not leased, minus those of waiting requests */
    uint32_t pages_available;
    uint32_t pages_held;
    uint32_t pages_expected; /* expected growth of its answers */
    uint32_t requests;       /* requests in the rank */
    uint32_t rows;           /* rows that run, or are about to run */
    /* requests with this turn or a later one do not fit into the next step; INT64_MAX: any request
     * fits */
    int64_t full_turn;
    uint64_t tokens_ahead; /* known tokens of all requests that are not computed yet */
};
struct unit_offer unit_offer(const struct unit *unit, const struct predict_length *lengths);

/* The request that moves from a rank to another one before the running requests need more pages
 * than the rank has, so that none is preempted (serving/policy/balance/balance_decode). */
struct unit_leaver {
    struct request_id request;
    uint32_t page_count;     /* pages that it needs to start on another rank */
    uint32_t pages_expected; /* expected growth */
};

/* Chooses the request that leaves. Returns false if there are enough pages, or if no request can
 * leave because the blocks of all are being transferred. No step may be in flight. */
bool unit_relieve(const struct unit *unit, const struct predict_length *lengths,
                  struct unit_leaver *leaver_out);

/* Moves a request to `to`, a unit of the same engine with the same options and a free slot. The
 * request continues there like an interrupted one, from its tokens so far and with its account.
 * Returns false, and the request stays, if the memory for prompts of `to` is exhausted. */
bool unit_move(struct unit *from, struct request_id id, struct unit *to, int64_t now_ns) MUST_USE;

/* The turn (serving/policy/schedule.h) of a SUBMIT that arrives at now_ns. */
int64_t unit_turn(const struct unit *unit, const struct record_submit *submit, int64_t now_ns);

/* Recounts all redundant state (pages, lists, indexes) and checks it. Slow. */
void unit_audit(const struct unit *unit);
