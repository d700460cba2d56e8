/* SPDX-License-Identifier: Apache-2.0
 * What gateways and units tell each other: what a unit is, what is asked of it for a request, what
 * it answers, and how much it has to do.
 */
#ifndef CONTRACT_RECORD_UNIT_H
#define CONTRACT_RECORD_UNIT_H

#include "base/limits.h"
#include "contract/record_kv.h"
#include "contract/sampling.h"
#include "contract/unit_counters.h"

/* UNIT_JOINED: a unit has connected; its hello follows. UNIT_LOST: its connection has ended, its
 * process has died, or it sent what is no valid record; nothing comes from it or reaches it any
 * more. */
struct record_unit_link {
    struct record record;
    struct unit_id unit;
    uint32_t reserved; /* zero */
};

/* FROM_UNIT, TO_UNIT: between the gateway and its host, one record from or to one of the units;
 * record_goes says which kinds may go that way. */
struct record_envelope {
    struct record record;
    struct unit_id unit;
    uint32_t inner_bytes; /* of the carried record, as its own head says, too */
};
RECORD_TAIL(record_envelope, 0, struct record, envelope_inner) /* one, of inner_bytes */

/* A gateway, a unit or (one_rank) one rank of a unit takes no new requests and finishes those that
 * it has. A unit passes a rank's DRAIN on to its engine, which moves the rank's experts away. */
struct record_drain {
    struct record record;
    uint32_t one_rank; /* 1: only `rank` drains: others take its requests and its experts */
    uint32_t rank;     /* 0 without one_rank */
    uint32_t back;     /* 1: the opposite: unit or rank takes requests (and experts) again */
    uint32_t dead;     /* 1: the rank's process and pages are gone: its requests fail; with `back`:
                        * it has another process, and empty pages */
    int64_t pid;       /* with `back` and `dead`: the process; else 0 */
};

/* A unit's task for a request. Where prefill and decode are apart, the gateway asks the decode
 * unit to RESERVE, which answers RESERVED and waits; then it asks a prefill unit to PREFILL, and
 * sends the first token from there to the decode unit in a CONTINUE. Meanwhile the KV blocks go
 * from rank to rank. */
enum submit_task {
    SUBMIT_ANSWER,  /* everything */
    SUBMIT_PREFILL, /* the prompt and the first token; then FINISH_HANDED_OVER, or an earlier end */
    SUBMIT_RESERVE, /* pages for the prompt, now or not at all (FINISH_REFUSED_QUEUE) */
    SUBMIT_TASK_COUNT
};

/* A request for a unit. Its resumed tokens are the answer's first ones, which another unit chose
 * and the client knows: this unit computes them in the form GENERATED and goes on behind them, as
 * if it had chosen them itself. None of them ended the answer. */
struct record_submit {
    struct record record;
    struct request_id request;
    struct sampling sampling;
    uint32_t prompt_count;
    uint32_t new_tokens_max;   /* of the whole answer, resumed ones included; > resumed_count */
    uint32_t stop_token_count; /* at most 2 * LIMIT_STOP_TOKENS: the model's and the client's */
    int32_t priority;          /* higher runs first */
    uint32_t bias_count;
    uint32_t resumed_count;
    uint32_t task;              /* enum submit_task; only SUBMIT_ANSWER may have resumed tokens */
    uint32_t first_block;       /* SUBMIT_PREFILL: the other unit has the blocks before this one */
    uint32_t constraint_bytes;  /* at most LIMIT_CONSTRAINT_BYTES; 0: the answer is free */
    uint32_t name_bytes;        /* at most LIMIT_REQUEST_NAME */
    struct tenant_salt tenant;  /* it may find this one's cached blocks: clients narrow it */
    struct tenant_salt account; /* takes turns with others; the account's own salt, which clients
                                 * cannot change; zeros: none */
    struct kv_route route;      /* SUBMIT_ANSWER: zeros; SUBMIT_RESERVE: the ticket alone */
};
RECORD_TAIL(record_submit, 0, uint32_t, submit_tokens)          /* [prompt_count + resumed_count] */
RECORD_TAIL(record_submit, 1, uint32_t, submit_stop_tokens)     /* [stop_token_count] */
RECORD_TAIL(record_submit, 2, struct token_bias, submit_biases) /* [bias_count] */
/* [constraint_bytes] what the answer's text has to be (serving/constraint/constraint.h) */
RECORD_TAIL(record_submit, 3, char, submit_constraint)
/* [name_bytes] as CLIENT_REQUEST's: what logs call it besides; visible ASCII */
RECORD_TAIL(record_submit, 4, char, submit_name)

