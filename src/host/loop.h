/* SPDX-License-Identifier: Apache-2.0
 * The event loop of one process of the serving plane. Its thread runs the process's machines: it
 * passes them records and the time, and executes the records in their outboxes. A process is
 *
 *     a whole server   clients <-> HTTP server <-> gateway <-> unit <-> engine thread
 *                                                     \-> tokenizer, grammar, ledger thread
 *     a gateway        clients <-> HTTP server <-> gateway <-> wire (to any number of units)
 *     a unit           wires (one to each of its gateways) <-> unit <-> engine thread
 *
 * Clients' requests wait in a fair queue (host/request_turns.h) until all other input is processed.
 * In each turn the gateway then gets small requests for a few milliseconds, and at most one large
 * request, which takes long to read. A request is dropped if its client disconnects earlier.
 *
 * The loop is the only part of the serving plane that reads a clock. Records that a machine cannot
 * take yet wait in bounded queues. A machine gets input only while the queues behind it have room,
 * so back-pressure reaches the clients, and they are asked to retry later.
 *
 * A unit may have several gateways. Each request belongs to one of them. If its connection ends,
 * the requests that it submitted are cancelled, and the others' requests continue. The KV pages
 * stay in the prefix cache for the next gateway.
 */
#pragma once

#include "contract/machine.h"
#include "contract/record_client.h"
#include "host/http/http_server.h"
#include "host/wire/wire.h"
#include "host/wire/worker.h"

struct loop;

#define LOOP_GATEWAYS_MAX 8 /* of a unit */

/* Called first, so that an invalid address is reported before the checkpoint is loaded.
 * http[http_count]: the listeners, in the order of enum http_listener; the loop sets their deliver
 * and admit. A unit has no listeners. */
enum status loop_open(const struct http_server_options *http, uint32_t http_count,
                      struct loop **loop_out, struct error *error);

/* The event base of the loop. Other events may be added before and during loop_run. */
struct event_base *loop_base(const struct loop *loop);

struct loop_parts {
    struct machine gateway, unit; /* without receive(): it is remote, behind the wire */
    worker_function *engine;      /* RUN_STEP -> STEP_DONE; first called once without a record */
    void *engine_context;
    worker_function *tokenize; /* TOKENIZE -> TOKENIZED; NULL: never used */
    void *tokenize_context;
    worker_function *constrain; /* CONSTRAIN -> CONSTRAINED; NULL: never used */
    void *constrain_context;
    worker_function *ledger; /* USAGE, UNIT_TOTALS -> COMMITTED, ACCOUNTS; first called once without
                              * a record; NULL: there is no ledger */
    void *ledger_context;
    /* Returns whether the gateway accepts the body that follows this head. NULL: every body. */
    enum admission (*admit)(void *context, const struct record_client_request *head);
    void *admit_context;
    /* Returns true if the gateway ignores all further records of this unit; used by the log. NULL:
     * it ignores none. */
    bool (*refuses)(void *context, struct unit_id unit);
    void *refuses_context;
    /* Returns the gateway's number for the unit with this connection; used by the log. NULL: it is
     * the connection's number. */
    uint32_t (*number_of)(void *context, struct unit_id unit);
    void *number_context;
    /* Receives the unit's KV records and the DRAINs of its ranks, and answers by loop_notify_unit,
     * also during the call. NULL: KV blocks are neither loaded nor stored nor transferred. */
    void (*forward)(void *context, const struct record *record);
    void *forward_context;
    /* Address, keys and plain_anywhere. No address: no wire. A unit has one address for each of its
     * gateways, separated by commas. */
    struct wire_options wire;
    bool waits_for_unit; /* clients are admitted only after a unit has connected */
    /* Returns the number under which this process's supervisor runs the process, for the log; 0: it
     * does not run it. NULL: there is no supervisor. */
    uint32_t (*job_of)(void *context, int64_t pid);
    void *job_context;
    int64_t finish_ns_max; /* limit for finishing running requests at shutdown; 0: 35 s */
    /* On SIGHUP, returns a record for the gateway, or NULL. Without it, SIGHUP ends the process. */
    const struct record *(*reload)(void *context);
    void *reload_context;
    /* Called when clients can connect; in a unit, when it has connected for the first time, without
     * urls. urls[HTTP_LISTENER_COUNT] has NULL for each missing listener. */
    void (*ready)(void *context, const char *const *urls);
    void *ready_context;
};

/* Serves until SIGTERM or SIGINT. It then accepts nothing new, finishes running requests, and
 * returns; it logs a line if that took too long. A second signal ends the process at once. */
enum status loop_run(struct loop *loop, const struct loop_parts *parts, struct error *error);

/* Passes a record to the unit. For other modules that use the loop. */
void loop_notify_unit(struct loop *loop, const struct record *record);

/* Makes loop_run return now, with this status and error. For other modules that use the loop. */
void loop_end(struct loop *loop, enum status status, const struct error *error);

/* Ends the engine's thread. Returns false if it is still in a step. */
bool loop_end_engine(struct loop *loop);

/* Returns false if the engine is still in a step; its memory must then not be freed. */
bool loop_close(struct loop *loop);
