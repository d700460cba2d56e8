/* SPDX-License-Identifier: Apache-2.0
 * A queue of texts for a thread of the host: long texts for the tokenizer, or constraints for the
 * constraint compiler. The thread gets one text at a time, and the next one after its TOKENIZED or
 * CONSTRAINED. The others wait here, in the queue's own memory.
 *
 * Long texts are fair-queued by their bytes (serving/policy/fair_queue). The time to compile a
 * constraint does not follow from its length, so constraints are scheduled by the time that the
 * thread has spent on each client (serving/policy/share_time).
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_client.h"
#include "serving/policy/share_time.h"
#include "serving/text/tokenizer.h"

struct waiting_text {   /* one request's waiting text; all zeros except `arena` if none waits */
    struct arena arena; /* has the copies of the text and its spans; from the pool */
    struct request_id request;
    uint64_t client; /* number of the client, for fairness */
    struct bytes text;
    struct plain_text plain; /* spans of the text without special tokens */
    uint64_t turn;           /* long texts: virtual finish time */
    bool waits;              /* the text is in the queue's list */
    struct waiting_text *next;
};

struct tokenize_queue {         /* the queue of one thread of the host */
    struct outbox *outbox;      /* the gateway's */
    enum record_kind kind;      /* kind of its records: RECORD_TOKENIZE or RECORD_CONSTRAIN */
    struct pool pool;           /* memory of waiting texts */
    size_t bytes_max, bytes;    /* limit and current sum of the bytes of texts and spans */
    struct waiting_text *first; /* list of waiting texts, last in first */
    uint32_t client_count;      /* clients with waiting texts */
    uint32_t clients_max;       /* the largest client_count since the list was last empty */
    uint64_t now;               /* virtual time of long texts */
    struct share_time time;     /* compile time of constraints, by client */
    bool busy;                  /* the thread is working on a text */
    uint64_t busy_client;       /* client of the text that the thread has */
    uint64_t busy_turn;         /* turn of that text */
};

/* Size of tokenize_queue_open's `memory`: bytes_max of texts, and a pool chunk for each request,
 * because each text may waste a part of one. Memory that is never touched costs nothing. */
size_t tokenize_queue_memory_bytes(size_t bytes_max, uint32_t requests_max);

/* `memory` and the outbox must outlive the queue. The caller has zeroed `queue` and set its
 * `kind`. */
void tokenize_queue_open(struct tokenize_queue *queue, struct outbox *outbox, void *memory,
                         size_t bytes_max, uint32_t requests_max);
/* Call once for each request's waiting_text, which is zeroed. */
void tokenize_queue_open_waiting(struct tokenize_queue *queue, struct waiting_text *waiting);

struct tokenize_request { /* a text to send; the last two fields are for the tokenizer only */
    struct request_id request;
    uint64_t client;
    struct bytes text;
    struct plain_text plain;
    uint32_t tokens_max; /* tokens beyond this limit are only counted */
};

/* Sends the text to the thread, or copies it to `waiting` if the thread is busy. Changes nothing if
 * it fails. FULL: the outbox is full for now. TOO_LARGE: the text does not even fit an empty
 * outbox. NO_MEMORY: too many texts wait. */
enum status tokenize_queue_take(struct tokenize_queue *queue, struct waiting_text *waiting,
                                const struct tokenize_request *ask) MUST_USE;

/* Notes the time that the thread has spent on its constraint. Call before
 * tokenize_queue_answered. */
void tokenize_queue_spend(struct tokenize_queue *queue, int64_t took_ns);

/* Call when the thread has answered, or its last record was taken back. It is idle until
 * tokenize_queue_run. */
void tokenize_queue_answered(struct tokenize_queue *queue);

/* Drops the request's text if it waits. Call when the request ends. */
void tokenize_queue_forget(struct tokenize_queue *queue, struct waiting_text *waiting);

/* Sends the thread its next text if one waits, the thread is idle and the outbox has room.
 * `tokens_max` is the current limit, as in tokenize_request. */
void tokenize_queue_run(struct tokenize_queue *queue, uint32_t tokens_max);

/* True if tokenize_queue_run would try to send a text. */
bool tokenize_queue_want(const struct tokenize_queue *queue);

/* check()s the consistency of the list, its counts and the memory. */
void tokenize_queue_audit(const struct tokenize_queue *queue);
