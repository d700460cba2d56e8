/* SPDX-License-Identifier: Apache-2.0
 * A directory in memory for one owner's jobs on this machine: their packed weights, so that a job
 * started again maps what the last one packed, and whatever else they share or leave behind. It
 * outlives the jobs' processes, and is removed when its owner closes it; if the owner was killed,
 * the next open removes it.
 */
#ifndef HOST_PROCESS_PRIVATE_ROOM_H
#define HOST_PROCESS_PRIVATE_ROOM_H

#include "base/status.h"

struct private_room {
    char path[256];
    int descriptor; /* locked while the owner lives */
};

/* In `base`; NULL: /dev/shm, or XDG_RUNTIME_DIR where there is none. */
enum status private_room_open(const char *base, struct private_room *room,
                              struct error *error) MUST_USE;
/* Removes it with all that is in it. Who still maps a file keeps its memory. */
void private_room_close(struct private_room *room);

/* Removes a directory within a room with all that is in it. */
void private_room_remove(const char *path);

#endif
