/* SPDX-License-Identifier: Apache-2.0
 * Protects the stages' times: those of DeepSeek's decode trace come out of the file's rates, and
 * bandwidths scale what they bound and nothing else.
 */

#include "test_case.h"

#include <math.h>

#include "base/format.h"
#include "hardware_of.h"
#include "simulate/hardware/stage_rates.h"

static bool is_near(double value, double expected, double share) {
    if (fabs(value / expected - 1) <= share) return true;
    print_error("%g, expected %g\n", value, expected);
    return false;
}

/* 64 requests of two tokens, context 4,096: the micro-batch of the trace. */
static const struct step_load traced = {
    .answer_rows = 64, .answer_tokens = 128, .context = 64 * 4096.0};
static const struct step_load small = {
    .answer_rows = 32, .answer_tokens = 32, .context = 32 * 4096.0};
static const struct step_load prefill = {.prompt_tokens = 8192, .attended = 8192 * 2048.0};

TEST_AROUND(the_decode_trace_comes_out_of_the_rates, begin_tree, NULL) {
    const struct hardware hardware = hardware_with("h800", NULL, 0);
    const struct model_figures model = model_named("deepseek-v3");
    struct stage_times us = stage_rates_times(hardware.stages, &model, &traced, false);
    assert_true(is_near(us.attention_0 + us.attention_1, 407, 0.01)); /* 388 and the gate's 19 */
    assert_true(is_near(us.shared, 28.5, 0.02));
    assert_true(is_near(stage_rates_experts(hardware.stages, &model, 1024, 2, false), 128, 0.01));
    struct stage_transfers links = stage_rates_transfers(hardware.stages, &model, 128, 8, false);
    assert_true(is_near(links.dispatch_us + 128 * links.dispatch_token_us, 192, 1e-9));
    assert_true(is_near(links.combine_us + 128 * links.combine_token_us, 369, 1e-9));
}

TEST_AROUND(memory_bandwidth_scales_what_reads_weights_and_caches, begin_tree, NULL) {
    const struct hardware slow = hardware_with("h800", NULL, 0),
                          fast = hardware_with("h800", "hbm_gbps", 6704);
    const struct model_figures model = model_named("deepseek-v3");
    struct stage_times a = stage_rates_times(slow.stages, &model, &small, false),
                       b = stage_rates_times(fast.stages, &model, &small, false);
    assert_true(b.shared < a.shared - 9);                  /* half of 19.5 us of weights */
    assert_true(b.attention_1 < a.attention_1 - 44.7 / 2); /* o; the core is bound by its work */
    assert_true(stage_rates_experts(fast.stages, &model, 64, 2, false) <
                stage_rates_experts(slow.stages, &model, 64, 2, false) - 17);
    a = stage_rates_times(slow.stages, &model, &prefill, true);
    b = stage_rates_times(fast.stages, &model, &prefill, true);
    assert_memory_equal(&a, &b, sizeof a); /* compute bounds it all */
}

TEST_AROUND(link_bandwidth_scales_transfers_but_not_their_latency, begin_tree, NULL) {
    const struct hardware slow = hardware_with("h800", "nic_gbps", 200),
                          fast = hardware_with("h800", NULL, 0);
    const struct model_figures model = model_named("deepseek-v3");
    for (int prompts = 0; prompts < 2; prompts++) {
        struct stage_transfers a = stage_rates_transfers(slow.stages, &model, 144, 8, prompts),
                               b = stage_rates_transfers(fast.stages, &model, 144, 8, prompts);
        assert_true(a.dispatch_us == b.dispatch_us && a.combine_us == b.combine_us);
        assert_true(is_near(a.dispatch_token_us, 2 * b.dispatch_token_us, 1e-12));
        assert_true(is_near(a.combine_token_us, 2 * b.combine_token_us, 1e-12));
        a = stage_rates_transfers(slow.stages, &model, 8, 8, prompts); /* one node: no link */
        b = stage_rates_transfers(fast.stages, &model, 8, 8, prompts);
        assert_true(a.combine_token_us == b.combine_token_us);
    }
}

