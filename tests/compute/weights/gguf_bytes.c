/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf_bytes.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"

void gguf_bytes_put(struct gguf_buffer *buffer, const void *data, size_t bytes) {
    if (buffer->count + bytes > buffer->room) {
        buffer->room = 2 * buffer->room + bytes + 4096;
        buffer->data = realloc(buffer->data, buffer->room);
        check(buffer->data);
    }
    if (bytes) memcpy(buffer->data + buffer->count, data, bytes);
    buffer->count += bytes;
}

void gguf_bytes_put_u32(struct gguf_buffer *buffer, uint32_t value) {
    gguf_bytes_put(buffer, &value, sizeof value); /* tests run on little-endian machines */
}

void gguf_bytes_put_u64(struct gguf_buffer *buffer, uint64_t value) {
    gguf_bytes_put(buffer, &value, sizeof value);
}

void gguf_bytes_put_string(struct gguf_buffer *buffer, struct bytes text) {
    gguf_bytes_put_u64(buffer, text.count);
    gguf_bytes_put(buffer, text.data, text.count);
}

struct gguf_buffer *gguf_bytes_pair(struct gguf_bytes *file, const char *key, uint32_t type) {
    gguf_bytes_put_string(&file->pairs, bytes_of(key));
    gguf_bytes_put_u32(&file->pairs, type);
    file->pair_count++;
    return &file->pairs;
}

struct gguf_buffer *gguf_bytes_array(struct gguf_bytes *file, const char *key, uint32_t type,
                                     uint64_t count) {
    struct gguf_buffer *buffer = gguf_bytes_pair(file, key, GGUF_ARRAY);
    gguf_bytes_put_u32(buffer, type);
    gguf_bytes_put_u64(buffer, count);
    return buffer;
}

void gguf_bytes_count(struct gguf_bytes *file, const char *key, uint32_t value) {
    gguf_bytes_put_u32(gguf_bytes_pair(file, key, GGUF_UINT32), value);
}

void gguf_bytes_float(struct gguf_bytes *file, const char *key, float value) {
    gguf_bytes_put(gguf_bytes_pair(file, key, GGUF_FLOAT32), &value, sizeof value);
}

void gguf_bytes_bool(struct gguf_bytes *file, const char *key, bool value) {
    gguf_bytes_put(gguf_bytes_pair(file, key, GGUF_BOOL), &(char){value}, 1);
}

void gguf_bytes_text(struct gguf_bytes *file, const char *key, const char *text) {
    gguf_bytes_put_string(gguf_bytes_pair(file, key, GGUF_STRING), bytes_of(text));
}

static size_t alignment_of(const struct gguf_bytes *file) {
    return file->alignment ? file->alignment : 32;
}

static void fill_up(struct gguf_buffer *buffer, size_t count) {
    while (buffer->count < count)
        gguf_bytes_put(buffer, "", 1);
}

void gguf_bytes_tensor(struct gguf_bytes *file, const char *name, uint32_t number, uint32_t dims,
                       const uint64_t *shape, const void *data, size_t bytes) {
    fill_up(&file->data, round_up(file->data.count, alignment_of(file)));
    gguf_bytes_put_string(&file->infos, bytes_of(name));
    gguf_bytes_put_u32(&file->infos, dims);
    for (uint32_t i = 0; i < dims; i++)
        gguf_bytes_put_u64(&file->infos, shape[i]);
    gguf_bytes_put_u32(&file->infos, number);
    gguf_bytes_put_u64(&file->infos, file->data.count);
    gguf_bytes_put(&file->data, data, bytes);
    file->tensor_count++;
}

struct bytes gguf_bytes_end(struct gguf_bytes *file) {
    struct gguf_buffer out = {NULL, 0, 0};
    gguf_bytes_put(&out, "GGUF", 4);
    gguf_bytes_put_u32(&out, file->version ? file->version : 3);
    gguf_bytes_put_u64(&out, file->tensor_count);
    gguf_bytes_put_u64(&out, file->pair_count);
    gguf_bytes_put(&out, file->pairs.data, file->pairs.count);
    gguf_bytes_put(&out, file->infos.data, file->infos.count);
    fill_up(&out, round_up(out.count, alignment_of(file)));
    gguf_bytes_put(&out, file->data.data, file->data.count);
    free(file->pairs.data);
    free(file->infos.data);
    free(file->data.data);
    *file = (struct gguf_bytes){.pair_count = 0};
    return (struct bytes){out.data, out.count};
}

/* ---- blocks ---- */

typedef void quantize(const float *values, uint8_t *out);

