/* SPDX-License-Identifier: Apache-2.0
 * Queues of texts for a thread of the host: long texts for the tokenizer, constraints for their
 * checker. A thread gets one text at a time, and the next one after its TOKENIZED or CONSTRAINED.
 * The others wait here, in their own memory.
 *
 * Long texts wait in the order of serving/policy/fair_queue, by their bytes. The time to compile a
 * constraint does not follow from its length: constraints wait in the order of
 * serving/policy/share_time, by the time that the thread has measured.
 */
#pragma once

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
    bool waits;              /* it is in the queue's list */
    struct waiting_text *next;
};

struct tokenize_queue {         /* the queue of one thread */
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

/* Bytes of tokenize_queue_open's `memory`: room for bytes_max of texts, each of which may waste a
 * part of a pool's chunk. Untouched memory costs nothing. */
size_t tokenize_queue_memory_bytes(size_t bytes_max, uint32_t requests_max);

/* Keeps `memory` and the gateway's outbox for the gateway's life. `queue` is zeros but for `kind`. */
void tokenize_queue_open(struct tokenize_queue *queue, struct outbox *outbox, void *memory,
                         size_t bytes_max, uint32_t requests_max);
/* Once for the place of each request, which is zeroed. */
void tokenize_queue_open_waiting(struct tokenize_queue *queue, struct waiting_text *waiting);

struct tokenize_request { /* a text; the last two fields are for the tokenizer */
    struct request_id request;
    uint64_t client;
    struct bytes text;
    struct plain_text plain;
    uint32_t tokens_max; /* tokens beyond this are only counted */
};

/* Sends the text to the thread now, or copies it to `waiting`. Changes nothing if it fails. FULL:
 * the outbox is full for now. TOO_LARGE: the text does not even fit an empty outbox. NO_MEMORY: too
 * many texts wait. */
enum status tokenize_queue_take(struct tokenize_queue *queue, struct waiting_text *waiting,
                                const struct tokenize_request *ask) MUST_USE;

/* The thread has spent so long on the constraint in work; before tokenize_queue_answered. */
void tokenize_queue_spend(struct tokenize_queue *queue, int64_t took_ns);

/* The thread has answered, or its last record was taken back. It is idle until tokenize_queue_run. */
void tokenize_queue_answered(struct tokenize_queue *queue);

/* The request ends: drops its text if it waits. */
void tokenize_queue_forget(struct tokenize_queue *queue, struct waiting_text *waiting);

/* Sends the thread its next text, if one waits, the thread is idle and the outbox has room.
 * tokens_max as in tokenize_request, from present limits. */
void tokenize_queue_run(struct tokenize_queue *queue, uint32_t tokens_max);

/* True if tokenize_queue_run would try to send a text. */
bool tokenize_queue_want(const struct tokenize_queue *queue);

/* check()s that the list, its counts and the memory agree. */
void tokenize_queue_audit(const struct tokenize_queue *queue);
