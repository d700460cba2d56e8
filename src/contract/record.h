/* SPDX-License-Identifier: Apache-2.0
 * Events and actions are records: one run of bytes that starts with struct record, versioned, free
 * of pointers, so that they can be queued, logged, replayed and sent. An action of one machine is
 * often the event of another (a gateway's SUBMIT is a unit's SUBMIT), hence one list of kinds.
 *
 * Variable parts follow the fixed struct in the order of the struct's *_bytes / *_count fields,
 * each starting on a multiple of 8 bytes from the record's start (record_tail).
 */
#ifndef CONTRACT_RECORD_H
#define CONTRACT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/ids.h"
#include "contract/unit_counters.h"

#define RECORD_VERSION 7

enum record_kind {
    RECORD_NONE,
    /* client's host -> gateway */
    RECORD_CLIENT_REQUEST,
    RECORD_CLIENT_GONE,
    RECORD_TOKENIZED,
    RECORD_ACCOUNTS,
    RECORD_DRAIN, /* take nothing new, finish what runs; to a unit, too. That of one rank also goes
                   * from the gateway to its unit, and from there to the engine's host */
    /* gateway -> client's host */
    RECORD_RESPOND,
    RECORD_STREAM_BEGIN,
    RECORD_STREAM_DATA,
    RECORD_STREAM_END,
    RECORD_TOKENIZE,
    /* gateway's host -> gateway, and back: units come, go, and exchange records with it */
    RECORD_UNIT_JOINED,
    RECORD_UNIT_LOST,
    RECORD_FROM_UNIT,
    RECORD_TO_UNIT,
    /* gateway -> unit */
    RECORD_SUBMIT,
    RECORD_CANCEL,
    RECORD_CONTINUE,
    RECORD_ROLE,
    /* unit -> gateway */
    RECORD_UNIT_HELLO,
    RECORD_TOKENS,
    RECORD_FINISHED,
    RECORD_UNIT_LOAD,
    RECORD_RESERVED,
    RECORD_SCORES,
    RECORD_EXPERTS, /* from the engine's host */
    /* unit -> engine's host, and back */
    RECORD_RUN_STEP,
    RECORD_STEP_DONE,
    /* unit -> the host of its KV pages, and back */
    RECORD_KV_EXPECT,
    RECORD_KV_PUSH,
    RECORD_KV_CANCEL,
    RECORD_KV_DONE,
    /* unit -> the host of the KV storage, and back */
    RECORD_KV_FIND,
    RECORD_KV_FOUND,
    RECORD_KV_LOAD,
    RECORD_KV_LOADED,
    RECORD_KV_KEEP,
    RECORD_KV_KEPT,
    /* a rank's host -> that of rank 0 */
    RECORD_KV_HELLO,
    RECORD_KIND_COUNT
};

struct record {
    uint16_t version; /* RECORD_VERSION */
    uint16_t kind;    /* enum record_kind */
    uint32_t bytes;   /* of the whole record, this header and the tails included; multiple of 8 */
};

/* Every record about one request begins so. */
struct record_about {
    struct record record;
    struct request_id request;
};

static inline struct request_id record_request(const struct record *record) {
    return ((const struct record_about *)record)->request;
}

/* Every KV_* record begins so: what passes between a unit and the host of its ranks' KV pages. */
struct record_kv {
    struct record record;
    struct request_id request; /* zeros where it is about none: KEEP, KEPT, HELLO */
    uint32_t rank;             /* of the unit, whose pages are meant; an answer names it again */
    uint32_t value;            /* each kind's own */
};

static inline bool record_is_kv(const struct record *record) {
    return record->kind >= RECORD_KV_EXPECT && record->kind <= RECORD_KV_HELLO;
}
static inline uint32_t record_kv_rank(const struct record *record) {
    return ((const struct record_kv *)record)->rank;
}

#define RECORD_BYTES_MAX ((uint32_t)64 << 20)

/* Offset of the next tail behind `end` bytes. */
static inline size_t record_tail(size_t end) {
    return (end + 7) & ~(size_t)7;
}

/* The tail that follows `end` bytes of a record: the first with end = sizeof its struct. */
static inline void *record_tail_at(const void *record, size_t end) {
    return (char *)(uintptr_t)record + record_tail(end);
}

enum http_method { HTTP_GET, HTTP_POST, HTTP_OTHER, HTTP_METHOD_COUNT };

