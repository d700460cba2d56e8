/* SPDX-License-Identifier: Apache-2.0
 * A layer of a trace as SVG: what a rank computed, and below it what its link carried.
 */
#ifndef PROGRAMS_TRACE_PICTURE_H
#define PROGRAMS_TRACE_PICTURE_H

#include "base/status.h"
#include "contract/overlap.h"

#include <stdbool.h>
#include <stddef.h>

/* A stage, or a transfer under the name of the stage that began it. */
struct picture_event {
    enum stage stage;
    bool travels;
    uint32_t micro_batch, layer;
    double at_us, end_us, waited_us; /* a stage waits first, then works */
};

/* Draws the middle layer of the last step, from lane a's ATTN-0 to its next one, or to the end. STATUS_INVALID:
 * there is nothing to draw; STATUS_IO names the file. */
enum status trace_picture_write(const char *path, const struct picture_event *events, size_t count,
                                struct error *error) MUST_USE;

#endif
