/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/load_in_step.h"

double load_in_step_wait_ns(double latency_ns, double load_ns, uint32_t parts, double step_ns) {
    double first_ns = latency_ns + (load_ns - latency_ns) / parts;
    double last_ns = load_ns - step_ns * (parts - 1) / parts;
    return first_ns > last_ns ? first_ns : last_ns;
}

struct load_in_step_choice load_in_step(const struct load_in_step_ask *ask) {
    struct load_in_step_choice choice = {
        .wait_ns = load_in_step_wait_ns(ask->latency_ns, ask->load_ns, ask->parts, ask->step_ns)};
    double most_ns = ask->step_ns * LOAD_IN_STEP_WAIT_PERCENT / 100;
    choice.joins = !ask->others || (ask->measured && choice.wait_ns <= most_ns);
    return choice;
}