/* The request is not wanted any more. It still ends with a FINISHED. */
struct record_cancel {
    struct record record;
    struct request_id request;
};

/* The first tokens of the answer, for the unit that was asked to RESERVE: it makes the rest. */
struct record_continue {
    struct record record;
    struct request_id request;
    uint32_t token_count; /* >= 1, less than the answer may have; none of them ended it */
    uint32_t reserved;    /* zero */
};
RECORD_TAIL(record_continue, 0, uint32_t, continue_tokens) /* [token_count] */

enum unit_role { UNIT_BOTH, UNIT_PREFILL, UNIT_DECODE, UNIT_ROLE_COUNT };

/* "both", "prefill", "decode". */
const char *record_unit_role_name(uint32_t role);

/* The role that the gateway gives the unit from now on. Every unit can do every task, and finishes
 * the requests that it has with their old tasks. It sends hello again, with the new role, and keeps
 * the role for gateways that connect later. */
struct record_role {
    struct record record;
    uint32_t role;     /* enum unit_role */
    uint32_t reserved; /* zero */
};

struct unit_rank { /* one rank in its unit's hello */
    int64_t pid;   /* of its process; 0: unknown */
    uint32_t page_count;
    uint32_t requests_max;
    char kv_address[KV_ADDRESS_BYTES]; /* where it takes KV blocks; empty: it cannot */
};

/* A unit's description; sent to each gateway that connects, and after a ROLE. page_count and
 * requests_max are sums over its ranks. */
struct record_unit_hello {
    struct record record;
    uint32_t vocab_count;
    uint32_t context_tokens_max; /* prompt and answer of one request */
    uint32_t page_count;
    uint32_t page_tokens; /* KV_BLOCK_TOKENS */
    uint32_t requests_max;
    uint32_t role;       /* enum unit_role */
    uint32_t rank_count; /* 1..LIMIT_RANKS */
    uint32_t reserved;   /* zero */
    uint64_t instance; /* random bits of the unit's start: all gateways know it by them; 0: none */
    char model_id[32]; /* SHA-256 over the checkpoint's identity */
    char numerics_id[32]; /* short text, zero-padded */
};
RECORD_TAIL(record_unit_hello, 0, struct unit_rank, hello_ranks) /* [rank_count] */

/* A unit's work for a request so far, from its SUBMIT on. Each token of the prompt counts
 * once, by where its KV rows first came from at this unit:
 *
 *   device + host + disk + transferred + computed = prompt   once the first token is chosen, else
 * <= hit + miss = prompt                                      always
 *
 * A hit is a token with rows in the unit's pages or in the KV storage when the request began to
 * run, however they were then obtained: a token that was faster to compute than to load is a hit,
 * too, so device + host + disk <= hit. Both lines are final with the first token. Rows that an
 * interruption or a failed transfer made the unit obtain once more count as reloaded or recomputed
 * alone. */
