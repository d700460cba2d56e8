/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AMX (matmul.h says what is computed and what a panel is). A square of sums
 * takes 16 rows and 16 outputs; one instruction multiplies 32 channels into it in 16 cycles,
 * whether it has 16 rows or one.
 *
 * Used when x is representable in BF16 (values of E4M3 codes are) and the weights are FP8 or BF16.
 * INT8 rows go to matmul_int8.c, other products of codes of four bits to matmul_avx512bf16.c, and
 * anything else to matmul_avx512.c. This file has the parts that all products share, and the
 * products of rows with scales: their sums leave the squares after each block. Other rows are
 * multiplied in matmul_amx_whole.c.
 *
 * A block's weights become pairs of BF16 channels before they are multiplied, and while the block
 * before them is. Few rows, up to two groups of 32, take block after block of each panel, as they
 * lie in memory. Many rows take a portion, a few blocks of one panel, a group at a time, and the
 * last group makes room for the same channels of the next panel: so codes are converted once for
 * all rows, and x stays in the second-level cache.
 *
 * Rows are multiplied 16 at a time where a job has so many: the last 16 may have been multiplied
 * before, and then only those that are new are added to y.
 *
 * Order of the sums: TDPBF16PS sums the even and the odd channels of 32 each, adds the two and adds
 * that to the sum so far; a block's sum starts from 0. That is why this level is a numerics class.
 *
 * KERNEL_EMULATE_BF16 builds the same code without AMX, for tests on CPUs that lack it.
 */
#include "compute/kernels/amx_chunk.h"

#include "base/check.h"

#define FEW_GROUPS 2
#define PORTION_BLOCKS 8
#define PACKED_BLOCKS 512 /* of x: rows times blocks */

#ifdef KERNEL_EMULATE_BF16
#define matmul_avx512bf16_run matmul_avx512bf16_emulated_run
#define matmul_int8_run_tiles matmul_int8_run_512
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_amx_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
#endif

/* A block's squares of sums, in memory, and what they are multiplied by before they join y. */
struct square_sums {
    _Alignas(64) float part[2][AMX_ROWS][MATMUL_PANEL];
    float s[GROUP_ROWS];
};

/* Rows that are multiplied at once. */
struct amx_rows {
    uint32_t first, rows; /* in the chunk */
    uint32_t squares;
    struct amx_square square[2];
    _Alignas(64) float y[GROUP_ROWS][MATMUL_PANEL];
};

struct amx_run {
    const struct amx_chunk *chunk;
    struct amx_rows *pending;   /* the last block's sums have not joined their y; NULL: they have */
    struct square_sums sums[2]; /* of the last two blocks */
    uint32_t turn;              /* the group with the next sums */
    _Alignas(64) block_pairs w[PORTION_BLOCKS];
};

/* ---- Squares ---- */

/* y += part * s of a square's new rows, of those in a step's quarter of it. */
ALWAYS_INLINE void add_quarter(struct amx_rows *group, const struct amx_square *square,
                               float (*part)[MATMUL_PANEL], const float *s, uint32_t step) {
    uint32_t first = step * (AMX_ROWS / STEPS), end = first + AMX_ROWS / STEPS;
    if (end > square->rows) end = square->rows;
    for (uint32_t r = first > square->skip ? first : square->skip; r < end; r++) {
        int32_t at = square->first + (int32_t)r;
        float *y = group->y[at];
        /* The analyzer takes rows without any block for possible. NOLINTNEXTLINE(clang-analyzer-*)
         * */
        __m512 scale = _mm512_set1_ps(s[at]);
        for (int v = 0; v < 32; v += 16)
            _mm512_store_ps(
                y + v, _mm512_fmadd_ps(_mm512_load_ps(part[r] + v), scale, _mm512_load_ps(y + v)));
    }
}

/* `most`: a constant spares a loop. */
ALWAYS_INLINE void add_sums(uint32_t most, struct amx_rows *group, struct square_sums *sums,
                            uint32_t step) {
    for (uint32_t i = 0; i < most && i < group->squares; i++)
        add_quarter(group, &group->square[i], sums->part[i], sums->s, step);
}

/* A block to be multiplied. Meanwhile the sums of the one before join their y, the weights `next`
 * become pairs at `to`, if there are any, and what lies at `further` is brought near. */
