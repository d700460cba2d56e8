/* SPDX-License-Identifier: Apache-2.0
 * Records between gateways and units: the description of a unit, the tasks of a request, their
 * results, and load reports.
 */
#pragma once

#include "base/limits.h"
#include "contract/record_kv.h"
#include "contract/sampling.h"
#include "contract/unit_counters.h"

/* UNIT_JOINED: a unit has connected; its hello follows. UNIT_LOST: its connection has closed,
 * its process has died, or it sent an invalid record. No record is exchanged with the unit after
 * that. */
struct record_unit_link {
    struct record record;
    struct unit_id unit;
    uint32_t reserved; /* zero */
};

/* FROM_UNIT, TO_UNIT: one record from or to a unit, between the gateway and its host. record_goes
 * checks whether the inner kind is allowed in that direction. */
struct record_envelope {
    struct record record;
    struct unit_id unit;
    uint32_t inner_bytes; /* bytes of the inner record, equal to those in its head */
};
RECORD_TAIL(record_envelope, 0, struct record, envelope_inner) /* one record of inner_bytes */

/* A gateway, a unit or (one_rank) one rank of a unit accepts no new requests and finishes the ones
 * it has. A unit forwards a rank's DRAIN to its engine, which moves the rank's experts away. */
struct record_drain {
    struct record record;
    uint32_t one_rank; /* 1: only `rank` drains, and other ranks receive its requests and experts */
    uint32_t rank;     /* 0 without one_rank */
    uint32_t back;     /* 1: resume: the unit or rank accepts requests (and experts) again */
    /* 1: the rank's process and pages are lost and its requests fail. With `back`: it has a new
     * process and empty pages */
    uint32_t dead;
    int64_t pid; /* with `back` and `dead`: the new process; else 0 */
};

/* The task of a unit for a request. If prefill and decode are separate, the gateway sends RESERVE
 * to the decode unit, which replies RESERVED and waits. The gateway then sends PREFILL to a prefill
 * unit and forwards the first token to the decode unit in a CONTINUE. Meanwhile the KV blocks are
 * sent from rank to rank. */
enum submit_task {
    SUBMIT_ANSWER, /* prefill and decode */
    /* the prompt and the first token; ends with FINISH_HANDED_OVER or an earlier end */
    SUBMIT_PREFILL,
    SUBMIT_RESERVE, /* pages for the prompt, immediately or not at all (FINISH_REFUSED_QUEUE) */
    SUBMIT_TASK_COUNT
};

/* A request for a unit. Resumed tokens are the start of the answer: another unit chose them and the
 * client has received them. This unit computes them as generated tokens and continues after them.
 * None of them ended the answer. */
struct record_submit {
    struct record record;
    struct request_id request;
    struct sampling sampling;
    uint32_t prompt_count;
    uint32_t new_tokens_max;   /* limit of the answer, resumed tokens included; > resumed_count */
    uint32_t stop_token_count; /* at most 2 * LIMIT_STOP_TOKENS: those of model and client */
    int32_t priority;          /* higher runs first */
    uint32_t bias_count;
    uint32_t resumed_count;
    uint32_t task; /* enum submit_task; only SUBMIT_ANSWER may have resumed tokens */
    /* SUBMIT_PREFILL: the decode unit already has the blocks before this one */
    uint32_t first_block;
    uint32_t constraint_bytes; /* <= LIMIT_CONSTRAINT_BYTES; 0: no constraint */
    uint32_t name_bytes;       /* <= LIMIT_REQUEST_NAME */
    struct tenant_salt tenant; /* salt for cached blocks; the client may narrow it */
    /* key of the fair queue: the account's own salt, which clients cannot change; zeros: none */
    struct tenant_salt account;
    struct kv_route route; /* SUBMIT_ANSWER: zeros; SUBMIT_RESERVE: the grant alone */
};
RECORD_TAIL(record_submit, 0, uint32_t, submit_tokens)          /* [prompt_count + resumed_count] */
RECORD_TAIL(record_submit, 1, uint32_t, submit_stop_tokens)     /* [stop_token_count] */
RECORD_TAIL(record_submit, 2, struct token_bias, submit_biases) /* [bias_count] */
/* [constraint_bytes] constraint of the answer's text (serving/constraint/constraint.h) */
RECORD_TAIL(record_submit, 3, char, submit_constraint)
/* [name_bytes] the request's name in logs, as in CLIENT_REQUEST; visible ASCII */
RECORD_TAIL(record_submit, 4, char, submit_name)

