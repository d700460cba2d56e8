/* SPDX-License-Identifier: Apache-2.0
 * Protects the writer of random checkpoints: what it writes opens as a whole checkpoint in every
 * type and cut, the same seed gives the same weights, and weights in FP8 or four bits are the BF16
 * ones, rounded further. A file that has a name already stays as it is, and its name leads to the
 * new one.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "test_case.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/weights/checkpoint.h"
#include "config_text.h"
#include "sandbox.h"

#define TEST_IN_SANDBOX(name) TEST_AROUND(name, sandbox_make, sandbox_remove)

#define FP8                                                                                        \
    { "quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}" }
#define ODD                                                                                        \
    {"hidden_size", "200"}, {"intermediate_size", "131"}, {                                        \
        "moe_intermediate_size", "65"                                                              \
    }

static struct checkpoint *opened(const char *directory) {
    struct checkpoint *checkpoint;
    struct error error = {""};
    if (checkpoint_open(directory, CHECKPOINT_WHOLE, &checkpoint, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return checkpoint;
}

TEST_IN_SANDBOX(every_type_and_cut_opens) {
    static const enum tensor_type types[] = {TENSOR_BF16, TENSOR_F16, TENSOR_F32};
    for (uint32_t shards = 1; shards <= 5; shards += 2)
        for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
            sandbox_write(
                *cmocka_state,
                (struct random_checkpoint){.config = CONFIG(ODD, {"num_nextn_predict_layers", "1"}),
                                           .shards = shards,
                                           .type = types[i]});
            struct checkpoint *checkpoint = opened(*cmocka_state);
            assert_true(checkpoint_has_mtp(checkpoint));
            const struct tensor *tensor = checkpoint_tensor(checkpoint, "lm_head.weight");
            assert_int_equal(tensor->type, types[i]);
            const struct tensor *copy =
                checkpoint_tensor(checkpoint, "model.layers.2.shared_head.head.weight");
            assert_memory_equal(tensor->data, copy->data, tensor->bytes);
            checkpoint_close(checkpoint);
        }
}

/* Cut so that somewhere a weight and its scale lie in different files. */
TEST_IN_SANDBOX(a_scale_may_lie_in_another_shard) {
    bool apart = false;
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG(ODD, FP8), .shards = 40});
    struct checkpoint *checkpoint = opened(*cmocka_state);
    for (uint32_t i = 0; i < checkpoint_tensor_count(checkpoint); i++) {
        const struct tensor *tensor = checkpoint_tensor_at(checkpoint, i);
        if (tensor->type != TENSOR_E4M3) continue;
        const struct tensor *scale = checkpoint_scale(checkpoint, tensor);
        assert_non_null(scale);
        apart |= strcmp(scale->file, tensor->file) != 0;
    }
    assert_true(apart);
    checkpoint_close(checkpoint);
}

TEST_IN_SANDBOX(seed_decides_all_bytes) {
    struct bytes first, again, other;
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG(ODD, FP8), .seed = 7});
    first = sandbox_read(*cmocka_state, "model.safetensors");
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG(ODD, FP8), .seed = 7});
    again = sandbox_read(*cmocka_state, "model.safetensors");
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG(ODD, FP8), .seed = 8});
    other = sandbox_read(*cmocka_state, "model.safetensors");
    assert_true(bytes_equal(first, again));
    assert_int_equal(first.count, other.count);
    assert_false(bytes_equal(first, other));
    free((void *)(uintptr_t)first.data);
    free((void *)(uintptr_t)again.data);
    free((void *)(uintptr_t)other.data);
}

#define WEIGHT "model.layers.0.mlp.gate_proj.weight"
#define ROWS 131
#define COLUMNS 200

TEST_IN_SANDBOX(fp8_is_the_same_weights_rounded) {
    static float codes[ROWS * COLUMNS], plain[ROWS * COLUMNS], scales[4];
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG(ODD, FP8), .seed = 3});
    struct checkpoint *checkpoint = opened(*cmocka_state);
    const struct tensor *weight = checkpoint_tensor(checkpoint, WEIGHT);
    assert_int_equal(weight->type, TENSOR_E4M3);
    tensor_to_float(weight, 0, ROWS * COLUMNS, codes);
    tensor_to_float(checkpoint_scale(checkpoint, weight), 0, 4, scales);
    checkpoint_close(checkpoint);
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG(ODD), .seed = 3, .type = TENSOR_F32});
    checkpoint = opened(*cmocka_state);
    tensor_to_float(checkpoint_tensor(checkpoint, WEIGHT), 0, ROWS * COLUMNS, plain);
    checkpoint_close(checkpoint);
    double sum = 0, squares = 0;
    float largest[4] = {0};
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        const uint32_t block = i / COLUMNS / 128 * 2 + i % COLUMNS / 128;
        const float error = fabsf(codes[i] * scales[block] - plain[i]);
        /* Half a step: 2^-4 of the value, or half of the subnormal grid of 2^-9. */
        assert_true(error <= fabsf(plain[i]) * 0.0626f + scales[block] * 0x1p-10f);
        largest[block] = fmaxf(largest[block], fabsf(codes[i]));
        sum += (double)plain[i];
        squares += (double)plain[i] * (double)plain[i];
    }
    for (int block = 0; block < 4; block++)
        assert_true(largest[block] == 448.0f);
    /* Mean 0, deviation 1.2 / sqrt(inputs) times the row factors' (e^0.35n: 1.13). */
    const double deviation = sqrt(squares / (ROWS * COLUMNS)) * sqrt((double)COLUMNS);
    assert_true(fabs(sum / (ROWS * COLUMNS)) < 0.005);
    assert_true(deviation > 1.2 && deviation < 1.55);
}

