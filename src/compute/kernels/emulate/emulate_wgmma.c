/* SPDX-License-Identifier: Apache-2.0
 * Products of a warpgroup: 64 x n x 32 bytes. The operands count as read from the call to the wait,
 * by an actor of the warpgroup's own; the values are taken at the wait. Until then a thread's
 * registers are not its own: they hold NaNs, and who touches them is reported.
 *
 * Sums: BF16 in float, k ascending. E4M3 as Hopper's tensor cores are reported to: the 32 products
 * and what they are added to are cut to so many bits behind the largest's first, and added exactly.
 */
#include "compute/kernels/emulate/emulate_block.h"

#include <string.h>

#include "base/check.h"
#include "base/number.h"

#define ROWS 64u
#define COLUMNS_MAX 256u
#define K_BYTES 32u
#define K_MAX 32u
#define TILES_MAX 8
#define PRODUCTS_MAX 128

/* An accumulator: where each thread keeps its fragment, and the whole. */
struct wgmma_tile {
    uint32_t users; /* products in flight; 0: free */
    uint32_t n;
    float *d[WARPGROUP];
    float sum[ROWS][COLUMNS_MAX];
};

struct wgmma_product {
    struct emulate_wgmma form;
    struct wgmma_tile *tile;
    uint32_t joined, checker, group;
    const char *file;
    int line;
    uint32_t a_registers[WARPGROUP][4];
};

struct warpgroup {
    struct wgmma_tile tiles[TILES_MAX];
    struct wgmma_product
        products[PRODUCTS_MAX]; /* a ring: those numbered first..made-1 are in flight */
    uint32_t first, made, tiles_used;
};

static struct warpgroup groups[EMULATE_THREADS_MAX / WARPGROUP];
static uint32_t next_product[EMULATE_THREADS_MAX], committed[EMULATE_THREADS_MAX];
static uint32_t e4m3_bits = 13;

void emulate_e4m3_bits(uint32_t bits) {
    e4m3_bits = bits;
}

void emulate_wgmma_begin_block(void) {
    memset(next_product, 0, sizeof next_product);
    memset(committed, 0, sizeof committed);
    for (uint32_t i = 0; i < emulate_block_now.launch.threads / WARPGROUP; i++) {
        groups[i].first = groups[i].made = groups[i].tiles_used = 0;
        for (uint32_t t = 0; t < TILES_MAX; t++)
            groups[i].tiles[t].users = 0;
    }
}

void emulate_wgmma_end_block(void) {
    for (uint32_t i = 0; i < emulate_block_now.launch.threads / WARPGROUP; i++)
        if (groups[i].first != groups[i].made)
            emulate_run_found(EMULATE_LEFT, NULL, 0,
                              "the block ends, and %u products of warpgroup %u are "
                              "in flight",
                              groups[i].made - groups[i].first, i);
}

void emulate_wgmma_check_stack(uintptr_t address, size_t bytes, const void *place) {
    uint32_t thread = emulate_block_now.thread;
    const struct warpgroup *group = &groups[thread / WARPGROUP];
    if (!group->tiles_used) return;
    for (uint32_t i = 0; i < TILES_MAX; i++) {
        const struct wgmma_tile *tile = &group->tiles[i];
        uintptr_t d = (uintptr_t)tile->d[thread % WARPGROUP];
        if (tile->users && d && address < d + tile->n / 2 * sizeof(float) && address + bytes > d)
            emulate_report_at(EMULATE_REGISTERS, place,
                              "an accumulator of a wgmma in flight is touched (element %u)",
                              (unsigned)((address - d) / sizeof(float)));
    }
}

/* ---- fragments ---- */

/* D: element i of a thread is at row 16 * warp + lane / 4, 8 further for each odd pair, and column
 * 8 * (i / 4) + 2 * (lane % 4) + i % 2. PTX ISA, wgmma .m64nNk16, register fragments. */
static float *sum_at(struct wgmma_tile *tile, uint32_t thread, uint32_t i) {
    uint32_t row = thread / WARP * 16 + thread % WARP / 4 + i / 2 % 2 * 8;
    uint32_t column = i / 4 * 8 + thread % 4 * 2 + i % 2;
    return &tile->sum[row][column];
}