struct block_job {
    uint32_t channels;
    const char *w;
    const uint16_t *x; /* of the group's first row */
    const char *next, *further;
    char *to; /* may be w: a step's pairs are used before they are replaced */
    struct square_sums *sums, *before;
    struct amx_rows *pending; /* of `before`, or NULL */
};

ALWAYS_INLINE void multiply(int squares, bool converts, enum weight_type type,
                            const struct block_job *block, const struct amx_rows *group) {
    struct weight_values values;
    if (converts) values = load_values(type, 1);
    const uint16_t *x[2];
    for (int i = 0; i < 2; i++)
        x[i] = block->x + group->square[i < squares ? i : 0].first * QUANT_GROUP;
    const char *w = block->w;
    amx_zero(0);
    amx_zero(1);
    if (squares == 2) {
        amx_zero(2);
        amx_zero(3);
    }
    const uint32_t whole = block->channels / AMX_CHANNELS, rest = block->channels % AMX_CHANNELS;
    for (uint32_t step = 0; step < whole; step++, w += STEP_BYTES) {
        amx_multiply_step(squares, 2, w, 2 * 64, x, X_STRIDE);
        x[0] += AMX_CHANNELS;
        x[1] += AMX_CHANNELS;
        if (block->pending)
            add_sums(squares == 2 ? 2 : block->pending->squares, block->pending, block->before,
                     step);
        if (converts) convert_step(type, &values, block->next, block->further, block->to, step);
    }
    if (rest) amx_multiply_rest(squares, 2, w, 2 * 64, x, X_STRIDE, group->square[0].rows, rest);
    for (uint32_t step = whole; block->pending && step < STEPS; step++)
        add_sums(2, block->pending, block->before, step);
    float(*part)[AMX_ROWS][MATMUL_PANEL] = block->sums->part;
    amx_store(0, part[0][0], sizeof part[0][0]);
    amx_store(1, part[0][0] + AMX_COLUMNS, sizeof part[0][0]);
    if (squares == 1) return;
    amx_store(2, part[1][0], sizeof part[1][0]);
    amx_store(3, part[1][0] + AMX_COLUMNS, sizeof part[1][0]);
}

ALWAYS_INLINE void multiply_squares(int squares, enum weight_type type,
                                    const struct block_job *block, const struct amx_rows *group) {
    if (!block->next)
        multiply(squares, false, type, block, group);
    else if (type == WEIGHT_FP8)
        multiply(squares, true, WEIGHT_FP8, block, group);
    else
        multiply(squares, true, WEIGHT_BF16, block, group);
}

/* ---- Rows ---- */

/* s of matmul.h for the rows of a group. */
static void group_scales(const struct amx_run *run, const struct amx_rows *group,
                         struct block_place at, float s[GROUP_ROWS]) {
    const struct matmul *job = run->chunk->job;
    const float *of_x =
        job->x_scales + (run->chunk->row_first + group->first) * job->x_scale_stride + at.block;
    float of_weights = amx_block_scale(run->chunk, at);
    for (uint32_t r = 0; r < group->rows; r++)
        s[r] = of_x[r * job->x_scale_stride] * of_weights;
}

/* The group's rows times the block at `at`, with its pairs at w; `next`, or NULL, becomes pairs at
 * `to`. */
static void multiply_block(struct amx_run *run, struct amx_rows *group, struct block_place at,
                           const char *w, const struct block_place *next, char *to) {
    const struct amx_chunk *chunk = run->chunk;
    enum weight_type type = chunk->job->weights->type;
    struct block_job block = {
        .channels = amx_block_channels(chunk, at.block),
        .w = w,
        .x = chunk->x + at.block * chunk->x_block_stride + (size_t)group->first * QUANT_GROUP,
        .to = to,
        .sums = &run->sums[run->turn],
        .before = &run->sums[run->turn ^ 1],
        .pending = run->pending,
    };
    bool meanwhile = next && block.channels == QUANT_GROUP &&
                     amx_block_channels(chunk, next->block) == QUANT_GROUP;
    if (meanwhile) {
        block.next = amx_block_weights(chunk, *next);
        block.further = block.next + AHEAD_BLOCKS * QUANT_GROUP * packed_channel_bytes(type);
    }
    if (group->squares == 2)
        multiply_squares(2, type, &block, group);
    else
        multiply_squares(1, type, &block, group);
    group_scales(run, group, at, block.sums->s);
    run->pending = group;
    run->turn ^= 1;
    if (next && !meanwhile) convert(run->chunk, *next, 1, to);
}

