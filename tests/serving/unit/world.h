/* SPDX-License-Identifier: Apache-2.0
 * A unit in an invented world, of one rank or of several: an engine that computes nothing but
 * chains of numbers, which depend on every token and on the form in which each was computed, so
 * that a row that reads what was not written for these very tokens shows at once; and it drafts,
 * rightly or wrongly. Of constraints it knows only whose they are and how long the answer was: what
 * one forces is what the engine would have chosen. All that the unit says is checked on the way.
 */
#pragma once

#include "contract/slot_pages.h"
#include "serving/unit/rank_units.h"

enum { VOCAB = 1000, STOP_TOKEN = 7, REQUESTS_MAX = 400, TOKENS_MAX = 1100, PAGES_MAX = 64 };
enum { RANKS_MAX = 3 };

/* What the world knows of each request it submitted. */
struct known {
    uint32_t prompt_count, new_tokens_max, received, endings, first_start, rows;
    uint32_t next_first; /* where its next row begins, if it is not interrupted */
    uint32_t drafted, right, pairs;
    enum finish_reason reason;
    bool cancelled;
    bool load_over; /* its load with in_step is, and nobody has taken its end */
    uint32_t load_asked;
    struct load_end load_end;
    bool reserved;   /* its prompt is computed elsewhere */
    uint64_t chain;  /* of all its known tokens, in their forms; 0: not known yet */
    uint32_t scored; /* leading tokens of its prompt whose scores it was told; 0: not asked */
    uint32_t resumed_count, found; /* tokens that came along; that a storage has said it has */
    uint32_t bias_count;
    uint32_t constraint_bytes, forced, late; /* tokens and rows */
    bool stuck;
    struct unit_work work;                     /* when it ended */
    uint32_t peak, elsewhere, computed, again; /* the account of its rows, as the engine saw them */
    uint32_t progresses, ready;                /* PROGRESS records, and what the last one said */
    int64_t progress_ns;                       /* when it came, or when the request was submitted */
    bool reported;                             /* its first token has come, with */
    struct unit_work reported_work;
    uint32_t tokens[TOKENS_MAX];
};

/* What the engine keeps of a slot's constraint. */
struct bound {
    uint32_t number; /* of the request; REQUESTS_MAX: it has none */
    uint32_t answer_count;
};

/* What a slot's request waits for, as the engine knows it. */
struct awaited {
    bool is_asked;    /* its constraint came ahead of its first row */
    bool is_wanted;   /* and it has no row yet, or its row was late */
    bool is_reported; /* a result has said that it is ready */
};

/* A KV row of the invented engine: it stands for numbers that depend on every token up to its own
 * and on the form in which each was computed. */
struct kv_row {
    uint64_t chain;
    uint32_t token, form;
};

