/* SPDX-License-Identifier: Apache-2.0
 * Runs a fleet: polls the launcher and the gateways, passes their responses and operators' orders
 * to the keeper (serving/fleet/fleet_keeper), and performs the keeper's actions. Units continue
 * when the runner ends. One thread; it polls once a second, or at the manager's interval if that is
 * shorter. A round may take seconds if a gateway or Slurm does not respond.
 */
#pragma once

#include "host/fleet/fleet_file.h"
#include "host/fleet/fleet_folder.h"

struct fleet_runner;

/* Takes control of the fleet. Returns GONE if another manager runs it. */
enum status fleet_runner_open(const struct fleet_file *file, struct fleet_runner **runner_out,
                              struct error *error) MUST_USE;
void fleet_runner_close(struct fleet_runner *runner);

/* Runs one round: polls, and performs the resulting actions. */
void fleet_runner_run_round(struct fleet_runner *runner);

/* Runs rounds until `*ends` is set. */
void fleet_runner_run(struct fleet_runner *runner, const volatile int *ends);
