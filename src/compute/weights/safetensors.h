/* SPDX-License-Identifier: Apache-2.0
 * Parser of a safetensors file: u64 little-endian header length, JSON header, data. It reads a file
 * in memory (mapped, or a test's bytes) and checks that every tensor is inside it. Pure: opens
 * nothing. Format: https://github.com/huggingface/safetensors (README, "Format").
 */
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/status.h"
#include "compute/weights/tensor.h"

#define SAFETENSORS_HEADER_BYTES_MAX ((uint64_t)100 << 20) /* the reference reader's limit */
#define SAFETENSORS_DIMS_MAX 8

struct safetensors_entry {
    const char *name;
    const char *type_name; /* from the header, such as "BF16" or "I64" */
    enum tensor_type type; /* TENSOR_TYPE_COUNT: not allowed for weights */
    uint32_t dims;
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    const void *data; /* inside the file's bytes; may be unaligned */
    uint64_t bytes;
};

struct safetensors {
    struct safetensors_entry *entries; /* in the header's order */
    uint32_t count;
    uint64_t header_bytes; /* the JSON, without the eight bytes before it */
};

/* Memory that safetensors_read may need for a header of that many bytes. */
size_t safetensors_memory(uint64_t header_bytes);

/* The header's length, checked against the file's; for sizing the arena. */
enum status safetensors_header_bytes(struct bytes file, const char *name, uint64_t *bytes_out,
                                     struct error *error);

/* Parses the header. Entries and their names are allocated in the arena. Checks lengths, JSON and
 * types, and that offsets match the shape, are inside the file and do not overlap. Gaps are
 * allowed. An error names file, tensor, expected and found in one line. */
enum status safetensors_read(struct bytes file, const char *name, struct arena *arena,
                             struct safetensors *out, struct error *error);
