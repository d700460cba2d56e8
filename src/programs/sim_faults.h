/* SPDX-License-Identifier: Apache-2.0
 * The cost of a scenario's faults. Runs the scenario once more without faults and compares each
 * request of the two runs (simulate/simulator/fault_costs.h).
 */
#pragma once

#include "host/process/lazy_memory.h"
#include "simulate/report/outcome.h"

#define SIM_FAULTS_REQUESTS_MAX (1u << 22) /* later requests are not compared */

struct sim_faults {
    struct lazy_memory memory, load;
    struct fault_ends with, without;
};

/* Call it before the run and after outcome_listen. Records the end of each request. */
enum status sim_faults_listen(struct sim_faults *faults, struct outcome *outcome,
                              struct error *error) MUST_USE;

/* Call it after the run. Runs again without faults, in separate memory, and fills in the outcome's
 * costs. `trace`: the scenario's load, or NULL. STATUS_CORRUPT: that run broke an invariant. */
enum status sim_faults_compare(struct sim_faults *faults, const struct scenario *scenario,
                               const struct load_trace *trace, struct outcome *outcome,
                               struct error *error) MUST_USE;
void sim_faults_close(struct sim_faults *faults);
