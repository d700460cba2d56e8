/* SPDX-License-Identifier: Apache-2.0
 * Starts other programs as child processes: ranks, agents, units, remote shells and Slurm's
 * commands. A child has only the descriptors that its options name, and default signal handlers. It
 * either ends with the thread that started it, or is in a session of its own and outlives it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "host/process/command_line.h"

#define CHILD_PROCESS_NO_INPUT (-1)

struct child_process_options {
    /* [0]: a path, or a name that is looked up in PATH; NULL at the end */
    const char *const *words;
    char *const *environment; /* NULL: this process's */
    int input;                /* the child's descriptor 0; CHILD_PROCESS_NO_INPUT: /dev/null */
    int output, errors;       /* its descriptors 1 and 2; 0: those of this process */
    int extra;                /* its descriptor 3; 0: none */
    int end_signal; /* sent to the child when the thread that started it ends; the child then has a
                       process group of its own. 0: the child has a session of its own */
};

/* Starts a program. If it cannot be executed, returns IO with its path and the reason. */
enum status child_process_start(const struct child_process_options *options, pid_t *pid_out,
                                struct error *error) MUST_USE;

/* Waits until a child has ended. Returns false if it still runs after wait_ns. */
bool child_process_wait(pid_t pid, int64_t wait_ns, int *status_out);

/* Runs a command and writes its stdout to `out`, terminated and truncated to `room`. Returns IO if
 * it did not start or exited with a code other than 0 (the message has its last line), TIMEOUT if
 * it was killed after timeout_ms. */
enum status child_process_run(const struct command_line *line, int timeout_ms, char *out,
                              size_t room, struct error *error) MUST_USE;
