/* SPDX-License-Identifier: Apache-2.0
 * The gateway owns a request from its HTTP body to the last byte of its answer. It parses several
 * APIs (serving/gateway/dialects), renders chat templates, tokenizes short texts (long ones are
 * sent to the host as TOKENIZE), has constraints checked (CONSTRAIN), sends the request to a unit,
 * detokenizes, and answers as a whole or as a stream. A request that loses its unit continues at
 * another one from its last token, and its client sees only a pause. The gateway does no socket
 * I/O.
 *
 * It receives and sends the records that contract/record_forms.c routes to and from a gateway. The
 * other sides are the host with its clients, tokenizer and constraint compiler, and the units.
 *
 * Each CLIENT_REQUEST is answered by exactly one RESPOND, or by one STREAM_BEGIN and one STREAM_END
 * (streams, and whole answers that take long), unless its client has gone. After CLIENT_GONE
 * nothing is sent to that connection. receive() returns STATUS_FULL, without changing anything,
 * only while the outbox holds records.
 *
 * serving/gateway/endpoint.h lists the HTTP paths. Any other path gets 404.
 */
#pragma once

#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "serving/text/chat_template.h"
#include "serving/text/tokenizer.h"

struct gateway;

struct gateway_options {
    const struct tokenizer *tokenizer;         /* NULL: prompts and answers are token ids */
    const struct chat_template *chat_template; /* NULL or not present: chats are refused */
    bool content_specials;                     /* recognize added tokens in message contents, too */
    bool agent_habits;       /* leave out of prompts what no model reads (api/agent_habits.h) */
    const char *model_names; /* served names, separated by commas, e.g. "tiny-r1" */
    int64_t model_created;   /* Unix seconds, for the models list */
    const char *version;     /* Fathom's version, for system_fingerprint */

    struct sampling sampling; /* defaults, from generation_config.json; seed and choice unused */
    uint32_t stop_tokens[LIMIT_STOP_TOKENS]; /* eos ids */
    uint32_t stop_token_count;
    struct prompt_frame frame;   /* tokens around plain text prompts (never chats) */
    uint32_t new_tokens_default; /* default of max_tokens; 0: all that fit the context */

    uint32_t requests_max;       /* concurrent requests; 1..LIMIT_GATEWAY_REQUESTS */
    size_t body_bytes_max;       /* larger bodies get 413; 0: 8 MiB */
    size_t inline_text_bytes;    /* longer texts are sent as TOKENIZE, one at a time; 0: 16 KiB */
    size_t tokenize_queue_bytes; /* memory for texts that wait for the tokenizer; 0: four bodies */
    size_t request_bytes;    /* memory for all prompts and answers; 0: a default by requests_max */
    size_t outbox_bytes;     /* 0: a default by body_bytes_max; at least 1 MiB */
    uint32_t prefix_blocks;  /* prefix blocks to remember, a power of two, for prefix-affine
                              * routing: prompts go to the unit that last computed their prefix;
                              * 0: none */
    int64_t role_hold_ns;    /* time for which prefill or decode must be overloaded before a unit
                              * switches roles (serving/policy/choose_roles); 0: never */
    int64_t keep_alive_ns;   /* interval of keep-alives to waiting clients; 0: 5 s */
    int64_t unit_silence_ns; /* time without a record after which a unit is given up; 0: never,
                              * for units in the gateway's own process */
    int64_t unit_wait_ns;    /* longest wait of a request that no unit can take; 0: 30 s */
    int64_t queue_ns;        /* longest wait of a request to start; 0: 600 s */
    int64_t drain_ns;        /* time from a drain order until requests are ended; 0: 30 s */
    bool settles; /* a ledger is in use: it answers each USAGE with a COMMITTED, and the end of
                   * the answer waits for that */
    int64_t ttft_limit_ns; /* limit of the time to first token, by class, beyond which requests
                            * are refused (serving/gateway/admission.h); 0: no limit */
    int64_t totals_ns;     /* interval at which units' counters are sent to the ledger; 0: never */
    int64_t kv_life_s;     /* longest life of KV blocks in the cache; 0: unlimited */
    uint32_t vocab_count;  /* vocabulary size required of units' model; 0: any */
    uint32_t image_token;  /* stands for an image, so prompts with it are refused; 0: none */
    uint8_t model_id[32];  /* model id required of units; zeros: that of the first unit */
    const struct record_accounts *accounts; /* initial accounts; NULL: no API keys are needed */
};

/* Arena bytes that suffice for gateway_create. */
size_t gateway_memory_bytes(const struct gateway_options *options);

/* Allocates from `arena`. The tokenizer, the template and the strings of `options` must outlive the
 * gateway. STATUS_INVALID: *error names the option that is out of range. */
enum status gateway_create(struct arena *arena, const struct gateway_options *options,
                           struct gateway **gateway_out, struct error *error) MUST_USE;

struct machine gateway_machine(struct gateway *gateway);

/* Prefetches into the CPU caches: the requests of the first `count` records, which will be received
 * next and in order, and the addresses of the requests of the `behind` records after them. Changes
 * nothing and is optional. The simulator calls it because such cache misses take much of its time.
 * A server spends far more time on messages and streams. */
#define GATEWAY_PREFETCH_MAX 8 /* limit of each; more would evict each other from caches */
void gateway_prefetch(const struct gateway *gateway, const struct record *const *records,
                      uint32_t count, uint32_t behind);

/* Decides by a request's HTTP head whether to read its body, so that a body that will be refused is
 * not stored. `head` has everything but the body. Changes nothing. */
enum admission gateway_admit(const struct gateway *gateway,
                             const struct record_client_request *head);

/* True if the gateway refuses this unit, because it serves another model or sent an invalid
 * record. */
bool gateway_refuses(const struct gateway *gateway, struct unit_id unit);

/* Returns the number of the unit with this connection, as GET /debug/fleet shows it. */
uint32_t gateway_unit_number(const struct gateway *gateway, struct unit_id unit);

/* Counts the requests that the gateway still holds. A drained gateway may stop at 0. */
uint32_t gateway_request_count(const struct gateway *gateway);

/* check()s the consistency of redundant state. Slow. */
void gateway_audit(const struct gateway *gateway);
