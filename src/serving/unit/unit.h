/* SPDX-License-Identifier: Apache-2.0
 * The unit of one rank: prefill and decode in one machine, for one engine. It owns the KV pages
 * and the turn order of its requests: continuous batching, chunked prefill, the prefix cache,
 * interruption and return when pages run out, stop tokens, length, cancellation. It never looks at
 * text, never computes, never keeps a request's answer. A request may come with the first tokens of
 * its answer, chosen by a unit that was lost: it goes on as if it had been interrupted here. Where
 * it lets the engine draft ahead, an answer may grow by two tokens in a step; it never sees a draft
 * that was wrong. What binds an answer it carries to the engine, and never reads; tokens that this
 * forces come without a row of their own.
 *
 * Prefill and decode may be apart: a unit may be asked for the prompt and the first token alone and
 * let the KV blocks go to another unit, which has reserved pages for them (serving/unit/handoff.h).
 *
 * Takes and puts out the records whose ways lead to and from a unit (contract/record_forms.c): those
 * of the gateway, of the engine, of the KV pages and of the KV storage. It says UNIT_HELLO with the
 * first step() and after a ROLE, has at most one RUN_STEP in flight, and ends each SUBMIT with
 * exactly one FINISHED, whatever happens.
 *
 * A step is formed only by step(), never by receive(): a host that hands over the records at hand
 * first, and then calls step(), lets cancellations and new arrivals into the very next step.
 * receive() answers STATUS_FULL only while the outbox holds records; step() then does nothing.
 */
#ifndef SERVING_UNIT_UNIT_H
#define SERVING_UNIT_UNIT_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "serving/cache/block_key.h"
#include "serving/policy/predict_length.h"

struct unit;

/* What is in the KV storage is loaded or computed, whichever is faster as measured; or always
 * loaded, or always computed. */
enum kv_choice { KV_CHOICE_MEASURED, KV_CHOICE_LOAD, KV_CHOICE_COMPUTE, KV_CHOICE_COUNT };

struct unit_options {
    uint32_t requests_max;       /* waiting and running; 1..LIMIT_UNIT_REQUESTS */
    uint32_t page_count;         /* KV pages of KV_BLOCK_TOKENS positions: model_page_count() */
    uint32_t context_tokens_max; /* prompt and answer of one request; at most LIMIT_CONTEXT */
    uint32_t step_rows_max;      /* requests that run at the same time; at most LIMIT_STEP_ROWS */
    uint32_t step_tokens_max;    /* >= step_rows_max + KV_BLOCK_TOKENS; at most LIMIT_STEP_TOKENS */
    uint32_t chunk_tokens_max;   /* of one prompt in one step; 0: as many as the step allows */
    uint32_t vocab_count;
    bool prefix_cache; /* blocks that stand in the pages already are not computed again */
    /* Blocks of answers that come back in a later prompt are reused, too. They were computed in
     * another form, so the next answer may differ in a last bit from one computed without them. */
    bool reuse_generated;
    uint32_t evict_rule; /* enum evict_rule */
    uint32_t speculate;  /* enum speculate_mode; all but SPECULATE_NEVER need an engine with an MTP
                           * layer */
    uint32_t tpot_stretch_percent; /* schedule_pace; 0: a default */
    int64_t tpot_target_ns;        /* schedule_pace; 0: by stretch */
    int64_t prompt_patience_ns;    /* schedule_pace; 0: a default */
    int64_t priority_ns;           /* schedule_turn; 0: a default */
    size_t prompt_bytes; /* memory for the prompts held, of several ranks for each; 0: a default.
                          * When it is out, a SUBMIT is refused as with a full queue */
    size_t outbox_bytes; /* 0: what the largest reaction needs, which is also the least allowed */
    bool kv_storage;     /* a host keeps blocks in memory and on disk (serving/unit/tiers.h) */
    uint32_t kv_choice;  /* enum kv_choice */
    uint64_t page_bytes; /* of a block; only with kv_storage */
    uint32_t kv_load_parts;  /* in which a load's layers arrive, and the engine can wait for each; 0
                              * or 1: a row begins when all is there */
    const uint8_t *model_id; /* [32], as model_identity() gives it */
    const char *numerics_id; /* up to 31 bytes, as model_numerics_id() gives it */
    uint32_t kv_memory_blocks; /* that a rank's storage keeps in memory, about; 0: none */
    uint32_t rank_balance;     /* enum balance_method: which of several ranks gets a request */
    bool level_steps;          /* ranks deep in a long context take fewer tokens a step (level.h) */
    bool bind_on_arrival; /* a request gets its rank as it comes, not when a rank can take it */
    uint32_t role;        /* enum unit_role, as the hello tells it until a ROLE */
    const int64_t *pids;  /* [ranks; of a unit alone 1] their processes, for the hello; NULL: not
                           * told */
    const char (*kv_addresses)[KV_ADDRESS_BYTES]; /* [as pids] where they take KV blocks; NULL:
                                                   * nowhere */
    uint64_t instance;                            /* random bits of this start, for the hello */
    const struct record_experts *experts; /* of all ranks, told behind the hello; NULL: nothing */
};

/* Arena bytes that suffice for unit_create. */
size_t unit_memory_bytes(const struct unit_options *options);

/* Capacity of its outbox. */
size_t unit_outbox_bytes(const struct unit_options *options);

/* What one STEP_DONE may put out at once; it finds the outbox full where there is less room. */
size_t unit_reaction_bytes(const struct unit_options *options);

/* Everything is taken from `arena`, and dies with it. STATUS_INVALID names the option that is out
 * of range; STATUS_NO_MEMORY. */
enum status unit_create(struct arena *arena, const struct unit_options *options,
                        struct unit **unit_out, struct error *error) MUST_USE;