static void emulate_wgmma_gather(struct wgmma_tile *tile, uint32_t thread) {
    for (uint32_t i = 0; i < tile->n / 2; i++) {
        *sum_at(tile, thread, i) = tile->d[thread][i];
        tile->d[thread][i] = float_from_bits(0x7FE5A5A5u);
    }
}

static void scatter(struct wgmma_tile *tile) {
    for (uint32_t thread = 0; thread < WARPGROUP; thread++)
        for (uint32_t i = 0; i < tile->n / 2; i++)
            tile->d[thread][i] = *sum_at(tile, thread, i);
}

/* ---- operands ---- */

struct operand {
    uint32_t start, leading, stride; /* bytes */
};

static struct operand operand_of(uint64_t descriptor, bool mn, const char *file, int line) {
    struct operand operand = {
        .start = (uint32_t)(descriptor & 0x3FFF) << 4,
        .leading = (uint32_t)(descriptor >> 16 & 0x3FFF) << 4,
        .stride = (uint32_t)(descriptor >> 32 & 0x3FFF) << 4,
    };
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7))
        emulate_run_found(EMULATE_DESCRIPTOR, file, line,
                          "descriptor %016llx: only swizzling by 128 bytes at offset 0 is emulated",
                          (unsigned long long)descriptor);
    if (operand.start & 0x380 || operand.stride % 1024 || (mn && operand.leading % 1024))
        emulate_run_found(
            EMULATE_DESCRIPTOR, file, line,
            "descriptor %016llx: an atom of 8 rows of 128 bytes begins at a multiple of "
            "1,024",
            (unsigned long long)descriptor);
    return operand;
}

/* The offset in shared memory of byte `byte` of k in line `line` (a row of A, a column of B); `mn`:
 * MN-major, of BF16. */
static uint32_t operand_offset(const struct operand *operand, uint32_t line, uint32_t byte,
                               bool mn) {
    uint32_t key = byte / 2;
    uint32_t at = mn ? operand->start + line / 64 * operand->leading + key / 8 * operand->stride +
                           key % 8 * 128 + line % 64 * 2
                     : operand->start + line / 8 * operand->stride + line % 8 * 128 + byte;
    return (at ^ ((at >> 7 & 7) << 4)) - EMULATE_SHARED_BASE;
}

static void read_operand(const struct wgmma_product *product, uint64_t descriptor, uint32_t lines,
                         bool mn, uint32_t actor) {
    struct operand operand = operand_of(descriptor, mn, product->file, product->line);
    uint32_t outer = mn ? K_BYTES / 2 : lines, inner = mn ? lines * 2 : K_BYTES;
    for (uint32_t i = 0; i < outer; i++)
        for (uint32_t byte = 0; byte < inner; byte += 16) {
            uint32_t offset = mn ? operand_offset(&operand, byte / 2, i * 2, true)
                                 : operand_offset(&operand, i, byte, false);
            if (offset + 16 > emulate_block_now.launch.shared_bytes)
                emulate_run_found(EMULATE_BOUNDS, product->file, product->line,
                                  "an operand reaches shared+0x%x, behind the block's memory",
                                  offset);
            emulate_memory_read_async(offset, 16, clock_epoch(actor, product->group), product->file,
                                      product->line);
        }
}

static float operand_value(const struct operand *operand, enum emulate_type type, uint32_t line,
                           uint32_t k, bool mn) {
    const char *at = emulate_memory_shared() +
                     operand_offset(operand, line, type == EMULATE_BF16 ? 2 * k : k, mn);
    if (type == EMULATE_E4M3) return float_from_e4m3((uint8_t)*at);
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return float_from_bf16(bits);
}

/* A's fragment in registers: pairs of k, low half first: (row, 2t) (row + 8, 2t) (row, 2t + 8) (row
 * + 8, 2t + 8); of E4M3 four of k: 4t and 4t + 16. */
static float register_value(const struct wgmma_product *product, uint32_t row, uint32_t k) {
    bool wide = product->form.type == EMULATE_BF16;
    uint32_t per = wide ? 2 : 4, half = 4 * per;
    uint32_t thread = row / 16 * WARP + row % 8 * 4 + k % half / per;
    uint32_t word = product->a_registers[thread][row % 16 / 8 + k / half * 2];
    uint32_t bits = word >> k % per * (32 / per);
    return wide ? float_from_bf16((uint16_t)bits) : float_from_e4m3((uint8_t)bits);
}

