/* SPDX-License-Identifier: Apache-2.0
 * The gateway owns a request from its HTTP body to the last byte of its answer. It supports several
 * APIs (serving/gateway/dialects), renders chats, tokenizes short texts (long ones are sent as
 * TOKENIZE), has constraints checked (CONSTRAIN), sends the request to a unit, converts tokens to
 * text, and answers as a whole or as a stream. A request that loses its unit continues at another
 * one from its last token; its client sees a pause. The gateway does no socket I/O.
 *
 * It receives and sends the records that contract/record_forms.c routes to and from a gateway:
 * those of the clients' host, of its tokenizer and constraint compiler, and of units.
 *
 * Each CLIENT_REQUEST is answered by exactly one RESPOND, or by one STREAM_BEGIN and one STREAM_END
 * (streams, and whole answers that take long), unless its client has gone. After CLIENT_GONE
 * nothing is sent to that connection. receive() returns STATUS_FULL only while the outbox holds
 * records; nothing has changed then.
 *
 * serving/gateway/endpoint.h has the paths, their listeners and callers. Any other path gets 404.
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
    bool content_specials;   /* added tokens are recognized in the contents of messages, too */
    const char *model_names; /* as served, e.g. "tiny-r1"; several are split by commas */
    int64_t model_created;   /* unix seconds, for the models list */
    const char *version;     /* of Fathom, for system_fingerprint */

    struct sampling sampling; /* defaults, from generation_config.json; seed and choice unused */
    uint32_t stop_tokens[LIMIT_STOP_TOKENS]; /* eos ids */
    uint32_t stop_token_count;
    struct prompt_frame frame;   /* around plain text prompts (never chats) */
    uint32_t new_tokens_default; /* if a request has no max_tokens; 0: all that fit the context */

    uint32_t requests_max;       /* requests alive at the same time; 1..LIMIT_GATEWAY_REQUESTS */
    size_t body_bytes_max;       /* larger bodies get 413; 0: 8 MiB */
    size_t inline_text_bytes;    /* longer texts are sent as TOKENIZE, one at a time; 0: 16 KiB */
    size_t tokenize_queue_bytes; /* memory for texts that wait for the tokenizer; 0: four bodies */
    size_t request_bytes;   /* memory for all requests' answers; 0: a default by requests_max */
    size_t outbox_bytes;    /* 0: a default by body_bytes_max; at least 1 MiB */
    uint32_t prefix_blocks; /* blocks to remember, a power of two: prompts are sent to the unit that
                             * last computed their prefix; 0: none */
    int64_t role_hold_ns;   /* units change between prefill and decode when either kind has been
                             * overloaded for so long (serving/policy/choose_roles); 0: never */
    int64_t keep_alive_ns;  /* interval of keep-alives to a client that waits for its answer; 0:
                             * 5 s */
    int64_t unit_silence_ns; /* a unit that sends nothing for so long is given up; 0: never, for
                              * units in the gateway's own process */
    int64_t unit_wait_ns;    /* a request that no unit can take waits so long; 0: 30 s */
    int64_t queue_ns;        /* a request that has not started to run by then ends; 0: 600 s */
    int64_t drain_ns;        /* after a drain order, time until the remaining requests are ended; 0:
                              * 30 s */
    bool settles; /* a ledger is in use: each USAGE is answered by a COMMITTED, which the end
                            * of its answer waits for */
    int64_t ttft_limit_ns; /* longest wait for a first token by class, beyond which requests are
                            * refused (serving/gateway/admission.h); 0: no limit */
    int64_t totals_ns;     /* interval at which units' counters are sent to the ledger; 0: never */
    int64_t kv_life_s;     /* longest life of KV blocks in the cache; 0: unlimited */
    uint32_t vocab_count;  /* that units' model must have; 0: any */
    uint8_t model_id[32];  /* required of units; zeros: that of the first unit */
    const struct record_accounts *accounts; /* the initial accounts; NULL: no keys are required */
};

/* Arena bytes that suffice for gateway_create. */
size_t gateway_memory_bytes(const struct gateway_options *options);

/* Allocates from `arena`. The tokenizer, the template and the texts of `options` must live as long.
 * STATUS_INVALID names the option that is out of range. */
enum status gateway_create(struct arena *arena, const struct gateway_options *options,
                           struct gateway **gateway_out, struct error *error) MUST_USE;

struct machine gateway_machine(struct gateway *gateway);

/* Announces that these records will be received next, in that order, if nothing else happens, and
 * that `behind` more records of the array follow them. Prefetches the first ones' requests into the
 * CPU caches, all at the same time, and the addresses of the others. Changes nothing. Calling it is
 * optional: the simulator does, because it spends much of its time on such cache misses. A server
 * spends far more on messages and streams. */
#define GATEWAY_EXPECT_MAX 8 /* of each; more would evict each other from the cache */
void gateway_expect(const struct gateway *gateway, const struct record *const *records,
                    uint32_t count, uint32_t behind);

/* Decides by a request's head, so that a body that will be refused is not stored. `record` has all
 * but the body. Changes nothing. */
enum admission gateway_admit(const struct gateway *gateway,
                             const struct record_client_request *head);

/* True if the gateway accepts nothing more from this unit: it serves another model, or sent a false
 * record. */
bool gateway_refuses(const struct gateway *gateway, struct unit_id unit);

/* Requests that it still holds. A drained gateway may stop at 0. */
uint32_t gateway_request_count(const struct gateway *gateway);

/* check()s that redundant state agrees. Slow. */
void gateway_audit(const struct gateway *gateway);
