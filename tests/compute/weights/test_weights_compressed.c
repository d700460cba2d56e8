/* SPDX-License-Identifier: Apache-2.0
 * Protects the loading of V4's layers: the groups of the output projection have the checkpoint's
 * rows, FP8 times scales without loss, experts' ids of a token are its table's, and each layer has
 * the compressors that its ratio calls for.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "../kernels/unpack_row.h"
#include "base/check.h"
#include "compute/weights/weights.h"

static struct checkpoint *checkpoint;
static struct weights weights;
static struct team *team;

static void open_weights(const char *name) {
    static const struct weights_options options = {.mtp = false};
    const struct load_progress progress = {NULL, NULL};
    struct error error = {""};
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/%s", golden_home(), name);
    if (checkpoint_open(directory, CHECKPOINT_WHOLE, &checkpoint, &error))
        fail_msg("%s", error.text);
    assert_int_equal(team_open(1, &team, &error), STATUS_OK);
    if (weights_load(&weights, checkpoint, &options, team, &progress, &error))
        fail_msg("%s", error.text);
}

static void close_weights(void) {
    weights_close(&weights);
    team_close(team);
    checkpoint_close(checkpoint);
}

static void expect_groups(uint32_t layer) {
    const struct shape *shape = checkpoint_shape(checkpoint);
    const struct tensor *tensor = checkpoint_find(checkpoint, NAME_O_A, layer, LAYOUT_NONE);
    const struct tensor *scale = checkpoint_scale(checkpoint, tensor);
    const uint32_t cols = (uint32_t)tensor->shape[1];
    float *row = malloc(cols * sizeof *row), *expected = malloc(cols * sizeof *expected);
    for (uint32_t i = 0; i < tensor->shape[0]; i++) {
        tensor_to_float(tensor, (uint64_t)i * cols, cols, expected);
        for (uint32_t c = 0; scale && c < cols; c++) {
            float s;
            tensor_to_float(scale, i / QUANT_GROUP * scale->shape[1] + c / QUANT_GROUP, 1, &s);
            expected[c] *= s;
        }
        unpack_row(&weights.layers[layer].attention.output_groups[i / shape->output_rank],
                   i % shape->output_rank, row);
        assert_memory_equal(row, expected, cols * sizeof *row);
    }
    free(row);
    free(expected);
}

static void expect_layers(const char *name) {
    open_weights(name);
    const struct shape *shape = checkpoint_shape(checkpoint);
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        const struct layer_weights *of = &weights.layers[layer];
        const uint32_t ratio = shape->layer_kinds[layer].ratio;
        expect_groups(layer);
        assert_int_equal(of->attention.pool.norm != NULL, ratio != 0);
        assert_int_equal(of->attention.index_pool.norm != NULL, ratio == 4);
        assert_int_equal(of->router_hash != NULL, layer < 3);
        assert_int_equal(of->router_bias != NULL, layer >= 3);
        assert_int_equal(of->attention.output_groups[0].input_group, 0);
        assert_int_equal(of->attention.q_b.input_group, shape->fp8 ? 128 : 0);
        if (!of->router_hash) continue;
        for (uint64_t i = 0; i < (uint64_t)shape->vocab * shape->experts_per_token; i++) {
            float id;
            tensor_to_float(checkpoint_find(checkpoint, NAME_ROUTER_HASH, layer, LAYOUT_NONE), i, 1,
                            &id);
            assert_true(of->router_hash[i] == id);
        }
    }
    close_weights();
}

TEST(layers_have_the_checkpoints_numbers) {
    expect_layers("v4-bf16-flash");
    expect_layers("v4-fp8fp4-pro");
}
