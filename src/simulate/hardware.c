/* SPDX-License-Identifier: Apache-2.0
 * A table's parts stand in the same sums as the published stage times.
 *
 * Times in microseconds inside. Products are 2 * rows * outputs * channels operations at a rate in
 * operations per microsecond.
 */
#include "simulate/hardware.h"

#include "base/number.h"

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

/* ---- a table's ---- */

/* Of all parts of a stage but the core's, whose context matters. */
static double measured_stage(const struct stage_table *table, enum stage_table_phase phase,
                             enum stage stage, double tokens) {
    double us = 0;
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        if (stage_part_of(part) == stage && part != PART_CORE && part != PART_CORE_PROMPT)
            us += stage_table_us(table, phase, part, tokens, 0);
    }
    return us;
}

/* Rows of each expert here, when all ranks have as many tokens and choose evenly. */
static double measured_experts(const struct stage_table *table, double tokens) {
    return measured_stage(table, STAGE_TABLE_EXPERTS, STAGE_MLP,
                          tokens * PER_TOKEN / (table->experts ? table->experts : 1));
}

/* As many equal chunks of c tokens, each behind r positions, as give all three sums: attended are
 * k (c r + c (c + 1) / 2), cached k r, tokens k c. Where a micro-batch has half of a chunk's sums,
 * k is a half. Chunks shorter than the table's first count as that one's shares. */
static double measured_core(const struct stage_table *table, double tokens, double attended,
                            double cached) {
    double first = table->grids[STAGE_TABLE_PROMPT][PART_CORE_PROMPT].tokens.at[0];
    double above = attended - tokens / 2;
    if (tokens == 0 || attended == 0) return 0;
    double chunks = above > 0 ? tokens * (cached + tokens / 2) / above : tokens;
    double each = max_double(first, tokens / chunks);
    return tokens / each *
           stage_table_us(table, STAGE_TABLE_PROMPT, PART_CORE_PROMPT, each, cached / chunks);
}

static double measured_attention(const struct stage_table *table, double tokens, double attended,
                                 double cached) {
    static const enum stage stages[] = {STAGE_ATTENTION_0, STAGE_ATTENTION_1, STAGE_DISPATCH,
                                        STAGE_COMBINE};
    double us = measured_core(table, tokens, attended, cached);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        us += measured_stage(table, STAGE_TABLE_PROMPT, stages[i], tokens);
    return us;
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

/* What a rank computes of one micro-batch in a layer. */
struct prefill_work {
    double attention, shared, experts;
};

static struct prefill_work prefill_work(const struct stage_table *table, double tokens,
                                        double attended, double cached) {
    if (!table)
        return (struct prefill_work){prefill_attention(tokens, attended, cached),
                                     prefill_shared(tokens), prefill_experts(tokens)};
    return (struct prefill_work){measured_attention(table, tokens, attended, cached),
                                 measured_stage(table, STAGE_TABLE_PROMPT, STAGE_SHARED, tokens),
                                 measured_experts(table, tokens)};
}

double hardware_prefill_ns(const struct stage_table *table,
                           const struct hardware_prefill_rank *ranks, uint32_t rank_count) {
    double attention = 0, most_tokens = 0, sum = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        double tokens = ranks[i].tokens / 2.0;
        attention = max_double(attention, prefill_work(table, tokens, (double)ranks[i].attended / 2,
                                                       (double)ranks[i].cached / 2)
                                              .attention);
        most_tokens = max_double(most_tokens, tokens);
        sum += tokens;
    }
    double shared = prefill_work(table, most_tokens, 0, 0).shared;
    double experts = prefill_work(table, sum / rank_count, 0, 0).experts;
    double dispatch = prefill_dispatch(most_tokens), combine = prefill_combine(most_tokens);
    double layer = max_double(attention + shared, combine) + max_double(attention, dispatch) +
                   max_double(experts, dispatch) + max_double(experts + shared, combine);
    return (LAYERS * layer + (table ? 0 : 20e3)) * 1e3;
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
    double core = max_double(2 * HEADS * 1088 * context / 510e6, context * 1152 / 3.0e6) + 5;
    return core + decode_absorb(m) + 5 + decode_product(m, 44.7, 46.6) + 19;
}

