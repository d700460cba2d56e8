/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/tensor.h"

#include <math.h>

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"
#include "compute/weights/ggml_block.h"

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
    [TENSOR_E4M3_32] = {"F8_E4M3", 8},
    [TENSOR_I64] = {"I64", 64},
    [TENSOR_E4M3_ROWS] = {"F8_E4M3", 8},
};

const char *tensor_type_name(enum tensor_type type) {
    if (ggml_block_is(type)) return ggml_block_name(type);
    return type < TENSOR_TYPE_COUNT ? rows[type].name : "unusable";
}

uint64_t tensor_type_bytes(enum tensor_type type, uint64_t count) {
    if (ggml_block_is(type))
        return divide_up(count, ggml_block_values(type)) * ggml_block_bytes(type);
    return type < TENSOR_TYPE_COUNT ? divide_up(count * rows[type].bits, 8) : 0;
}

/* Values of blocks: the first and the last block may be needed in part. */
static void blocks_to_float(const struct tensor *tensor, uint64_t first, uint64_t count,
                            float *out) {
    const uint64_t in_block = ggml_block_values(tensor->type);
    const uint64_t bytes = ggml_block_bytes(tensor->type);
    const uint64_t all = tensor->bytes / bytes * in_block;
    check(tensor->data && first <= all && count <= all - first);
    while (count) {
        float values[GGML_BLOCK_VALUES_MAX];
        const uint64_t skipped = first % in_block, left = in_block - skipped;
        const uint64_t part = count < left ? count : left;
        ggml_block_to_float(tensor->type, (const uint8_t *)tensor->data + first / in_block * bytes,
                            values);
        memcpy(out, values + skipped, part * sizeof *out);
        out += part;
        first += part;
        count -= part;
    }
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

/* Adjacent rows of keys of one head: columns of its matrix [kv_rank][nope]. */
static void keys_to_float(const struct tensor_halves *halves, uint64_t head, uint64_t first,
                          uint64_t count, uint64_t cols, float *out) {
    float values[GGML_BLOCK_VALUES_MAX];
    for (uint64_t c = 0; c < cols; c++) {
        tensor_to_float(&halves->keys, (head * cols + c) * halves->nope + first, count, values);
        for (uint64_t i = 0; i < count; i++)
            out[i * cols + c] = values[i];
    }
}

/* Whole rows of a kv_b in two parts. */
static void halves_to_float(const struct tensor *tensor, uint64_t row, uint64_t count, float *out) {
    const struct tensor_halves *halves = tensor->halves;
    const uint64_t in_head = halves->nope + halves->value, cols = tensor->shape[1];
    for (uint64_t end = row + count, part; row < end; row += part, out += part * cols) {
        const uint64_t head = row / in_head, at = row % in_head;
        const uint64_t last = at < halves->nope ? halves->nope : in_head;
        part = last - at < end - row ? last - at : end - row;
        if (at < halves->nope) {
            if (part > GGML_BLOCK_VALUES_MAX) part = GGML_BLOCK_VALUES_MAX;
            keys_to_float(halves, head, at, part, cols, out);
        } else {
            tensor_to_float(&halves->values, (head * halves->value + at - halves->nope) * cols,
                            part * cols, out);
        }
    }
}

void tensor_to_float(const struct tensor *tensor, uint64_t first, uint64_t count, float *out) {
    if (tensor->halves) {
        check(first % tensor->shape[1] == 0 && count % tensor->shape[1] == 0);
        halves_to_float(tensor, first / tensor->shape[1], count / tensor->shape[1], out);
        return;
    }
    if (ggml_block_is(tensor->type)) {
        blocks_to_float(tensor, first, count, out);
        return;
    }
    if (tensor->type >= TENSOR_INT4_32 && tensor->type <= TENSOR_MXFP4) {
        codes_to_float(tensor, first, count, out);
        return;
    }
    const uint64_t size = tensor_type_bytes(tensor->type, 1); /* a whole number for these types */
    const uint8_t *at = (const uint8_t *)tensor->data + first * size;
    check(tensor->data && first <= tensor->bytes / size && count <= tensor->bytes / size - first);
    for (uint64_t i = 0; i < count; i++, at += size) {
        uint16_t half;
        if (tensor->type == TENSOR_I64) {
            int64_t id;
            memcpy(&id, at, sizeof id);
            out[i] = (float)id;
        } else if (tensor->type == TENSOR_E4M3 || tensor->type == TENSOR_E4M3_32 ||
                   tensor->type == TENSOR_E4M3_ROWS) {
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