/* Cancels a request. It still ends with a FINISHED. */
struct record_cancel {
    struct record record;
    struct request_id request;
};

/* The first tokens of the answer, for the unit that has RESERVED pages. The unit generates the
 * rest. */
struct record_continue {
    struct record record;
    struct request_id request;
    uint32_t token_count; /* >= 1, less than new_tokens_max; none of them ended the answer */
    uint32_t reserved;    /* zero */
};
RECORD_TAIL(record_continue, 0, uint32_t, continue_tokens) /* [token_count] */

enum unit_role { UNIT_BOTH, UNIT_PREFILL, UNIT_DECODE, UNIT_ROLE_COUNT };

/* "both", "prefill", "decode". */
const char *record_unit_role_name(uint32_t role);

/* Sets the unit's role from now on. Every unit can do every task, and finishes its requests with
 * their old tasks. The unit sends its hello again with the new role, also to gateways that connect
 * later. */
struct record_role {
    struct record record;
    uint32_t role;     /* enum unit_role */
    uint32_t reserved; /* zero */
};

struct unit_rank { /* one rank in the hello of a unit */
    int64_t pid;   /* process id; 0: unknown */
    uint32_t page_count;
    uint32_t requests_max;
    /* address at which the rank receives KV blocks; empty: none */
    char kv_address[KV_ADDRESS_BYTES];
};

/* An instance is the id of one start of a unit. If the unit has a name (fathom unit --instance),
 * the name is the first 48 bits: 24 bits that its fleet has chosen and 24 with the fleet's number
 * for the unit. The next bit says whether there is a name. All other bits are random. */
#define UNIT_INSTANCE_DIGITS 12 /* hexadecimal digits of a name */

/* `name`: NULL if the unit has none. */
uint64_t record_unit_instance(const uint64_t *name, uint64_t random_bits);

/* Returns the fleet's number for the unit, from its instance; 0: it has none. */
uint32_t record_unit_number(uint64_t instance);

/* The description of a unit, sent to each gateway that connects, and after a ROLE. page_count and
 * requests_max are sums over the ranks. */
struct record_unit_hello {
    struct record record;
    uint32_t vocab_count;
    uint32_t context_tokens_max; /* limit of prompt and answer together */
    uint32_t page_count;
    uint32_t page_tokens; /* KV_BLOCK_TOKENS */
    uint32_t requests_max;
    uint32_t role;       /* enum unit_role */
    uint32_t rank_count; /* 1..LIMIT_RANKS */
    uint32_t reserved;   /* zero */
    /* id of this start of the unit, the same for all gateways: record_unit_instance; 0: none */
    uint64_t instance;
    char model_id[32];    /* SHA-256 that identifies the checkpoint */
    char numerics_id[32]; /* short text, zero-padded */
};
RECORD_TAIL(record_unit_hello, 0, struct unit_rank, hello_ranks) /* [rank_count] */

/* A unit's work for a request since its SUBMIT. Each prompt token counts once, by the first source
 * of its KV rows at this unit:
 *
 *   device + host + disk + transferred + computed <= prompt   (= once the first token is chosen)
 *   hit + miss = prompt                                       (always)
 *   device + host + disk <= hit                               (always)
 *
 * A hit is a token with KV rows in the unit's pages or in the KV storage when the request began to
 * run, even if it was then computed because that was faster than loading. All counts are final with
 * the first token. Rows that are obtained again after an interruption or a failed transfer count
 * only as reloaded or recomputed. */
