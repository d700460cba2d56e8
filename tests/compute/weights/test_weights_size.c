/* SPDX-License-Identifier: Apache-2.0
 * Protects the answer to how much memory weights will need: it is what loading them takes, for each
 * type of weights, with and without an MTP layer, from shards and from config.json alone.
 */
#include "base/check.h"
#include "base/format.h"
#include "compute/weights/named_shapes.h"
#include "compute/weights/weights.h"
#include "compute/weights/weights_size.h"
#include "gguf_of.h"
#include "sandbox.h"
#include "test_case.h"

static struct error error;

static void make(const char *folder, enum named_weights weights, bool mtp, enum tensor_type type) {
    char config[NAMED_SHAPES_CONFIG_BYTES];
    struct named_shape tiny = {.name = "tiny", .weights = weights, .mtp = mtp};
    size_t bytes = named_shapes_write_config(&tiny, config);
    sandbox_write(folder, (struct random_checkpoint){.config = {config, bytes}, .type = type});
}

static struct memory_weights size_of(const char *folder, enum checkpoint_parts parts, bool mtp) {
    struct checkpoint *checkpoint;
    if (checkpoint_open(folder, parts, &checkpoint, &error)) fail_msg("%s", error.text);
    struct memory_weights sizes = weights_size_of(checkpoint, mtp);
    checkpoint_close(checkpoint);
    return sizes;
}

static double all(const struct memory_weights *sizes) {
    return memory_need_rank(sizes, sizes->experts);
}

static void expect_loaded(const char *folder, bool mtp) {
    struct weights weights;
    struct checkpoint *checkpoint;
    struct team *team;
    const struct load_progress silent = {NULL, NULL};
    const struct weights_options options = {.mtp = mtp};
    struct memory_weights sizes = size_of(folder, CHECKPOINT_SHAPE_ONLY, mtp);
    if (checkpoint_open(folder, CHECKPOINT_WHOLE, &checkpoint, &error) ||
        team_open(2, &team, &error) ||
        weights_load(&weights, checkpoint, &options, team, &silent, &error))
        fail_msg("%s", error.text);
    double excess = all(&sizes) - (double)weights.bytes;
    assert_true(excess >= 0 && excess < WEIGHTS_ALIGN);
    assert_true(sizes.expert == (double)weights.expert.slot_bytes);
    assert_int_equal(sizes.moe_layers * sizes.experts, weights.slot_count);
    weights_close(&weights);
    team_close(team);
    checkpoint_close(checkpoint);
}

TEST_AROUND(the_size_is_that_of_the_loaded_weights, sandbox_make, sandbox_remove) {
    static const struct {
        enum named_weights weights;
        bool mtp;
        enum tensor_type type;
    } cases[] = {{NAMED_WEIGHTS_FP8, false, TENSOR_BF16},
                 {NAMED_WEIGHTS_FP8, true, TENSOR_BF16},
                 {NAMED_WEIGHTS_BF16, true, TENSOR_BF16},
                 {NAMED_WEIGHTS_INT4_32, true, TENSOR_BF16},
                 {NAMED_WEIGHTS_MXFP4, false, TENSOR_BF16},
                 {NAMED_WEIGHTS_BF16, false, TENSOR_F16}, /* twice as large in memory */
                 {NAMED_WEIGHTS_BF16, false, TENSOR_F32}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        make(*cmocka_state, cases[i].weights, cases[i].mtp, cases[i].type);
        expect_loaded(*cmocka_state, false);
        if (cases[i].mtp) expect_loaded(*cmocka_state, true);
    }
}

TEST_AROUND(the_size_of_a_gguf_file, sandbox_make, sandbox_remove) {
    static const struct gguf_of plans[] = {{.type = "Q8_0"},
                                           {.type = "Q4_0", .down_type = "MXFP4"},
                                           {.type = "Q5_1", .whole_kv_b = true},
                                           {.type = "Q8_0", .whole_kv_b = true},
                                           {.type = NULL}};
    char path[1024];
    format_text(path, sizeof path, "%s/m.gguf", (char *)*cmocka_state);
    make(*cmocka_state, NAMED_WEIGHTS_BF16, false, TENSOR_BF16);
    for (size_t i = 0; i < ARRAY_COUNT(plans); i++) {
        struct gguf_of plan = plans[i];
        plan.directory = *cmocka_state;
        plan.path = path;
        gguf_of_write(&plan);
        expect_loaded(path, false);
    }
}

TEST_AROUND(config_json_alone_gives_the_same, sandbox_make, sandbox_remove) {
    const char *folder = *cmocka_state;
    make(folder, NAMED_WEIGHTS_FP8, true, TENSOR_BF16);
    struct memory_weights whole = size_of(folder, CHECKPOINT_WHOLE, true);
    sandbox_delete(folder, "model.safetensors");
    struct memory_weights alone = size_of(folder, CHECKPOINT_SHAPE_ONLY, true);
    assert_true(all(&whole) == all(&alone) && whole.expert == alone.expert);
    struct memory_weights without = size_of(folder, CHECKPOINT_SHAPE_ONLY, false);
    assert_int_equal(without.moe_layers + 1, alone.moe_layers);
}
