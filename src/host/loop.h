/* SPDX-License-Identifier: Apache-2.0
 * The world of one process of the serving plane: one thread that runs its machines. It gives them
 * records and the time, and performs what they put into their outboxes. A process holds
 *
 *     a whole server   clients <-> HTTP server <-> gateway <-> unit <-> engine thread
 *                                                     \-> tokenizer, grammar, ledger thread
 *     a gateway        clients <-> HTTP server <-> gateway <-> wire (to any number of units)
 *     a unit           wires (one to each of its gateways) <-> unit <-> engine thread
 *
 * Clients' requests wait for the gateway in turns (host/request_turns.h), behind whatever else has
 * come. The gateway gets small ones for a few milliseconds, and a large one, which takes long to
 * read, at a time. A request of a client that has left is dropped before that.
 *
 * This is the only place of the serving plane that reads a clock. Records that a machine cannot
 * take now wait in bounded queues; a machine is fed only while the queues behind it have room, so
 * back-pressure reaches the clients, which are asked to retry later.
 *
 * A unit may have several gateways. A request belongs to one of them: when that one's connection
 * ends, what it had submitted is cancelled, and the others' requests go on. The pages stay in the
 * prefix cache, and the next gateway finds them there.
 */
#pragma once

#include "contract/machine.h"
#include "contract/record_client.h"
#include "host/http/http_server.h"
#include "host/wire/wire.h"
#include "host/wire/worker.h"

struct loop;

#define LOOP_GATEWAYS_MAX 8 /* of a unit */

/* Comes first, so that a wrong address is known before the checkpoint is loaded. http[http_count]:
 * the listeners, in the order of enum http_listener; their deliver and admit are set by the loop.
 * None: no clients, as for a unit. */
enum status loop_open(const struct http_server_options *http, uint32_t http_count,
                      struct loop **loop_out, struct error *error);

/* Others' events may be added before and while the loop runs. */
struct event_base *loop_base(const struct loop *loop);

struct loop_parts {
    struct machine gateway, unit; /* one without receive() is not here, but behind the wire */
    worker_function *engine;      /* RUN_STEP -> STEP_DONE; once, at first, without a record */
    void *engine_context;
    worker_function *tokenize; /* TOKENIZE -> TOKENIZED; NULL: never asked for */
    void *tokenize_context;
    worker_function *constrain; /* CONSTRAIN -> CONSTRAINED; NULL: never asked for */
    void *constrain_context;
    worker_function
        *ledger; /* USAGE, UNIT_TOTALS -> COMMITTED, ACCOUNTS; called once without a record
                              * when it begins; NULL: there is none */
    void *ledger_context;
    /* Does the gateway want the body behind this head? NULL: each one. */
    enum admission (*admit)(void *context, const struct record_client_request *head);
    void *admit_context;
    /* Will the gateway have nothing more of this unit? For the log. NULL: of all. */
    bool (*refuses)(void *context, struct unit_id unit);
    void *refuses_context;
    /* The unit's KV records, and the DRAINs of its ranks; loop_notify_unit answers, also from within. NULL: its KV blocks neither
     * come nor go */
    void (*forward)(void *context, const struct record *record);
    void *forward_context;
    /* Address, keys and plain_anywhere; no address: no wire. A unit's gateways: an address of each,
     * with commas between. */
    struct wire_options wire;
    bool waits_for_unit; /* clients are let in once a unit has said hello */
    /* Under which number this process starts that one, for the log; 0: it does not. NULL: none. */
    uint32_t (*job_of)(void *context, int64_t pid);
    void *job_context;
    int64_t finish_ns_max; /* to finish running requests at its end; 0: 35 s */
    /* SIGHUP: the record for the gateway; NULL: none. Without one SIGHUP ends the process */
    const struct record *(*reload)(void *context);
    void *reload_context;
    /* Called once clients can connect; a unit: when it has connected for the first time, without
     * urls. urls[HTTP_LISTENER_COUNT], NULL where there is no listener. */
    void (*ready)(void *context, const char *const *urls);
    void *ready_context;
};

/* Serves until SIGTERM or SIGINT: then takes nothing new, answers what has begun, and returns, with
 * a line if that took too long. A second signal ends the process at once. */
enum status loop_run(struct loop *loop, const struct loop_parts *parts, struct error *error);

/* For what else lives in the loop. */
void loop_notify_unit(struct loop *loop, const struct record *record);

/* Lets loop_run return now, with this status and error; for what else lives in the loop. */
void loop_end(struct loop *loop, enum status status, const struct error *error);

/* Its thread ends. False: it is still in a step. */
bool loop_end_engine(struct loop *loop);

/* False: the engine is still in a step; what it uses must be left alone until the process ends. */
bool loop_close(struct loop *loop);