struct unit_work {
    uint32_t prompt_hit_tokens;
    uint32_t prompt_miss_tokens;
    uint32_t device_tokens;      /* in the unit's pages, from earlier requests */
    uint32_t host_tokens;        /* loaded from the memory of the KV storage */
    uint32_t disk_tokens;        /* loaded from the files of the KV storage */
    uint32_t transferred_tokens; /* received from the unit that computed the prompt */
    uint32_t computed_tokens;
    uint32_t reloaded_tokens; /* tokens of prompt and answer, loaded again */
    /* tokens of prompt and answer, computed again; includes an answer begun by another unit */
    uint32_t recomputed_tokens;
    uint32_t drafts_made;  /* draft tokens */
    uint32_t drafts_right; /* accepted draft tokens */
    uint32_t preemptions;  /* times that the request lost its pages to other requests */
    uint32_t rank;         /* rank of the unit */
    uint32_t reserved;     /* zero */
    /* from SUBMIT (RESERVE: CONTINUE) to the first step, without loading and transfer; -1: no step
     * yet */
    int64_t queue_ns;
    int64_t load_ns;     /* time of loads from the KV storage before the first step */
    int64_t prefill_ns;  /* from the first step to the first token; 0: no token yet */
    int64_t transfer_ns; /* time that CONTINUE waited for blocks */
};

/* Newly chosen tokens, in order. The first record, and each record after a change, contains the
 * unit's work for the request so far, because a lost unit cannot report it later. The work is
 * optional, because most tokens do not change it. */
struct record_tokens {
    struct record record;
    struct request_id request;
    /* position in the answer, from 0; lets a gateway drop repeated tokens */
    uint32_t first_output_position;
    uint32_t token_count;
    uint32_t logprobs_each; /* 0: not requested; else the chosen token and the most likely ones */
    uint32_t work_count;    /* 1: `work` has changed; 0: the last report holds */
};
RECORD_TAIL(record_tokens, 0, uint32_t, tokens_chosen) /* [token_count] */
RECORD_TAIL(record_tokens, 1, struct token_logprob,
            tokens_logprobs) /* [token_count][logprobs_each] */
RECORD_TAIL(record_tokens, 2, struct unit_work,
            tokens_work) /* [work_count] includes these tokens */

/* The progress of a prompt, sent at intervals while its unit computes it (PROGRESS_NS). No PROGRESS
 * follows the first TOKENS of the unit for this request. The counts are smaller again after an
 * interruption, or when another unit computes the prompt. */
struct record_progress {
    struct record record;
    struct request_id request;
    uint32_t ready_tokens;  /* leading prompt tokens with KV rows; less than the prompt has */
    uint32_t cached_tokens; /* those that were found in a cache; <= ready_tokens */
    int64_t prefill_ns;     /* since the first step with the prompt */
};

#define PROGRESS_NS ((int64_t)1000000000) /* shortest time between two PROGRESS of a request */

/* Log probabilities of the prompt's tokens, in order. The first token of a prompt has none. All
 * SCORES precede the first TOKENS of the answer. A unit that starts over may repeat scores that
 * another unit has sent. */
struct record_scores {
    struct record record;
    struct request_id request;
    uint32_t first_position; /* position in the prompt; >= 1 */
    uint32_t token_count;    /* >= 1 */
    uint32_t logprobs_each;  /* >= 1 */
    uint32_t reserved;       /* zero */
};
/* [token_count][logprobs_each] for each token: its own, then the most likely ones */
RECORD_TAIL(record_scores, 0, struct token_logprob, scores_logprobs)

#define SCORES_TOKENS_MAX 16 /* limit of one record: a client receives them in one event */

enum finish_reason {
    FINISH_STOP_TOKEN, /* the last token is a stop token */
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_REFUSED_QUEUE,     /* the unit's queue is full: retry later */
    FINISH_REFUSED_TOO_LARGE, /* exceeds the KV memory or the context of the unit */
    FINISH_REFUSED_DRAINING,
    FINISH_FAILED, /* the engine could not run a step */
    /* SUBMIT_PREFILL: the first token is sent; the transfer of the blocks has ended, and the other
     * unit knows its result */
    FINISH_HANDED_OVER,
    FINISH_REASON_COUNT
};

/* The name of the reason in metrics and logs. */
const char *record_unit_finish_reason_name(enum finish_reason reason);

/* The last record of a unit about a request. Its pages are free or cached. */
struct record_finished {
    struct record record;
    struct request_id request;
    uint32_t reason;        /* enum finish_reason */
    uint32_t output_tokens; /* tokens of the whole answer, resumed ones included */
    struct unit_work work;
};

/* The reply to a RESERVE: the pages are allocated. The rank has the blocks before first_block and
 * waits for the rest. */
struct record_reserved {
    struct record record;
    struct request_id request;
    uint32_t first_block;
    uint32_t rank; /* rank of the unit */
};

