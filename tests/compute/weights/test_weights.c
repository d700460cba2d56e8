/* SPDX-License-Identifier: Apache-2.0
 * Protects loading: a value that is NaN or infinite is refused by file and tensor, packed matrices
 * give the checkpoint's numbers back, also those of FP8 that a device has in BF16, and every expert
 * is reached through the slot map.
 */
#include <math.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "../kernels/unpack_row.h"
#include "base/check.h"
#include "base/number.h"
#include "base/tree.h"
#include "compute/emulated/device_emulated.h"
#include "compute/weights/weights.h"

static char source[1024], copy[1024];
static struct error error;

static void shell(const char *format, const char *a, const char *b) {
    char command[4096];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

/* Where a tensor's bytes start in the copied file. */
static long find_tensor(const char *name) {
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(copy, CHECKPOINT_WHOLE, &checkpoint, &error), STATUS_OK);
    const struct tensor *tensor = checkpoint_tensor(checkpoint, name);
    assert_non_null(tensor);
    char path[2048];
    snprintf(path, sizeof path, "%s/model.safetensors", copy);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char bytes[8 << 20];
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *at = memmem(bytes, count, tensor->data, tensor->bytes < 256 ? tensor->bytes : 256);
    assert_non_null(at);
    checkpoint_close(checkpoint);
    return at - bytes;
}

static void damage(const char *name, long offset, const void *bytes, size_t count) {
    char path[2048];
    long at = find_tensor(name) + offset;
    snprintf(path, sizeof path, "%s/model.safetensors", copy);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static enum status load_as(const struct weights_options *options, struct weights *weights,
                           struct checkpoint **checkpoint, struct team *team) {
    const struct load_progress progress = {NULL, NULL};
    enum status status = checkpoint_open(copy, CHECKPOINT_WHOLE, checkpoint, &error);
    if (status != STATUS_OK) fail_msg("%s", error.text);
    return weights_load(weights, *checkpoint, options, team, &progress, &error);
}

static enum status load(struct weights *weights, struct checkpoint **checkpoint,
                        struct team *team) {
    static const struct weights_options options = {.mtp = false};
    return load_as(&options, weights, checkpoint, team);
}

static void expect_refused(const char *tensor) {
    struct weights weights;
    struct checkpoint *checkpoint;
    struct team *team;
    assert_int_equal(team_open(2, &team, &error), STATUS_OK);
    assert_int_equal(load(&weights, &checkpoint, team), STATUS_CORRUPT);
    if (!strstr(error.text, tensor) || !strstr(error.text, "model.safetensors"))
        fail_msg("expected %s and its file in: %s", tensor, error.text);
    checkpoint_close(checkpoint);
    team_close(team);
}

TEST(values_that_are_not_finite_are_refused) {
    static const struct {
        const char *tensor;
        long offset;
        uint8_t bytes[4];
        size_t count;
    } cases[] = {
        {"model.layers.1.mlp.experts.5.up_proj.weight", 1000, {0x7F}, 1},
        {"model.layers.0.self_attn.kv_b_proj.weight", 77, {0xFF}, 1},
        {"model.embed_tokens.weight", 200, {0xC0, 0x7F}, 2},
        {"lm_head.weight", 400, {0x80, 0xFF}, 2}, /* -inf */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        shell("cp '%s'/*.safetensors '%s'", source, copy);
        damage(cases[i].tensor, cases[i].offset, cases[i].bytes, cases[i].count);
        expect_refused(cases[i].tensor);
    }
    shell("cp '%s'/*.safetensors '%s'", source, copy);
}

/* row `row` of a matrix against the checkpoint's codes times scales */
static void expect_row(const struct checkpoint *checkpoint, const char *name,
                       const struct packed_matrix *matrix, uint32_t row) {
    static float found[4096], codes[4096];
    const struct tensor *tensor = checkpoint_tensor(checkpoint, name);
    const struct tensor *scale = checkpoint_scale(checkpoint, tensor);
    assert_non_null(tensor);
    uint32_t cols = (uint32_t)tensor->shape[1], group = weight_type_group(matrix->type);
    uint32_t rows = group ? 1 : QUANT_GROUP, columns = group ? group : QUANT_GROUP; /* of a scale */
    assert_int_equal(matrix->rows, tensor->shape[0]);
    assert_int_equal(matrix->cols, cols);
    unpack_row(matrix, row, found);
    tensor_to_float(tensor, (uint64_t)row * cols, cols, codes);
    for (uint32_t c = 0; c < cols; c++) {
        float factor = 1;
        if (scale) tensor_to_float(scale, row / rows * scale->shape[1] + c / columns, 1, &factor);
        assert_true(found[c] == codes[c] * factor);
    }
}

static void check_packed_numbers(const char *directory, enum weight_type expert_type) {
    static const struct weights_options options = {.mtp = false};
    const struct load_progress progress = {NULL, NULL};
    struct weights weights;
    struct checkpoint *checkpoint;
    struct team *team;
    char name[256];
    assert_int_equal(team_open(2, &team, &error), STATUS_OK);
    enum status status = checkpoint_open(directory, CHECKPOINT_WHOLE, &checkpoint, &error);
    if (!status) status = weights_load(&weights, checkpoint, &options, team, &progress, &error);
    if (status) fail_msg("%s", error.text);
    assert_int_equal(weights.expert.matrices.gate.type, expert_type);
    const struct shape *shape = checkpoint_shape(checkpoint);
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        const struct layer_weights *l = &weights.layers[layer];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.kv_b_proj.weight", layer);
        for (uint32_t row = 0; row < l->attention.kv_b.rows; row += 13)
            expect_row(checkpoint, name, &l->attention.kv_b, row);
        for (uint32_t expert = 0; l->is_moe && expert < shape->experts; expert++) {
            struct mlp_weights mlp = weights_expert(&weights, l->first_slot + expert);
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.down_proj.weight", layer,
                     expert);
            expect_row(checkpoint, name, &mlp.down, mlp.down.rows - 1);
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.gate_proj.weight", layer,
                     expert);
            expect_row(checkpoint, name, &mlp.gate, 0);
        }
    }
    assert_int_equal(weights.expert.slot_bytes % 4096, 0);
    weights_close(&weights);
    checkpoint_close(checkpoint);
    team_close(team);
}

