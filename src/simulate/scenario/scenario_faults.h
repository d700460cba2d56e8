/* SPDX-License-Identifier: Apache-2.0
 * Reads the faults of a scenario: its key `faults`, a list of faults, or {list: …, random: …}.
 *
 *   faults:
 *     list:   [{kind: unit-dies, at_s: 60, lasts_s: 30, unit: 2}, {kind: crowd, at_s: 90, …}]
 *     random: [{kind: disks-slow, per_hour: 2, lasts_s: 20, factor: 10}]
 *
 *   faults: {ttft_limit_s: 2, tpot_limit_s: 0.05, list: …}   (the defaults)
 *
 * Without `unit`, the place is drawn from the seed. Random faults begin between from_s (default:
 * warm_s) and until_s (default: the end of the measured time).
 */
#pragma once

#include "base/arena.h"
#include "simulate/hardware/tree_keys.h"
#include "simulate/simulator/fault_costs.h"
#include "simulate/simulator/simulator_faults.h"

#define SCENARIO_FAULTS_MAX 1024

/* Sets the faults in the options, and the limits of TTFT and TPOT. The options must already have
 * the kinds of units, gateways, times and seed. STATUS_INVALID names the key and the cure. */
enum status scenario_faults_read(struct arena *arena, const struct tree_place *root,
                                 const struct tree *tree, struct simulator_options *options,
                                 struct fault_limits *limits_out) MUST_USE;
