/* SPDX-License-Identifier: Apache-2.0
 * Compares a run of a real server (`fathom bench serve --json --each`) with the simulator on the
 * same requests. The run's file gives their arrivals, lengths and shared blocks. The simulated
 * clients' figures are printed next to those of the run. Times count from the moment a request was
 * sent, so delays of the run's client are left out.
 */
#pragma once

#include "simulate/simulator/simulator.h"

struct sim_against;

/* STATUS_INVALID: the error names the missing member. */
enum status sim_against_open(const char *path, struct sim_against **against_out,
                             struct error *error) MUST_USE;
void sim_against_close(struct sim_against *against);

/* Makes the run's requests the simulator's load. The simulation ends when all are answered. Its
 * results are collected in `against`. */
void sim_against_listen(struct sim_against *against, struct simulator_options *options);

/* Call it after the run. Prints a table, or one JSON object with the simulator's figures under the
 * run's names. `report` has the count of steps. */
enum status sim_against_print(const struct sim_against *against,
                              const struct simulator_report *report, bool json,
                              struct error *error) MUST_USE;
