/* SPDX-License-Identifier: Apache-2.0
 * A thread that takes records and answers with records: the engine, the tokenizer of long texts.
 * The loop gives and takes without ever waiting; a file descriptor tells it that answers are there.
 */
#ifndef HOST_WIRE_WORKER_H
#define HOST_WIRE_WORKER_H

#include <stdbool.h>

#include "base/status.h"
#include "host/wire/record_queue.h"

struct worker;

/* Does what `record` asks for and calls worker_answer (any number of times). Runs on the thread.
 * NULL: it, or worker_call, has asked for a call without one. */
typedef void worker_function(void *context, struct worker *worker, const struct record *record);

/* `name` (up to 15 bytes) shows in debuggers and `top`. */
enum status worker_open(const char *name, worker_function *function, void *context,
                        struct worker **worker_out, struct error *error) MUST_USE;

/* Copies the record into the queue. The giver sees to it that not too many are under way. */
void worker_give(struct worker *worker, const struct record *record);

/* One call soon, without a record if there is none: for a function that looks at something by itself
 * from then on. */
void worker_call(struct worker *worker);

/* Bytes of records given and not yet done with: for its function, the one at hand among them. */
size_t worker_waiting_bytes(struct worker *worker);

/* Readable while answers may be there. */
int worker_file(const struct worker *worker);

/* Moves all answers to the end of the queue, in order, whatever its bound. */
void worker_take(struct worker *worker, struct record_queue *to);

/* For worker functions: copies an answer for the loop. */
void worker_answer(struct worker *worker, const struct record *record);

/* For worker functions: if nothing else has come in so many ns, the next call has no record. Holds
 * for one call. */
void worker_call_again(struct worker *worker, int64_t in_ns);

/* Forgets what waits, lets the record in work finish and ends the thread. False: it did not finish
 * in time; thread and worker live on, and so must its context until the process ends. */
bool worker_close(struct worker *worker, int64_t wait_ns_max);

#endif
