/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/supervision/supervise_agent.h"

#define KILLED 9  /* the signal of a rank that could not be started again */
#define REFUSED 1 /* the exit status of ranks that could not be started */

void supervise_agent_open(struct supervise_agent *agent, int64_t now_ns) {
    *agent = (struct supervise_agent){.timeout_ns = SUPERVISE_CONNECT_NS_MAX / SUPERVISE_PATIENCE,
                                      .hearing = {.received_ns = now_ns, .looked_ns = now_ns}};
}

void supervise_agent_launch(struct supervise_agent *agent, uint32_t number, uint32_t first,
                            uint32_t count) {
    agent->number = number;
    agent->first = first;
    agent->count = count;
    agent->changes = 0;
    agent->signed_ns = 0;
}

/* A failed start is reported as the end of all ranks, with the exit status of a refusal. After a
 * successful one, signs are sent first, so that the supervisor knows the processes before they
 * report anything. */
struct supervise_agent_report supervise_agent_launched(struct supervise_agent *agent,
                                                       bool succeeded) {
    struct supervise_agent_report failure = {
        .rank = agent->first, .count = agent->count, .how = {.number = REFUSED}};
    if (succeeded) return (struct supervise_agent_report){.signs = true};
    agent->count = 0;
    return failure;
}

bool supervise_agent_restarts(const struct supervise_agent *agent, uint32_t number, uint32_t rank) {
    return number == agent->number && rank >= agent->first && rank - agent->first < agent->count;
}

/* A rank that cannot be restarted is reported as ended again. */
struct supervise_agent_report supervise_agent_restarted(uint32_t rank, bool succeeded) {
    const struct supervise_how killed = {.by_signal = true, .number = KILLED};
    return succeeded ? (struct supervise_agent_report){.signs = true}
                     : supervise_agent_ended(rank, killed);
}

/* The last signs are sent first, so that what the rank had reported, such as its role, is not
 * lost. */
struct supervise_agent_report supervise_agent_ended(uint32_t rank, struct supervise_how how) {
    return (struct supervise_agent_report){.signs = true, .rank = rank, .count = 1, .how = how};
}

struct supervise_agent_next supervise_agent_look(struct supervise_agent *agent, uint32_t changes,
                                                 int64_t now_ns) {
    int64_t interval_ns = supervise_interval_ns(agent->timeout_ns);
    struct supervise_agent_next next = {
        .silent_ns =
            supervise_silence(&agent->hearing, SUPERVISE_PATIENCE * agent->timeout_ns, now_ns),
        .wait_ns = changes < 2 * agent->count ? SUPERVISE_TICK_START_NS : SUPERVISE_TICK_NS};
    next.signs =
        agent->count && (changes != agent->changes || now_ns - agent->signed_ns >= interval_ns);
    if (next.signs) {
        agent->changes = changes;
        agent->signed_ns = now_ns;
    }
    return next;
}
