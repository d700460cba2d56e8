/* SPDX-License-Identifier: Apache-2.0
 * Texts on their way to a thread of the host: long ones to the tokenizer, constraints to whoever
 * says whether they can be held. A thread is given one at a time, and the next one when it has said
 * TOKENIZED or CONSTRAINED; the others wait here, in memory of their own.
 *
 * Long texts wait in the order of serving/policy/share_turns, by their bytes. The length of a
 * constraint does not say how long it takes to compile: those wait in the order of
 * serving/policy/share_time, by the time that the thread has measured.
 */
#ifndef SERVING_GATEWAY_TEXTS_H
#define SERVING_GATEWAY_TEXTS_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "serving/policy/share_time.h"
#include "serving/text/tokenizer.h"

struct waiting_text {   /* the place for one request's text; zeros but for arena if none waits */
    struct arena arena; /* of the pool: holds the copies of text and spans */
    struct request_id request;
    uint64_t client; /* takes turns: all texts of one number are one client's */
    struct bytes text;
    struct plain_text plain; /* of text */
    uint64_t turn;           /* of a long text: virtual time */
    bool waits;              /* in the list of struct texts */
    struct waiting_text *next;
};

struct texts {                  /* of one thread */
    struct outbox *outbox;      /* the gateway's */
    enum record_kind kind;      /* in which a text goes out: RECORD_TOKENIZE or RECORD_CONSTRAIN */
    struct pool pool;           /* what waits lies here */
    size_t bytes_max, bytes;    /* of texts and spans: that may wait, and that do */
    struct waiting_text *first; /* list of the texts that wait, the latest first */
    uint32_t client_count;      /* clients with texts that wait */
    uint32_t clients_max;       /* the largest client_count since the list was last empty */
    uint64_t now;               /* virtual time of long texts */
    struct share_time time;     /* that constraints took */
    bool busy;                  /* the thread has a text */
    uint64_t busy_client;       /* that text's */
    uint64_t busy_turn;         /* that text's */
};

/* Bytes of texts_open's `memory`: room for bytes_max of texts, of which each may waste a part of a
 * pool's chunk. Untouched memory costs nothing. */
size_t texts_memory_bytes(size_t bytes_max, uint32_t requests_max);

/* Keeps `memory` and the gateway's outbox for the gateway's life. `texts` is zeros but for `kind`. */
void texts_open(struct texts *texts, struct outbox *outbox, void *memory, size_t bytes_max,
                uint32_t requests_max);
/* Once for the place of each request, which is zeroed. */
void texts_open_waiting(struct texts *texts, struct waiting_text *waiting);

struct texts_ask { /* about a text; the last two are the tokenizer's */
    struct request_id request;
    uint64_t client;
    struct bytes text;
    struct plain_text plain;
    uint32_t tokens_max; /* the tokenizer only counts what is more */
};

/* The text goes to the thread now, or a copy waits in the request's `waiting` for its turn. In
 * all errors nothing is done. FULL: the outbox is, for now. TOO_LARGE: the text fits into no empty
 * outbox either. NO_MEMORY: too many texts wait. */
enum status texts_take(struct texts *texts, struct waiting_text *waiting,
                       const struct texts_ask *ask) MUST_USE;

/* The thread has spent so long on the constraint in work; before texts_answered. */
void texts_spend(struct texts *texts, int64_t took_ns);

/* The thread has answered, or the record put last is taken back: it is idle until texts_run. */
void texts_answered(struct texts *texts);

/* The request ends: if its text waits, it is dropped. */
void texts_forget(struct texts *texts, struct waiting_text *waiting);

/* Gives the thread its next text, if one waits, the thread is idle and the outbox has room.
 * tokens_max as in texts_ask, by what is known now. */
void texts_run(struct texts *texts, uint32_t tokens_max);

/* True if texts_run would try to give a text. */
bool texts_want(const struct texts *texts);

/* check()s that the list, its counts and the memory agree. */
void texts_audit(const struct texts *texts);

#endif
