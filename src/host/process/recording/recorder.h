/* SPDX-License-Identifier: Apache-2.0
 * Records the calls of one machine (host/process/recording/recording.h). The recorder wraps the
 * machine: it forwards all calls and buffers them, and a thread writes the buffers to a file.
 * Serving never waits for that thread. If the thread is too slow, the file is full, or writing
 * fails, the recording ends with a log line and the machine continues without it. The start of a
 * run is kept rather than its end, because a replay needs it.
 */
#pragma once

#include "contract/machine.h"
#include "host/process/recording/recording_mask.h"

struct recorder;

struct recorder_options {
    const char *directory; /* created if it is missing */
    const char *name;      /* name of the machine: the file is NAME-PID.rec */
    uint64_t bytes_max;    /* approximate limit of the file */
    bool is_gateway;       /* false: a unit */
    bool prompts;          /* tokens and texts are not masked */
    uint32_t vocab_count;
};

/* Draws the key of the masks. Nothing is written yet. */
enum status recorder_open(const struct recorder_options *options, struct recorder **recorder_out,
                          struct error *error) MUST_USE;
const struct recording_mask *recorder_mask(const struct recorder *recorder);

/* Creates the file and starts to write. Called before the first call of the machine. */
enum status recorder_start(struct recorder *recorder, struct bytes head,
                           struct error *error) MUST_USE;

/* The machine to call instead of `machine`. */
struct machine recorder_machine(struct recorder *recorder, const struct machine *machine);

/* Writes the remaining buffers. NULL is allowed. */
void recorder_close(struct recorder *recorder);
