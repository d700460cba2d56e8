/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/supervision/supervise.h"

#define STARTS_MAX 5
#define LONG_LIFE_NS ((int64_t)30000000000)
#define WAIT_NS_FIRST ((int64_t)500000000)
#define WAIT_NS_MAX ((int64_t)30000000000)
#define SIGNS_A_TIMEOUT 8
#define SIGNS_NS_MAX ((int64_t)1000000000)

struct supervise_timeout supervise_timeout(int64_t timeout_ns, uint32_t ranks, uint32_t cpus) {
    uint32_t shares = cpus && ranks > cpus ? (ranks + cpus - 1) / cpus : 1;
    return (struct supervise_timeout){.wall_ns = timeout_ns * shares, .cpu_ns = timeout_ns};
}

static void supervise_remember(struct supervise_rank *rank, const struct supervise_signs *signs,
                               int64_t now_ns) {
    bool is_asked = signs->state == HEARTBEAT_COMPUTES || signs->returns;
    rank->gone = signs->gone;
    if (!rank->seen || signs->tiles != rank->tiles || !is_asked) {
        rank->tiles_ns = now_ns;
        rank->tiles_cpu_ns = signs->cpu_ns;
    }
    if (!rank->seen || signs->ran != rank->ran || !signs->ran) rank->ran_ns = now_ns;
    rank->tiles = signs->tiles;
    rank->moved = signs->moved;
    rank->ran = signs->ran;
    rank->seen = true;
}

static bool supervise_is_judged(const struct supervise_watch *watch,
                                const struct supervise_signs *signs) {
    if (signs->gone) return signs->returns;
    return signs->state != HEARTBEAT_STARTS || watch->from_start;
}

/* True if a rank that finishes no tile had enough CPU time for one. */
static bool had_time(const struct supervise_rank *rank, const struct supervise_signs *signs,
                     struct supervise_timeout timeout, int64_t no_tile_ns) {
    if (signs->returns) return no_tile_ns >= SUPERVISE_RETURN_PATIENCE * timeout.wall_ns;
    bool had_cpu = !signs->cpu_ns || signs->cpu_ns - rank->tiles_cpu_ns >= timeout.cpu_ns;
    return had_cpu && no_tile_ns >= timeout.wall_ns;
}

/* Resets all signs to now, so that no rank is blamed for the time before. */
static void forgive(struct supervise_watch *watch, int64_t now_ns) {
    for (uint32_t i = 0; i < watch->rank_count; i++)
        watch->ranks[i].tiles_ns = watch->ranks[i].ran_ns = now_ns;
    watch->moved_ns = now_ns;
}

/* False if all ranks wait and no data moves between them. Rank 0 waits only while a step is in
 * progress. When a rank has died, the others have waited for it until now. */
static bool is_moving(const struct supervise_watch *watch, const struct supervise_signs *signs) {
    for (uint32_t i = 0; i < watch->rank_count; i++) {
        if (signs[i].gone != watch->ranks[i].gone) return true;
        if (!signs[i].gone &&
            (signs[i].tiles != watch->ranks[i].tiles || signs[i].moved != watch->ranks[i].moved ||
             signs[i].state != HEARTBEAT_WAITS))
            return true;
    }
    return false;
}

