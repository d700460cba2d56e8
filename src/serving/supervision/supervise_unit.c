/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/supervision/supervise_unit.h"

#include "base/check.h"

#include <string.h>

#define LOOKS_A_TIMEOUT 8
#define LAST_WORDS_NS ((int64_t)50000000) /* delay for a job that fails before it is ready */
#define END_NS_MAX ((int64_t)5000000000)  /* time for killed ranks to exit */
#define CHANGE_NS_MAX                                                                              \
    ((int64_t)10000000000) /* time for a unit to continue or end after a rank died or returned */
#define REFUSAL_MAX 2      /* the highest exit status of a process that gives a reason */

static void supervise_unit_enter(struct supervise_unit *unit, enum supervise_state state,
                                 int64_t now_ns) {
    unit->state = state;
    unit->state_ns = now_ns;
}

/* ---- orders ---- */

static void supervise_unit_order(struct supervise_unit *unit, struct supervise_order order) {
    check(unit->order_count < SUPERVISE_ORDERS_MAX);
    unit->orders[unit->order_count++] = order;
}

static void order_rank(struct supervise_unit *unit, enum supervise_order_kind kind, uint32_t rank) {
    supervise_unit_order(unit, (struct supervise_order){.kind = kind, .rank = rank});
}

static void order_kind(struct supervise_unit *unit, enum supervise_order_kind kind) {
    supervise_unit_order(unit, (struct supervise_order){.kind = kind});
}

/* True if this pair of hosts is to be tried, that is, `host` is asked whether it reaches
 * `other`. */
static bool is_tried(const struct supervise_unit *unit, uint32_t pair) {
    uint32_t host = pair / unit->host_count, other = pair % unit->host_count;
    return host != other && unit->hosts[host].is_linked && unit->hosts[other].is_reachable;
}

/* Returns the orders that exist once for each host, or for each pair. */
static bool next_of_hosts(struct supervise_unit *unit, struct supervise_order *order_out) {
    for (uint32_t i = 0; i < unit->host_count; i++) {
        struct supervise_host *host = &unit->hosts[i];
        if (!host->connects && !host->asks) continue;
        *order_out = (struct supervise_order){
            .kind = host->connects ? SUPERVISE_CONNECT : SUPERVISE_ASK, .host = i};
        host->is_linked = true;
        if (!host->connects) host->is_asked = true;
        *(host->connects ? &host->connects : &host->asks) = false;
        return true;
    }
    while (unit->reaches_awaited && unit->reach_next < unit->host_count * unit->host_count) {
        uint32_t pair = unit->reach_next++;
        if (!is_tried(unit, pair)) continue;
        *order_out = (struct supervise_order){.kind = SUPERVISE_REACH,
                                              .host = pair / unit->host_count,
                                              .other = pair % unit->host_count,
                                              .round = unit->reach_round};
        return true;
    }
    return false;
}

bool supervise_unit_next(struct supervise_unit *unit, struct supervise_order *order_out) {
    if (!unit->order_count) return next_of_hosts(unit, order_out);
    *order_out = unit->orders[0];
    memmove(unit->orders, unit->orders + 1, --unit->order_count * sizeof *unit->orders);
    return true;
}

/* ---- ending ---- */

uint32_t supervise_unit_left(const struct supervise_unit *unit) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < unit->host_count; i++)
        left += unit->hosts[i].left;
    return left;
}

static void supervise_unit_kill_all(struct supervise_unit *unit, int64_t now_ns) {
    order_rank(unit, SUPERVISE_KILL, SUPERVISE_ALL_RANKS);
    supervise_unit_enter(unit, SUPERVISE_ENDS, now_ns);
}

/* Enters the failed state. The orders already report the fault. */
static void supervise_unit_fail(struct supervise_unit *unit, int64_t now_ns) {
    if (!unit->failed_ns) unit->failed_ns = now_ns;
    supervise_unit_kill_all(unit, now_ns);
}

/* True if the process gave a reason before it exited. */
static bool is_refusal(struct supervise_how how) {
    return !how.by_signal && how.number <= REFUSAL_MAX;
}

