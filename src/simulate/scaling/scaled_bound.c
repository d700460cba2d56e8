/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scaling/scaled_bound.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"

#define STEPS 25     /* values of the noise */
#define UNITS_MAX 48 /* units of one side */
#define MINUTE_NS ((int64_t)60000000000)
#define PRICE_LEAST 0.0 /* decimal logarithms of prices in node-windows */
#define PRICE_MOST 5.0
#define SWEEPS 2 /* searches over both prices */
#define NARROWINGS 8

enum { UP, DOWN, DIRECTIONS };

struct values { /* node-windows until the end; units are the last index, for dense loops */
    double of[STEPS][DIRECTIONS][UNITS_MAX];
};

struct bound {
    const struct scaled_options *day;
    const struct scale_rule_side *rule;
    uint32_t side;
    double share[STEPS][STEPS]; /* [now][next window] transition probabilities of the chain */
    double weight[STEPS];       /* stationary probability of each value */
    double noise[STEPS];
    double miss_price, turn_price;
    struct values later, now;
};

/* ---- noise ---- */

/* Builds Rouwenhorst's chain of STEPS values, starting from two. `kept` is its correlation from one
 * window to the next. */
static void make_chain(struct bound *bound, double kept) {
    double stays = (1 + kept) / 2, before[STEPS][STEPS];
    memset(bound->share, 0, sizeof bound->share);
    bound->share[0][0] = 1;
    for (uint32_t n = 1; n < STEPS; n++) {
        memcpy(before, bound->share, sizeof before);
        memset(bound->share, 0, sizeof bound->share);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++) {
                bound->share[i][j] += stays * before[i][j];
                bound->share[i][j + 1] += (1 - stays) * before[i][j];
                bound->share[i + 1][j] += (1 - stays) * before[i][j];
                bound->share[i + 1][j + 1] += stays * before[i][j];
            }
        for (uint32_t i = 1; i < n; i++) /* the middle rows were added twice */
            for (uint32_t j = 0; j <= n; j++)
                bound->share[i][j] /= 2;
    }
}

static void open_noise(struct bound *bound) {
    const struct scaled_options *day = bound->day;
    double width = sqrt(STEPS - 1) * day->noise, ways = 1;
    make_chain(bound, exp(-(double)day->tick_ns / (double)day->noise_ns));
    for (uint32_t i = 0; i < STEPS; i++) {
        bound->noise[i] = width * (2.0 * i / (STEPS - 1) - 1);
        bound->weight[i] = ways * exp2(-(STEPS - 1));
        ways *= (double)(STEPS - 1 - i) / (i + 1);
    }
}

/* Mean and deviation of the noise over the windows from ahead_ns - over_ns to ahead_ns, for each
 * present value of the noise. */
static void scaled_bound_look_ahead(const struct bound *bound, int64_t over_ns, double *kept_out,
                                    double *deviation_out) {
    const struct scaled_options *day = bound->day;
    double period = (double)day->noise_ns, ahead = (double)day->manager.rule.start_ns;
    double kept = 0, variance = 0;
    int count = (int)(over_ns / day->tick_ns) + 1;
    for (int a = 0; a < count; a++) {
        double at = ahead - (double)a * (double)day->tick_ns;
        kept += exp(-at / period) / count;
        for (int b = 0; b < count; b++) {
            double other = ahead - (double)b * (double)day->tick_ns;
            variance += (exp(-fabs(at - other) / period) - exp(-(at + other) / period)) /
                        ((double)count * count);
        }
    }
    *kept_out = kept;
    *deviation_out = day->noise * sqrt(variance);
}

/* ---- a window ---- */

static double scaled_bound_tokens_at(const struct bound *bound, int64_t at_ns) {
    const struct scaled_options *day = bound->day;
    double requests = day->arrivals(day->load, at_ns);
    if (bound->side == SCALE_DECODE) return requests * day->answer_tokens;
    double times = day->prompts ? day->prompts(day->load, at_ns) : 1;
    return requests * day->prompt_tokens * times;
}

/* The cost of nodes, and of misses one start time later, for each number of units and each value of
 * the noise. */
static void price_window(const struct bound *bound, int64_t at_ns, double kept, double deviation,
                         int64_t over_ns, double costs[STEPS][UNITS_MAX]) {
    const struct scaled_options *day = bound->day;
    int64_t then_ns = at_ns + day->manager.rule.start_ns;
    double load = fmin(scaled_bound_tokens_at(bound, then_ns),
                       scaled_bound_tokens_at(bound, then_ns - over_ns));
    double wait_s = over_ns ? (double)day->manager.ttft_limit_ns * 1e-9 : 0;
    double longer = 1 + wait_s / ((double)(over_ns + day->tick_ns) * 1e-9);
    for (uint32_t u = 0; u <= bound->rule->most; u++) {
        double bears = u * bound->rule->unit_rate * longer;
        double above = log(fmax(bears, 1e-9) / fmax(load, 1e-9)) + day->noise * day->noise / 2;
        for (uint32_t i = 0; i < STEPS; i++) {
            double distance = (above - kept * bound->noise[i]) / (deviation * M_SQRT2);
            costs[i][u] = u * bound->rule->unit_nodes + bound->miss_price * erfc(distance) / 2;
        }
    }
}

/* The mean cost after a choice, over the noise of the next window, for each number of units. */
static void average(const struct bound *bound, uint32_t step, uint32_t direction, double *sums) {
    uint32_t count = bound->rule->most + 1;
    memset(sums, 0, count * sizeof *sums);
    for (uint32_t i = 0; i < STEPS; i++) {
        double share = bound->share[step][i];
        const double *later = bound->later.of[i][direction];
        if (share < 1e-12) continue;
        for (uint32_t u = 0; u < count; u++)
            sums[u] += share * later[u];
    }
}

