/* SPDX-License-Identifier: Apache-2.0
 * Packing of weights into panels: load-time work, plain C at every level.
 * The layout is in matmul.h. A panel belongs to one call, so threads may pack different panels at
 * once.
 */
#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"

/* Rows are read 32 at a time and written side by side: one panel of one element size. */
#define PACK_PANEL(name, element)                                                                  \
    static void name(const element *source, uint32_t cols, uint32_t rows, element *panel) {        \
        for (uint32_t c = 0; c < cols; c++) {                                                      \
            element *out = panel + (size_t)c * MATMUL_PANEL;                                       \
            for (uint32_t r = 0; r < rows; r++)                                                    \
                out[r] = source[(size_t)r * cols + c];                                             \
            for (uint32_t r = rows; r < MATMUL_PANEL; r++)                                         \
                out[r] = 0;                                                                        \
        }                                                                                          \
    }
PACK_PANEL(pack_panel_8, uint8_t)
PACK_PANEL(pack_panel_16, uint16_t)
PACK_PANEL(pack_panel_32, uint32_t)

/* The even codes of a word of eight, side by side. */
static uint32_t even_codes(uint32_t word) {
    word &= 0x0F0F0F0Fu;
    word = (word | word >> 4) & 0x00FF00FFu;
    return (word | word >> 8) & 0xFFFFu;
}

/* Codes of four bits; rows that fill up the panel are worth 0. */
static void pack_panel_4(enum weight_type type, const uint32_t *source, uint32_t cols,
                         uint32_t rows, uint32_t *panel) {
    const uint32_t words = cols / 8, zeros = type == WEIGHT_MXFP4 ? 0 : 0x88888888u;
    for (uint32_t w = 0; w < words; w++)
        for (uint32_t r = 0; r < MATMUL_PANEL; r++) {
            uint32_t word = r < rows ? source[(size_t)r * words + w] : zeros;
            panel[(size_t)w * MATMUL_PANEL + r] = even_codes(word) | even_codes(word >> 4) << 16;
        }
}

void matmul_pack(enum weight_type type, const void *source, uint32_t rows, uint32_t cols,
                 uint32_t row_first, uint32_t row_count, void *data) {
    check(row_first % MATMUL_PANEL == 0 && row_first + row_count <= rows);
    if (weight_type_group(type)) check(cols % weight_type_group(type) == 0);
    for (uint32_t r = 0; r < row_count; r += MATMUL_PANEL) {
        uint32_t in_panel = row_count - r < MATMUL_PANEL ? row_count - r : MATMUL_PANEL;
        const char *from = (const char *)source + weight_type_bytes(type, (size_t)r * cols);
        char *panel = (char *)data + weight_type_bytes(type, (size_t)(row_first + r) * cols);
        switch (type) {
        case WEIGHT_FP8:
            pack_panel_8((const uint8_t *)from, cols, in_panel, (uint8_t *)panel);
            break;
        case WEIGHT_BF16:
            pack_panel_16((const uint16_t *)(const void *)from, cols, in_panel,
                          (uint16_t *)(void *)panel);
            break;
        case WEIGHT_INT4_32:
        case WEIGHT_INT4_128:
        case WEIGHT_MXFP4:
            pack_panel_4(type, (const uint32_t *)(const void *)from, cols, in_panel,
                         (uint32_t *)(void *)panel);
            break;
        case WEIGHT_Q8_0:
        case WEIGHT_Q4_0:
        case WEIGHT_Q4_K:
        case WEIGHT_Q5_K:
        case WEIGHT_Q6_K:
            check(!"matmul_pack_super packs types of blocks");
            break;
        default:
            pack_panel_32((const uint32_t *)(const void *)from, cols, in_panel,
                          (uint32_t *)(void *)panel);
            break;
        }
    }
}

/* Codes of four bits as a panel has them: words of eight channels. */
static void pack_super_codes(const struct weight_super *supers, uint32_t channels, int32_t offset,
                             uint32_t *words) {
    for (uint32_t c = 0; c < channels; c += 8)
        for (uint32_t r = 0; r < MATMUL_PANEL; r++) {
            uint32_t word = 0;
            for (uint32_t i = 0; i < 8; i++)
                word |= (uint32_t)((supers[r].codes[c + i] + offset) & 15) << packed_code_shift(i);
            words[c / 8 * MATMUL_PANEL + r] = word;
        }
}

void matmul_pack_super(enum weight_type type, const struct weight_super supers[MATMUL_PANEL],
                       uint32_t index, void *panel, void *scales) {
    const struct weight_blocks *blocks = weight_type_blocks(type);
    const uint32_t channels = blocks ? blocks->channels : 32;
    char *codes = (char *)panel + (size_t)index * channels * packed_channel_bytes(type);
    if (weight_type_bytes(type, 2) == 1)
        pack_super_codes(supers, channels, type == WEIGHT_Q4_0 ? 8 : 0, (uint32_t *)(void *)codes);
    else
        for (uint32_t c = 0; c < channels; c++)
            for (uint32_t r = 0; r < MATMUL_PANEL; r++)
                codes[(size_t)c * MATMUL_PANEL + r] = supers[r].codes[c];
    char *area = (char *)scales +
                 index * (blocks ? packed_super_bytes(blocks) : MATMUL_PANEL * sizeof(uint16_t));
    uint16_t *halves = (uint16_t *)(void *)area;
    for (uint32_t r = 0; r < MATMUL_PANEL; r++)
        halves[r] = supers[r].d;
    if (!blocks) return;
    const struct packed_super at = packed_super_at(blocks, area);
    for (uint32_t r = 0; r < MATMUL_PANEL; r++) {
        if (at.d_min) halves[MATMUL_PANEL + r] = supers[r].d_min;
        for (uint32_t g = 0; g < channels / blocks->group; g++) {
            const size_t place = (size_t)g * MATMUL_PANEL + r;
            if (at.scales) ((int8_t *)(uintptr_t)at.scales)[place] = supers[r].scales[g];
            if (at.mins) ((int8_t *)(uintptr_t)at.mins)[place] = supers[r].mins[g];
        }
    }
}
