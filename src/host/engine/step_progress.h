/* SPDX-License-Identifier: Apache-2.0
 * The progress of the running step's KV rows, for a second thread that sends them. The engine's
 * thread publishes it without locks, with one store per layer. It wakes the second thread only if
 * that thread is watching. Neither ever blocks.
 *
 * One writer, one reader. The reader loads with acquire order: slices reported as written may be
 * read.
 */
#pragma once

#include "base/status.h"
#include "compute/model/model.h"

struct step_progress;

enum status step_progress_open(struct step_progress **progress_out, struct error *error) MUST_USE;
/* Call it when neither thread uses it any more. */
void step_progress_close(struct step_progress *progress);

/* The follower for model_set_follower. */
struct model_follower step_progress_follower(struct step_progress *progress);

/* The running step has failed: its slices stay incomplete, and all are written again later. */
void step_progress_break(struct step_progress *progress);

/* The number of slices that the step has written. UINT32_MAX: all, because the next step has begun
 * to write. 0: an older, later or failed step. */
uint32_t step_progress_written(const struct step_progress *progress, uint64_t step);

/* `watch`: from now on the file becomes readable when slices are written. Call
 * step_progress_written after switching it on, because earlier slices do not wake the reader. */
void step_progress_watch(struct step_progress *progress, bool watch);

int step_progress_file(const struct step_progress *progress);
/* Makes it unreadable until more is written. */
void step_progress_hush(struct step_progress *progress);
