/* SPDX-License-Identifier: Apache-2.0
 * Queues of texts for a thread of the host: long texts for the tokenizer, constraints for their
 * checker. A thread gets one text at a time, and the next one after its TOKENIZED or CONSTRAINED.
 * The others wait here, in their own memory.
 *
 * Long texts wait in the order of serving/policy/share_turns, by their bytes. The time to compile a
 * constraint does not follow from its length: constraints wait in the order of
 * serving/policy/share_time, by the time that the thread has measured.
 */
#ifndef SERVING_GATEWAY_TEXTS_H
#define SERVING_GATEWAY_TEXTS_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "serving/policy/share_time.h"
#include "serving/text/tokenizer.h"

struct waiting_text {   /* one request's waiting text; zeros except for arena if none waits */
    struct arena arena; /* from the pool: has the copies of text and spans */
    struct request_id request;
    uint64_t client; /* takes turns: all texts of one number are one client's */
    struct bytes text;
    struct plain_text plain; /* of text */
    uint64_t turn;           /* of a long text: virtual time */
    bool waits;              /* it is in the list of struct texts */
    struct waiting_text *next;
};

struct texts {                  /* the queue of one thread */
    struct outbox *outbox;      /* the gateway's */
    enum record_kind kind;      /* the record of a text: RECORD_TOKENIZE or RECORD_CONSTRAIN */
    struct pool pool;           /* memory of waiting texts */
    size_t bytes_max, bytes;    /* of texts and spans: limit, and present sum */
    struct waiting_text *first; /* list of waiting texts, the latest first */
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

struct texts_ask { /* a text; the last two fields are for the tokenizer */
    struct request_id request;
    uint64_t client;
    struct bytes text;
    struct plain_text plain;
    uint32_t tokens_max; /* tokens beyond this are only counted */
};

/* Sends the text to the thread now, or copies it to `waiting`. Changes nothing if it fails. FULL:
 * the outbox is full for now. TOO_LARGE: the text does not even fit an empty outbox. NO_MEMORY: too
 * many texts wait. */
enum status texts_take(struct texts *texts, struct waiting_text *waiting,
                       const struct texts_ask *ask) MUST_USE;

/* The thread has spent so long on the constraint in work; before texts_answered. */
void texts_spend(struct texts *texts, int64_t took_ns);

/* The thread has answered, or its last record was taken back. It is idle until texts_run. */
void texts_answered(struct texts *texts);

/* The request ends: drops its text if it waits. */
void texts_forget(struct texts *texts, struct waiting_text *waiting);

/* Sends the thread its next text, if one waits, the thread is idle and the outbox has room.
 * tokens_max as in texts_ask, from present limits. */
void texts_run(struct texts *texts, uint32_t tokens_max);

/* True if texts_run would try to send a text. */
bool texts_want(const struct texts *texts);

/* check()s that the list, its counts and the memory agree. */
void texts_audit(const struct texts *texts);

#endif
