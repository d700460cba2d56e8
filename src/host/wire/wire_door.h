/* SPDX-License-Identifier: Apache-2.0
 * Strangers at the socket that a wire listens on: connections that were accepted and have not greeted
 * yet. Anyone who reaches the port can open them without a key, and each uses a descriptor. The
 * number is limited for an address and in all, and none stays for long; host/process/connection_eviction chooses who
 * leaves. A connection that has greeted is known, and the door never ends it.
 *
 * libzmq owns the sockets. Its monitor says which files they are, and a connection ends when the door
 * shuts its socket down: libzmq then closes it. Before that the door looks whether the file still is
 * the connection that it let in.
 *
 * If descriptors have run out, the door itself refuses connections that wait to be accepted, with a
 * descriptor reserved for that. libzmq would try again without a pause; unbinding its socket, in turn, would
 * end all connections that were accepted there.
 */
#ifndef HOST_WIRE_WIRE_DOOR_H
#define HOST_WIRE_WIRE_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

#define WIRE_DOOR_FILES_MIN 256 /* with fewer, a process does not listen */

struct wire_door;

/* `address`: of messages, and lives as long. STATUS_INVALID: this process may have too few files. */
enum status wire_door_open(const char *address, struct wire_door **door_out,
                           struct error *error) MUST_USE;
void wire_door_close(struct wire_door *door);

/* The file that connections are accepted from. */
void wire_door_listens(struct wire_door *door, int file);

/* A connection was accepted; connections over ipc are not counted as strangers. */
void wire_door_enter(struct wire_door *door, int file);
/* It has greeted. */
void wire_door_know(struct wire_door *door, int file);
/* It has ended. */
void wire_door_leave(struct wire_door *door, int file);

/* Accepting has failed, with this errno. */
void wire_door_fail(struct wire_door *door, int failure);

/* Now and then: ends with strangers who have had their time. */
void wire_door_tick(struct wire_door *door);

/* Strangers that are there; they were too many not long ago. */
uint32_t wire_door_strangers(const struct wire_door *door);
bool wire_door_is_crowded(const struct wire_door *door);

#endif
