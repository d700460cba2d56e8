/* SPDX-License-Identifier: Apache-2.0
 * A directory in memory for the jobs of one owner on this machine. It has their packed weights, so
 * that a restarted job maps the weights that its predecessor packed, and other shared files. It
 * outlives the jobs' processes and is removed when its owner closes it. If the owner was killed,
 * the next private_room_open removes it.
 */
#pragma once

#include "base/status.h"

struct private_room {
    char path[256];
    int descriptor; /* locked while the owner lives */
};

/* In `base`; NULL: /dev/shm, or XDG_RUNTIME_DIR where there is none. */
enum status private_room_open(const char *base, struct private_room *room,
                              struct error *error) MUST_USE;
/* Removes the directory with all files. Processes that map a file keep its memory. */
void private_room_close(struct private_room *room);

/* Removes a directory within a room with all files. */
void private_room_remove(const char *path);