static void supervise_unit_over(struct supervise_unit *unit, int64_t now_ns) {
    bool by_itself = unit->has_ended && is_refusal(unit->how);
    struct supervise_end end = {.was_ready = unit->ready,
                                .refused = by_itself || unit->is_refused,
                                .host_lost = unit->host_lost,
                                .ran_ns = now_ns - unit->began_ns};
    if (!unit->failed_ns) unit->failed_ns = now_ns;
    struct supervise_next next = supervise_ended(&unit->history, &end);
    if (next.gives_up) {
        supervise_unit_enter(unit, SUPERVISE_GIVEN_UP, now_ns);
        order_kind(unit, SUPERVISE_GIVE_UP);
        return;
    }
    if (!unit->ready)
        supervise_unit_order(unit, (struct supervise_order){.kind = SUPERVISE_SAY_UNREADY,
                                                            .how = unit->how,
                                                            .has_ended = unit->has_ended});
    if (next.wait_ns) {
        supervise_unit_order(
            unit, (struct supervise_order){.kind = SUPERVISE_SAY_WAITS, .ns = next.wait_ns});
        unit->wait_ns = next.wait_ns;
        supervise_unit_enter(unit, SUPERVISE_PAUSES, now_ns);
    } else {
        supervise_unit_start(unit, now_ns);
    }
}

void supervise_unit_stop(struct supervise_unit *unit) {
    if (unit->state == SUPERVISE_RUNS && unit->ready)
        order_kind(unit, SUPERVISE_FINISH);
    else
        order_rank(unit, SUPERVISE_KILL, SUPERVISE_ALL_RANKS);
    unit->state = SUPERVISE_GIVEN_UP;
}

/* ---- starting ---- */

static bool has_all_answers(const struct supervise_unit *unit) {
    for (uint32_t i = 0; i < unit->host_count; i++)
        if (!unit->hosts[i].has_answered) return false;
    return true;
}

void supervise_unit_start(struct supervise_unit *unit, int64_t now_ns) {
    memset(unit->watch.ranks, 0, unit->watch.rank_count * sizeof *unit->watch.ranks);
    unit->watch.looked_ns = 0;
    unit->ready = unit->has_ended = unit->is_refused = unit->host_lost = false;
    unit->change_ns = 0;
    unit->reaches_awaited = unit->verified = 0;
    supervise_unit_enter(unit, SUPERVISE_CHECKS, now_ns);
    unit->began_ns = now_ns;
    for (uint32_t i = 0; i < unit->host_count; i++) {
        struct supervise_host *host = &unit->hosts[i];
        host->connects = !host->is_linked;
        host->asks = !host->has_answered && !host->is_asked;
        if (host->connects) host->hearing = (struct supervise_hearing){now_ns, now_ns};
    }
    if (has_all_answers(unit)) order_kind(unit, SUPERVISE_VERIFY);
}

void supervise_unit_answered(struct supervise_unit *unit, uint32_t host, bool is_reachable) {
    bool is_known = unit->hosts[host].has_answered;
    unit->hosts[host].is_asked = false;
    unit->hosts[host].has_answered = true;
    unit->hosts[host].is_reachable = is_reachable;
    if (!is_known && unit->state == SUPERVISE_CHECKS && has_all_answers(unit))
        order_kind(unit, SUPERVISE_VERIFY);
}

static void supervise_unit_launch(struct supervise_unit *unit, int64_t now_ns) {
    memset(unit->signs, 0, unit->watch.rank_count * sizeof *unit->signs);
    for (uint32_t rank = 0; rank < unit->watch.rank_count; rank++)
        unit->members[rank] = (struct supervise_member){.state = SUPERVISE_MEMBER_LIVES};
    for (uint32_t i = 0; i < unit->host_count; i++) {
        unit->hosts[i].left = unit->hosts[i].count;
        unit->hosts[i].is_abandoned = false;
    }
    unit->has_said_starts = false;
    supervise_unit_enter(unit, SUPERVISE_RUNS, now_ns);
    supervise_unit_order(
        unit, (struct supervise_order){.kind = SUPERVISE_LAUNCH, .number = ++unit->number});
}