/* ---- sums ---- */

#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

WIDEST static void emulate_wgmma_add_exactly(float *restrict sum, const float *restrict a,
                                             uint32_t k_count, float (*restrict b)[COLUMNS_MAX],
                                             uint32_t n) {
    for (uint32_t k = 0; k < k_count; k++)
        for (uint32_t c = 0; c < n; c++)
            sum[c] += a[k] * b[k][c];
}

WIDEST static void add_cut(float *restrict sum, const float *restrict a, uint32_t k_count,
                           float (*restrict b)[COLUMNS_MAX], uint32_t n, uint32_t bits) {
    uint32_t largest[COLUMNS_MAX], word;
    int32_t whole[COLUMNS_MAX];
    float up[COLUMNS_MAX], down[COLUMNS_MAX];
    for (uint32_t c = 0; c < n; c++) {
        memcpy(&word, &sum[c], sizeof word);
        largest[c] = word & 0x7F800000u;
    }
    for (uint32_t k = 0; k < k_count; k++)
        for (uint32_t c = 0; c < n; c++) {
            float value = a[k] * b[k][c];
            memcpy(&word, &value, sizeof word);
            word &= 0x7F800000u;
            largest[c] = word > largest[c] ? word : largest[c];
        }
    for (uint32_t c = 0; c < n; c++) {
        uint32_t least = largest[c] > (bits + 1) << 23 ? largest[c] : (bits + 1) << 23;
        word = least - (bits << 23);
        memcpy(&down[c], &word, sizeof word);
        word = (254u << 23) - word;
        memcpy(&up[c], &word, sizeof word);
        whole[c] = (int32_t)(sum[c] * up[c]);
    }
    for (uint32_t k = 0; k < k_count; k++)
        for (uint32_t c = 0; c < n; c++)
            whole[c] += (int32_t)(a[k] * b[k][c] * up[c]);
    for (uint32_t c = 0; c < n; c++)
        sum[c] = (float)whole[c] * down[c];
}

static void emulate_wgmma_multiply(struct wgmma_product *product) {
    static float a[ROWS][K_MAX], b[K_MAX][COLUMNS_MAX];
    const struct emulate_wgmma *form = &product->form;
    struct wgmma_tile *tile = product->tile;
    uint32_t k_count = form->type == EMULATE_BF16 ? K_BYTES / 2 : K_BYTES;
    struct operand of_a = {0};
    struct operand of_b =
        operand_of(form->b_descriptor, form->b_transposed, product->file, product->line);
    if (!form->a_registers)
        of_a = operand_of(form->a_descriptor, false, product->file, product->line);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t k = 0; k < k_count; k++)
            a[row][k] = form->a_registers ? register_value(product, row, k)
                                          : operand_value(&of_a, form->type, row, k, false);
    for (uint32_t c = 0; c < form->n; c++)
        for (uint32_t k = 0; k < k_count; k++)
            b[k][c] = operand_value(&of_b, form->type, c, k, form->b_transposed);
    for (uint32_t row = 0; row < ROWS; row++) {
        if (!form->accumulate) memset(tile->sum[row], 0, form->n * sizeof(float));
        if (form->type == EMULATE_E4M3 && e4m3_bits)
            add_cut(tile->sum[row], a[row], k_count, b, form->n, e4m3_bits);
        else
            emulate_wgmma_add_exactly(tile->sum[row], a[row], k_count, b, form->n);
    }
}

/* ---- calls ---- */

static struct wgmma_tile *tile_of(struct warpgroup *group, const float *d, uint32_t thread,
                                  uint32_t n) {
    for (uint32_t i = 0; i < TILES_MAX; i++)
        if (group->tiles[i].users && group->tiles[i].d[thread] == d) return &group->tiles[i];
    for (uint32_t i = 0; i < TILES_MAX; i++)
        if (!group->tiles[i].users) {
            memset(group->tiles[i].d, 0, sizeof group->tiles[i].d);
            group->tiles[i].n = n;
            group->tiles_used++;
            return &group->tiles[i];
        }
    check(!"more accumulators in flight than the emulator holds");
    return NULL;
}

