/* SPDX-License-Identifier: Apache-2.0
 * Fleets in virtual time (simulate/scaling). `fathom fleet plan` predicts a fleet's next day from
 * the load in its history. `fathom fleet twin` compares DeepSeek's published day with simpler
 * rules. `fathom fleet bound` computes the least that any rule needs on its days of noise.
 */
#pragma once

#include "host/fleet/fleet_file.h"

/* Prints a line for each 24th of the next day. STATUS_NOT_FOUND: the history has no whole day
 * yet. */
enum status fleet_plan_day(const struct fleet_file *file, struct error *error) MUST_USE;

/* Prints the published nodes next to those that the product's manager would choose, and a table. */
enum status fleet_plan_simulator(struct error *error) MUST_USE;

/* Prints the fewest nodes of any rule (simulate/scaling/scaled_bound) next to those of the
 * product's manager. Takes minutes. */
enum status fleet_plan_bound(struct error *error) MUST_USE;
