/* SPDX-License-Identifier: Apache-2.0
 * A run of a real server (`fathom bench serve --json --each`) and the twin on the same requests:
 * the run's file becomes a source of requests with its arrivals, lengths and shared blocks; the
 * results of the twin's clients become the same figures, next to those of the run. Times count from
 * the moment a request was sent: the lateness of the run's client is not compared.
 */
#pragma once

#include "simulate/simulator/simulator.h"

struct sim_against;

/* STATUS_INVALID: the error names the missing member. */
enum status sim_against_open(const char *path, struct sim_against **against_out,
                             struct error *error) MUST_USE;
void sim_against_close(struct sim_against *against);

/* Makes the run's requests the simulator's load. The simulation ends when all are answered; its
 * results go to `against`. */
void sim_against_listen(struct sim_against *against, struct simulator_options *options);

/* After the run: a table, or one JSON object with the simulator's figures under the run's names.
 * `report` has the count of steps. */
enum status sim_against_print(const struct sim_against *against,
                              const struct simulator_report *report, bool json,
                              struct error *error) MUST_USE;
