/* SPDX-License-Identifier: Apache-2.0
 * Limits connections to a listening wire before their greeting. Anyone who reaches the port can
 * open such connections without a key, and each uses a descriptor. Their number is limited per
 * address and in total, and so is their time. host/process/connection_eviction chooses the
 * connection to close. After its greeting a connection is never closed here.
 *
 * libzmq owns the sockets. Its monitor reports their descriptors. Shutting down a socket makes
 * libzmq close the connection. The descriptor is first checked to be still that of the accepted
 * connection.
 *
 * If descriptors run out, this module refuses pending connections itself, with a reserved
 * descriptor. libzmq would retry without a pause, and unbinding its socket would close all accepted
 * connections.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

#define WIRE_DOOR_FILES_MIN 256 /* a process with a lower limit does not listen */

struct wire_door;

/* `address`: for messages; the caller keeps it while open. Returns STATUS_INVALID if the process's
 * limit of descriptors is too low. */
enum status wire_door_open(const char *address, struct wire_door **door_out,
                           struct error *error) MUST_USE;
void wire_door_close(struct wire_door *door);

/* Sets the listening descriptor. */
void wire_door_listens(struct wire_door *door, int file);

/* A connection was accepted. Connections over ipc are not limited. */
void wire_door_enter(struct wire_door *door, int file);
/* A connection has greeted. */
void wire_door_know(struct wire_door *door, int file);
/* A connection has closed. */
void wire_door_leave(struct wire_door *door, int file);

/* Accepting has failed with this errno. */
void wire_door_fail(struct wire_door *door, int failure);

/* Called periodically: closes connections without a greeting after their time limit. */
void wire_door_tick(struct wire_door *door);

/* The number of connections without a greeting, and whether there were too many recently. */
uint32_t wire_door_strangers(const struct wire_door *door);
bool wire_door_is_crowded(const struct wire_door *door);