TEST_AROUND(prompts_on_four_nodes_travel_as_published, begin_tree, NULL) {
    const struct hardware hardware = hardware_with("h800", NULL, 0);
    const struct model_figures model = model_named("deepseek-v3");
    struct stage_transfers links = stage_rates_transfers(hardware.stages, &model, 32, 8, true);
    assert_true(is_near(8192 * links.dispatch_token_us, 4316, 0.002)); /* 3.14 nodes a token */
    assert_true(is_near(8192 * links.combine_token_us, 7846, 0.002));
}

/* Behind 2,048 rows a step of V3.2 grows with the index alone: 64 heads of 128 channels where V3's
 * core has 128 of 1,088, and 132 bytes of a row where that reads 1,152. */
TEST_AROUND(sparse_attention_costs_its_index, begin_tree, NULL) {
    const struct hardware hardware = hardware_with("h800", NULL, 0);
    const struct model_figures dense = model_named("deepseek-v3");
    struct model_figures sparse = dense;
    sparse.index_heads = 64;
    sparse.index_dim = 128;
    sparse.index_top_k = 2048;
    struct stage_times at[3];
    for (int i = 0; i < 3; i++) {
        const double contexts[] = {2048, 32768, 65536};
        const struct step_load load = {
            .answer_rows = 32, .answer_tokens = 32, .context = 32 * contexts[i]};
        at[i] = stage_rates_times(hardware.stages, &sparse, &load, false);
        struct stage_times of_dense = stage_rates_times(hardware.stages, &dense, &load, false);
        if (!i) assert_memory_equal(&at[0], &of_dense, sizeof of_dense);
        if (i) assert_true(at[i].core == at[0].core && of_dense.core > 10 * at[i].core);
    }
    const double index = at[2].attention_0 - at[1].attention_0; /* of 32,768 rows each */
    const struct step_load rows = {.answer_rows = 32, .answer_tokens = 32, .context = 32 * 32768};
    const double core = stage_rates_times(hardware.stages, &dense, &rows, false).core;
    assert_true(index > core * 8192 / (128 * 1088) * 0.99 && index < core * 132 / 1152 * 1.5);
    const struct step_load chunk = {
        .prompt_tokens = 4096, .attended = 4096 * (65536 + 2048.5), .cached = 65536};
    assert_true(stage_rates_times(hardware.stages, &sparse, &chunk, true).attention_1 <
                stage_rates_times(hardware.stages, &dense, &chunk, true).attention_1 / 2);
}

TEST_AROUND(a_table_of_a_measured_layer_takes_the_place_of_rates, begin_tree, NULL) {
    static char text[1 << 14];
    const struct model_figures model = model_named("deepseek-v3");
    struct hardware_stages stages;
    size_t used = 0;
    used += format_text(text, sizeof text,
                        "table: |\n  phase,part,tokens,context,expert_rows,"
                        "experts,us,flop,bytes\n");
    static const char *const phases[] = {"decode", "prompt", "experts"};
    for (int phase = 0; phase < 3; phase++)
        for (int part = 0; part < STAGE_PART_COUNT; part++) {
            bool expert = part >= PART_EXPERT_INPUT && part <= PART_EXPERT_RESULT;
            if (expert != (phase == 2)) continue;
            used += format_text(text + used, sizeof text - used, "  %s,%s,%d,0,%d,%d,1,0,0\n",
                                phases[phase], stage_part_name((enum stage_part)part),
                                expert ? 0 : 8, expert ? 8 : 0, expert ? 2 : 0);
        }
    const struct tree_place place = {.file = "f", .error = &error};
    const struct hardware hardware = {.hbm_gbps = 1, .nic_gbps = 1, .nvlink_gbps = 1};
    enum status status = stage_rates_read(&tree_arena, &place, tree_of(text), &hardware, &stages);
    if (status) print_error("%s\n", error.text);
    assert_int_equal(status, STATUS_OK);
    const struct step_load work = {.answer_rows = 8, .answer_tokens = 8, .context = 64};
    struct stage_times us = stage_rates_times(&stages, &model, &work, false);
    /* as many parts of 1 us each; one is an indexer's, which works beyond its choice's rows */
    assert_true(us.attention_0 == 6 && us.shared == 3);
    struct model_figures sparse = model;
    sparse.index_heads = sparse.index_dim = sparse.index_top_k = 4;
    us = stage_rates_times(&stages, &sparse, &work, false);
    assert_true(us.attention_0 == 9);
    assert_true(stage_rates_experts(&stages, &model, 16, 2, false) == 5);
}
