/* SPDX-License-Identifier: Apache-2.0
 * Long texts on their way to the host's tokenizer. It is given one at a time, and the next one when
 * it has said TOKENIZED; the others wait here, in memory of their own, in the order of
 * serving/policy/share_tokenizer. So nothing but these texts ever waits for the tokenizer.
 */
#ifndef SERVING_GATEWAY_TEXTS_H
#define SERVING_GATEWAY_TEXTS_H

#include "base/arena.h"
#include "contract/record.h"
#include "serving/text/tokenizer.h"

struct gateway;
struct gateway_options;
struct request;

struct waiting_text { /* of a request's leader */
    struct arena arena;
    struct bytes text;
    struct plain_text plain; /* of text; in the arena, too */
    uint64_t turn;
    bool waits;
    struct request *next;
};

struct texts {
    struct pool pool;      /* what waits lies here */
    size_t bytes;          /* all that waits: at most options.texts_bytes */
    struct request *first; /* of those that wait, last come first */
    uint64_t now;          /* virtual */
    uint32_t clients_max;  /* that waited at the same time, since nobody did */
    bool busy;             /* the tokenizer has one */
    uint32_t busy_account;
    uint64_t busy_turn;
};

/* Each text may waste a part of a chunk. Untouched memory costs nothing. */
size_t texts_memory_bytes(const struct gateway_options *options);

/* Takes `memory` for the gateway's life. */
void texts_open(struct gateway *gateway, void *memory);

/* The request's text goes to the tokenizer, now or later; it is TOKENIZING from now on. FULL: the
 * outbox is, nothing is done. TOO_LARGE: no outbox could take it. NO_MEMORY: too much waits. */
enum status texts_take(struct gateway *gateway, struct request *leader, struct bytes text,
                       struct plain_text plain) MUST_USE;

/* The tokenizer has answered. */
void texts_answered(struct gateway *gateway);

/* The request ends; if its text waits, it does no longer. */
void texts_forget(struct gateway *gateway, struct request *leader);

/* Gives the tokenizer its next text, if it is idle and the outbox has room. */
void texts_run(struct gateway *gateway);

/* True if texts_run would try to give one. */
bool texts_want(const struct gateway *gateway);

/* check()s that the list and the memory agree with the requests. */
void texts_audit(const struct gateway *gateway);

#endif