enum kv_storage_state { KV_STORAGE_NONE, KV_STORAGE_ON, KV_STORAGE_READ_ONLY, KV_STORAGE_COUNT };

struct unit_rank_load {
    uint32_t requests_waiting;
    uint32_t requests_running;
    uint32_t pages_free, pages_held, pages_cached;
    uint32_t requests_parked; /* requests that wait for a transfer or load of KV blocks */
    uint32_t kv_storage;      /* enum kv_storage_state of the rank's storage */
    uint32_t reserved;        /* zero */
};

/* The number of reasons for which a unit of several ranks binds a request to a rank or delays it,
 * in serving/policy/balance/balance_prefill and balance_decode. */
#define LOAD_PREFILL_REASONS 5
#define LOAD_DECODE_REASONS 4

/* A load report, sent after each step and on change. The unit's host repeats the last one as a
 * heartbeat. Counts are sums over the ranks and include requests that wait for a rank. For KV
 * pages, free + held + cached = total always holds. */
struct record_unit_load {
    struct record record;
    uint32_t requests_waiting;
    uint32_t requests_running; /* includes requests with a constraint that is being compiled */
    uint32_t pages_free;
    uint32_t pages_held;   /* leased by running requests */
    uint32_t pages_cached; /* cached for their contents, not leased */
    uint32_t rank_count;
    uint32_t last_step_rows;
    uint32_t last_step_tokens;
    int64_t last_step_ns;
    struct unit_counters totals;
    /* Choices by reason. A request that waits for several reasons counts once for each. */
    uint64_t prefill_choices_total[LOAD_PREFILL_REASONS];
    uint64_t decode_choices_total[LOAD_DECODE_REASONS];
    uint32_t kv_storage; /* enum kv_storage_state, the worst of all ranks */
    uint32_t draining;   /* 1: the unit accepts no new requests */
};
RECORD_TAIL(record_unit_load, 0, struct unit_rank_load, load_ranks) /* [rank_count] */

/* The placement of routed experts and their load balance, from a unit of several ranks. Sent
 * periodically and on change. A balance is the mean load of a rank divided by the largest load, in
 * millionths (0: unknown). */
struct record_experts {
    struct record record;
    uint32_t experts, ranks, slots_per_rank, layer_count;
    uint64_t rebalances_total; /* completed changes of the placement */
    uint64_t moves_total;      /* experts moved to a rank */
    uint64_t bytes_total;      /* bytes of moved weights, from other ranks or the checkpoint */
    uint64_t failures_total;   /* experts that did not arrive intact */
    int64_t stall_ns_total;    /* time that steps waited while ranks switched to new placements */
    int64_t stall_ns_max;      /* longest wait of one step */
    uint32_t balance;          /* balance of the current placement, at the last measurement */
    /* balance before and after the last change, by the loads that it was computed from */
    uint32_t balance_before;
    uint32_t balance_after;
    uint32_t reserved;                    /* zero */
    uint64_t masked[LIMIT_RANKS / 64];    /* one bit per rank: the rank shall hold no experts */
    uint64_t empty[LIMIT_RANKS / 64];     /* one bit per rank: the rank holds no experts */
    uint32_t layer_balance[LIMIT_LAYERS]; /* [layer_count]; 0: no experts. The rest is zero */
};

/* The bit of rank `rank` in `masked` or `empty`. */
static inline bool experts_bit(const uint64_t *bits, uint32_t rank) {
    return bits[rank / 64] >> rank % 64 & 1;
}

/* Validate the fields, for record_forms.c. */
bool record_unit_link_valid(const void *record);
bool record_unit_envelope_valid(const void *record);
bool record_unit_drain_valid(const void *record);
bool record_unit_submit_valid(const void *record);
bool record_unit_continue_valid(const void *record);
bool record_unit_role_valid(const void *record);
bool record_unit_hello_valid(const void *record);
bool record_unit_tokens_valid(const void *record);
bool record_unit_progress_valid(const void *record);
bool record_unit_scores_valid(const void *record);
bool record_unit_finished_valid(const void *record);
bool record_unit_reserved_valid(const void *record);
bool record_unit_load_valid(const void *record);
bool record_unit_experts_valid(const void *record);
