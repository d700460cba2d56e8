/* SPDX-License-Identifier: Apache-2.0
 * The subjects of bench_machines.c.
 */
#pragma once

#include "command/command.h"

command_action bench_gateway, bench_plan;
extern const struct option_table bench_gateway_options, bench_plan_options;

/* Processor time of this thread in seconds, and resident bytes of this process. */
double bench_machines_now(void);
double bench_machines_resident(void);