/* Ends the check of the hosts: all are right, or one is not. */
static void end_check(struct supervise_unit *unit, int64_t now_ns) {
    if (unit->is_refused)
        supervise_unit_kill_all(unit, now_ns); /* ends at the next tick: start may be the caller */
    else
        supervise_unit_launch(unit, now_ns);
}

/* Asks each host whether it reaches each other one, before ranks try for the first time. */
static void look_who_reaches_whom(struct supervise_unit *unit, int64_t now_ns) {
    uint32_t pairs = unit->host_count * unit->host_count;
    unit->reach_round++;
    unit->reach_next = 0;
    for (uint32_t pair = 0; pair < pairs && !unit->number; pair++)
        unit->reaches_awaited += is_tried(unit, pair);
    if (!unit->reaches_awaited) end_check(unit, now_ns);
}

void supervise_unit_verified(struct supervise_unit *unit, uint32_t host, bool is_right,
                             int64_t now_ns) {
    if (!is_right) {
        unit->hosts[host].has_answered = false; /* it is asked again before the next start */
        unit->is_refused = true;
    }
    if (unit->state != SUPERVISE_CHECKS || ++unit->verified < unit->host_count) return;
    if (unit->is_refused)
        end_check(unit, now_ns);
    else
        look_who_reaches_whom(unit, now_ns);
}

void supervise_unit_reached(struct supervise_unit *unit, uint32_t round, bool is_right,
                            int64_t now_ns) {
    if (unit->state != SUPERVISE_CHECKS || round != unit->reach_round || !unit->reaches_awaited)
        return;
    unit->is_refused |= !is_right;
    if (--unit->reaches_awaited == 0) end_check(unit, now_ns);
}

/* ---- events ---- */

bool supervise_unit_received(struct supervise_unit *unit, uint32_t host, int64_t now_ns) {
    unit->hosts[host].hearing.received_ns = now_ns;
    return unit->hosts[host].is_linked;
}

static bool is_its(const struct supervise_host *host, uint32_t rank) {
    return rank >= host->first && rank - host->first < host->count;
}

/* The rank's host. */
static struct supervise_host *host_of(struct supervise_unit *unit, uint32_t rank) {
    for (uint32_t i = 0; i < unit->host_count; i++)
        if (is_its(&unit->hosts[i], rank)) return &unit->hosts[i];
    return NULL;
}

bool supervise_unit_sign(struct supervise_unit *unit, uint32_t number, uint32_t rank,
                         const struct supervise_signs *signs) {
    if (number != unit->number || rank >= unit->watch.rank_count) return false;
    bool gone = unit->signs[rank].gone, returns = unit->signs[rank].returns;
    unit->signs[rank] = *signs;
    unit->signs[rank].gone = gone;
    unit->signs[rank].returns = returns;
    if (rank == 0 && !unit->has_said_starts) order_kind(unit, SUPERVISE_SAY_STARTS);
    unit->has_said_starts |= rank == 0;
    return true;
}

/* Reports the end of a unit that was ready, with the rank that caused it. */
static void say_loss(struct supervise_unit *unit, int64_t now_ns) {
    bool died = unit->watch.rank_count > 1 && unit->how.by_signal;
    order_kind(unit, died ? SUPERVISE_SAY_DIED : SUPERVISE_SAY_ENDED);
    supervise_unit_fail(unit, now_ns);
}

/* True if this end explains the failure better than the one reported so far. A rank that died
 * explains more than ranks that exited because they lost it, but may be reported later. */
static bool says_more(const struct supervise_unit *unit, struct supervise_how how) {
    if (!unit->has_ended) return true;
    if (unit->how.by_signal) return false;
    return how.by_signal || (unit->how.number == 0 && how.number != 0);
}

/* Handles the loss of a rank other than 0. The others may continue: rank 0 reports that, or exits.
 * After that the rank is restarted, at once, or after increasing delays if it ends soon. */