static float *group_y(const struct amx_run *run, const struct amx_rows *group, uint32_t panel,
                      uint32_t row) {
    return amx_y(run->chunk, group->first + row, panel);
}

static void begin_y(const struct amx_run *run, struct amx_rows *group, struct block_place at) {
    if (at.block == 0)
        memset(group->y, 0, group->rows * sizeof group->y[0]);
    else
        for (uint32_t r = 0; r < group->rows; r++)
            memcpy(group->y[r], group_y(run, group, at.panel, r), sizeof group->y[r]);
}

/* The last block's sums join their y. */
static void end_sums(struct amx_run *run) {
    for (uint32_t step = 0; step < STEPS; step++)
        add_sums(2, run->pending, &run->sums[run->turn ^ 1], step);
    run->pending = NULL;
}

static void end_y(const struct amx_run *run, const struct amx_rows *group, uint32_t panel) {
    for (uint32_t r = 0; r < group->rows; r++)
        memcpy(group_y(run, group, panel, r), group->y[r], sizeof group->y[r]);
}

/* The chunk's rows are parts of at most 16: two of them, from `part` on, become a group. Returns
 * the part behind them, or 0. */
static uint32_t take_parts(const struct amx_run *run, uint32_t part, struct amx_rows *group) {
    const uint32_t rows = run->chunk->rows;
    const uint32_t parts = (uint32_t)divide_up(rows, AMX_ROWS); /* of even size */
    uint32_t end = part + 2 < parts ? part + 2 : parts, first = rows * part / parts;
    group->first = first;
    group->rows = rows * end / parts - first;
    group->squares = amx_cut(group->rows, rows, group->square);
    return end < parts ? end : 0;
}

/* ---- Few rows ---- */

static void run_few_rows(struct amx_run *run, uint32_t panel_first, uint32_t panel_count) {
    struct amx_rows groups[FEW_GROUPS];
    uint32_t room = 0, count = 0, part = 0, end = panel_first + panel_count;
    do
        part = take_parts(run, part, &groups[count++]);
    while (part);
    convert(run->chunk, (struct block_place){panel_first, 0}, 1, run->w[0]);
    for (uint32_t panel = panel_first; panel < end; panel++) {
        for (uint32_t i = 0; i < count; i++)
            begin_y(run, &groups[i], (struct block_place){panel, 0});
        for (uint32_t block = 0; block < run->chunk->blocks; block++, room ^= 1) {
            bool last = block + 1 == run->chunk->blocks;
            struct block_place next = {panel + last, last ? 0 : block + 1};
            for (uint32_t i = 0; i < count; i++) {
                bool converts = i + 1 == count && next.panel < end;
                multiply_block(run, &groups[i], (struct block_place){panel, block}, run->w[room],
                               converts ? &next : NULL, run->w[room ^ 1]);
            }
        }
        end_sums(run);
        for (uint32_t i = 0; i < count; i++)
            end_y(run, &groups[i], panel);
    }
}

/* ---- Many rows ---- */

/* A group's rows times a portion from `at` on. `next`: the portion that replaces it, or NULL. */
static void multiply_portion(struct amx_run *run, struct amx_rows *group, struct block_place at,
                             uint32_t blocks, const struct block_place *next,
                             uint32_t next_blocks) {
    begin_y(run, group, at);
    for (uint32_t b = 0; b < blocks; b++) {
        struct block_place now = {at.panel, at.block + b}, then;
        bool replaces = next && b < next_blocks;
        if (replaces) then = (struct block_place){next->panel, next->block + b};
        multiply_block(run, group, now, run->w[b], replaces ? &then : NULL, run->w[b]);
    }
    end_sums(run);
    end_y(run, group, at.panel);
    for (uint32_t b = blocks; next && b < next_blocks; b++)
        convert(run->chunk, (struct block_place){next->panel, next->block + b}, 1, run->w[b]);
}