/* On which listener a request came. */
enum http_listener { HTTP_PUBLIC, HTTP_ADMIN, HTTP_LISTENER_COUNT };

/* What the gateway says of a request of which only the head has come. */
enum admission {
    ADMISSION_NO_BODY,  /* it will be answered without one: refused, or it takes none */
    ADMISSION_STRANGER, /* its body is wanted; nobody needs a key */
    ADMISSION_KNOWN     /* its body is wanted, and it has a key */
};

/* One whole HTTP request. Tails: path (without the query), authorization header's value, body. */
struct record_client_request {
    struct record record;
    struct connection_id connection;
    uint64_t random[2]; /* fresh bits from the host, for the request's id and, if asked, its seed */
    int64_t unix_time;  /* seconds, for the answer's "created" */
    uint32_t method;    /* enum http_method */
    uint32_t path_bytes;
    uint32_t authorization_bytes;
    uint32_t body_bytes;
    uint32_t wants_receipt; /* 1: the header X-Fathom-Receipt asks for one */
    uint32_t listener;      /* enum http_listener */
    uint32_t body_left;     /* 1: it has a body that was not read: ADMISSION_NO_BODY */
    uint32_t reserved;      /* zero */
};

/* Requests find each other's cached blocks, in every tier, only if their salts are equal: the salt
 * enters the root of all block keys (serving/cache/block_key.h). The gateway derives it
 * (serving/gateway/accounts.h). Zeros: the request belongs to nobody in particular.
 *
 * A salt has 256 bits, as many as a key. It stands for the secret that it is made from, and a
 * client may choose a part of that (cache_salt). With 64 bits, somebody who tries salts at will
 * would meet one of a million others' after 2^44 tries; with 256 bits only the hash bounds that. */
struct tenant_salt {
    uint8_t bytes[32];
};

struct account {                       /* who may ask */
    char name[LIMIT_ACCOUNT_NAME + 1]; /* letters, digits, '.', '_', '-'; zero-padded */
    struct tenant_salt tenant;         /* equal for accounts that share a cache */
    uint32_t requests_max;             /* at the same time; 0: any number */
    uint32_t is_operator;              /* 1: may see and do what concerns the whole service */
};

struct account_key { /* a key's SHA-256 */
    uint8_t sha256[32];
    uint32_t account; /* whose */
    uint32_t reserved;
};

/* All accounts, in place of those said before. Tails: struct account accounts[account_count];
 * struct account_key keys[key_count]. */
struct record_accounts {
    struct record record;
    uint32_t account_count; /* <= LIMIT_ACCOUNTS; no two of one name */
    uint32_t key_count;     /* <= LIMIT_ACCOUNT_KEYS */
};

static inline size_t accounts_keys_at(uint32_t account_count) {
    return record_tail(record_tail(sizeof(struct record_accounts)) +
                       account_count * sizeof(struct account));
}
static inline size_t accounts_record_bytes(uint32_t account_count, uint32_t key_count) {
    return accounts_keys_at(account_count) + key_count * sizeof(struct account_key);
}

struct record_client_gone {
    struct record record;
    struct connection_id connection;
};

struct record_drain {
    struct record record;
    uint32_t one_rank; /* 1: only `rank` drains: others take its requests and its experts */
    uint32_t rank;
    uint32_t back; /* 1: the rank takes requests and experts again */
    uint32_t dead; /* 1: the rank's process and pages are gone: its requests fail */
};

enum content_type {
    CONTENT_JSON,
    CONTENT_TEXT,
    CONTENT_METRICS,
    CONTENT_EVENTS,
    CONTENT_TYPE_COUNT
};

/* A whole answer. Tails: body; receipt, the value of the header X-Fathom-Receipt (one line of
 * visible ASCII; 0 bytes: no such header). */
struct record_respond {
    struct record record;
    struct connection_id connection;
    uint32_t http_status;
    uint32_t content_type;        /* enum content_type */
    uint32_t retry_after_seconds; /* 0: no such header */
    uint32_t body_bytes;
    uint32_t receipt_bytes;
    uint32_t allow; /* with 405: 1 << each method that the path takes, for the header Allow */
};

static inline size_t respond_receipt_at(uint32_t body_bytes) {
    return record_tail(record_tail(sizeof(struct record_respond)) + body_bytes);
}

/* Head of a streamed answer (text/event-stream, status 200). */
struct record_stream_begin {
    struct record record;
    struct connection_id connection;
};

