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
    /* of FP8 weights, in four bits, of others */
    static const enum input_kind kinds[ACTIVATIONS_COUNT][3] = {
        {INPUT_F32, INPUT_F32, INPUT_F32},   {INPUT_BF16, INPUT_BF16, INPUT_BF16},
        {INPUT_FP8, INPUT_BF16, INPUT_BF16}, {INPUT_FP8, INPUT_F32, INPUT_F32},
        {INPUT_BF16, INPUT_INT8, INPUT_BF16}};
    for (int mode = 0; mode < ACTIVATIONS_COUNT; mode++)
        for (int type = 0; type < WEIGHT_TYPE_COUNT; type++) {
            const bool in_four_bits = weight_type_group((enum weight_type)type) != 0;
            enum input_kind kind = kinds[mode][type == WEIGHT_FP8 ? 0 : in_four_bits ? 1 : 2];
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
    float x[ROWS * COLUMNS], scales[ROWS * 7];
    uint16_t blocks[2 * BLOCK_STRIDE];
};

/* Full of what nobody may take for a value. */
static struct input_buffer buffer_in(struct room *room, enum input_kind kind) {
    memset(room, 0xFF, sizeof *room);
    return (struct input_buffer){.x = room->x,
                                 .blocks = room->blocks,
                                 .scales = room->scales,
                                 .scale_group = kind == INPUT_INT8 ? INT8_GROUP : QUANT_GROUP,
                                 .block_stride = BLOCK_STRIDE,
                                 .columns = COLUMNS};
}

/* INT8 values come in whole groups. */
static uint32_t columns_of(enum input_kind kind) {
    return kind == INPUT_INT8 ? COLUMNS / INT8_GROUP * INT8_GROUP : COLUMNS;
}

static void prepare_all(enum input_kind kind, const struct input_buffer *buffer) {
    for (uint32_t row = 0; row < ROWS; row++)
        linear_prepare(plain(), kind, values[row], columns_of(kind), buffer, row);
}

static float value_of(const struct linear_input *input, uint32_t row, uint32_t channel) {
    struct matmul job = {.x_int8 = input->x_int8, .x_block_stride = input->x_block_stride};
    if (input->x_int8)
        return matmul_int8_row(&job, channel / QUANT_GROUP, row)[channel % QUANT_GROUP];
    if (!input->x_blocks) return input->x[row * input->x_stride + channel];
    return float_from_bf16(input->x_blocks[channel / QUANT_GROUP * input->x_block_stride +
                                           row * QUANT_GROUP + channel % QUANT_GROUP]);
}

TEST(prepared_rows_are_read_back_as_inputs) {
    struct room room;
    draw_values();
    for (int kind = INPUT_F32; kind <= INPUT_INT8; kind++) {
        struct input_buffer buffer = buffer_in(&room, (enum input_kind)kind);
        const uint32_t group = buffer.scale_group;
        prepare_all((enum input_kind)kind, &buffer);
        struct linear_input input = linear_prepared((enum input_kind)kind, &buffer, 1);
        assert_int_equal(input.x != NULL, kind == INPUT_F32);
        assert_int_equal(input.x_int8 != NULL, kind == INPUT_INT8);
        assert_int_equal(input.is_bf16, kind != INPUT_F32);
        assert_int_equal(input.scales != NULL, kind >= INPUT_FP8);
        for (uint32_t row = 1; row < ROWS; row++)
            for (uint32_t c = 0; c < columns_of((enum input_kind)kind); c++) {
                float scale =
                    input.scales ? input.scales[(row - 1) * input.scale_stride + c / group] : 1;
                float found = value_of(&input, row - 1, c) * scale;
                float error =
                    found > values[row][c] ? found - values[row][c] : values[row][c] - found;
                static const float most[] = {[INPUT_F32] = 0,
                                             [INPUT_BF16] = 0.002f,
                                             [INPUT_FP8] = 0.04f,
                                             [INPUT_FP8_UE8M0] = 0.04f,
                                             [INPUT_INT8] = 0.5f / 254};
                assert_true(error <= most[kind]);
            }
    }
}

/* What a kernel reads behind the last channel is zero, too, however a row came there. */
static void expect_rows(enum input_kind kind, const struct input_buffer *found, uint32_t found_row,
                        const struct input_buffer *expected, uint32_t row) {
    struct linear_input a = linear_prepared(kind, found, found_row),
                        b = linear_prepared(kind, expected, row);
    uint32_t read = columns_of(kind);
    if (kind != INPUT_F32) read = (uint32_t)round_up(read, 16);
    for (uint32_t c = 0; c < read; c++)
        assert_true(value_of(&a, 0, c) == value_of(&b, 0, c) &&
                    (c < COLUMNS || value_of(&a, 0, c) == 0));
    if (a.scales)
        assert_memory_equal(a.scales, b.scales,
                            divide_up(columns_of(kind), found->scale_group) * sizeof(float));
}

TEST(copied_and_carried_rows_are_the_prepared_ones) {
    struct room room, other;
    char bytes[COLUMNS * sizeof(float) + 16];
    draw_values();
    for (int kind = INPUT_F32; kind <= INPUT_INT8; kind++) {
        const enum input_kind as = (enum input_kind)kind;
        const uint32_t columns = columns_of(as);
        struct input_buffer from = buffer_in(&room, as), to = buffer_in(&other, as);
        prepare_all(as, &from);
        linear_copy(as, columns, &from, 2, &to, 0);
        expect_rows(as, &to, 0, &from, 2);
        linear_row_out(linear_row_mode(as), columns, &from, 1, bytes);
        linear_row_in(linear_row_mode(as), columns, bytes, &to, 2);
        expect_rows(as, &to, 2, &from, 1);
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