/* The cheapest of staying, growing and shrinking, for each number of units and each direction of
 * the last change. */
static void scaled_bound_choose(const struct bound *bound, const double *cost,
                                double grown[UNITS_MAX], double shrunk[UNITS_MAX],
                                double now[DIRECTIONS][UNITS_MAX]) {
    uint32_t count = bound->rule->most + 1;
    double best = INFINITY;
    for (uint32_t u = 0; u < count; u++) {
        grown[u] += cost[u];
        shrunk[u] += cost[u];
    }
    for (uint32_t u = count; u-- > 0;) { /* `best` over the larger numbers */
        now[UP][u] = fmin(grown[u], best);
        now[DOWN][u] = fmin(shrunk[u], best + bound->turn_price);
        best = fmin(best, grown[u]);
    }
    best = INFINITY;
    for (uint32_t u = 0; u < count; u++) { /* `best` over the smaller numbers */
        now[UP][u] = fmin(now[UP][u], best + bound->turn_price);
        now[DOWN][u] = fmin(now[DOWN][u], best);
        best = fmin(best, shrunk[u]);
    }
}

/* The node-windows of the cheapest rule, plus its misses and turns at their prices. */
static double scaled_bound_live(struct bound *bound) {
    const struct scaled_options *day = bound->day;
    int64_t over_ns = bound->side == SCALE_PREFILL ? MINUTE_NS : 0;
    double kept, deviation, costs[STEPS][UNITS_MAX], sums[DIRECTIONS][UNITS_MAX];
    scaled_bound_look_ahead(bound, over_ns, &kept, &deviation);
    memset(&bound->later, 0, sizeof bound->later);
    for (int64_t at_ns = day->end_ns - day->tick_ns; at_ns >= day->measure_ns;
         at_ns -= day->tick_ns) {
        price_window(bound, at_ns, kept, deviation, over_ns, costs);
        for (uint32_t i = 0; i < STEPS; i++) {
            average(bound, i, UP, sums[UP]);
            average(bound, i, DOWN, sums[DOWN]);
            scaled_bound_choose(bound, costs[i], sums[UP], sums[DOWN], bound->now.of[i]);
        }
        bound->later = bound->now;
    }
    double sum = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        double best = INFINITY;
        for (uint32_t u = 0; u <= bound->rule->most; u++)
            best = fmin(best, fmin(bound->later.of[i][UP][u], bound->later.of[i][DOWN][u]));
        sum += bound->weight[i] * best;
    }
    return sum;
}

/* ---- prices ---- */

static double nodes_at(struct bound *bound, const struct scaled_bound_limits *limits,
                       const double prices[2]) {
    const struct scaled_options *day = bound->day;
    double windows = (double)(day->end_ns - day->measure_ns) / (double)day->tick_ns;
    bound->miss_price = pow(10, prices[0]);
    bound->turn_price = limits->turns > 0 ? pow(10, prices[1]) : 0;
    double paid = bound->miss_price * limits->missed_share * windows;
    return (scaled_bound_live(bound) - paid - bound->turn_price * limits->turns) / windows;
}

/* Golden-section search: the result is concave in either price. */
static double scaled_bound_narrow(struct bound *bound, const struct scaled_bound_limits *limits,
                                  double prices[2], uint32_t which) {
    const double golden = (sqrt(5) - 1) / 2;
    double low = PRICE_LEAST, high = PRICE_MOST;
    double left = high - golden * (high - low), right = low + golden * (high - low);
    prices[which] = left;
    double at_left = nodes_at(bound, limits, prices);
    prices[which] = right;
    double at_right = nodes_at(bound, limits, prices);
    for (int i = 0; i < NARROWINGS; i++) {
        bool goes_left = at_left > at_right;
        if (goes_left) {
            high = right;
            right = left;
            at_right = at_left;
            left = high - golden * (high - low);
        } else {
            low = left;
            left = right;
            at_left = at_right;
            right = low + golden * (high - low);
        }
        prices[which] = goes_left ? left : right;
        double found = nodes_at(bound, limits, prices);
        *(goes_left ? &at_left : &at_right) = found;
    }
    prices[which] = at_left > at_right ? left : right;
    return fmax(at_left, at_right);
}

size_t scaled_bound_bytes(void) {
    return sizeof(struct bound) + 64;
}

enum status scaled_bound(struct arena *arena, const struct scaled_options *day,
                         struct scaled_bound_limits limits, double *nodes_out) {
    struct bound *bound = arena_take_zeroed(arena, sizeof *bound);
    if (!bound) return STATUS_NO_MEMORY;
    check(day->noise > 0 && limits.missed_share > 0);
    *nodes_out = 0;
    for (uint32_t side = 0; side < SCALE_SIDES; side++) {
        double prices[2] = {2.5, 3}, nodes = 0;
        bound->day = day;
        bound->side = side;
        bound->rule = &day->manager.rule.sides[side];
        check(bound->rule->most < UNITS_MAX);
        open_noise(bound);
        for (int sweep = 0; sweep < SWEEPS; sweep++) {
            nodes = scaled_bound_narrow(bound, &limits, prices, 0);
            if (limits.turns <= 0) break;
            nodes = scaled_bound_narrow(bound, &limits, prices, 1);
        }
        *nodes_out += nodes;
    }
    return STATUS_OK;
}