TEST_IN_SANDBOX(mtp_can_be_left_out) {
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG({"num_nextn_predict_layers", "1"}),
                                             .without_mtp = true});
    struct checkpoint *checkpoint = opened(*cmocka_state);
    assert_int_equal(checkpoint_shape(checkpoint)->mtp_layers, 1);
    assert_false(checkpoint_has_mtp(checkpoint));
    checkpoint_close(checkpoint);
}

/* A rest of the other form would shadow what was written last. */
TEST_IN_SANDBOX(the_last_write_counts) {
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG_BASE, .shards = 2});
    sandbox_write(*cmocka_state,
                  (struct random_checkpoint){.config = CONFIG({"vocab_size", "48"})});
    checkpoint_close(opened(*cmocka_state));
    sandbox_write(*cmocka_state, (struct random_checkpoint){.config = CONFIG_BASE, .shards = 2});
    checkpoint_close(opened(*cmocka_state));
}

#define EXPERT "model.layers.1.mlp.experts.3.up_proj.weight"
#define PACKED_SIZES                                                                               \
    {"hidden_size", "256"}, {                                                                      \
        "moe_intermediate_size", "128"                                                             \
    }
#define PACKED(format, type, group)                                                                \
    {                                                                                              \
        "quantization_config",                                                                     \
            "{\"quant_method\": \"compressed-tensors\", \"format\": \"" format "\","               \
            "\"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 4, \"type\": \"" type   \
            "\", \"symmetric\": true, \"strategy\": \"group\", \"group_size\": " group "}}}}"      \
    }

/* A code is the nearest to the weight: half a step, of a group's largest magnitude / 7 or of the
 * steps of E2M1 (at most 2 of 6, while 6 / 8 of the largest may be missing). */
static void codes_are_near(const char *folder, struct bytes config, enum tensor_type type,
                           float share) {
    static float codes[128 * 256], plain[128 * 256], scales[128 * 8];
    const uint32_t group = type == TENSOR_INT4_128 ? 128 : 32;
    sandbox_write(folder, (struct random_checkpoint){.config = config, .seed = 3, .shards = 3});
    struct checkpoint *checkpoint = opened(folder);
    const struct tensor *weight = checkpoint_tensor(checkpoint, EXPERT);
    assert_int_equal(weight->type, type);
    assert_int_equal(checkpoint_tensor(checkpoint, WEIGHT)->type, TENSOR_BF16);
    tensor_to_float(weight, 0, 128 * 256, codes);
    tensor_to_float(checkpoint_scale(checkpoint, weight), 0, 128 * 256 / group, scales);
    checkpoint_close(checkpoint);
    sandbox_write(folder, (struct random_checkpoint){
                              .config = CONFIG(PACKED_SIZES), .seed = 3, .type = TENSOR_F32});
    checkpoint = opened(folder);
    tensor_to_float(checkpoint_tensor(checkpoint, EXPERT), 0, 128 * 256, plain);
    checkpoint_close(checkpoint);
    for (uint32_t at = 0; at < 128 * 256; at += group) {
        float largest = 0;
        for (uint32_t i = at; i < at + group; i++)
            largest = fmaxf(largest, fabsf(plain[i]));
        for (uint32_t i = at; i < at + group; i++)
            assert_true(fabsf(codes[i] * scales[at / group] - plain[i]) <= share * largest);
    }
}

TEST_IN_SANDBOX(codes_of_four_bits_are_the_same_weights_rounded) {
    codes_are_near(*cmocka_state, CONFIG(PACKED_SIZES, PACKED("pack-quantized", "int", "32")),
                   TENSOR_INT4_32, 0.075f);
    codes_are_near(*cmocka_state, CONFIG(PACKED_SIZES, PACKED("pack-quantized", "int", "128")),
                   TENSOR_INT4_128, 0.075f);
    codes_are_near(*cmocka_state,
                   CONFIG(PACKED_SIZES, PACKED("mxfp4-pack-quantized", "float", "32")),
                   TENSOR_MXFP4, 0.26f);
}

TEST_IN_SANDBOX(refuses_what_it_cannot_write) {
    struct error error;
    struct random_checkpoint plan = {.directory = "/dev/null/x", .config = CONFIG_BASE};
    assert_int_equal(random_checkpoint_write(&plan, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "/dev/null/x"));
    plan.directory = *cmocka_state;
    plan.config = CONFIG({"hidden_act", "\"gelu\""});
    assert_int_equal(random_checkpoint_write(&plan, &error), STATUS_UNSUPPORTED);
}

/* A folder of a cache of models has links to files that other folders lead to, too. */
TEST_IN_SANDBOX(nothing_is_written_through_a_link) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    static char victim[512], path[512];
    const char *directory = *cmocka_state;
    struct stat info;
    snprintf(victim, sizeof victim, "%s/victim", directory);
    for (int is_hard = 0; is_hard < 2; is_hard++) {
        FILE *file = fopen(victim, "w");
        assert_non_null(file);
        fputs("precious", file);
        fclose(file);
        for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
            snprintf(path, sizeof path, "%s/%s", directory, names[i]);
            unlink(path);
            assert_int_equal(is_hard ? link(victim, path) : symlink(victim, path), 0);
        }
        sandbox_write(directory, (struct random_checkpoint){.config = CONFIG_BASE});
        struct bytes found = sandbox_read(directory, "victim");
        assert_string_equal(found.data, "precious");
        free((void *)(uintptr_t)found.data);
        assert_int_equal(lstat(path, &info), 0);
        assert_true(S_ISREG(info.st_mode) && info.st_nlink == 1);
        checkpoint_close(opened(directory));
    }
}
