/* SPDX-License-Identifier: Apache-2.0
 * An E4M3 code without its sign, shifted to the top of a float's mantissa and the bottom of its
 * exponent, is the code's value times 2^-120, even for subnormals. One multiplication by a power of
 * two thus decodes, and the reverse encodes. NaN (0x7F) is a special case.
 */
#include "compute/model/exchange_rows.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/number.h"

#include <math.h>
#include <string.h>

#define ROW_ALIGN 16
#define CODE_SHIFT 20
#define CODE_NAN 0x7Fu

size_t exchange_rows_scales_at(uint32_t n) {
    return round_up(n, sizeof(float));
}

size_t exchange_rows_bytes(enum row_mla_mode form, uint32_t n) {
    size_t bytes = n * sizeof(float);
    if (form == ROW_BF16) bytes = n * sizeof(uint16_t);
    if (form == ROW_FP8)
        bytes = exchange_rows_scales_at(n) + divide_up(n, QUANT_GROUP) * sizeof(float);
    if (form == ROW_INT8)
        bytes = exchange_rows_scales_at(n) + divide_up(n, INT8_GROUP) * sizeof(float);
    return round_up(bytes, ROW_ALIGN);
}

void exchange_rows_encode(const uint16_t *values, uint32_t n, uint8_t *codes) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(fabsf(float_from_bf16(values[i])) * 0x1p-120f) >> CODE_SHIFT;
        codes[i] = (uint8_t)((bits > CODE_NAN ? CODE_NAN : bits) | (values[i] >> 15 << 7));
    }
}

void exchange_rows_decode(const uint8_t *codes, uint32_t n, uint16_t *values) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t code = codes[i] & 0x7Fu;
        uint32_t bits = code == CODE_NAN ? 0x7FC00000u : code << CODE_SHIFT;
        bits |= (uint32_t)(codes[i] & 0x80u) << 24;
        values[i] = bf16_from_float(float_from_bits(bits) * 0x1p120f);
    }
}

void exchange_rows_pack(const struct kernels *kernels, enum row_mla_mode form, const float *x,
                        uint32_t n, char *bytes) {
    check(form <= ROW_BF16);
    if (form == ROW_BF16)
        kernels->bf16_from_float((uint16_t *)(void *)bytes, x, n);
    else
        memcpy(bytes, x, n * sizeof *x);
}

void exchange_rows_unpack(const struct kernels *kernels, enum row_mla_mode form, const char *bytes,
                          uint32_t n, float *x) {
    check(form <= ROW_BF16);
    if (form == ROW_BF16)
        kernels->float_from_bf16(x, (const uint16_t *)(const void *)bytes, n);
    else
        memcpy(x, bytes, n * sizeof *x);
}