static void supervise_unit_lose(struct supervise_unit *unit, uint32_t rank,
                                struct supervise_how how, bool lived, int64_t now_ns) {
    struct supervise_member *member = &unit->members[rank];
    int64_t began_ns = member->began_ns ? member->began_ns : unit->began_ns;
    struct supervise_end end = {
        .was_ready = lived, .refused = is_refusal(how), .ran_ns = now_ns - began_ns};
    struct supervise_next next = supervise_ended(&member->history, &end);
    if (lived) member->died_ns = now_ns;
    if (!unit->change_ns) unit->change_ns = now_ns;
    member->state = next.gives_up ? SUPERVISE_MEMBER_GIVEN_UP : SUPERVISE_MEMBER_PAUSES;
    member->state_ns = now_ns;
    member->wait_ns = next.wait_ns;
    if (lived && !next.gives_up) return;
    supervise_unit_order(unit, (struct supervise_order){.kind = next.gives_up
                                                                    ? SUPERVISE_SAY_RANK_GIVEN_UP
                                                                    : SUPERVISE_SAY_RANK_ENDED,
                                                        .rank = rank,
                                                        .ns = next.wait_ns,
                                                        .how = how});
}

static bool runs(const struct supervise_member *member) {
    return member->state == SUPERVISE_MEMBER_LIVES || member->state == SUPERVISE_MEMBER_RETURNS;
}

void supervise_unit_ended(struct supervise_unit *unit, uint32_t index, uint32_t number,
                          uint32_t rank, struct supervise_how how, int64_t now_ns) {
    struct supervise_host *host = &unit->hosts[index];
    if (number != unit->number || !is_its(host, rank) || !host->left || !runs(&unit->members[rank]))
        return;
    bool lived = unit->members[rank].state == SUPERVISE_MEMBER_LIVES;
    host->left--;
    unit->members[rank].state = SUPERVISE_MEMBER_ENDED;
    unit->signs[rank].gone = true;
    unit->signs[rank].returns = false;
    if (unit->watch.rank_count > 1) order_rank(unit, SUPERVISE_REPORT_GONE, rank);
    /* already killed */
    if (unit->state != SUPERVISE_RUNS && unit->state != SUPERVISE_FAILS) return;
    if (says_more(unit, how)) {
        unit->how = how;
        unit->ended_rank = rank;
    }
    unit->has_ended = true;
    if (unit->state == SUPERVISE_RUNS && unit->ready && rank != 0)
        supervise_unit_lose(unit, rank, how, lived, now_ns);
    else if (unit->ready && (how.by_signal || unit->watch.rank_count == 1))
        say_loss(unit, now_ns);
    else if (unit->state == SUPERVISE_RUNS)
        supervise_unit_enter(unit, SUPERVISE_FAILS, now_ns);
}

/* Resets the stored signs of a rank when other signs are expected from it. */
static void supervise_unit_expect(struct supervise_unit *unit, uint32_t rank, bool gone,
                                  bool returns) {
    unit->watch.ranks[rank] = (struct supervise_rank){.seen = false};
    unit->signs[rank].gone = gone;
    unit->signs[rank].returns = returns;
}

void supervise_unit_came(struct supervise_unit *unit, uint32_t rank) {
    struct supervise_member *member = &unit->members[rank];
    if (member->state != SUPERVISE_MEMBER_RETURNS || member->is_there) return;
    member->is_there = true;
    supervise_unit_expect(unit, rank, false, false);
}

/* Forgets the link to a host, and the ranks there. */
static void supervise_unit_unlink(struct supervise_host *host) {
    host->left = 0;
    host->is_linked = host->connects = host->asks = host->is_asked = host->has_answered = false;
}

/* Handles the loss of a link. `silent_ns`: nothing arrived for so long; 0: the link ended. */
static void lose_link(struct supervise_unit *unit, uint32_t host, int64_t silent_ns,
                      int64_t now_ns) {
    supervise_unit_unlink(&unit->hosts[host]);
    if (unit->state == SUPERVISE_PAUSES || unit->state == SUPERVISE_GIVEN_UP) return;
    supervise_unit_order(
        unit, (struct supervise_order){.kind = SUPERVISE_SAY_LOST, .host = host, .ns = silent_ns});
    unit->host_lost = true;
    if (unit->state != SUPERVISE_ENDS) supervise_unit_fail(unit, now_ns);
}

