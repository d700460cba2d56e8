/* SPDX-License-Identifier: Apache-2.0
 * Reads the load of a scenario that is a day, `load.day`: the load of each hour, the units at each
 * hour, and the known moments of the requests (simulate/simulator/day.h).
 */
#pragma once

#include "simulate/hardware/tree_keys.h"
#include "simulate/simulator/day.h"

/* `place` is that of the object `load`; `tree` is its member `day`. */
enum status scenario_day_read(const struct tree_place *place, const struct tree *tree,
                              struct day_options *day_out) MUST_USE;
