/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that share one loop at a time: the engine's only parallelism on a CPU. The
 * caller is member 0. Which member runs which share never changes a result (see matmul.h).
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

struct team;

/* work(context, first, count, member): items [first, first + count) of the loop. */
typedef void team_work(void *context, uint32_t first, uint32_t count, uint32_t member);

/* `threads` >= 1; 0 = one per CPU that this process may use. */
enum status team_open(uint32_t threads, struct team **team_out, struct error *error);
void team_close(struct team *team);

uint32_t team_threads(const struct team *team);

/* Runs work over items 0..count-1 in shares of about `grain` items, taken dynamically; returns when
 * all are done. Not reentrant. */
void team_run(struct team *team, team_work *work, void *context, uint32_t count, uint32_t grain);

/* team_run for items of equal cost: shares of whole grains, large at first and of one grain at the
 * end, so that a small grain costs little and all members end together. */
void team_run_even(struct team *team, team_work *work, void *context, uint32_t count,
                   uint32_t grain);
