/* SPDX-License-Identifier: Apache-2.0
 * bench_machines: the cost of the serving plane's machines alone, without sockets, threads or an
 * engine. `./dev counts` counts the instructions of both subjects.
 */
#include "bench_machines.h"

#include <stdlib.h>
#include <time.h>

#include "bench/machine_limits.h"

static const struct command subjects[] = {
    {"gateway", "records a second and memory of the gateway's machine, with a fleet's requests",
     bench_gateway, &bench_gateway_options, NULL},
    {"plan", "planning a step of a whole unit, and taking its results", bench_plan,
     &bench_plan_options, NULL},
    {.name = NULL},
};

double bench_machines_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double bench_machines_resident(void) {
    char text[64];
    bool found = machine_limits_line("/proc/self/status", "VmRSS", text, sizeof text);
    return found ? strtod(text, NULL) * 1024 : 0;
}

char **program_arguments;

int main(int argc, char **argv) {
    program_arguments = argv;
    return command_run(&(struct command){.name = "bench_machines", .subjects = subjects}, argc,
                       argv);
}
