/* SPDX-License-Identifier: Apache-2.0
 * Decides whether a row may run in the next step while the KV blocks before it are still being
 * loaded. The engine then waits before each layer for that layer's slices. All rows and all ranks
 * of a unit share the step, so all of them wait.
 *
 * A load of P parts delivers the layers in the order in which they are computed. Part i has arrived
 * after latency + (load - latency) * i / P. Its layers do not begin before step * (i - 1) / P. The
 * step becomes longer by the largest difference of the two. The difference is linear in i, so the
 * first or the last part determines it:
 *
 *   wait = max(latency + (load - latency) / P,  load - step * (P - 1) / P)
 *
 *   no other row would run  it joins, however long the load takes: its first token is no later than
 *                           after a separate load, and no other request waits
 *   others would run        it joins if the wait is at most LOAD_IN_STEP_WAIT_PERCENT of the step's
 *                           own time; without measurements it does not join
 *
 * If others run, a row that joins is computed in the next step instead of in the step after
 * KV_LOADED. It gains up to a whole step, and a load as long as the step costs no time. In return,
 * every other row of the step waits at most that percentage longer, if loads take as long as the
 * last ones did. Steps of decode rows alone are short, and hardly any load fits into one. Steps
 * with prompts hide large loads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOAD_IN_STEP_WAIT_PERCENT 5

struct load_in_step_ask {
    bool measured;     /* the rate of such loads has been measured */
    double latency_ns; /* time before the first bytes of the load */
    double load_ns;    /* time of the whole load, predicted */
    uint32_t parts;    /* parts of the layers, >= 1 */
    double step_ns;    /* predicted time of the step with the row in it */
    bool others;       /* other rows run, or could run, and would wait for the end of the step */
};

/* The time by which the load makes the step longer. */
double load_in_step_wait_ns(double latency_ns, double load_ns, uint32_t parts, double step_ns);

struct load_in_step_choice {
    bool joins;
    double wait_ns; /* predicted */
};

struct load_in_step_choice load_in_step(const struct load_in_step_ask *ask);
