/* SPDX-License-Identifier: Apache-2.0
 * A scenario that is a day, run window by window (simulate/simulator/day.h).
 */
#pragma once

#include "simulate/report/day_outcome.h"

/* Runs all windows; with `whole_hour` >= 0 instead the segment that holds this hour of the day, once
 * as a sample and once with all its units. Times of a clock go to stderr if `verbose`.
 * STATUS_CORRUPT: something broke that must hold. */
enum status sim_day_run(struct scenario *scenario, double whole_hour, bool verbose,
                        struct day_outcome *outcome_out, struct error *error) MUST_USE;
