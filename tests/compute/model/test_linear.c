/* SPDX-License-Identifier: Apache-2.0
 * Protects linear layers: each mode rounds what it should, rows are prepared where they are read,
 * and many products in one loop of the team are the same products one by one.
 */
#include "compute/model/linear.h"

#include "test_case.h"

#include "base/number.h"
#include "base/random.h"

static const struct kernels *plain(void) {
    const struct kernels *kernels;
    assert_int_equal(kernels_select(KERNEL_LEVEL_C, &kernels, NULL), STATUS_OK);
    return kernels;
}

TEST(each_mode_takes_inputs_as_its_weights_want_them) {
    static const enum input_kind kinds[ACTIVATIONS_COUNT][2] = {/* of FP8 weights, of others */
                                                                {INPUT_F32, INPUT_F32},
                                                                {INPUT_BF16, INPUT_BF16},
                                                                {INPUT_FP8, INPUT_BF16},
                                                                {INPUT_FP8, INPUT_F32}};
    for (int mode = 0; mode < ACTIVATIONS_COUNT; mode++)
        for (int type = 0; type < WEIGHT_TYPE_COUNT; type++) {
            enum input_kind kind = kinds[mode][type != WEIGHT_FP8];
            assert_int_equal(
                linear_input_kind((enum activations)mode, (enum weight_type)type, false), kind);
            if (kind == INPUT_FP8) kind = INPUT_FP8_UE8M0;
            assert_int_equal(
                linear_input_kind((enum activations)mode, (enum weight_type)type, true), kind);
        }
}

enum { ROWS = 3, COLUMNS = 200, N = 150 };

static float values[ROWS][COLUMNS];

static void draw_values(void) {
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        values[i / COLUMNS][i % COLUMNS] = (float)random_uniform(1, 0, i) - 0.5f;
}

enum { BLOCK_STRIDE = (ROWS + 1) * QUANT_GROUP };

struct room {
    float x[ROWS * COLUMNS], scales[ROWS * 2];
    uint16_t blocks[2 * BLOCK_STRIDE];
};

/* Full of what nobody may take for a value. */
static struct input_buffer buffer_in(struct room *room) {
    memset(room, 0xFF, sizeof *room);
    return (struct input_buffer){room->x, room->blocks, room->scales, BLOCK_STRIDE, COLUMNS};
}

static void prepare_all(enum input_kind kind, const struct input_buffer *buffer) {
    for (uint32_t row = 0; row < ROWS; row++)
        linear_prepare(plain(), kind, values[row], COLUMNS, buffer, row);
}

static float value_of(const struct linear_input *input, uint32_t row, uint32_t channel) {
    if (!input->x_blocks) return input->x[row * input->x_stride + channel];
    return float_from_bf16(input->x_blocks[channel / QUANT_GROUP * input->x_block_stride +
                                           row * QUANT_GROUP + channel % QUANT_GROUP]);
}

TEST(prepared_rows_are_read_back_as_inputs) {
    struct room room;
    draw_values();
    for (int kind = INPUT_F32; kind <= INPUT_FP8_UE8M0; kind++) {
        struct input_buffer buffer = buffer_in(&room);
        prepare_all((enum input_kind)kind, &buffer);
        struct linear_input input = linear_prepared((enum input_kind)kind, &buffer, 1);
        assert_int_equal(input.x_blocks != NULL, kind != INPUT_F32);
        assert_int_equal(input.is_bf16, kind != INPUT_F32);
        assert_int_equal(input.scales != NULL, kind >= INPUT_FP8);
        for (uint32_t row = 1; row < ROWS; row++)
            for (uint32_t c = 0; c < COLUMNS; c++) {
                float scale = input.scales
                                  ? input.scales[(row - 1) * input.scale_stride + c / QUANT_GROUP]
                                  : 1;
                float found = value_of(&input, row - 1, c) * scale;
                float error =
                    found > values[row][c] ? found - values[row][c] : values[row][c] - found;
                assert_true(error <= (kind == INPUT_F32 ? 0 : kind == INPUT_BF16 ? 0.002f : 0.04f));
            }
    }
}

