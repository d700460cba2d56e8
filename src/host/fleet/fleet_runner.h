/* SPDX-License-Identifier: Apache-2.0
 * Runs a fleet: asks its launcher and its gateways, passes their answers and operators' orders to the
 * keeper (serving/fleet/fleet_keeper), and performs the keeper's actions. Units go on when it ends. One
 * thread; it looks once a second, or as often as the manager decides if that is more often. A look may
 * take seconds if a gateway or Slurm does not answer.
 */
#ifndef HOST_FLEET_FLEET_RUNNER_H
#define HOST_FLEET_FLEET_RUNNER_H

#include "host/fleet/fleet_file.h"
#include "host/fleet/fleet_folder.h"

struct fleet_runner;

/* Takes the fleet over. GONE: another manager runs it. */
enum status fleet_runner_open(const struct fleet_file *file, struct fleet_runner **runner_out,
                              struct error *error) MUST_USE;
void fleet_runner_close(struct fleet_runner *runner);

/* One look, and the actions that follow from it. */
void fleet_runner_look(struct fleet_runner *runner);

/* Looks again and again, until `*ends` is set. */
void fleet_runner_run(struct fleet_runner *runner, const volatile int *ends);

#endif