TEST(packed_numbers_are_the_checkpoints) {
    check_packed_numbers(copy, WEIGHT_FP8);
}

TEST(codes_of_four_bits_are_the_checkpoints) {
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/k2thinking-int4-g32", golden_home());
    check_packed_numbers(directory, WEIGHT_INT4_32);
}

/* W_k of a head transposed, and W_v, are kv_b's rows. */
TEST(absorbed_halves_are_kv_b) {
    static float whole[4096], half[4096];
    struct weights weights;
    struct checkpoint *checkpoint;
    struct team *team;
    assert_int_equal(team_open(1, &team, &error), STATUS_OK);
    if (load(&weights, &checkpoint, team) != STATUS_OK) fail_msg("%s", error.text);
    const struct shape *shape = checkpoint_shape(checkpoint);
    const struct attention_weights *attention = &weights.layers[0].attention;
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    for (uint32_t head = 0; head < shape->heads; head++) {
        for (uint32_t j = 0; j < shape->nope_dim; j++) {
            unpack_row(&attention->kv_b, head * head_rows + j, whole);
            for (uint32_t c = 0; c < shape->kv_rank; c++) {
                unpack_row(&attention->absorb_k[head], c, half);
                assert_true(half[j] == whole[c]);
            }
        }
        for (uint32_t j = 0; j < shape->value_dim; j++) {
            unpack_row(&attention->kv_b, head * head_rows + shape->nope_dim + j, whole);
            unpack_row(&attention->absorb_v[head], j, half);
            assert_memory_equal(half, whole, shape->kv_rank * sizeof(float));
        }
    }
    weights_close(&weights);
    checkpoint_close(checkpoint);
    team_close(team);
}

/* A matrix of a device as it lies there; free it. */
static uint16_t *fetch(struct device *device, const struct packed_matrix *matrix) {
    struct device_stream *stream;
    size_t bytes = matrix->rows * matrix->pitch;
    void *pinned, *out = malloc(bytes);
    assert_int_equal(device_open_stream(device, &stream, &error), STATUS_OK);
    assert_int_equal(device_allocate_pinned(device, bytes, "a matrix", &pinned, &error), STATUS_OK);
    device_copy(device, stream, pinned, matrix->data, bytes, DEVICE_TO_HOST);
    assert_int_equal(device_synchronize_stream(device, stream, &error), STATUS_OK);
    memcpy(out, pinned, bytes);
    device_release(device, pinned);
    device_close_stream(device, stream);
    return out;
}

/* Rows with scales of two blocks, and a last block that is a part of one. */
TEST(a_device_has_kv_b_of_fp8_in_bf16_too) {
    struct device_emulation emulation = {.memory_bytes = 64 << 20};
    struct weights weights;
    struct checkpoint *checkpoint;
    struct team *team;
    struct device *device;
    assert_int_equal(team_open(2, &team, &error), STATUS_OK);
    assert_int_equal(device_emulated_open(&emulation, &device, &error), STATUS_OK);
    struct weights_options options = {.device = device, .kv_b_bf16 = true};
    if (load_as(&options, &weights, &checkpoint, team) != STATUS_OK) fail_msg("%s", error.text);
    for (uint32_t layer = 0; layer < checkpoint_shape(checkpoint)->layers; layer++) {
        const struct attention_weights *attention = &weights.layers[layer].attention;
        const struct packed_matrix *matrix = &attention->kv_b_bf16;
        char name[256];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.kv_b_proj.weight", layer);
        const struct tensor *tensor = checkpoint_tensor(checkpoint, name);
        const struct tensor *scale = checkpoint_scale(checkpoint, tensor);
        assert_int_equal(attention->kv_b.type, WEIGHT_FP8);
        assert_int_equal(matrix->type, WEIGHT_BF16);
        assert_int_equal(matrix->rows, tensor->shape[0]);
        uint16_t *found = fetch(device, matrix);
        for (uint32_t row = 0; row < matrix->rows; row++)
            for (uint32_t c = 0; c < matrix->cols; c++) {
                float code, factor;
                tensor_to_float(tensor, (uint64_t)row * matrix->cols + c, 1, &code);
                tensor_to_float(scale, row / QUANT_GROUP * scale->shape[1] + c / QUANT_GROUP, 1,
                                &factor);
                assert_int_equal(found[row * matrix->pitch / 2 + c],
                                 bf16_from_float(code * factor));
            }
        free(found);
    }
    weights_close(&weights);
    checkpoint_close(checkpoint);
    team_close(team);
    device_close(device);
}

static int make_copy(void **state) {
    snprintf(source, sizeof source, "%s/v3-fp8-odd-noq-g1-noyarn", getenv("FATHOM_TEST_GOLDENS"));
    snprintf(copy, sizeof copy, "%s/fathom-weights-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(copy)) return -1;
    shell("cp '%s'/*.json '%s'", source, copy);
    shell("cp '%s'/*.safetensors '%s'", source, copy);
    return 0;
}

static int remove_copy(void **state) {
    shell("rm -r '%s'%s", copy, "");
    return 0;
}

TEST_GROUP(make_copy, remove_copy)