static uint32_t portion_blocks(const struct amx_run *run, struct block_place at) {
    return run->chunk->blocks - at.block < PORTION_BLOCKS ? run->chunk->blocks - at.block
                                                          : PORTION_BLOCKS;
}

static void run_many_rows(struct amx_run *run, uint32_t panel_first, uint32_t panel_count) {
    struct block_place at = {panel_first, 0}, next;
    struct amx_rows group;
    for (uint32_t b = 0; b < portion_blocks(run, at); b++)
        convert(run->chunk, (struct block_place){panel_first, b}, 1, run->w[b]);
    for (; at.block < run->chunk->blocks; at = next) {
        next = (struct block_place){at.panel + 1, at.block};
        if (next.panel == panel_first + panel_count)
            next = (struct block_place){panel_first, at.block + PORTION_BLOCKS};
        bool more = next.block < run->chunk->blocks;
        uint32_t next_blocks = more ? portion_blocks(run, next) : 0;
        uint32_t part = 0;
        do {
            part = take_parts(run, part, &group);
            multiply_portion(run, &group, at, portion_blocks(run, at), more && !part ? &next : NULL,
                             next_blocks);
        } while (part);
    }
}

static void run_blocks(const struct amx_chunk *chunk, uint32_t panel_first, uint32_t panel_count) {
    struct amx_run run;
    run.chunk = chunk;
    run.pending = NULL;
    run.turn = 0;
    amx_configure(chunk->rows < AMX_ROWS ? chunk->rows : AMX_ROWS, AMX_DEPTH_BF16);
    if (chunk->rows <= FEW_GROUPS * GROUP_ROWS)
        run_few_rows(&run, panel_first, panel_count);
    else
        run_many_rows(&run, panel_first, panel_count);
    amx_release();
}

/* ---- Chunks of rows ---- */

typedef uint16_t packed_blocks[PACKED_BLOCKS][QUANT_GROUP];

/* The chunk's x in blocks: as it lies, or made of floats at `packed`. */
static void take_x(struct amx_chunk *chunk, packed_blocks packed) {
    const struct matmul *job = chunk->job;
    if (job->x_blocks) {
        chunk->x = job->x_blocks + (size_t)chunk->row_first * QUANT_GROUP;
        chunk->x_block_stride = job->x_block_stride;
        return;
    }
    chunk->x = packed[0];
    chunk->x_block_stride = (size_t)chunk->rows * QUANT_GROUP;
    for (uint32_t b = 0; b < chunk->blocks; b++)
        for (uint32_t r = 0; r < chunk->rows; r++)
            bf16_pack_x(packed[b * chunk->rows + r],
                        job->x + (chunk->row_first + r) * job->x_stride + (size_t)b * QUANT_GROUP,
                        amx_block_channels(chunk, b), false);
}

void matmul_amx_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    bool representable = job->x_is_bf16 || job->x_scales;
    if (job->x_int8) {
        matmul_int8_run_tiles(job, panel_first, panel_count);
        return;
    }
    if (representable && weight_type_group(job->weights->type)) {
        matmul_avx512bf16_run(job, panel_first, panel_count);
        return;
    }
    if (!representable || weight_type_is_float(job->weights->type)) {
        matmul_avx512_run(job, panel_first, panel_count);
        return;
    }
    _Alignas(64) packed_blocks packed;
    struct amx_chunk chunk = {.job = job,
                              .blocks = (uint32_t)divide_up(job->weights->cols, QUANT_GROUP)};
    check(chunk.blocks <= PACKED_BLOCKS);
    uint32_t most = job->x_blocks ? AMX_CHUNK_ROWS : PACKED_BLOCKS / chunk.blocks;
    uint32_t chunks = (uint32_t)divide_up(job->m, most ? most : 1);
    for (uint32_t i = 0; i < chunks; i++) {
        chunk.row_first = (uint32_t)((uint64_t)job->m * i / chunks);
        chunk.rows = (uint32_t)((uint64_t)job->m * (i + 1) / chunks) - chunk.row_first;
        check(chunk.rows > 0);
        take_x(&chunk, packed);
        if (job->x_scales)
            run_blocks(&chunk, panel_first, panel_count);
        else
            matmul_amx_whole(&chunk, panel_first, panel_count);
    }
}