/* Tail: data. */
struct record_stream_data {
    struct record record;
    struct connection_id connection;
    uint32_t data_bytes;
    uint32_t reserved;
};

struct record_stream_end {
    struct record record;
    struct connection_id connection;
};

/* Long text is tokenized by the host, on a thread of its own. Tails: text; struct text_span
 * plain[plain_count], where no added token is recognized (serving/text/tokenizer.h): in order, none
 * empty, none beyond the text. */
struct record_tokenize {
    struct record record;
    struct request_id request;
    uint32_t text_bytes;
    uint32_t plain_count;
    uint32_t tokens_max; /* more are of no use */
    uint32_t reserved;   /* zero */
};

/* Offset of the spans behind `text_bytes` of text. */
static inline size_t tokenize_plain_at(uint32_t text_bytes) {
    return record_tail(record_tail(sizeof(struct record_tokenize)) + text_bytes);
}
static inline const struct text_span *tokenize_plain(const struct record_tokenize *record) {
    return (const void *)((const char *)record + tokenize_plain_at(record->text_bytes));
}

/* One for each TOKENIZE. Tail: uint32_t tokens[token_count]. No token at all: the text could not be
 * tokenized, or has more than tokens_max. */
struct record_tokenized {
    struct record record;
    struct request_id request;
    uint32_t token_count;
    uint32_t too_many; /* the text has at least so many tokens, more than tokens_max: none follows;
                        * 0: all follow */
};

/* JOINED: a unit has connected; its hello follows. LOST: its connection has ended, its process has
 * died, or it sent what is no valid record; nothing comes from it or reaches it any more. */
struct record_unit_link {
    struct record record;
    struct unit_id unit;
    uint32_t reserved; /* zero */
};

/* FROM_UNIT, TO_UNIT: a record on its way between the gateway and one of its units. Tail: that
 * record, whole: from a unit UNIT_HELLO, TOKENS, SCORES, FINISHED, UNIT_LOAD or RESERVED, to it
 * SUBMIT, CANCEL, CONTINUE, ROLE or DRAIN. */
struct record_carried {
    struct record record;
    struct unit_id unit;
    uint32_t inner_bytes; /* as the inner record says too */
};

static inline size_t carried_bytes(size_t inner_bytes) {
    return record_tail(sizeof(struct record_carried)) + record_tail(inner_bytes);
}
static inline struct record *carried_inner(const struct record_carried *carried) {
    return (struct record *)record_tail_at(carried, sizeof *carried);
}

/* How to choose a token; compute/model/sample.h says in which order all this is done. Temperature 0
 * is greedy (ties: lowest id). Zero turns every other field off but top_p, which 1 does. */
struct sampling {
    float temperature;
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float frequency_penalty;  /* -2..2; 0: off */
    float presence_penalty;   /* -2..2; 0: off */
    float repetition_penalty; /* 0 and 1: off */
    uint32_t top_k;           /* 0: off */
    uint32_t choice;          /* index of the answer among n */
    uint32_t min_tokens;      /* the first so many tokens are no stop tokens */
    uint32_t top_logprobs;    /* 0..LIMIT_TOP_LOGPROBS; only with SAMPLING_LOGPROBS */
    uint32_t flags;           /* SAMPLING_... */
    uint32_t reserved;        /* zero */
    uint64_t seed;
};

/* Tell the log probabilities of each chosen token and of the top_logprobs likeliest ones. */
#define SAMPLING_LOGPROBS 1u
/* With SAMPLING_LOGPROBS: tell them for each token of the prompt, too. */
#define SAMPLING_SCORES 2u
#define SAMPLING_FLAGS 3u

/* True if choosing needs to know the tokens before. */
static inline bool sampling_needs_history(const struct sampling *sampling) {
    return sampling->frequency_penalty != 0 || sampling->presence_penalty != 0 ||
           (sampling->repetition_penalty != 0 && sampling->repetition_penalty != 1);
}

struct token_bias {
    uint32_t token;
    float bias; /* added to the logit: -100..100, or minus infinity: never this token */
};

struct token_logprob {
    uint32_t token;
    float logprob; /* finite, at most 0 */
};

/* What a unit is asked to do for a request. Where prefill and decode are apart, one unit is asked
 * to RESERVE, says RESERVED, and waits; another one is asked to PREFILL; its first token goes on
 * with a CONTINUE to the first, and the KV blocks from rank to rank meanwhile. */
