/* SPDX-License-Identifier: Apache-2.0
 * A run of a real server (`fathom bench serve --json --each`) and the twin on the same requests:
 * the run's file becomes a source of requests with its arrivals, lengths and shared blocks; the
 * results of the twin's clients become the same figures, next to those of the run. Times count from
 * the moment a request was sent: the lateness of the run's client is not compared.
 */
#ifndef PROGRAMS_SIM_AGAINST_H
#define PROGRAMS_SIM_AGAINST_H

#include "simulate/simulator/simulator.h"

struct sim_against;

/* STATUS_INVALID names what the file lacks. */
enum status sim_against_open(const char *path, struct sim_against **against_out,
                             struct error *error) MUST_USE;
void sim_against_close(struct sim_against *against);

/* The twin's load is the run's; it ends when all are answered; what is seen goes to `against`. */
void sim_against_listen(struct sim_against *against, struct simulator_options *options);

/* After the run, of which `report` counts the steps: a table, or one JSON object with the twin's
 * figures, named as the run's. */
enum status sim_against_print(const struct sim_against *against,
                              const struct simulator_report *report, bool json,
                              struct error *error) MUST_USE;

#endif