/* What a kernel reads behind the last channel is zero, too, however a row came there. */
static void expect_rows(enum input_kind kind, const struct input_buffer *found, uint32_t found_row,
                        const struct input_buffer *expected, uint32_t row) {
    struct linear_input a = linear_prepared(kind, found, found_row),
                        b = linear_prepared(kind, expected, row);
    uint32_t read = kind == INPUT_F32 ? COLUMNS : (uint32_t)round_up(COLUMNS, 16);
    for (uint32_t c = 0; c < read; c++)
        assert_true(value_of(&a, 0, c) == value_of(&b, 0, c) &&
                    (c < COLUMNS || value_of(&a, 0, c) == 0));
    if (a.scales) assert_memory_equal(a.scales, b.scales, 2 * sizeof(float));
}

TEST(copied_and_carried_rows_are_the_prepared_ones) {
    static const enum row_mla_mode forms[] = {[INPUT_F32] = ROW_F32,
                                              [INPUT_BF16] = ROW_BF16,
                                              [INPUT_FP8] = ROW_FP8,
                                              [INPUT_FP8_UE8M0] = ROW_FP8};
    struct room room, other;
    char bytes[COLUMNS * sizeof(float) + 16];
    draw_values();
    for (int kind = INPUT_F32; kind <= INPUT_FP8_UE8M0; kind++) {
        struct input_buffer from = buffer_in(&room), to = buffer_in(&other);
        prepare_all((enum input_kind)kind, &from);
        linear_copy((enum input_kind)kind, COLUMNS, &from, 2, &to, 0);
        expect_rows((enum input_kind)kind, &to, 0, &from, 2);
        linear_row_out(forms[kind], COLUMNS, &from, 1, bytes);
        linear_row_in(forms[kind], COLUMNS, bytes, &to, 2);
        expect_rows((enum input_kind)kind, &to, 2, &from, 1);
    }
}

/* Matrices of all sizes, and one job without rows among them. */
TEST(jobs_in_one_loop_are_the_products_one_by_one) {
    enum { JOBS = 9 };
    static float y[JOBS][ROWS][N + 2 * MATMUL_PANEL], alone[ROWS][N + 2 * MATMUL_PANEL];
    struct packed_matrix weights[JOBS];
    struct matmul jobs[JOBS];
    struct linear_input input = linear_plain(values[0], COLUMNS, false);
    struct team *team;
    struct error error;
    draw_values();
    assert_int_equal(team_open(3, &team, &error), STATUS_OK);
    for (uint32_t i = 0; i < JOBS; i++) {
        uint32_t n = 1 + i * (N - 1) / (JOBS - 1);
        size_t bytes = packed_data_bytes(WEIGHT_F32, n, COLUMNS);
        float *raw = malloc(n * COLUMNS * sizeof *raw);
        void *data = aligned_alloc(64, bytes);
        for (uint32_t k = 0; k < n * COLUMNS; k++)
            raw[k] = (float)random_uniform(2, i, k);
        matmul_pack(WEIGHT_F32, raw, n, COLUMNS, 0, n, data);
        free(raw);
        weights[i] =
            (struct packed_matrix){.type = WEIGHT_F32, .rows = n, .cols = COLUMNS, .data = data};
        jobs[i] = linear_job(&weights[i], &input, y[i][0], N + 2 * MATMUL_PANEL, i == 4 ? 0 : ROWS);
    }
    linear_run(plain(), team, jobs, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        struct matmul job = jobs[i];
        memset(alone, 0, sizeof alone);
        job.y = alone[0];
        if (job.m) plain()->matmul(&job, 0, packed_panels(weights[i].rows));
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_equal(y[i][row], alone[row], weights[i].rows * sizeof(float));
        free((void *)(uintptr_t)weights[i].data);
    }
    team_close(team);
}