struct machine unit_machine(struct unit *unit);

/* The unit's engine is gone, and its pages: with the next steps all its requests end as FAILED, and
 * it takes none. */
void unit_abandon(struct unit *unit);

/* ---- one of several ranks (serving/unit/rank_units.h) ---- */

/* What a unit needs within one call and not behind it. All ranks share one, which stays in the
 * caches while they plan one after the other. */
struct unit_scratch {
    struct schedule_item *items;        /* [requests_max] of one plan, likewise below */
    struct schedule_choice *choices;    /* [requests_max] */
    uint32_t *order;                    /* [requests_max] */
    struct decode_running *leavers;     /* [requests_max] of a rank's relief */
    struct evict_candidate *candidates; /* [page_count] of one eviction */
};

size_t unit_scratch_bytes(const struct unit_options *options);
enum status unit_scratch_open(struct arena *arena, const struct unit_options *options,
                              struct unit_scratch *scratch_out) MUST_USE;

/* The prompts' memory of so many ranks: what one of them does not need, the others have. */
size_t unit_prompts_bytes(const struct unit_options *options, uint32_t ranks);
enum status unit_prompts_open(struct arena *arena, const struct unit_options *options,
                              uint32_t ranks, struct pool *prompts_out) MUST_USE;

struct unit_shared {       /* by all ranks; it outlives them */
    struct outbox *outbox; /* has room for a rank's records with every call: unit_outbox_bytes */
    struct pool *prompts;
    struct unit_scratch scratch;
};

/* As unit_memory_bytes and unit_create, for one of several ranks. It says no UNIT_HELLO and no
 * UNIT_LOAD: rank_units asks for what they tell (unit_hello, unit_load). */
size_t unit_rank_memory_bytes(const struct unit_options *options);
enum status unit_create_rank(struct arena *arena, const struct unit_options *options,
                             const struct unit_shared *shared, struct unit **unit_out,
                             struct error *error) MUST_USE;

/* What the rank would say if it were a unit by itself, with one rank in the tail. */
void unit_hello(const struct unit *unit, struct record_unit_hello *hello_out,
                struct unit_rank *rank_out);
void unit_load(const struct unit *unit, struct record_unit_load *load_out,
               struct unit_rank_load *rank_out);

/* True once after something that its load report tells has changed. */
bool unit_take_load_change(struct unit *unit);

/* A row of the step in flight has drafts. */
bool unit_drafts(const struct unit *unit);

/* Requests it holds, waiting and running; a drained unit may stop at 0. */
uint32_t unit_request_count(const struct unit *unit);

/* What giving it a request would mean, for the choice among ranks. */
struct unit_offer {
    uint32_t pages_available; /* free, or cached and unleased, and not what those that wait take */
    uint32_t pages_held;
    uint32_t pages_expected; /* by which its answers will grow */
    uint32_t requests;       /* held */
    uint32_t rows;           /* that run, or are about to */
    int64_t full_turn;       /* its next step has no room for requests whose turn is this or later;
                              * INT64_MAX: it has for all */
    uint64_t tokens_ahead;   /* of all requests, known and not computed yet */
};
struct unit_offer unit_offer(const struct unit *unit, const struct predict_length *lengths);

/* The keys of a submission's blocks as the prefix caches of all ranks know them: keys_out[context /
 * KV_BLOCK_TOKENS]. Returns how many there are. */
uint32_t unit_keys(const struct unit *unit, const struct record_submit *submit,
                   struct block_key *keys_out);

/* unit_keys of the SUBMIT that comes next, which need not be made once more. They are the caller's,
 * who takes them back when it has come: NULL. */
void unit_lend_keys(struct unit *unit, const struct block_key *keys, uint32_t key_count);

/* How many leading tokens of the request with these keys are in the prefix cache. */
uint32_t unit_hit_tokens(const struct unit *unit, const struct block_key *keys, uint32_t key_count);

/* What it costs to load `token_count` tokens behind the first `first` ones from the KV storage
 * (tiers_fetch_tokens, serving/unit/tiers.h). */
double unit_fetch_tokens(const struct unit *unit, bool memory, uint32_t first,
                         uint32_t token_count);

/* Who leaves a rank whose running requests are about to need more pages than there are, so that
 * none is interrupted (serving/policy/balance_decode). */
struct unit_leaver {
    struct request_id request;
    uint32_t page_count;     /* that it starts with elsewhere */
    uint32_t pages_expected; /* by which it will grow */
};

/* False: there are pages enough, or nobody can go, because its blocks are on the way. No step is in
 * flight. */
bool unit_relieve(const struct unit *unit, const struct predict_length *lengths,
                  struct unit_leaver *leaver_out);

/* A leaver goes on at `to`, a unit of the same engine and options that holds fewer requests than it
 * may: as one interrupted there, from its tokens so far, its account with it. False, and it stays:
 * the prompts' memory is out there. */
bool unit_move(struct unit *from, struct request_id id, struct unit *to, int64_t now_ns) MUST_USE;

/* The submission's place in the line (serving/policy/schedule.h), if it came at that time. */
int64_t unit_turn(const struct unit *unit, const struct record_submit *submit, int64_t now_ns);

/* The unit has requests that run, or could start at any time. */
bool unit_could_run(const struct unit *unit);

/* For one of several ranks, whose steps are one: before each of its steps it is told whether a step
 * that takes long would make anybody else wait. */
void unit_set_others(struct unit *unit, bool others);

/* True while a RUN_STEP waits for its STEP_DONE. */
bool unit_step_in_flight(const struct unit *unit);

/* Recounts everything that is kept twice (pages, lists, indexes); check()s that they agree. Slow.
 */
void unit_audit(const struct unit *unit);

#endif