enum submit_task {
    SUBMIT_ANSWER,  /* everything */
    SUBMIT_PREFILL, /* the prompt and the first token; then FINISH_HANDED_OVER, or an earlier end */
    SUBMIT_RESERVE, /* pages for the prompt, now or not at all (FINISH_REFUSED_QUEUE) */
    SUBMIT_TASK_COUNT
};

#define KV_ADDRESS_BYTES 64

/* The way of a request's KV blocks from rank to rank. */
struct kv_route {
    uint64_t ticket[2];             /* names the transfer, at both ends */
    char address[KV_ADDRESS_BYTES]; /* of the receiving rank; text, zero-padded */
};

/* Tails: uint32_t tokens[prompt_count + resumed_count]; uint32_t stop_tokens[stop_token_count];
 * struct token_bias biases[bias_count].
 * The resumed tokens are the answer's first ones, chosen elsewhere before and known to the client:
 * the unit computes them in the form GENERATED and goes on behind them, as if it had chosen them
 * itself. None of them ended the answer. */
struct record_submit {
    struct record record;
    struct request_id request;
    struct sampling sampling;
    uint32_t prompt_count;
    uint32_t new_tokens_max; /* of the whole answer, resumed ones included; > resumed_count */
    uint32_t stop_token_count;
    int32_t priority; /* higher runs first */
    uint32_t bias_count;
    uint32_t resumed_count;
    uint32_t task;        /* enum submit_task; only SUBMIT_ANSWER may have resumed tokens */
    uint32_t first_block; /* SUBMIT_PREFILL: the other unit has the blocks before this one */
    struct tenant_salt tenant;
    struct kv_route route; /* SUBMIT_ANSWER: zeros; SUBMIT_RESERVE: the ticket alone */
};

/* `token_count`: prompt and resumed tokens together. */
static inline size_t submit_stops_at(uint32_t token_count) {
    return record_tail(record_tail(sizeof(struct record_submit)) + token_count * sizeof(uint32_t));
}
static inline size_t submit_biases_at(uint32_t token_count, uint32_t stop_token_count) {
    return record_tail(submit_stops_at(token_count) + stop_token_count * sizeof(uint32_t));
}
static inline size_t submit_bytes(uint32_t token_count, uint32_t stop_token_count,
                                  uint32_t bias_count) {
    return record_tail(submit_biases_at(token_count, stop_token_count) +
                       bias_count * sizeof(struct token_bias));
}

struct record_cancel {
    struct record record;
    struct request_id request;
};

/* The first tokens of an answer that a RESERVE made ready for. Tail: uint32_t tokens[token_count].
 */
struct record_continue {
    struct record record;
    struct request_id request;
    uint32_t token_count; /* >= 1, less than the answer may have; none of them ended it */
    uint32_t reserved;    /* zero */
};

static inline size_t continue_bytes(uint32_t token_count) {
    return record_tail(sizeof(struct record_continue)) + token_count * sizeof(uint32_t);
}

enum unit_role { UNIT_BOTH, UNIT_PREFILL, UNIT_DECODE, UNIT_ROLE_COUNT };

struct unit_rank { /* a DP rank of a unit */
    int64_t pid;   /* of its process; 0: not told */
    uint32_t page_count;
    uint32_t requests_max;
    char kv_address[KV_ADDRESS_BYTES]; /* where it takes KV blocks; empty: it cannot */
};

/* What the gateway uses the unit for from now on. Every unit can do every task, and finishes the
 * requests that it has as they were asked for. It says hello again, with the new role, and keeps
 * the role for gateways that connect later. */
struct record_role {
    struct record record;
    uint32_t role;     /* enum unit_role */
    uint32_t reserved; /* zero */
};

/* What a unit is; sent to each gateway that connects, and after a ROLE. Counts are sums over its
 * ranks.
 * Tail: struct unit_rank ranks[rank_count]. */
struct record_unit_hello {
    struct record record;
    uint32_t vocab_count;
    uint32_t context_tokens_max; /* prompt and answer of one request */
    uint32_t page_count;
    uint32_t page_tokens; /* KV_BLOCK_TOKENS */
    uint32_t requests_max;
    uint32_t role;        /* enum unit_role */
    uint32_t rank_count;  /* 1..LIMIT_RANKS */
    uint32_t reserved;    /* zero */
    char model_id[32];    /* SHA-256 over the checkpoint's identity */
    char numerics_id[32]; /* short text, zero-padded */
};

