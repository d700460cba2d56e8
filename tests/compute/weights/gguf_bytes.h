/* SPDX-License-Identifier: Apache-2.0
 * Writes GGUF files for tests, from the format's description: pairs and tensors in any order, then
 * the whole file. Also makes blocks of quantized types from floats, by simpler rules than ggml's:
 * what counts is that they are blocks.
 */
#pragma once

#include "base/bytes.h"
#include "compute/weights/gguf.h"

struct gguf_buffer {
    char *data;
    size_t count, room;
};

struct gguf_bytes {
    struct gguf_buffer pairs, infos, data;
    uint64_t pair_count, tensor_count;
    uint32_t version, alignment; /* 3 and 32 if they are 0 */
};

void gguf_bytes_put(struct gguf_buffer *buffer, const void *data, size_t bytes);
void gguf_bytes_put_u32(struct gguf_buffer *buffer, uint32_t value);
void gguf_bytes_put_u64(struct gguf_buffer *buffer, uint64_t value);
void gguf_bytes_put_string(struct gguf_buffer *buffer, struct bytes text);

/* Begins a pair; the caller puts the value. */
struct gguf_buffer *gguf_bytes_pair(struct gguf_bytes *file, const char *key, uint32_t type);
/* Begins an array; the caller puts the items. */
struct gguf_buffer *gguf_bytes_array(struct gguf_bytes *file, const char *key, uint32_t type,
                                     uint64_t count);
void gguf_bytes_count(struct gguf_bytes *file, const char *key, uint32_t value);
void gguf_bytes_float(struct gguf_bytes *file, const char *key, float value);
void gguf_bytes_bool(struct gguf_bytes *file, const char *key, bool value);
void gguf_bytes_text(struct gguf_bytes *file, const char *key, const char *text);

/* `number` is ggml's of the type; shape[0] is innermost. */
void gguf_bytes_tensor(struct gguf_bytes *file, const char *name, uint32_t number, uint32_t dims,
                       const uint64_t *shape, const void *data, size_t bytes);

/* The whole file. The caller frees .data; the parts of `file` are freed. */
struct bytes gguf_bytes_end(struct gguf_bytes *file);

/* ggml's number of a type by its name, such as "Q4_K"; fails for others. */
uint32_t gguf_bytes_number(const char *type);
/* Bytes of `count` values, whole blocks. */
size_t gguf_bytes_size(const char *type, size_t count);
/* Makes `count` values of a type, whole blocks of a row. */
void gguf_bytes_quantize(const char *type, const float *values, size_t count, uint8_t *out);
