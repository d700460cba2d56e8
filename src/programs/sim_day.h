/* SPDX-License-Identifier: Apache-2.0
 * Runs a scenario of a whole day, window by window (simulate/simulator/day.h).
 */
#pragma once

#include "simulate/report/day_outcome.h"

/* Runs all windows. With `whole_hour` >= 0 it runs only the segment with this hour of the day, once
 * as a sample and once with all units. `verbose` prints wall-clock times to stderr.
 * STATUS_CORRUPT: an invariant was broken. */
enum status sim_day_run(struct scenario *scenario, double whole_hour, bool verbose,
                        struct day_outcome *outcome_out, struct error *error) MUST_USE;