static void put_half(uint8_t *out, float value) {
    uint16_t bits = f16_from_float(value);
    memcpy(out, &bits, sizeof bits);
}

static float half(float value) {
    return float_from_f16(f16_from_float(value));
}

static int32_t rounded(float value, int32_t low, int32_t high) {
    long nearest = lrintf(value);
    return nearest < low ? low : nearest > high ? high : (int32_t)nearest;
}

static void extremes(const float *values, size_t count, float *low, float *high) {
    *low = *high = 0;
    for (size_t i = 0; i < count; i++) {
        *low = fminf(*low, values[i]);
        *high = fmaxf(*high, values[i]);
    }
}

static float magnitude(const float *values, size_t count) {
    float low, high;
    extremes(values, count, &low, &high);
    return fmaxf(-low, high);
}

/* Codes of 32 values, symmetric or from a minimum on, in `out`. */
static void codes_of(const float *values, float scale, float minimum, int32_t low, int32_t high,
                     uint8_t *out) {
    for (int i = 0; i < 32; i++)
        out[i] =
            (uint8_t)(rounded(scale != 0 ? (values[i] - minimum) / scale : 0, low, high) - low);
}

static void put_nibbles(const uint8_t *codes, uint8_t *out) {
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)((codes[i] & 15) | codes[i + 16] << 4);
}

static void put_fifths(const uint8_t *codes, uint8_t *out) {
    for (int i = 0; i < 4; i++)
        out[i] = 0;
    for (int i = 0; i < 32; i++)
        out[i / 8] = (uint8_t)(out[i / 8] | (codes[i] >> 4 & 1) << i % 8);
}

static void quantize_q4_0(const float *values, uint8_t *out) {
    uint8_t codes[32];
    const float scale = half(magnitude(values, 32) / 7);
    put_half(out, scale);
    codes_of(values, scale, 0, -8, 7, codes);
    put_nibbles(codes, out + 2);
}

static void quantize_q5_0(const float *values, uint8_t *out) {
    uint8_t codes[32];
    const float scale = half(magnitude(values, 32) / 15);
    put_half(out, scale);
    codes_of(values, scale, 0, -16, 15, codes);
    put_fifths(codes, out + 2);
    put_nibbles(codes, out + 6);
}

static void quantize_from_minimum(const float *values, bool five, uint8_t *out) {
    uint8_t codes[32];
    float low, high;
    extremes(values, 32, &low, &high);
    const float scale = half((high - low) / (five ? 31 : 15)), minimum = half(low);
    put_half(out, scale);
    put_half(out + 2, minimum);
    codes_of(values, scale, minimum, 0, five ? 31 : 15, codes);
    if (five) put_fifths(codes, out + 4);
    put_nibbles(codes, out + (five ? 8 : 4));
}

static void quantize_q4_1(const float *values, uint8_t *out) {
    quantize_from_minimum(values, false, out);
}

static void quantize_q5_1(const float *values, uint8_t *out) {
    quantize_from_minimum(values, true, out);
}

static void quantize_q8_0(const float *values, uint8_t *out) {
    const float scale = half(magnitude(values, 32) / 127);
    put_half(out, scale);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)rounded(scale != 0 ? values[i] / scale : 0, -127, 127);
}

/* Q4_K and Q5_K: eight groups of 32 with scales and minima of six bits. */
static void quantize_k(const float *values, bool five, uint8_t *out) {
    uint8_t codes[8][32], scales[8], minima[8];
    float most_scale = 0, most_minimum = 0, low[8], high[8];
    const int top = five ? 31 : 15;
    for (int g = 0; g < 8; g++) {
        extremes(values + 32 * g, 32, &low[g], &high[g]);
        most_scale = fmaxf(most_scale, (high[g] - low[g]) / (float)top);
        most_minimum = fmaxf(most_minimum, -low[g]);
    }
    const float d = half(most_scale / 63), d_min = half(most_minimum / 63);
    memset(out, 0, five ? 176 : 144);
    put_half(out, d);
    put_half(out + 2, d_min);
    for (int g = 0; g < 8; g++) {
        scales[g] = (uint8_t)rounded(d != 0 ? (high[g] - low[g]) / (float)top / d : 0, 0, 63);
        minima[g] = (uint8_t)rounded(d_min != 0 ? -low[g] / d_min : 0, 0, 63);
        codes_of(values + 32 * g, d * scales[g], -d_min * minima[g], 0, top, codes[g]);
    }
    for (int g = 0; g < 4; g++) {
        out[4 + g] = (uint8_t)(scales[g] | scales[g + 4] >> 4 << 6);
        out[8 + g] = (uint8_t)(minima[g] | minima[g + 4] >> 4 << 6);
        out[12 + g] = (uint8_t)((scales[g + 4] & 15) | (minima[g + 4] & 15) << 4);
    }
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            uint8_t *nibbles = out + (five ? 48 : 16) + g / 2 * 32 + i;
            *nibbles = (uint8_t)(*nibbles | (codes[g][i] & 15) << g % 2 * 4);
            if (five) out[16 + i] = (uint8_t)(out[16 + i] | (codes[g][i] >> 4) << g);
        }
}

