/* SPDX-License-Identifier: Apache-2.0
 * Parser of a GGUF file, versions 2 and 3: metadata as pairs of key and value, descriptions of
 * tensors, data. It reads a file in memory (mapped, or a test's bytes) and checks that every tensor
 * is inside it. It copies names alone: values and data stay where they are. Pure: opens nothing.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/status.h"
#include "compute/weights/tensor.h"

#define GGUF_DIMS_MAX 4
#define GGUF_KEYS_MAX (1 << 16)
#define GGUF_TENSORS_MAX (1 << 20)
#define GGUF_NAME_BYTES_MAX 256 /* of a key or of a tensor's name */

enum gguf_type { /* the format's numbers */
                 GGUF_UINT8,
                 GGUF_INT8,
                 GGUF_UINT16,
                 GGUF_INT16,
                 GGUF_UINT32,
                 GGUF_INT32,
                 GGUF_FLOAT32,
                 GGUF_BOOL,
                 GGUF_STRING,
                 GGUF_ARRAY,
                 GGUF_UINT64,
                 GGUF_INT64,
                 GGUF_FLOAT64,
                 GGUF_TYPE_COUNT
};

struct gguf_value {
    enum gguf_type type; /* of the items, for an array */
    bool is_array;
    uint64_t count;   /* items; 1 if it is no array */
    struct bytes raw; /* little-endian items; a string has its length in eight bytes before it */
};

struct gguf_pair {
    struct bytes key;
    struct gguf_value value;
};

struct gguf_tensor {
    const char *name;
    const char *file;      /* the file's name */
    const char *type_name; /* such as "Q4_K" or "an unknown type" */
    enum tensor_type type; /* TENSOR_TYPE_COUNT: not supported; its size is not checked */
    uint32_t dims;
    uint64_t shape[GGUF_DIMS_MAX]; /* the innermost first: [columns][rows]...; 1 beyond `dims` */
    const void *data;              /* inside the file's bytes */
    uint64_t bytes;                /* 0 for a type that is not supported */
};

struct gguf {
    const char *file; /* for messages */
    struct gguf_pair *pairs;
    uint32_t pair_count;
    struct gguf_tensor *tensors; /* in the file's order */
    uint32_t tensor_count;
    uint64_t header_bytes; /* everything before the data */
};

/* Memory that gguf_read may need for a file of that many bytes. */
size_t gguf_memory(uint64_t file_bytes);

/* Parses everything but the data. `name` and the file must live as long as `out`. Checks magic,
 * version, counts, lengths, types, alignment, that keys and names of tensors differ, and that the
 * data of tensors are inside the file and do not overlap. An error names file, thing, expected and
 * found in one line. */
enum status gguf_read(struct bytes file, const char *name, struct arena *arena, struct gguf *out,
                      struct error *error);

/* NULL if there is no such key. */
const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name);

/* One value; false if it is an array or of another kind. An integer is not negative. */
bool gguf_get_count(const struct gguf_value *value, uint64_t *out);
bool gguf_get_number(const struct gguf_value *value, double *out);
bool gguf_get_bool(const struct gguf_value *value, bool *out);
bool gguf_get_string(const struct gguf_value *value, struct bytes *out);

/* Visits the items of an array of strings, or of one of integers: begin with *at = 0. Returns false
 * behind the last item, or if the array is of another kind. */
bool gguf_next_string(const struct gguf_value *value, size_t *at, struct bytes *out);
bool gguf_next_integer(const struct gguf_value *value, size_t *at, int64_t *out);
