/* SPDX-License-Identifier: Apache-2.0
 * A directory in memory for the packed weights of one job on this machine: whoever starts the job
 * owns it, and it outlives the job's processes, so that a job started again maps what the last one
 * packed. It goes when its owner closes it; one whose owner was killed goes when the next is
 * opened.
 */
#ifndef HOST_WEIGHTS_ROOM_H
#define HOST_WEIGHTS_ROOM_H

#include "base/status.h"

struct weights_room {
    char path[256];
    int descriptor; /* locked while the owner lives */
};

/* In `base`; NULL: /dev/shm, or XDG_RUNTIME_DIR where there is none. */
enum status weights_room_open(const char *base, struct weights_room *room,
                              struct error *error) MUST_USE;
/* Removes it with all that is in it. Who still maps a file keeps its memory. */
void weights_room_close(struct weights_room *room);

#endif