struct unit_work {
    uint32_t prompt_hit_tokens;
    uint32_t prompt_miss_tokens;
    uint32_t device_tokens;      /* in the unit's pages, from requests before */
    uint32_t host_tokens;        /* loaded from the KV storage's memory */
    uint32_t disk_tokens;        /* loaded from the KV storage's files */
    uint32_t transferred_tokens; /* from another unit, which computed the prompt */
    uint32_t computed_tokens;
    uint32_t reloaded_tokens;   /* of prompt and answer, likewise below */
    uint32_t recomputed_tokens; /* also those of an answer that had been begun elsewhere */
    uint32_t drafts_made;       /* tokens of the answer guessed ahead */
    uint32_t drafts_right;      /* of them; the others cost time and nothing else */
    uint32_t preemptions;       /* times that the request lost its pages to others */
    uint32_t rank;              /* of the unit */
    uint32_t reserved;          /* zero */
    int64_t queue_ns;    /* from its SUBMIT (RESERVE: its CONTINUE) to its first step, loading
                          * and transfer apart; -1: it has had none */
    int64_t load_ns;     /* for which the KV storage loaded, before its first step */
    int64_t prefill_ns;  /* from its first step to its first token; 0: it has no token yet */
    int64_t transfer_ns; /* for which its CONTINUE had to wait for its blocks */
};

/* Newly chosen tokens, in order. The first record, and each one after a change, contains the work
 * that the unit has done for the request so far: nothing else is known if the unit is then lost.
 * Most tokens change none of it, and each token is a record. */
struct record_tokens {
    struct record record;
    struct request_id request;
    uint32_t first_output_position; /* in the answer, from 0; lets a gateway drop repeats */
    uint32_t token_count;
    uint32_t logprobs_each; /* 0: not asked for; else the token's own, then the likeliest ones' */
    uint32_t work_count;    /* 1: `work` has changed; 0: it is as last reported */
};
RECORD_TAIL(record_tokens, 0, uint32_t, tokens_chosen) /* [token_count] */
RECORD_TAIL(record_tokens, 1, struct token_logprob,
            tokens_logprobs) /* [token_count][logprobs_each] */
RECORD_TAIL(record_tokens, 2, struct unit_work,
            tokens_work) /* [work_count] these tokens included */

/* How likely tokens of the prompt were, in order. All scores come before the answer's first TOKENS.
 * The prompt's first token has none. A unit that starts over may repeat scores that another has sent. */
struct record_scores {
    struct record record;
    struct request_id request;
    uint32_t first_position; /* in the prompt; >= 1 */
    uint32_t token_count;    /* >= 1 */
    uint32_t logprobs_each;  /* >= 1 */
    uint32_t reserved;       /* zero */
};
/* [token_count][logprobs_each], of each token its own, then the likeliest ones' */
RECORD_TAIL(record_scores, 0, struct token_logprob, scores_logprobs)

#define SCORES_TOKENS_MAX 16 /* of one record: a client receives them in one event */

enum finish_reason {
    FINISH_STOP_TOKEN, /* the last token sent is one of the stop tokens */
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_REFUSED_QUEUE,     /* the unit's queue is full: try again later */
    FINISH_REFUSED_TOO_LARGE, /* can never fit this unit's KV memory or context */
    FINISH_REFUSED_DRAINING,
    FINISH_FAILED,      /* the engine could not run the step */
    FINISH_HANDED_OVER, /* SUBMIT_PREFILL: the first token is sent, its blocks have left, or failed
                         * to (the other unit knows) */
    FINISH_REASON_COUNT
};

/* The name in metrics and logs. */
const char *record_unit_finish_reason_name(enum finish_reason reason);

/* The last word on a request; its pages are free or cached. */
struct record_finished {
    struct record record;
    struct request_id request;
    uint32_t reason;        /* enum finish_reason */
    uint32_t output_tokens; /* of the whole answer, resumed ones included */
    struct unit_work work;
};

/* Answers a RESERVE: the pages are taken, and the rank waits for the blocks from first_block on; it
 * has those before. */
struct record_reserved {
    struct record record;
    struct request_id request;
    uint32_t first_block;
    uint32_t rank; /* of the unit */
};

enum kv_storage_state { KV_STORAGE_NONE, KV_STORAGE_ON, KV_STORAGE_READ_ONLY, KV_STORAGE_COUNT };

