/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/tensor.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"

struct tensor_row {
    const char *name;
    uint32_t bits; /* of a value */
};

static const struct tensor_row rows[TENSOR_TYPE_COUNT] = {
    [TENSOR_BF16] = {"BF16", 16},
    [TENSOR_F16] = {"F16", 16},
    [TENSOR_F32] = {"F32", 32},
    [TENSOR_E4M3] = {"F8_E4M3", 8},
    [TENSOR_INT4_32] = {"INT4 in groups of 32", 4},
    [TENSOR_INT4_128] = {"INT4 in groups of 128", 4},
    [TENSOR_MXFP4] = {"MXFP4", 4},
    [TENSOR_E8M0] = {"E8M0", 8},
};

const char *tensor_type_name(enum tensor_type type) {
    return type < TENSOR_TYPE_COUNT ? rows[type].name : "unusable";
}

uint64_t tensor_type_bytes(enum tensor_type type, uint64_t count) {
    return type < TENSOR_TYPE_COUNT ? divide_up(count * rows[type].bits, 8) : 0;
}

static void codes_to_float(const struct tensor *tensor, uint64_t first, uint64_t count,
                           float *out) {
    const enum weight_type type =
        (enum weight_type)(WEIGHT_INT4_32 + (tensor->type - TENSOR_INT4_32));
    const uint8_t *bytes = tensor->data;
    check(tensor->data && first / 2 <= tensor->bytes && count <= 2 * tensor->bytes - first);
    for (uint64_t i = 0; i < count; i++, first++)
        out[i] = weight_type_value(type, bytes[first / 2] >> first % 2 * 4 & 15);
}

void tensor_to_float(const struct tensor *tensor, uint64_t first, uint64_t count, float *out) {
    if (tensor->type >= TENSOR_INT4_32 && tensor->type <= TENSOR_MXFP4) {
        codes_to_float(tensor, first, count, out);
        return;
    }
    const uint64_t size = tensor_type_bytes(tensor->type, 1); /* a whole number for these types */
    const uint8_t *at = (const uint8_t *)tensor->data + first * size;
    check(tensor->data && first <= tensor->bytes / size && count <= tensor->bytes / size - first);
    for (uint64_t i = 0; i < count; i++, at += size) {
        uint16_t half;
        if (tensor->type == TENSOR_E4M3) {
            out[i] = float_from_e4m3(*at);
        } else if (tensor->type == TENSOR_E8M0) {
            out[i] = *at == 0xFF ? NAN : ldexpf(1, *at - 127);
        } else if (tensor->type == TENSOR_F32) {
            memcpy(&out[i], at, sizeof *out);
        } else {
            memcpy(&half, at, sizeof half);
            out[i] = tensor->type == TENSOR_BF16 ? float_from_bf16(half) : float_from_f16(half);
        }
    }
}

enum status tensor_check_finite(const struct tensor *tensor, struct error *error) {
    float values[1024];
    const uint64_t count = tensor->shape[0] * tensor->shape[1];
    for (uint64_t first = 0; first < count; first += ARRAY_COUNT(values)) {
        uint64_t part = count - first < ARRAY_COUNT(values) ? count - first : ARRAY_COUNT(values);
        tensor_to_float(tensor, first, part, values);
        for (uint64_t i = 0; i < part; i++) {
            char place[TENSOR_SHAPE_BYTES];
            uint64_t at[2] = {(first + i) / tensor->shape[1], (first + i) % tensor->shape[1]};
            if (isfinite(values[i])) continue;
            return error_set(error, STATUS_CORRUPT,
                             "%s: tensor '%s': expected finite values, found %g at %s",
                             tensor->file, tensor->name, (double)values[i],
                             tensor_shape_text(at, tensor->dims, place));
        }
    }
    return STATUS_OK;
}

const char *tensor_shown(const char *name, char out[TENSOR_SHOWN_BYTES]) {
    format_text(out, TENSOR_SHOWN_BYTES, "%s", name);
    return out;
}

const char *tensor_shape_text(const uint64_t *shape, uint32_t dims, char out[TENSOR_SHAPE_BYTES]) {
    size_t at = format_text(out, TENSOR_SHAPE_BYTES, "[");
    for (uint32_t i = 0; i < dims; i++)
        at += format_text(out + at, TENSOR_SHAPE_BYTES - at, "%s%llu", i ? ", " : "",
                          (unsigned long long)shape[i]);
    format_text(out + at, TENSOR_SHAPE_BYTES - at, "]");
    return out;
}