struct supervise_finding supervise_look(struct supervise_watch *watch,
                                        const struct supervise_signs *signs,
                                        struct supervise_timeout timeout, int64_t now_ns) {
    struct supervise_finding frozen = {.verdict = SUPERVISE_FINE}, stuck = frozen;
    bool all_run = true;
    if (is_moving(watch, signs)) watch->moved_ns = now_ns;
    for (uint32_t i = 0; i < watch->rank_count; i++)
        supervise_remember(&watch->ranks[i], &signs[i], now_ns);
    if (!watch->looked_ns || now_ns - watch->looked_ns > timeout.wall_ns / 2)
        forgive(watch, now_ns);
    watch->looked_ns = now_ns;
    for (uint32_t i = 0; i < watch->rank_count; i++) {
        if (!supervise_is_judged(watch, &signs[i])) continue;
        int64_t not_run_ns = now_ns - watch->ranks[i].ran_ns;
        int64_t no_tile_ns = now_ns - watch->ranks[i].tiles_ns;
        all_run &= not_run_ns < timeout.wall_ns / 2;
        if (not_run_ns >= timeout.wall_ns && not_run_ns > frozen.silent_ns)
            frozen = (struct supervise_finding){SUPERVISE_FROZEN, i, not_run_ns};
        if (had_time(&watch->ranks[i], &signs[i], timeout, no_tile_ns) &&
            no_tile_ns > stuck.silent_ns)
            stuck = (struct supervise_finding){SUPERVISE_STUCK, i, no_tile_ns};
    }
    if (frozen.verdict) return frozen;
    if (stuck.verdict) return stuck;
    int64_t still_ns = now_ns - watch->moved_ns;
    /* else a rank is stopped and the others wait for it */
    if (still_ns >= timeout.wall_ns && all_run)
        return (struct supervise_finding){SUPERVISE_DEADLOCK, 0, still_ns};
    return frozen;
}

/* True if the rank waits for a rank of another host. */
static bool waits_elsewhere(const struct supervise_signs *signs, const uint32_t *hosts,
                            uint32_t count, uint32_t rank, uint32_t *peer_out) {
    *peer_out = signs[rank].peer - 1;
    return !signs[rank].gone && *peer_out < count && hosts[*peer_out] != hosts[rank];
}

bool supervise_find_cut(const struct supervise_signs *signs, const uint32_t *hosts, uint32_t count,
                        uint32_t cut_out[2]) {
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t peer, back;
        if (!waits_elsewhere(signs, hosts, count, i, &peer)) continue;
        bool is_mutual = false, has_sent = signs[peer].peer == 0;
        for (uint32_t j = 0; j < count && !is_mutual; j++)
            is_mutual = hosts[j] == hosts[peer] && waits_elsewhere(signs, hosts, count, j, &back) &&
                        hosts[back] == hosts[i];
        if (!is_mutual && (found || !has_sent)) continue;
        cut_out[0] = hosts[i];
        cut_out[1] = hosts[peer];
        found = true;
        if (is_mutual) break;
    }
    return found;
}

struct supervise_next supervise_ended(struct supervise_history *history,
                                      const struct supervise_end *end) {
    struct supervise_next next = {.gives_up = false};
    history->was_ever_ready |= end->was_ready;
    if (end->was_ready && end->ran_ns >= LONG_LIFE_NS) history->quick_ends = 0;
    history->quick_ends++;
    if (!end->was_ready && !(end->host_lost && history->was_ever_ready))
        next.gives_up =
            history->quick_ends >= STARTS_MAX || (end->refused && !history->was_ever_ready);
    if (history->quick_ends > 1) {
        uint32_t doublings = history->quick_ends - 2;
        next.wait_ns = doublings < 6 ? WAIT_NS_FIRST << doublings : WAIT_NS_MAX;
    }
    return next;
}

int64_t supervise_silence(struct supervise_hearing *hearing, int64_t timeout_ns, int64_t now_ns) {
    if (timeout_ns && now_ns - hearing->looked_ns > timeout_ns / 2) hearing->received_ns = now_ns;
    hearing->looked_ns = now_ns;
    int64_t silent_ns = now_ns - hearing->received_ns;
    return timeout_ns && silent_ns > timeout_ns ? silent_ns : 0;
}

int64_t supervise_interval_ns(int64_t timeout_ns) {
    int64_t ns = timeout_ns / SIGNS_A_TIMEOUT;
    return !timeout_ns || ns > SIGNS_NS_MAX ? SIGNS_NS_MAX : ns;
}