static inline size_t hello_bytes(uint32_t rank_count) {
    return record_tail(sizeof(struct record_unit_hello)) + rank_count * sizeof(struct unit_rank);
}
static inline struct unit_rank *hello_ranks(const struct record_unit_hello *hello) {
    return (struct unit_rank *)record_tail_at(hello, sizeof *hello);
}

/* What a unit has done for a request so far, from its SUBMIT on. Each token of the prompt counts
 * once, by where its KV rows first came from at this unit:
 *
 *   device + host + disk + transferred + computed = prompt   once the first token is chosen, else
 * <= hit + miss = prompt                                      always
 *
 * A hit is a token that was valid in a tier when the request began to run, however it was then
 * obtained: one that was faster computed than loaded is a hit, too, so device + host + disk <= hit.
 * Both are settled with the first token. What an interruption or a failed transfer made it obtain
 * once more is reloaded or recomputed, and nothing else. */
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
    uint32_t preemptions;       /* times that it lost its pages to others */
    uint32_t rank;              /* of the unit */
    uint32_t reserved;          /* zero */
    int64_t queue_ns;    /* from its SUBMIT (RESERVE: its CONTINUE) to its first step, loading
                          * and transfer apart; -1: it has had none */
    int64_t load_ns;     /* for which the KV storage loaded, before its first step */
    int64_t prefill_ns;  /* from its first step to its first token; 0: it has none */
    int64_t transfer_ns; /* for which its CONTINUE had to wait for its blocks */
};

/* Newly chosen tokens, in order. Tails: uint32_t tokens[token_count];
 * struct token_logprob logprobs[token_count][logprobs_each]. */
struct record_tokens {
    struct record record;
    struct request_id request;
    uint32_t first_output_position; /* of tokens[0]; lets a gateway drop repeats */
    uint32_t token_count;
    uint32_t logprobs_each; /* 0: not asked for; else the token's own, then the likeliest ones' */
    uint32_t reserved;      /* zero */
    struct unit_work work;  /* these tokens included: all that is known if it is the last word */
};

static inline size_t tokens_logprobs_at(uint32_t token_count) {
    return record_tail(record_tail(sizeof(struct record_tokens)) + token_count * sizeof(uint32_t));
}
static inline size_t tokens_bytes(uint32_t token_count, uint32_t logprobs_each) {
    return tokens_logprobs_at(token_count) +
           (size_t)token_count * logprobs_each * sizeof(struct token_logprob);
}

/* How likely tokens of the prompt were, in order. All scores come before the answer's first TOKENS.
 * The prompt's first token has none. A unit that begins anew may repeat what another one has told.
 * Tail: struct token_logprob logprobs[token_count][logprobs_each], of each token its own, then the
 * likeliest ones'. */
struct record_scores {
    struct record record;
    struct request_id request;
    uint32_t first_position; /* in the prompt; >= 1 */
    uint32_t token_count;    /* >= 1 */
    uint32_t logprobs_each;  /* >= 1 */
    uint32_t reserved;       /* zero */
};

#define SCORES_TOKENS_MAX 16 /* of one record: a client is told of them in one event */

static inline size_t scores_bytes(uint32_t token_count, uint32_t logprobs_each) {
    return record_tail(sizeof(struct record_scores)) +
           (size_t)token_count * logprobs_each * sizeof(struct token_logprob);
}

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

/* The last word on a request; its pages are free or cached. */
struct record_finished {
    struct record record;
    struct request_id request;
    uint32_t reason;        /* enum finish_reason */
    uint32_t output_tokens; /* of the whole answer, resumed ones included */
    struct unit_work work;
};

/* A RESERVE is done: blocks from first_block on are expected at that rank. */
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
 * serving/policy/balance_prefill and serving/policy/balance_decode have. */
#define LOAD_PREFILL_REASONS 5
#define LOAD_DECODE_REASONS 4

/* Load report, after each step and on change; a unit's host repeats the last one as a sign of life.
 * KV pages: free + held + cached = total, always. Counts are sums over the ranks and what waits for
 * one. Tail: struct unit_rank_load ranks[rank_count]. */
