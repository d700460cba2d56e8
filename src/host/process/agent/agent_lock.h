/* SPDX-License-Identifier: Apache-2.0
 * One agent a unit on a host. A supervisor that lost its way to an agent starts another one, while
 * the first may still be there, stopped or behind a broken network, with ranks that hold memory. So
 * an agent locks a file with its unit's name, and kills the process that holds it; the ranks of an agent die
 * with it.
 */
#pragma once

#include <stdbool.h>

#include "base/status.h"

struct agent_lock {
    int file; /* -1: not held */
    char path[512];
};

/* Takes the lock of `unit` in a directory; `was_held_out`: from a process that was killed for it.
 * STATUS_TIMEOUT: it does not die. */
enum status agent_lock_take(const char *directory, const char *unit, struct agent_lock *lock,
                            bool *was_held_out, struct error *error) MUST_USE;
void agent_lock_drop(struct agent_lock *lock);