static double decode_shared(double m) {
    return decode_product(m, 13.1, 14.1) + decode_product(m, 6.4, 7.4) + 7;
}

static double decode_experts(double m) {
    double pairs = 2 * PER_TOKEN * m * HIDDEN * EXPERT;
    return max_double(2 * pairs / 742e6, 31.5) + max_double(pairs / 771e6, 17.7) + 8;
}

/* What a rank computes of one micro-batch in a layer while the dispatch travels, then the combine.
 */
struct decode_work {
    double first, second;
};

static struct decode_work decode_work(const struct stage_table *table, double m, double context) {
    if (!table)
        return (struct decode_work){decode_shared(m) + decode_attention_0(m),
                                    decode_attention_1(m, context)};
    if (m == 0) return (struct decode_work){0, 0};
    return (struct decode_work){
        measured_stage(table, STAGE_TABLE_DECODE, STAGE_SHARED, m) +
            measured_stage(table, STAGE_TABLE_DECODE, STAGE_ATTENTION_0, m),
        measured_stage(table, STAGE_TABLE_DECODE, STAGE_ATTENTION_1, m) +
            stage_table_us(table, STAGE_TABLE_DECODE, PART_CORE, m, context / m) +
            measured_stage(table, STAGE_TABLE_DECODE, STAGE_DISPATCH, m) +
            measured_stage(table, STAGE_TABLE_DECODE, STAGE_COMBINE, m)};
}

double hardware_decode_ns(const struct stage_table *table, const struct hardware_decode_rank *ranks,
                          uint32_t rank_count) {
    double first = 0, second = 0, most = 0, sum = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        double m = ranks[i].requests / 2.0;
        struct decode_work work = decode_work(table, m, (double)ranks[i].context / 2);
        first = max_double(first, work.first);
        second = max_double(second, work.second);
        most = max_double(most, m);
        sum += m;
    }
    double mean = sum / rank_count;
    double experts = table ? measured_experts(table, mean) : decode_experts(mean);
    double layer =
        max_double(first, 28 + 1.281 * most) + experts + max_double(second, 25 + 2.688 * most);
    if (table) return 2 * LAYERS * layer * 1e3;
    return (2 * LAYERS * (layer + 28) + 3000) * 1e3;
}

/* ---- costs for policies ---- */

/* Core attention of a table takes so much for each position attended to and so much for each one
 * read back: two equations, from a long and a short chunk with much before them. */
static void solve_core(const struct stage_table *table, struct hardware_costs *costs) {
    const double far = 8192, few = 64, many = 2048;
    double of_few = (measured_core(table, few, few * (few + 1) / 2 + few * far, far) -
                     measured_core(table, few, few * (few + 1) / 2, 0)) /
                    far;
    double of_many = (measured_core(table, many, many * (many + 1) / 2 + many * far, far) -
                      measured_core(table, many, many * (many + 1) / 2, 0)) /
                     far;
    double attended = max_double(0, (of_many - of_few) / (many - few));
    costs->attended_ns = LAYERS * attended * 1e3;
    costs->read_ns = LAYERS * max_double(0, of_few - few * attended) * 1e3;
}

struct hardware_costs hardware_costs_of_rank(const struct stage_table *table) {
    const double tokens = 8192;
    const struct hardware_decode_rank wide = {.requests = 128}, wider = {.requests = 256};
    const struct hardware_decode_rank deep = {64, 1 << 20}, deeper = {64, 2 << 20};
    struct prefill_work work = prefill_work(table, tokens, 0, 0);
    double token_us = (work.attention + work.shared + work.experts) / tokens;
    struct hardware_costs costs = {
        .token_ns = LAYERS * token_us * 1e3,
        .attended_ns = LAYERS * prefill_attention(0, 1, 0) * 1e3,
        .read_ns = LAYERS * prefill_attention(0, 0, 1) * 1e3,
        .request_ns =
            (hardware_decode_ns(table, &wider, 1) - hardware_decode_ns(table, &wide, 1)) / 128,
        .context_ns =
            (hardware_decode_ns(table, &deeper, 1) - hardware_decode_ns(table, &deep, 1)) /
            (1 << 20),
    };
    if (table) solve_core(table, &costs);
    return costs;
}