struct record_unit_load {
    struct record record;
    uint32_t requests_waiting;
    uint32_t requests_running;
    uint32_t pages_free;
    uint32_t pages_held;   /* leased by running requests */
    uint32_t pages_cached; /* kept for their contents, leased by nobody */
    uint32_t rank_count;
    uint32_t last_step_rows;
    uint32_t last_step_tokens;
    int64_t last_step_ns;
    struct unit_counters totals;
    /* Choices by reason. A request that waits for several reasons counts once for each of them. */
    uint64_t prefill_choices_total[LOAD_PREFILL_REASONS];
    uint64_t decode_choices_total[LOAD_DECODE_REASONS];
    uint32_t kv_storage; /* enum kv_storage_state: the worst of its ranks' */
    uint32_t reserved;   /* zero */
};

static inline size_t load_bytes(uint32_t rank_count) {
    return record_tail(sizeof(struct record_unit_load)) +
           rank_count * sizeof(struct unit_rank_load);
}
static inline struct unit_rank_load *load_ranks(const struct record_unit_load *load) {
    return (struct unit_rank_load *)record_tail_at(load, sizeof *load);
}

/* How routed experts lie and how evenly they are used, from a unit of several ranks; now and then,
 * and when something changed. Balances are mean rank load by largest, in millionths; 0: not known.
 */
struct record_experts {
    struct record record;
    uint32_t experts, ranks, slots_per_rank, layer_count;
    uint64_t rebalances_total; /* new maps carried out */
    uint64_t moves_total;      /* experts that came to a rank */
    uint64_t bytes_total;      /* of those experts, from other ranks or the checkpoint */
    uint64_t failures_total;   /* experts that did not arrive as they were given */
    int64_t stall_ns_total;    /* of steps, while ranks took new maps over */
    int64_t stall_ns_max;
    uint32_t balance;        /* of the map as it is, at the last look */
    uint32_t balance_before; /* around the last new map, by the loads it was made for */
    uint32_t balance_after;
    uint32_t reserved;                    /* zero */
    uint64_t masked[LIMIT_RANKS / 64];    /* a bit each rank: it shall have no experts */
    uint64_t empty[LIMIT_RANKS / 64];     /* a bit each rank: it has none */
    uint32_t layer_balance[LIMIT_LAYERS]; /* [layer_count]; 0: no experts; then zeros */
};

static inline bool experts_bit(const uint64_t *bits, uint32_t rank) {
    return bits[rank / 64] >> rank % 64 & 1;
}

/* Blocks of a request are about to come from another rank, into these pages. Nobody else writes to
 * the pages until KV_DONE. Tail: struct page_id pages[page_count], for the blocks from first_block
 * on, which reach to the sequence's first token_count tokens. */
struct record_kv_expect {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    uint64_t ticket[2];
    uint32_t token_count;
    uint32_t page_count;
};

/* Blocks that may leave. They stand in these pages, and nobody writes to the pages until KV_DONE.
 * The last making_count of the blocks do not stand yet: the coming step writes them, layer by
 * layer. When that step is done, the request's next push comes; if it failed, a KV_CANCEL.
 *
 * A request's pushes go on where the one before ended. The last push, which may have no page, says
 * that all blocks have been named and stand. Tail: as that of KV_EXPECT. */
struct record_kv_push {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    struct kv_route route;
    uint32_t token_count; /* of the sequence, as far as these blocks reach */
    uint32_t page_count;
    uint32_t last;  /* 1: no push of this request follows */
    uint32_t first; /* 1: no push of this request came before */
    uint32_t making_count;
    uint32_t reserved; /* zero */
    uint64_t step;     /* that writes them; 0: none */
};

/* The request's transfer is not wanted any more. Its KV_DONE follows all the same. */
struct record_kv_cancel {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t reserved; /* zero */
};

/* The end of a request's transfer, exactly once for each transfer that an EXPECT or a PUSH began.
 * The transfer neither reads nor writes the request's pages any more. */
struct record_kv_done {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t arrived;  /* 1: all of it, checked; 0: it failed, was late, or was cancelled */
    uint32_t blocks;   /* in: leading ones that are there with every row, checked; out: 0 */
    uint32_t reserved; /* zero */
};

/* A rank other than 0 is ready to take KV records. */
struct record_kv_hello {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t reserved;              /* zero */
    char address[KV_ADDRESS_BYTES]; /* where it takes other units' blocks; empty: it does not */
};

