/* SPDX-License-Identifier: Apache-2.0
 * May a row run in the coming step while the blocks before it are still being loaded? The engine
 * then waits, before each layer, for that layer's slices; and a step is one for all its rows, and
 * for all ranks of the unit: who waits makes all wait.
 *
 * A load of P parts brings the layers in the order in which they are computed: part i is there
 * after  latency + (load - latency) * i / P,  and its layers are not begun before
 * step * (i - 1) / P. The step is longer by the largest difference of both. That is linear in i, so
 * it is the first part's or the last one's:
 *
 *   wait = max(latency + (load - latency) / P,  load - step * (P - 1) / P)
 *
 *   nobody else would run   it joins, however long the load takes: its first token comes no later
 *                           than if it had waited for the load to end, and nobody minds
 *   others would run        it joins where the wait is at most LOAD_IN_STEP_WAIT_PERCENT of what
 *                           the step takes anyway; nothing measured: it does not join
 *
 * Beside others a row that joins is computed in the step that is about to begin, not in the one
 * behind the KV_LOADED that this step would have hidden: it gains up to a whole step, and a load as
 * long as the step costs it no time at all. In return every other row of such a step waits for at
 * most that part of it longer, as far as loads take as long as the last ones did. A step of answers
 * alone is short, so hardly any load fits into one; prompts' steps hide large ones.
 */
#ifndef SERVING_POLICY_LOAD_IN_STEP_H
#define SERVING_POLICY_LOAD_IN_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define LOAD_IN_STEP_WAIT_PERCENT 5

struct load_in_step_ask {
    bool measured;     /* how fast such blocks come */
    double latency_ns; /* of the load, before its first bytes */
    double load_ns;    /* all of it, predicted */
    uint32_t parts;    /* in which the layers come, >= 1 */
    double step_ns;    /* that the step computes with the row in it, predicted */
    bool others;       /* somebody else runs, or could: would have to wait for the step's end */
};

/* By how much the step is longer. */
double load_in_step_wait_ns(double latency_ns, double load_ns, uint32_t parts, double step_ns);

struct load_in_step_choice {
    bool joins;
    double wait_ns; /* predicted */
};

struct load_in_step_choice load_in_step(const struct load_in_step_ask *ask);

#endif
