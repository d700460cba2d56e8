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

void matmul_pack(enum weight_type type, const void *source, uint32_t rows, uint32_t cols,
                 uint32_t row_first, uint32_t row_count, void *data) {
    check(row_first % MATMUL_PANEL == 0 && row_first + row_count <= rows);
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
        default:
            pack_panel_32((const uint32_t *)(const void *)from, cols, in_panel,
                          (uint32_t *)(void *)panel);
            break;
        }
    }
}
