/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/day_load.h"

#include <math.h>

#include "base/limits.h"
#include "base/number.h"
#include "base/random.h"

#define GRID 4096 /* number of quantiles for computing means */
#define BISECTIONS 60
#define STREAM_ARRIVALS 1
#define STREAM_SHIFT 2

/* ---- the normal distribution ---- */

/* The normal quantile by P. J. Acklam's rational approximation; its relative error is at most
 * 1.2e-9. */
static double normal_quantile(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    if (p < 0.02425) {
        double q = sqrt(-2 * log(p));
        return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    }
    if (p > 1 - 0.02425) return -normal_quantile(1 - p);
    double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

/* Rounds to a whole number of tokens within the bounds. */
static uint32_t whole_tokens(double tokens, uint32_t most) {
    if (tokens >= most) return most;
    return tokens < 1 ? 1 : (uint32_t)(tokens + 0.5);
}

static uint32_t day_load_tokens_at(double p, double mu, double sigma, uint32_t most) {
    return whole_tokens(exp(mu + sigma * normal_quantile(p)), most);
}

/* ---- means ---- */

struct grid_means {
    double first, second; /* mean of tokens, and of their squares */
};

/* Lengths at the quantiles for mu = 0. */
struct grid {
    double lengths[GRID];
};

static void grid_set(struct grid *grid, double sigma) {
    for (int i = 0; i < GRID; i++)
        grid->lengths[i] = exp(sigma * normal_quantile((i + 0.5) / GRID));
}

static struct grid_means means_of(double mu, const struct grid *grid, uint32_t most) {
    struct grid_means means = {0, 0};
    double scale = exp(mu);
    for (int i = 0; i < GRID; i++) {
        double tokens = whole_tokens(scale * grid->lengths[i], most);
        means.first += tokens / GRID;
        means.second += tokens * tokens / GRID;
    }
    return means;
}

/* The mu for which the mean of the bounded lengths is `mean`. */
static double mu_of(double mean, const struct grid *grid, uint32_t most) {
    double low = log(mean) - 8, high = log(mean) + 8;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        *(means_of(middle, grid, most).first < mean ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static uint32_t stored_of(const struct day_lengths *lengths, uint32_t prompt_tokens) {
    double hit = lengths->hit_of_prompt * prompt_tokens;
    uint32_t blocks = (uint32_t)(hit / KV_BLOCK_TOKENS);
    return min_u32(blocks, (prompt_tokens - 1) / KV_BLOCK_TOKENS) * KV_BLOCK_TOKENS;
}

static double stored_mean(const struct day_lengths *lengths) {
    double sum = 0;
    for (int i = 0; i < GRID; i++)
        sum += stored_of(lengths,
                         day_load_tokens_at((i + 0.5) / GRID, lengths->prompt_mu,
                                            lengths->prompt_sigma, lengths->moments.prompt_max));
    return sum / GRID * (1 - lengths->moments.first_share);
}

bool day_load_solve(const struct day_moments *moments, struct day_lengths *lengths_out) {
    struct day_lengths lengths = {
        .moments = *moments,
        .prompt_sigma = sqrt(log(1 + moments->prompt_cv * moments->prompt_cv)),
        .answer_sigma = sqrt(log(1 + moments->answer_cv * moments->answer_cv))};
    struct grid grid;
    double low = 1, high = moments->kv_mean;
    if (moments->in_out <= 0 || moments->kv_mean <= 1) return false;
    /* An answer token reads its prompt and, on average, half of its answer. Long answers have more
     * tokens, so the mean is E[P] + E[O^2] / (2 E[O]). */
    grid_set(&grid, lengths.answer_sigma);
    for (int i = 0; i < BISECTIONS; i++) {
        double answer = (low + high) / 2;
        double mu = mu_of(answer, &grid, moments->answer_max);
        struct grid_means means = means_of(mu, &grid, moments->answer_max);
        double kv = moments->in_out * answer + means.second / (2 * means.first);
        *(kv < moments->kv_mean ? &low : &high) = answer;
        lengths.answer_mu = mu;
        lengths.answer_mean = means.first;
    }
    lengths.prompt_mean = moments->in_out * lengths.answer_mean;
    if (lengths.prompt_mean >= moments->prompt_max) return false;
    grid_set(&grid, lengths.prompt_sigma);
    lengths.prompt_mu = mu_of(lengths.prompt_mean, &grid, moments->prompt_max);
    low = 0, high = 1;
    for (int i = 0; i < BISECTIONS; i++) {
        lengths.hit_of_prompt = (low + high) / 2;
        *(stored_mean(&lengths) < moments->hit_share * lengths.prompt_mean ? &low : &high) =
            lengths.hit_of_prompt;
    }
    if (lengths.hit_of_prompt > 0.999) return false;
    *lengths_out = lengths;
    return true;
}

/* ---- requests ---- */

/* The coordinate of point `index` in one dimension. The points are evenly spread in all three
 * dimensions together. */
static double day_load_spread(const struct day_load *load, uint64_t index, uint32_t dimension) {
    static const double steps[] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};
    double at = random_uniform(load->seed, STREAM_SHIFT, dimension) +
                steps[dimension % 3] * (double)(index + 1);
    double share = at - floor(at);
    return share < 1e-9 ? 1e-9 : share > 1 - 1e-9 ? 1 - 1e-9 : share;
}

/* Draws a standing request: one in the middle of its answer. */
static void draw_standing(const struct day_load *load, uint64_t index,
                          struct simulator_request *out) {
    const struct day_lengths *lengths = &load->lengths;
    double sigma = lengths->answer_sigma;
    uint32_t prompt = day_load_tokens_at(day_load_spread(load, index, 0), lengths->prompt_mu,
                                         lengths->prompt_sigma, lengths->moments.prompt_max);
    /* A lognormal density multiplied by its variable is again a lognormal density. */
    uint32_t answer =
        day_load_tokens_at(day_load_spread(load, index, 1), lengths->answer_mu + sigma * sigma,
                           sigma, lengths->moments.answer_max);
    uint32_t said = (uint32_t)(day_load_spread(load, index, 2) * answer);
    out->prompt_tokens = prompt + said;
    out->answer_tokens = answer - said;
    out->standing = 1;
}

static void draw_arrival(const struct day_load *load, uint64_t index,
                         struct simulator_request *out) {
    const struct day_lengths *lengths = &load->lengths;
    bool hits = day_load_spread(load, index, 5) >= lengths->moments.first_share;
    out->prompt_tokens = day_load_tokens_at(day_load_spread(load, index, 3), lengths->prompt_mu,
                                            lengths->prompt_sigma, lengths->moments.prompt_max);
    out->answer_tokens = day_load_tokens_at(day_load_spread(load, index, 4), lengths->answer_mu,
                                            lengths->answer_sigma, lengths->moments.answer_max);
    out->stored_tokens = hits ? stored_of(lengths, out->prompt_tokens) : 0;
}

static bool next(void *self, struct simulator_request *request_out) {
    struct day_load *load = self;
    uint64_t index = load->drawn;
    *request_out = (struct simulator_request){.block_tokens = KV_BLOCK_TOKENS};
    if (index < load->standing_count) {
        draw_standing(load, index, request_out);
    } else {
        uint64_t arrival = index - load->standing_count;
        bool waits = arrival < load->waiting_count;
        if (!waits) {
            if (load->rate <= 0) return false;
            load->clock_s -=
                log(1 - random_uniform(load->seed, STREAM_ARRIVALS, (uint32_t)arrival)) /
                load->rate;
        }
        request_out->arrival_ns = load->begin_ns + (int64_t)(load->clock_s * 1e9);
        if (request_out->arrival_ns >= load->end_ns) return false;
        draw_arrival(load, arrival, request_out);
    }
    load->drawn++;
    return true;
}

struct simulator_source day_load_source(struct day_load *load) {
    return (struct simulator_source){.self = load, .next = next};
}
