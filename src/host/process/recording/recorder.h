/* SPDX-License-Identifier: Apache-2.0
 * Records one machine (host/process/recording/recording.h): stands between it and its world, passes all calls
 * on, and notes them in memory, which a thread of its own writes to a file. Serving never waits for
 * that thread: when it falls too far behind, the file has its full size, or cannot be written, the
 * recording ends with a line, and the machine goes on alone. The beginning is kept rather than the
 * end, since a machine cannot be run again without it.
 */
#ifndef HOST_PROCESS_RECORDING_RECORDER_H
#define HOST_PROCESS_RECORDING_RECORDER_H

#include "contract/machine.h"
#include "host/process/recording/recording_mask.h"

struct recorder;

struct recorder_options {
    const char *directory; /* made if it is not there */
    const char *name;      /* of the machine: the file is NAME-PID.rec */
    uint64_t bytes_max;    /* of the file, about */
    bool is_gateway;       /* else it is a unit's */
    bool prompts;          /* tokens and texts are recorded as they are */
    uint32_t vocab_count;
};

/* Draws the key that masks what is not recorded, but does not write yet. */
enum status recorder_open(const struct recorder_options *options, struct recorder **recorder_out,
                          struct error *error) MUST_USE;
const struct recording_mask *recorder_mask(const struct recorder *recorder);

/* Makes the file and begins to write; between opening and the first call of the machine. */
enum status recorder_start(struct recorder *recorder, struct bytes head,
                           struct error *error) MUST_USE;

/* The machine to be called in place of `machine`. */
struct machine recorder_machine(struct recorder *recorder, const struct machine *machine);

/* Writes what is left; NULL may be closed, too. */
void recorder_close(struct recorder *recorder);

#endif
