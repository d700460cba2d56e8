/* SPDX-License-Identifier: Apache-2.0
 * The load of a scenario that is a day: `load.day`, with the load of each hour, the units at each
 * hour, and the known moments of the day's requests (simulate/simulator/day.h).
 */
#pragma once

#include "simulate/hardware/tree_keys.h"
#include "simulate/simulator/day.h"

/* `place`: that of the object `load`; `tree`: its member `day`. */
enum status scenario_day_read(const struct tree_place *place, const struct tree *tree,
                              struct day_options *day_out) MUST_USE;