struct unit_rank_load {
    uint32_t requests_waiting;
    uint32_t requests_running;
    uint32_t pages_free, pages_held, pages_cached;
    uint32_t requests_parked; /* their KV blocks are on the way, in or out */
    uint32_t kv_storage;      /* enum kv_storage_state, of the rank's own storage */
    uint32_t reserved;        /* zero */
};

/* Reasons for which a unit of several ranks binds a request to one, or lets it wait: as many as
 * serving/policy/balance/balance_prefill and serving/policy/balance/balance_decode have. */
#define LOAD_PREFILL_REASONS 5
#define LOAD_DECODE_REASONS 4

/* Load report, after each step and on change; a unit's host repeats the last one as a sign of life.
 * KV pages: free + held + cached = total, always. Counts are sums over the ranks, requests that
 * wait for a rank included. */
struct record_unit_load {
    struct record record;
    uint32_t requests_waiting;
    uint32_t requests_running; /* or in work otherwise: their constraint is being compiled */
    uint32_t pages_free;
    uint32_t pages_held;   /* leased by running requests */
    uint32_t pages_cached; /* cached for their contents, not leased */
    uint32_t rank_count;
    uint32_t last_step_rows;
    uint32_t last_step_tokens;
    int64_t last_step_ns;
    struct unit_counters totals;
    /* Choices by reason. A request that waits for several reasons counts once for each of them. */
    uint64_t prefill_choices_total[LOAD_PREFILL_REASONS];
    uint64_t decode_choices_total[LOAD_DECODE_REASONS];
    uint32_t kv_storage; /* enum kv_storage_state: the worst of its ranks' */
    uint32_t draining;   /* 1: it takes no new requests, for whatever reason */
};
RECORD_TAIL(record_unit_load, 0, struct unit_rank_load, load_ranks) /* [rank_count] */

/* How routed experts lie and how evenly they are used, from a unit of several ranks; now and then,
 * and when something changed. A balance is the mean rank's load divided by the largest rank's, in
 * millionths; 0: not known. */
struct record_experts {
    struct record record;
    uint32_t experts, ranks, slots_per_rank, layer_count;
    uint64_t rebalances_total; /* new maps carried out */
    uint64_t moves_total;      /* experts that came to a rank */
    uint64_t bytes_total;      /* of those experts' weights, from other ranks or the checkpoint */
    uint64_t failures_total;   /* experts that did not arrive as they were given */
    int64_t stall_ns_total;    /* for which steps stood still while ranks took new maps over */
    int64_t stall_ns_max;      /* the longest time of one step */
    uint32_t balance;          /* of the map as it is, at the last look */
    uint32_t balance_before;   /* around the last new map, by the loads it was made for */
    uint32_t balance_after;
    uint32_t reserved;                    /* zero */
    uint64_t masked[LIMIT_RANKS / 64];    /* a bit each rank: it shall have no experts */
    uint64_t empty[LIMIT_RANKS / 64];     /* a bit each rank: it has none */
    uint32_t layer_balance[LIMIT_LAYERS]; /* [layer_count]; 0: no experts; then zeros */
};

/* Rank `rank`'s bit of `masked` or `empty`. */
static inline bool experts_bit(const uint64_t *bits, uint32_t rank) {
    return bits[rank / 64] >> rank % 64 & 1;
}

/* Check the fields' values, for record_forms.c. */
bool record_unit_link_valid(const void *record);
bool record_unit_envelope_valid(const void *record);
bool record_unit_drain_valid(const void *record);
bool record_unit_submit_valid(const void *record);
bool record_unit_continue_valid(const void *record);
bool record_unit_role_valid(const void *record);
bool record_unit_hello_valid(const void *record);
bool record_unit_tokens_valid(const void *record);
bool record_unit_scores_valid(const void *record);
bool record_unit_finished_valid(const void *record);
bool record_unit_reserved_valid(const void *record);
bool record_unit_load_valid(const void *record);
bool record_unit_experts_valid(const void *record);

#endif