void supervise_unit_lose_host(struct supervise_unit *unit, uint32_t host, int64_t now_ns) {
    if (unit->hosts[host].is_linked) lose_link(unit, host, 0, now_ns);
}

/* ---- time ---- */

static void look_whether_ready(struct supervise_unit *unit, int64_t now_ns) {
    if (unit->ready || unit->signs[0].state == HEARTBEAT_STARTS) return;
    int64_t since_ns = unit->failed_ns ? unit->failed_ns : unit->began_ns;
    unit->ready = true;
    supervise_unit_order(unit, (struct supervise_order){.kind = SUPERVISE_SAY_READY,
                                                        .again = unit->failed_ns != 0,
                                                        .ns = now_ns - since_ns});
    unit->failed_ns = 0;
}

/* Counts a returned rank as serving: all ranks continue together. */
static void supervise_unit_count_in(struct supervise_unit *unit, uint32_t rank, int64_t now_ns) {
    struct supervise_member *member = &unit->members[rank];
    member->state = SUPERVISE_MEMBER_LIVES;
    supervise_unit_order(unit, (struct supervise_order){.kind = SUPERVISE_SAY_RANK_BACK,
                                                        .rank = rank,
                                                        .ns = now_ns - member->died_ns});
}

static void supervise_unit_start_again(struct supervise_unit *unit, uint32_t rank, int64_t now_ns) {
    struct supervise_member *member = &unit->members[rank];
    member->state = SUPERVISE_MEMBER_RETURNS;
    member->is_there = false;
    member->began_ns = member->state_ns = now_ns;
    supervise_unit_expect(unit, rank, true, true);
    host_of(unit, rank)->left++;
    supervise_unit_order(unit, (struct supervise_order){
                                   .kind = SUPERVISE_AGAIN, .number = unit->number, .rank = rank});
}

static void look_after_member(struct supervise_unit *unit, uint32_t rank, int64_t now_ns) {
    const struct supervise_member *member = &unit->members[rank];
    if (member->state == SUPERVISE_MEMBER_RETURNS && member->is_there)
        supervise_unit_count_in(unit, rank, now_ns);
    else if (member->state == SUPERVISE_MEMBER_PAUSES &&
             now_ns - member->state_ns >= member->wait_ns)
        supervise_unit_start_again(unit, rank, now_ns);
}

/* Looks after dead and returning ranks. No rank is restarted before the unit has reported that it
 * continues with the living ones. The next tick handles the ranks that exceed the limit of
 * orders. */
static void look_after_members(struct supervise_unit *unit, struct supervise_epochs epochs,
                               int64_t now_ns) {
    if (epochs.said != epochs.reported) {
        if (!unit->change_ns) unit->change_ns = now_ns;
        if (now_ns - unit->change_ns > CHANGE_NS_MAX) say_loss(unit, now_ns);
        return;
    }
    if (unit->change_ns) unit->has_ended = false; /* the next end has another cause */
    unit->change_ns = 0;
    for (uint32_t rank = 1; rank < unit->watch.rank_count; rank++)
        if (unit->order_count < SUPERVISE_ORDERS_MAX / 2) look_after_member(unit, rank, now_ns);
}

/* Finds silent hosts. The next tick handles the hosts that exceed the limit of orders. */
static void look_for_silence(struct supervise_unit *unit, int64_t now_ns) {
    int64_t timeout_ns = unit->timeout.wall_ns;
    for (uint32_t i = 0; i < unit->host_count; i++) {
        struct supervise_host *host = &unit->hosts[i];
        if (!host->is_linked || unit->order_count >= SUPERVISE_ORDERS_MAX / 2) continue;
        int64_t silent_ns = supervise_silence(
            &host->hearing, host->has_answered ? timeout_ns : SUPERVISE_CONNECT_NS_MAX, now_ns);
        if (silent_ns) lose_link(unit, i, silent_ns, now_ns);
    }
    if (now_ns - unit->pinged_ns < supervise_interval_ns(timeout_ns)) return;
    unit->pinged_ns = now_ns;
    order_kind(unit, SUPERVISE_PING);
}

