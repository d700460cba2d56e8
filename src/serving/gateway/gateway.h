/* SPDX-License-Identifier: Apache-2.0
 * The gateway: owns a request's life from its HTTP body to the last byte of its answer. It speaks
 * several APIs (serving/gateway/dialects), renders chats, tokenizes short texts (long ones go out as
 * TOKENIZE), has constraints judged (CONSTRAIN), hands it to one of the units, turns tokens into
 * text, and answers whole or as a stream.
 * A request whose unit is lost goes on at another from the tokens that it has: its client sees a
 * pause. It never touches a socket.
 *
 * Takes and puts out the records whose ways lead to and from a gateway (contract/record_forms.c):
 * those of its clients' host, of its tokenizer and its compiler of constraints, and of units.
 *
 * Every CLIENT_REQUEST is answered by exactly one RESPOND, or by one STREAM_BEGIN and one
 * STREAM_END (streams, and whole answers that are waited for long), unless its client has gone;
 * after CLIENT_GONE nothing more is said to that connection. receive() answers STATUS_FULL only
 * while the outbox holds records, and then has done nothing.
 *
 * What may be asked for, on which listener and by whom, stands in serving/gateway/endpoint.h; any
 * other path is answered with 404.
 */
#ifndef SERVING_GATEWAY_GATEWAY_H
#define SERVING_GATEWAY_GATEWAY_H

#include "contract/machine.h"
#include "contract/record_client.h"
#include "contract/record_ledger.h"
#include "contract/record_unit.h"
#include "serving/text/chat_template.h"
#include "serving/text/tokenizer.h"

struct gateway;

struct gateway_options {
    const struct tokenizer *tokenizer;         /* NULL: token ids in, token ids out */
    const struct chat_template *chat_template; /* NULL or not present: chats are refused */
    bool content_specials;   /* added tokens are recognized in the contents of messages, too */
    const char *model_names; /* as served, e.g. "tiny-r1"; several are split by commas */
    int64_t model_created;   /* unix seconds, for the models list */
    const char *version;     /* of Fathom, for system_fingerprint */

    struct sampling sampling; /* defaults, from generation_config.json; seed and choice unused */
    uint32_t stop_tokens[LIMIT_STOP_TOKENS]; /* eos ids */
    uint32_t stop_token_count;
    struct prompt_frame frame; /* around plain text prompts (never chats) */
    uint32_t
        new_tokens_default; /* when a request gives no max_tokens; 0: all that fit the context */

    uint32_t requests_max;    /* requests alive at the same time; 1..LIMIT_GATEWAY_REQUESTS */
    size_t body_bytes_max;    /* longer ones get 413; 0: 8 MiB */
    size_t inline_text_bytes; /* longer texts go out as TOKENIZE, one at a time; 0: 16 KiB */
    size_t texts_bytes;       /* memory for those that wait to; 0: four bodies */
    size_t request_bytes;     /* memory for all requests' answers; 0: a default by requests_max */
    size_t outbox_bytes;      /* 0: a default by body_bytes_max; at least 1 MiB */
    uint32_t prefix_blocks; /* prompts go where their beginning was computed of late: so many blocks
                             * are remembered, a power of two; 0: none */
    int64_t role_hold_ns;   /* units change between prefill and decode when either kind has been
                             * pressed for so long (serving/policy/choose_roles); 0: never */
    int64_t keep_alive_ns;  /* who waits for an answer gets a sign this often; 0: 5 s */
    int64_t unit_silence_ns; /* a unit that sends nothing for so long is given up; 0: never,
                              * for units in the gateway's own process */
    int64_t unit_wait_ns;    /* a request that no unit can take waits so long; 0: 30 s */
    int64_t queue_ns;        /* a request that has not begun to run by then ends; 0: 600 s */
    int64_t drain_ns;        /* told to drain, it ends what is left after so long; 0: 30 s */
    bool settles;          /* a ledger is kept: each ENTRY is answered by a SETTLED, and the end of
                              * its answer waits for that */
    int64_t ttft_limit_ns; /* who would wait longer for a first token is refused, by class
                            * (serving/gateway/admission.h); 0: nobody is */
    int64_t tally_ns;      /* what units have counted is told to the ledger this often; 0: never */
    int64_t kv_life_s; /* KV blocks are found for so long at most; 0: as long as they are there */
    uint32_t vocab_count;                   /* that units' model must have; 0: any */
    uint8_t model_id[32];                   /* that units must have; zeros: that of the first one */
    const struct record_accounts *accounts; /* the first ones; NULL: nobody needs a key */
};

/* Arena bytes that suffice for gateway_create. */
size_t gateway_memory_bytes(const struct gateway_options *options);

/* Everything is taken from `arena`, and dies with it; the tokenizer, the template and the texts of
 * `options` must live as long. STATUS_INVALID names the option that is out of range. */
enum status gateway_create(struct arena *arena, const struct gateway_options *options,
                           struct gateway **gateway_out, struct error *error) MUST_USE;

struct machine gateway_machine(struct gateway *gateway);

/* These records will be received next, in that order, if nothing happens, and behind them `behind`
 * more of the array: what is known of the first ones' requests is fetched into the caches, of all at
 * the same time, and of the others where that stands. Changes nothing, and a host need not say so: the
 * twin does, much of whose time such fetching is; a server's token costs its loop many times as much
 * in messages and streams. */
#define GATEWAY_EXPECT_MAX 8 /* of each: more at once would drive each other out */
void gateway_expect(const struct gateway *gateway, const struct record *const *records,
                    uint32_t count, uint32_t behind);

/* Of a request's head, so that nothing is kept of a body that will not be looked at: of `record`
 * all but the body is there. Changes nothing. */
enum admission gateway_admit(const struct gateway *gateway,
                             const struct record_client_request *head);

/* True for a unit of which it will have nothing more: it serves another model, or has lied. */
bool gateway_refuses(const struct gateway *gateway, struct unit_id unit);

/* Requests that it still holds; a drained gateway may stop at 0. */
uint32_t gateway_request_count(const struct gateway *gateway);

/* check()s that what is kept twice agrees. Slow. */
void gateway_audit(const struct gateway *gateway);

#endif
