/* SPDX-License-Identifier: Apache-2.0
 * A thread that receives records and answers with records, such as the engine or the tokenizer of
 * long texts. The loop never waits for it; a file descriptor signals answers.
 */
#pragma once

#include <stdbool.h>

#include "base/status.h"
#include "host/wire/record_queue.h"

struct worker;

/* Processes `record` and calls worker_answer any number of times, on the thread. NULL: a call
 * requested by worker_call or worker_call_again. */
typedef void worker_function(void *context, struct worker *worker, const struct record *record);

/* `name` (up to 15 bytes) is visible in debuggers and `top`. */
enum status worker_open(const char *name, worker_function *function, void *context,
                        struct worker **worker_out, struct error *error) MUST_USE;

/* Queues a copy of the record. The caller limits the number of queued records. */
void worker_give(struct worker *worker, const struct record *record);

/* Requests one call soon, without a record if none is queued, for a function that polls. */
void worker_call(struct worker *worker);

/* Bytes of records that are queued or being processed, including the current one. */
size_t worker_waiting_bytes(struct worker *worker);

/* A descriptor that is readable while answers may be available. */
int worker_file(const struct worker *worker);

/* Moves all answers in order to the end of the queue, regardless of its bound. */
void worker_take(struct worker *worker, struct record_queue *to);

/* For worker functions: queues a copy of an answer for the loop. */
void worker_answer(struct worker *worker, const struct record *record);

/* For worker functions: requests one call without a record if no record arrives within `in_ns`. */
void worker_call_again(struct worker *worker, int64_t in_ns);

/* Discards queued records, waits for the current one and ends the thread. Returns false if it did
 * not finish in time: thread, worker and its context must then live until the process ends. */
bool worker_close(struct worker *worker, int64_t wait_ns_max);