static inline size_t kv_expect_bytes(uint32_t page_count) {
    return record_tail(sizeof(struct record_kv_expect)) + page_count * sizeof(struct page_id);
}
static inline size_t kv_push_bytes(uint32_t page_count) {
    return record_tail(sizeof(struct record_kv_push)) + page_count * sizeof(struct page_id);
}

/* Asks which of these blocks are in the KV storage. KV_FOUND answers. Tail: struct block_key
 * keys[key_count], of a sequence's blocks from the first one on. */
struct record_kv_find {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t key_count;
    uint32_t fresh;    /* 1: another process may have stored them a moment ago */
    uint32_t reserved; /* zero */
};

/* Answers a KV_FIND. */
struct record_kv_found {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t blocks;      /* leading ones that are there */
    uint32_t host_blocks; /* of them, in memory */
    uint32_t reserved;    /* zero */
};

/* The blocks from first_block on are to be loaded into these pages. Nobody else touches the pages
 * until KV_LOADED. Tails: struct block_key keys[block_count]; struct page_id pages[block_count]. */
struct record_kv_load {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count;
    uint32_t slot;   /* of the request in steps: its rows may wait for these blocks (step_plan.h) */
    uint32_t number; /* of its rank's loads, in order: one more than the last; never 0 */
    uint32_t reserved; /* zero */
};

/* A KV_LOAD has ended. If a row of a step waited for the load, and not in vain, this comes before
 * that step's STEP_DONE. */
struct record_kv_loaded {
    struct record record;
    struct request_id request;
    uint32_t rank;
    uint32_t blocks;      /* leading ones that arrived, checked */
    uint32_t host_blocks; /* of them, from memory */
    uint32_t slot;        /* as in the KV_LOAD */
    uint32_t number;      /* as in the KV_LOAD */
    uint32_t reserved;    /* zero */
    int64_t ns;           /* that the load took */
};

/* Blocks that have become whole, to be stored. Nobody writes to their pages until KV_KEPT. Tails:
 * struct block_key keys[1 + block_count], the first of them the key of the block before first_block
 * (zeros if there is none); struct page_id pages[block_count]. */
struct record_kv_keep {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t first_block;
    uint32_t block_count; /* >= 1 */
    uint32_t last_page;   /* of pages; names this record among those of its rank */
};

/* The pages of a KV_KEEP have been copied, or are not going to be. */
struct record_kv_kept {
    struct record record;
    struct request_id request; /* zeros */
    uint32_t rank;
    uint32_t last_page;
    uint32_t dropped;  /* blocks that are not stored, for want of room */
    uint32_t writable; /* 1: the storage takes blocks; 0: its disk is full or fails */
};

static inline size_t kv_find_bytes(uint32_t key_count) {
    return record_tail(sizeof(struct record_kv_find)) + key_count * sizeof(struct block_key);
}
static inline size_t kv_load_pages_at(uint32_t block_count) {
    return record_tail(record_tail(sizeof(struct record_kv_load)) +
                       block_count * sizeof(struct block_key));
}
static inline size_t kv_load_bytes(uint32_t block_count) {
    return kv_load_pages_at(block_count) + block_count * sizeof(struct page_id);
}
static inline size_t kv_keep_pages_at(uint32_t block_count) {
    return record_tail(record_tail(sizeof(struct record_kv_keep)) +
                       (1 + (size_t)block_count) * sizeof(struct block_key));
}
static inline size_t kv_keep_bytes(uint32_t block_count) {
    return kv_keep_pages_at(block_count) + block_count * sizeof(struct page_id);
}

#define RECORD_KV_HEAD(kind)                                                                       \
    _Static_assert(                                                                                \
        offsetof(struct record_kv_##kind, request) == offsetof(struct record_kv, request) &&       \
            offsetof(struct record_kv_##kind, rank) == offsetof(struct record_kv, rank),           \
        "every KV record has its rank at one place")
RECORD_KV_HEAD(expect);
RECORD_KV_HEAD(push);
RECORD_KV_HEAD(cancel);
RECORD_KV_HEAD(done);
RECORD_KV_HEAD(hello);
RECORD_KV_HEAD(find);
RECORD_KV_HEAD(found);
RECORD_KV_HEAD(load);
RECORD_KV_HEAD(loaded);
RECORD_KV_HEAD(keep);
RECORD_KV_HEAD(kept);

_Static_assert(sizeof(struct unit_rank) % 8 == 0 && sizeof(struct unit_rank_load) % 8 == 0,
               "tails of these end where the next may begin");

#endif
