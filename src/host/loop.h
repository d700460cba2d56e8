/* SPDX-License-Identifier: Apache-2.0
 * The world of one combined server: one thread that runs both machines. It gives them records and
 * the time, and carries out what they put into their outboxes:
 *
 *     clients <-> HTTP server <-> gateway <-> unit <-> engine thread
 *                                    \-> tokenizer thread
 *
 * This is the only place of the serving plane that reads a clock. Records that a machine cannot
 * take now wait in bounded queues; a machine is fed only while the queues behind it have room, so
 * pressure travels back to the clients, who are told to try again later.
 */
#ifndef HOST_LOOP_H
#define HOST_LOOP_H

#include "contract/machine.h"
#include "host/http_server.h"
#include "host/worker.h"

struct loop;

/* Comes first, so that a wrong address is known before the checkpoint is loaded. `http`'s deliver
 * is set by the loop. */
enum status loop_open(const struct http_server_options *http, struct loop **loop_out,
                      struct error *error);

struct loop_parts {
    struct machine gateway, unit;
    worker_function *engine; /* RUN_STEP -> STEP_DONE */
    void *engine_context;
    worker_function *tokenize; /* TOKENIZE -> TOKENIZED; NULL: never asked for */
    void *tokenize_context;
    /* Called once clients can connect. */
    void (*ready)(void *context, const char *url);
    void *ready_context;
};

/* Serves until SIGTERM or SIGINT: then takes nothing new, answers what has begun, and returns. A
 * second signal ends the process at once. */
enum status loop_run(struct loop *loop, const struct loop_parts *parts, struct error *error);

/* False: the engine is still in a step; what it uses must be left alone until the process ends. */
bool loop_close(struct loop *loop);

#endif