/* True if something arrived from all hosts within half the timeout, so that the ranks' signs are
 * valid. */
static bool has_received_all(const struct supervise_unit *unit, int64_t now_ns) {
    for (uint32_t i = 0; i < unit->host_count; i++)
        if (now_ns - unit->hosts[i].hearing.received_ns > unit->timeout.wall_ns / 2) return false;
    return true;
}

/* Finds stuck ranks. A lost agent is reported before its ranks, because their signs are then
 * missing. A stuck rank is killed, and the others continue. If rank 0 is stuck, or all wait for
 * each other, the unit ends. */
static void look_for_stuck(struct supervise_unit *unit, int64_t now_ns) {
    bool is_time = now_ns - unit->watch.looked_ns >= unit->timeout.wall_ns / LOOKS_A_TIMEOUT;
    if (unit->state != SUPERVISE_RUNS || !unit->ready || !unit->timeout.wall_ns) return;
    if (!is_time || !has_received_all(unit, now_ns)) return;
    struct supervise_finding finding =
        supervise_look(&unit->watch, unit->signs, unit->timeout, now_ns);
    if (finding.verdict == SUPERVISE_FINE) return;
    supervise_unit_order(unit,
                         (struct supervise_order){.kind = SUPERVISE_SAY_STUCK, .finding = finding});
    if (finding.verdict == SUPERVISE_DEADLOCK || finding.rank == 0) {
        supervise_unit_fail(unit, now_ns);
        return;
    }
    unit->watch.ranks[finding.rank] = (struct supervise_rank){.seen = false};
    order_rank(unit, SUPERVISE_KILL, finding.rank);
}

/* The delay after a failure. If rank 0 fails, the others exit, which takes a while. If another rank
 * fails, they wait. */
static int64_t moment_ns(const struct supervise_unit *unit) {
    bool is_end = !unit->how.by_signal && unit->how.number == 0;
    bool waits = !unit->ready && (is_end || unit->ended_rank == 0);
    return waits ? END_NS_MAX : LAST_WORDS_NS;
}

static void end_failed(struct supervise_unit *unit, int64_t now_ns) {
    if (supervise_unit_left(unit) && now_ns - unit->state_ns <= moment_ns(unit)) return;
    if (unit->ready)
        say_loss(unit, now_ns);
    else
        supervise_unit_kill_all(unit, now_ns);
}

static void supervise_unit_abandon(struct supervise_unit *unit) {
    for (uint32_t i = 0; i < unit->host_count; i++) {
        unit->hosts[i].is_abandoned = unit->hosts[i].left > 0;
        if (unit->hosts[i].is_abandoned) supervise_unit_unlink(&unit->hosts[i]);
    }
    order_kind(unit, SUPERVISE_ABANDON);
}

int64_t supervise_unit_tick(struct supervise_unit *unit, struct supervise_epochs epochs,
                            int64_t now_ns) {
    look_for_silence(unit, now_ns);
    switch (unit->state) {
    case SUPERVISE_RUNS:
        look_whether_ready(unit, now_ns);
        if (unit->ready) look_after_members(unit, epochs, now_ns);
        look_for_stuck(unit, now_ns);
        break;
    case SUPERVISE_FAILS:
        end_failed(unit, now_ns);
        break;
    case SUPERVISE_ENDS:
        if (supervise_unit_left(unit) && now_ns - unit->state_ns > END_NS_MAX)
            supervise_unit_abandon(unit);
        if (!supervise_unit_left(unit)) supervise_unit_over(unit, now_ns);
        break;
    case SUPERVISE_PAUSES:
        if (now_ns - unit->state_ns >= unit->wait_ns) supervise_unit_start(unit, now_ns);
        break;
    default: /* waits for an event, or for none */
        break;
    }
    return unit->ready && unit->state == SUPERVISE_RUNS ? SUPERVISE_TICK_NS
                                                        : SUPERVISE_TICK_START_NS;
}
