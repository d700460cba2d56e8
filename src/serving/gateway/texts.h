/* SPDX-License-Identifier: Apache-2.0
 * Long texts on their way to the host's tokenizer. It is given one at a time, and the next one when
 * it has said TOKENIZED; the others wait here, in memory of their own, in the order of
 * serving/policy/share_tokenizer. So nothing but these texts ever waits for the tokenizer.
 */
#ifndef SERVING_GATEWAY_TEXTS_H
#define SERVING_GATEWAY_TEXTS_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "serving/text/tokenizer.h"

struct waiting_text { /* the text of one request, if it waits */
    struct arena arena;
    struct request_id request;
    uint32_t account; /* ACCOUNT_NONE: the request is a client of its own */
    struct bytes text;
    struct plain_text plain; /* of text; in the arena, too */
    uint64_t turn;
    bool waits; /* in the list */
    struct waiting_text *next;
};

struct texts {
    struct outbox *outbox;      /* the gateway's */
    struct pool pool;           /* what waits lies here */
    size_t bytes_max, bytes;    /* that may wait, and that do */
    struct waiting_text *first; /* of those that wait, last come first */
    uint32_t client_count;      /* of those that wait */
    uint32_t clients_max;       /* that waited at the same time, since nobody did */
    uint64_t now;               /* virtual */
    bool busy;                  /* the tokenizer has one */
    uint32_t busy_account;
    uint64_t busy_turn;
};

/* Each text may waste a part of a chunk. Untouched memory costs nothing. */
size_t texts_memory_bytes(size_t bytes_max, uint32_t requests_max);

/* Takes `memory` and the outbox for the gateway's life. */
void texts_open(struct texts *texts, struct outbox *outbox, void *memory, size_t bytes_max,
                uint32_t requests_max);
void texts_open_waiting(struct texts *texts, struct waiting_text *waiting);

struct texts_ask { /* a text to be tokenized */
    struct request_id request;
    uint32_t account;
    struct bytes text;
    struct plain_text plain;
    uint32_t tokens_max; /* more are only counted */
};

/* The text goes to the tokenizer now, or waits in the request's `waiting` for its turn. FULL: the
 * outbox is, nothing is done. TOO_LARGE: no outbox could take it. NO_MEMORY: too much waits. */
enum status texts_take(struct texts *texts, struct waiting_text *waiting,
                       const struct texts_ask *ask) MUST_USE;

/* The tokenizer has answered. */
void texts_answered(struct texts *texts);

/* The request ends; if its text waits, it does no longer. */
void texts_forget(struct texts *texts, struct waiting_text *waiting);

/* Gives the tokenizer its next text, if it is idle and the outbox has room. */
void texts_run(struct texts *texts, uint32_t tokens_max);

/* True if texts_run would try to give one. */
bool texts_want(const struct texts *texts);

/* check()s that the list, its counts and the memory agree. */
void texts_audit(const struct texts *texts);

#endif
