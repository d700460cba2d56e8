/* SPDX-License-Identifier: Apache-2.0
 * What fleets would do, in virtual time (simulate/scaling): `fathom fleet plan`, the next day of a fleet by
 * what its history says of the load; `fathom fleet twin`, DeepSeek's published day beside simpler rules;
 * `fathom fleet bound`, what no rule can do without on its days of noise.
 */
#ifndef PROGRAMS_FLEET_PLAN_H
#define PROGRAMS_FLEET_PLAN_H

#include "host/fleet/fleet_file.h"

/* Prints a line for each 24th of the next day. NOT_FOUND: there is no history of a whole day yet. */
enum status fleet_plan_day(const struct fleet_file *file, struct error *error) MUST_USE;

/* Prints the published nodes beside those that the product's manager comes to, and a table. */
enum status fleet_plan_twin(struct error *error) MUST_USE;

/* Prints the fewest nodes of any rule (simulate/scaling/scaled_bound) beside the product's manager's. Minutes. */
enum status fleet_plan_bound(struct error *error) MUST_USE;

#endif
