/* SPDX-License-Identifier: Apache-2.0
 * The progress of the running step's KV rows, for a second thread that sends them. The engine's
 * thread publishes it without locks, one store for each layer, and wakes the other thread only if
 * that has marked itself as watching. Neither ever blocks.
 *
 * One writer, one reader. Reads of the progress acquire: slices reported as written can be read.
 */
#pragma once

#include "base/status.h"
#include "compute/model/model.h"

struct step_progress;

enum status step_progress_open(struct step_progress **progress_out, struct error *error) MUST_USE;
/* Neither side uses it any more. */
void step_progress_close(struct step_progress *progress);

/* For model_set_follower. */
struct model_follower step_progress_follower(struct step_progress *progress);

/* The step that wrote last broke off: it never has all slices, and what it wrote is written again. */
void step_progress_break(struct step_progress *progress);

/* Slices of that step that are written; UINT32_MAX, all of them, when another has begun to write
 * after it. Of earlier steps nothing is known any more: 0, as of later ones, and of one that
 * failed. */
uint32_t step_progress_written(const struct step_progress *progress, uint64_t step);

/* `watch`: from now on the file becomes readable whenever more is written; else it does not. Ask
 * step_progress_written after switching on: what was written before does not wake. */
void step_progress_watch(struct step_progress *progress, bool watch);

int step_progress_file(const struct step_progress *progress);
/* Makes it unreadable until more is written. */
void step_progress_hush(struct step_progress *progress);
