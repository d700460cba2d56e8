/* SPDX-License-Identifier: Apache-2.0
 * The cost of a scenario's faults: runs it once more without them, and compares each request of one
 * run with the same request of the other (simulate/simulator/fault_costs.h).
 */
#pragma once

#include "host/process/lazy_memory.h"
#include "simulate/report/outcome.h"

#define SIM_FAULTS_REQUESTS_MAX (1u << 22) /* later ones are in no cost */

struct sim_faults {
    struct lazy_memory memory, load;
    struct fault_ends with, without;
};

/* Call it before the run and after outcome_listen. Keeps the ends of the outcome. */
enum status sim_faults_listen(struct sim_faults *faults, struct outcome *outcome,
                              struct error *error) MUST_USE;

/* Call it after the run. Runs again without faults, in memory of its own, and fills the
 * outcome's costs. `trace`: of the scenario's load, or NULL. STATUS_CORRUPT: that run broke an
 * invariant. */
enum status sim_faults_compare(struct sim_faults *faults, const struct scenario *scenario,
                               const struct load_trace *trace, struct outcome *outcome,
                               struct error *error) MUST_USE;
void sim_faults_close(struct sim_faults *faults);