static void begin_product(struct warpgroup *group, float *d, const struct emulate_wgmma *form,
                          const char *file, int line) {
    check(group->made - group->first < PRODUCTS_MAX);
    struct wgmma_product *product = &group->products[group->made++ % PRODUCTS_MAX];
    uint32_t thread = emulate_block_now.thread;
    product->form = *form;
    product->tile = tile_of(group, d, thread % WARPGROUP, form->n);
    product->tile->users++;
    product->joined = 0;
    product->checker = emulate_run_random(WARPGROUP);
    product->group = committed[thread] + 1;
    product->file = file;
    product->line = line;
}

static void join_tile(struct wgmma_tile *tile, float *d, uint32_t n, uint32_t lane,
                      const char *file, int line) {
    if (!tile->d[lane]) {
        tile->d[lane] = d;
        emulate_wgmma_gather(tile, lane);
    }
    if (tile->d[lane] != d || tile->n != n)
        emulate_run_found(EMULATE_REGISTERS, file, line,
                          "accumulates into other registers than the warpgroup's other threads");
}

void emulate_wgmma(float *d, const struct emulate_wgmma *form, const char *file, int line) {
    uint32_t thread = emulate_block_now.thread, lane = thread % WARPGROUP;
    struct warpgroup *group = &groups[thread / WARPGROUP];
    if (!emulate_run_self()->wgmma_fenced)
        emulate_run_found(EMULATE_REGISTERS, file, line, "no wgmma.fence since the last wait");
    if (next_product[thread] == group->made) begin_product(group, d, form, file, line);
    struct wgmma_product *product = &group->products[next_product[thread]++ % PRODUCTS_MAX];
    const struct emulate_wgmma *first = &product->form;
    if (first->a_descriptor != form->a_descriptor || first->b_descriptor != form->b_descriptor ||
        first->accumulate != form->accumulate || product->line != line ||
        strcmp(product->file, file) || product->group != committed[thread] + 1)
        emulate_run_found(EMULATE_DIVERGENCE, file, line,
                          "another thread of the warpgroup is at line %d, or has other operands",
                          product->line);
    join_tile(product->tile, d, form->n, lane, file, line);
    if (form->a_registers)
        memcpy(product->a_registers[lane], form->a_registers, sizeof product->a_registers[lane]);
    if (lane == product->checker) {
        uint32_t actor = CLOCK_WARPGROUPS + thread / WARPGROUP;
        if (!form->a_registers) read_operand(product, form->a_descriptor, ROWS, false, actor);
        read_operand(product, form->b_descriptor, form->n, form->b_transposed, actor);
    }
    product->joined++;
}

void emulate_wgmma_fence(void) {
    emulate_run_self()->wgmma_fenced = true;
}

void emulate_wgmma_commit(void) {
    committed[emulate_block_now.thread]++;
}

static void finish_products(struct warpgroup *group, uint32_t last) {
    while (group->first != group->made) {
        struct wgmma_product *product = &group->products[group->first % PRODUCTS_MAX];
        if (product->group > last) return;
        emulate_wgmma_multiply(product);
        group->first++;
        if (--product->tile->users == 0) {
            scatter(product->tile);
            group->tiles_used--;
        }
    }
}

void emulate_wgmma_wait(uint32_t left, const char *file, int line) {
    if (!emulate_warp_meet(WARPGROUP, "wgmma.wait_group", file, line)) return;
    uint32_t index = emulate_block_now.thread / WARPGROUP, first = index * WARPGROUP;
    for (uint32_t i = first + 1; i < first + WARPGROUP; i++)
        if (committed[i] != committed[first] || next_product[i] != next_product[first])
            emulate_run_found(EMULATE_DIVERGENCE, file, line,
                              "threads %u and %u have issued or committed different products",
                              first, i);
    uint32_t last = committed[first] > left ? committed[first] - left : 0;
    finish_products(&groups[index], last);
    for (uint32_t i = first; i < first + WARPGROUP; i++) {
        struct fiber *fiber = &emulate_block_now.fibers[i];
        emulate_clock_note(&fiber->known, CLOCK_WARPGROUPS + index, last);
        fiber->wgmma_fenced = false;
    }
    emulate_warp_part(WARPGROUP);
}
