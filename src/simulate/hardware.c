/* SPDX-License-Identifier: Apache-2.0
 * Times in microseconds inside. Products are 2 * rows * outputs * channels operations at a rate in
 * operations per microsecond.
 */
#include "simulate/hardware.h"

#define LAYERS 61
#define HIDDEN 7168.0
#define Q_RANK 1536.0
#define KV_RANK 512.0
#define HEADS 128.0
#define QUERIES (HEADS * 192)  /* nope and rope */
#define EXPANDED (HEADS * 256) /* keys and values out of the latent */
#define ATTENDED (HEADS * 128)
#define DOWN 2112.0 /* q_a and kv_a together */
#define EXPERT 2048.0
#define PER_TOKEN 8 /* experts */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* ---- prefill: T tokens a micro-batch; 108 of 132 multiprocessors compute, 24 communicate ---- */

#define TERA_SHARE(tera) ((tera)*1e6 * 108 / 132)

static double prefill_attention(double tokens, double attended, double cached) {
    double products = 2 * tokens * DOWN * HIDDEN / TERA_SHARE(1058) +
                      2 * tokens * QUERIES * Q_RANK / TERA_SHARE(990) +
                      2 * (tokens + cached) * EXPANDED * KV_RANK / TERA_SHARE(590) +
                      2 * tokens * HIDDEN * ATTENDED / TERA_SHARE(1358);
    double core = 2 * attended * HEADS * 320 / TERA_SHARE(672);
    return products + core + 0.335 * tokens; /* norms, rotation, quantization */
}

static double prefill_shared(double tokens) {
    return 2 * tokens * 2 * EXPERT * HIDDEN / TERA_SHARE(1304) +
           2 * tokens * HIDDEN * EXPERT / TERA_SHARE(1025);
}

static double prefill_experts(double tokens) {
    return PER_TOKEN * (2 * tokens * 2 * EXPERT * HIDDEN / TERA_SHARE(1297) +
                        2 * tokens * HIDDEN * EXPERT / TERA_SHARE(1099)) +
           0.25 * tokens; /* permutation, activation */
}

/* DeepEP over 50 GB/s links: a token goes to 3.14 nodes on average, in FP8, and back in BF16. */
static double prefill_dispatch(double tokens) {
    return tokens * 3.14 * HIDDEN * 1.03 / 44e3;
}
static double prefill_combine(double tokens) {
    return tokens * 3.14 * HIDDEN * 2 / 47e3;
}

double hardware_prefill_ns(const struct hardware_prefill_rank *ranks, uint32_t rank_count) {
    double attention = 0, most_tokens = 0, sum = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        double tokens = ranks[i].tokens / 2.0;
        attention = larger(attention, prefill_attention(tokens, (double)ranks[i].attended / 2,
                                                        (double)ranks[i].cached / 2));
        most_tokens = larger(most_tokens, tokens);
        sum += tokens;
    }
    double shared = prefill_shared(most_tokens), experts = prefill_experts(sum / rank_count);
    double dispatch = prefill_dispatch(most_tokens), combine = prefill_combine(most_tokens);
    double layer = larger(attention + shared, combine) + larger(attention, dispatch) +
                   larger(experts, dispatch) + larger(experts + shared, combine);
    return (LAYERS * layer + 20e3) * 1e3;
}

/* ---- decode: m tokens a micro-batch ---- */

/* DeepGEMM: flat up to 64 rows (weights are read), then linear to what 128 take. */
static double decode_product(double m, double at_64, double at_128) {
    return m <= 64 ? at_64 : at_64 + (at_128 - at_64) * (m - 64) / 64;
}

static double decode_absorb(double m) {
    return 8 + 8 * m / 128;
}

static double decode_attention_0(double m) {
    return 15 + decode_product(m, 9.4, 11.0) + decode_product(m, 16.7, 18.1) + decode_absorb(m);
}

static double decode_attention_1(double m, double context) {
    double core = larger(2 * HEADS * 1088 * context / 510e6, context * 1152 / 3.0e6) + 5;
    return core + decode_absorb(m) + 5 + decode_product(m, 44.7, 46.6) + 19;
}

static double decode_shared(double m) {
    return decode_product(m, 13.1, 14.1) + decode_product(m, 6.4, 7.4) + 7;
}

static double decode_experts(double m) {
    double pairs = 2 * PER_TOKEN * m * HIDDEN * EXPERT;
    return larger(2 * pairs / 742e6, 31.5) + larger(pairs / 771e6, 17.7) + 8;
}

double hardware_decode_ns(const struct hardware_decode_rank *ranks, uint32_t rank_count) {
    double first = 0, second = 0, most = 0, sum = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        double m = ranks[i].requests / 2.0;
        first = larger(first, decode_shared(m) + decode_attention_0(m));
        second = larger(second, decode_attention_1(m, (double)ranks[i].context / 2));
        most = larger(most, m);
        sum += m;
    }
    double layer = larger(first, 28 + 1.281 * most) + decode_experts(sum / rank_count) +
                   larger(second, 25 + 2.688 * most) + 28;
    return (2 * LAYERS * layer + 3000) * 1e3;
}

/* ---- */

struct hardware_costs hardware_costs_of_rank(void) {
    const double tokens = 8192;
    const struct hardware_decode_rank wide = {.requests = 128}, wider = {.requests = 256};
    const struct hardware_decode_rank deep = {64, 1 << 20}, deeper = {64, 2 << 20};
    double token_us =
        (prefill_attention(tokens, 0, 0) + prefill_shared(tokens) + prefill_experts(tokens)) /
        tokens;
    return (struct hardware_costs){
        .token_ns = LAYERS * token_us * 1e3,
        .attended_ns = LAYERS * prefill_attention(0, 1, 0) * 1e3,
        .read_ns = LAYERS * prefill_attention(0, 0, 1) * 1e3,
        .request_ns = (hardware_decode_ns(&wider, 1) - hardware_decode_ns(&wide, 1)) / 128,
        .context_ns = (hardware_decode_ns(&deeper, 1) - hardware_decode_ns(&deep, 1)) / (1 << 20),
    };
}