struct world {
    void *memory;
    struct machine machine;
    uint32_t ranks;
    union { /* of rank 0, of each rank */
        struct unit *unit;
        struct unit *units[RANKS_MAX];
    };
    union { /* what was written last to pages of rank 0, of each rank, whoever owns them now */
        struct kv_row kv[PAGES_MAX][KV_BLOCK_TOKENS];
        struct kv_row kv_of[RANKS_MAX][PAGES_MAX][KV_BLOCK_TOKENS];
    };
    struct slot_pages slots[RANKS_MAX];
    /* whole copies of rank 0's part, of each rank's, of the step in flight; NULL: there is none */
    union {
        struct step_plan *plan;
        struct step_plan *plans[RANKS_MAX];
    };
    uint32_t plan_count, steps;
    uint32_t reported_pages;  /* by all plans, before they were whole */
    uint32_t outbox_capacity; /* while it claims to be full */
    struct known known[REQUESTS_MAX];
    uint32_t submitted;
    struct record_unit_load load;
    uint32_t loads; /* reports that have come */
    struct unit_rank_load rank_loads[RANKS_MAX];
    char kv_address[KV_ADDRESS_BYTES]; /* of the last rank, as the hello said */
    uint32_t hellos, role, requests_max, page_count, fulls, hits; /* *_max, *_count: of a rank */
    uint32_t waited_rows, lost_rows; /* that waited for loads, in vain */
    double made_odds, right_odds;    /* of drafts: that one is made, that it is right */
    double break_odds;               /* that a step breaks off, as a rank dies: all rows are lost */
    bool breaks;                     /* this one */
    uint32_t broken_steps;
    double stop_odds; /* that the engine chooses STOP_TOKEN */
    /* Of constrained rows that sample: that one more token is forced, that the mask is late, that
     * nothing may follow. */
    double forced_odds, late_odds, stuck_odds;
    uint32_t constraint_bytes; /* of the requests to come that world_submit_head is not told */
    struct bound bound[RANKS_MAX][REQUESTS_MAX];     /* by slot */
    struct awaited awaited[RANKS_MAX][REQUESTS_MAX]; /* by slot */
    /* That a result does not say yet that what a request waits for is ready; and steps without rows
     * are left to the test. Else all is ready with the next result, and such steps go by unseen. */
    double unready_odds;
    bool shows_empty_steps;
    uint32_t empty_steps;
    uint32_t draws;
    bool reuse_generated;
    int64_t now_ns, step_ns, token_ns; /* a step takes step_ns, and token_ns for each token */
    void (*other)(struct world *world, const struct record *record); /* takes all other kinds */
    void (*await)(struct world *world, uint32_t number); /* until the request's load is over */
    void *context;
};

struct unit_options world_options(void);

struct world *world_open(const struct unit_options *options);

/* A unit of several ranks, whose part `options` are each. */
struct world *world_open_ranks(const struct unit_options *options, uint32_t ranks);

void world_close(struct world *world);

/* What stands for a token's KV row, behind the row before. */
uint64_t world_chain(uint64_t chain, uint32_t token, uint32_t form);

/* Takes and checks all that the unit has said. */
void world_drain(struct world *world);

/* Hands a record over; where the outbox is full, drains it first. */
void world_send(struct world *world, const void *record);

/* Leading tokens of a request stand in its pages though no row has made them. */
void world_note_rows(struct world *world, uint32_t number, uint32_t token_count);

/* A record in a memory that the next one takes over. */
void *world_make(enum record_kind kind, const void *fixed);

/* What the engine says of a token, behind the row before. */
struct token_logprob world_score(uint64_t chain, uint32_t token);

/* Request number n is named n and has seed n. */
uint32_t world_submit_tokens(struct world *world, const uint32_t *tokens, uint32_t prompt_count,
                             uint32_t new_tokens_max, int32_t priority);

/* A request that goes on elsewhere: `tokens` are its prompt and the first `resumed_count` of its
 * answer. Of `sampling` only the seed is the number's. */
uint32_t world_submit_resumed(struct world *world, const struct sampling *sampling,
                              const uint32_t *tokens, uint32_t prompt_count, uint32_t resumed_count,
                              uint32_t new_tokens_max);

/* Any request: of `head` only name and seed are the number's. Bias i is one of i for token 40 + i;
 * a constraint's text is like no other of its length. */
uint32_t world_submit_head(struct world *world, const struct record_submit *head,
                           const uint32_t *tokens);

/* A prompt like no other, unless it is of a family: those begin alike. */
uint32_t world_submit_family(struct world *world, uint32_t family, uint32_t prompt_count,
                             uint32_t new_tokens_max);

uint32_t world_submit(struct world *world, uint32_t prompt_count, uint32_t new_tokens_max);

/* The next turn of a talk: an earlier prompt, what was answered so far, and some more. */
uint32_t world_submit_turn(struct world *world, uint32_t earlier, uint32_t more,
                           uint32_t new_tokens_max);

void world_cancel(struct world *world, uint32_t number);

void world_step(struct world *world);

/* Computes the step in flight. If it fails, it does so at one rank; the results of the ranks come
 * back in any order. */
void world_complete(struct world *world, bool failed);

/* Until there is nothing left to do. */
void world_run(struct world *world);

/* Every request has ended once, and every page is back. */
void world_assert_empty(struct world *world);