static void quantize_q4_k(const float *values, uint8_t *out) {
    quantize_k(values, false, out);
}

static void quantize_q5_k(const float *values, uint8_t *out) {
    quantize_k(values, true, out);
}

static void quantize_q6_k(const float *values, uint8_t *out) {
    const float d = half(magnitude(values, 256) / 31 / 127);
    memset(out, 0, 210);
    put_half(out + 208, d);
    for (int g = 0; g < 16; g++) {
        const int32_t scale = rounded(d != 0 ? magnitude(values + 16 * g, 16) / 31 / d : 0, 0, 127);
        out[192 + g] = (uint8_t)(g % 2 ? -scale : scale); /* either sign is allowed */
        for (int k = 0; k < 16; k++) {
            const int i = 16 * g + k, half_at = i / 128, quarter = i / 32 % 4;
            const float unit = d * (float)(g % 2 ? -scale : scale);
            const int32_t code = rounded(unit != 0 ? values[i] / unit : 0, -32, 31) + 32;
            uint8_t *low = out + half_at * 64 + quarter % 2 * 32 + i % 32;
            uint8_t *high = out + 128 + half_at * 32 + i % 32;
            *low = (uint8_t)(*low | (code & 15) << quarter / 2 * 4);
            *high = (uint8_t)(*high | (code >> 4) << quarter * 2);
        }
    }
}

static void quantize_mxfp4(const float *values, uint8_t *out) {
    static const float steps[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int exponent = 0;
    (void)frexpf(magnitude(values, 32) / 4, &exponent);
    uint8_t codes[32];
    out[0] = (uint8_t)(exponent + 127);
    for (int i = 0; i < 32; i++) {
        const float value = fabsf(values[i]) / ldexpf(1, exponent);
        uint8_t best = 0;
        for (uint8_t k = 1; k < 8; k++)
            if (fabsf(steps[k] - value) < fabsf(steps[best] - value)) best = k;
        codes[i] = (uint8_t)(best | (values[i] < 0) << 3);
    }
    put_nibbles(codes, out + 1);
}

static void quantize_f32(const float *values, uint8_t *out) {
    memcpy(out, values, sizeof *values);
}

static void quantize_f16(const float *values, uint8_t *out) {
    put_half(out, *values);
}

static void quantize_bf16(const float *values, uint8_t *out) {
    uint16_t bits = bf16_from_float(*values);
    memcpy(out, &bits, sizeof bits);
}

static const struct quantized {
    const char *name;
    uint32_t number;
    size_t values, bytes;
    quantize *quantize;
} rows[] = {
    {"F32", 0, 1, 4, quantize_f32},        {"F16", 1, 1, 2, quantize_f16},
    {"BF16", 30, 1, 2, quantize_bf16},     {"Q4_0", 2, 32, 18, quantize_q4_0},
    {"Q4_1", 3, 32, 20, quantize_q4_1},    {"Q5_0", 6, 32, 22, quantize_q5_0},
    {"Q5_1", 7, 32, 24, quantize_q5_1},    {"Q8_0", 8, 32, 34, quantize_q8_0},
    {"Q4_K", 12, 256, 144, quantize_q4_k}, {"Q5_K", 13, 256, 176, quantize_q5_k},
    {"Q6_K", 14, 256, 210, quantize_q6_k}, {"MXFP4", 39, 32, 17, quantize_mxfp4},
};

static const struct quantized *row_of(const char *type) {
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (!strcmp(rows[i].name, type)) return &rows[i];
    check(!"a type of GGUF");
    return NULL;
}

uint32_t gguf_bytes_number(const char *type) {
    return row_of(type)->number;
}

size_t gguf_bytes_size(const char *type, size_t count) {
    const struct quantized *row = row_of(type);
    check(count % row->values == 0);
    return count / row->values * row->bytes;
}

void gguf_bytes_quantize(const char *type, const float *values, size_t count, uint8_t *out) {
    const struct quantized *row = row_of(type);
    check(count % row->values == 0);
    for (size_t i = 0; i < count; i += row->values, out += row->bytes)
        row->quantize(values + i, out);
}
