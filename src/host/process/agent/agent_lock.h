/* SPDX-License-Identifier: Apache-2.0
 * Ensures one agent per unit on a host. A supervisor that lost the connection to an agent starts a
 * new one. The old agent may still exist, stopped or behind a broken network, with ranks that hold
 * memory. So an agent locks a file with its unit's name, and kills the process that holds the lock.
 * The ranks of a killed agent die with it.
 */
#pragma once

#include <stdbool.h>

#include "base/status.h"

struct agent_lock {
    int file; /* -1: not locked */
    char path[512];
};

/* Takes the lock of `unit` in a directory. *was_held_out: true if a process was killed for it.
 * STATUS_TIMEOUT: that process does not die. */
enum status agent_lock_take(const char *directory, const char *unit, struct agent_lock *lock,
                            bool *was_held_out, struct error *error) MUST_USE;
void agent_lock_drop(struct agent_lock *lock);
