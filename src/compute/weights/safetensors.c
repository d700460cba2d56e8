/* SPDX-License-Identifier: Apache-2.0
 * The reader of a safetensors header, which is untrusted. Lengths, offsets and shapes are added and
 * multiplied with overflow checks, and compared with the file's size before use. The data is not
 * read.
 */
#include "compute/weights/safetensors.h"

#include <stdlib.h>

#include "base/format.h"
#include "base/tree.h"

#define LENGTH_BYTES 8

struct type_row {
    const char *name;
    uint32_t bits;
    enum tensor_type type;
};

/* dtypes of the format */
static const struct type_row types[] = {
    {"BF16", 16, TENSOR_BF16},
    {"F16", 16, TENSOR_F16},
    {"F32", 32, TENSOR_F32},
    {"F8_E4M3", 8, TENSOR_E4M3},
    {"BOOL", 8, TENSOR_TYPE_COUNT},
    {"U8", 8, TENSOR_TYPE_COUNT},
    {"I8", 8, TENSOR_TYPE_COUNT},
    {"F8_E5M2", 8, TENSOR_TYPE_COUNT},
    {"F8_E8M0", 8, TENSOR_TYPE_COUNT},
    {"F8_E4M3FNUZ", 8, TENSOR_TYPE_COUNT},
    {"F8_E5M2FNUZ", 8, TENSOR_TYPE_COUNT},
    {"F4", 4, TENSOR_TYPE_COUNT},
    {"F6_E2M3", 6, TENSOR_TYPE_COUNT},
    {"F6_E3M2", 6, TENSOR_TYPE_COUNT},
    {"I16", 16, TENSOR_TYPE_COUNT},
    {"U16", 16, TENSOR_TYPE_COUNT},
    {"I32", 32, TENSOR_TYPE_COUNT},
    {"U32", 32, TENSOR_TYPE_COUNT},
    {"F64", 64, TENSOR_TYPE_COUNT},
    {"I64", 64, TENSOR_TYPE_COUNT},
    {"U64", 64, TENSOR_TYPE_COUNT},
    {"C64", 64, TENSOR_TYPE_COUNT},
};

size_t safetensors_memory(uint64_t header_bytes) {
    return 64 * (size_t)header_bytes + 65536;
}

enum status safetensors_header_bytes(struct bytes file, const char *name, uint64_t *bytes_out,
                                     struct error *error) {
    uint64_t header_bytes = 0;
    if (file.count < LENGTH_BYTES)
        return error_set(error, STATUS_CORRUPT,
                         "%s: expected a safetensors file, found only %zu bytes; fetch it again",
                         name, file.count);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        header_bytes = header_bytes << 8 | (uint8_t)file.data[i];
    if (header_bytes > SAFETENSORS_HEADER_BYTES_MAX)
        return error_set(
            error, STATUS_CORRUPT,
            "%s: expected a header of at most %llu bytes, found a length of %llu; this is no "
            "safetensors file",
            name, (unsigned long long)SAFETENSORS_HEADER_BYTES_MAX,
            (unsigned long long)header_bytes);
    if (header_bytes > file.count - LENGTH_BYTES)
        return error_set(error, STATUS_CORRUPT,
                         "%s: expected a header of %llu bytes, found %zu bytes in all: the file is "
                         "truncated, fetch it again",
                         name, (unsigned long long)header_bytes, file.count);
    *bytes_out = header_bytes;
    return STATUS_OK;
}

struct safetensors_place { /* the names in an error */
    const char *file;
    const char *tensor; /* safe to print */
    struct error *error;
};

static enum status safetensors_read_type(const struct safetensors_place *place,
                                         const struct tree *value, struct safetensors_entry *entry,
                                         uint32_t *bits_out) {
    struct bytes text = {"nothing", 7};
    if (tree_get_string(value, &text))
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            if (!bytes_equal(text, bytes_of(types[i].name))) continue;
            entry->type = types[i].type;
            entry->type_name = types[i].name;
            *bits_out = types[i].bits;
            return STATUS_OK;
        }
    return error_set(place->error, STATUS_UNSUPPORTED,
                     "%s: tensor '%s': dtype: expected BF16, F16, F32 or F8_E4M3, found '%.*s'",
                     place->file, place->tensor, (int)(text.count < 24 ? text.count : 24),
                     text.data);
}

/* Reads the shape, and computes its bytes. */
static enum status safetensors_read_shape(const struct safetensors_place *place,
                                          const struct tree *value, uint32_t bits,
                                          struct safetensors_entry *entry, uint64_t *bytes_out) {
    uint64_t size = bits;
    size_t dims = tree_count(value);
    if (!value || tree_kind(value) != TREE_ARRAY || dims > SAFETENSORS_DIMS_MAX)
        return error_set(place->error, STATUS_CORRUPT,
                         "%s: tensor '%s': shape: expected a list of at most %d sizes, found %s",
                         place->file, place->tensor, SAFETENSORS_DIMS_MAX,
                         value ? (dims ? "a longer one" : tree_name(value)) : "nothing");
    entry->dims = (uint32_t)dims;
    for (size_t i = 0; i < dims; i++) {
        int64_t extent = -1;
        if (!tree_get_integer(tree_at(value, i), &extent) || extent < 0 ||
            __builtin_mul_overflow(size, (uint64_t)extent, &size))
            return error_set(
                place->error, STATUS_CORRUPT,
                "%s: tensor '%s': shape: expected sizes with a product that fits the file, found "
                "%lld in place %zu",
                place->file, place->tensor, (long long)extent, i);
        entry->shape[i] = (uint64_t)extent;
    }
    *bytes_out = size / 8 + (size % 8 != 0);
    return STATUS_OK;
}

static enum status read_offsets(const struct safetensors_place *place, const struct tree *value,
                                struct bytes data, uint64_t expected_bytes,
                                struct safetensors_entry *entry) {
    int64_t begin = -1, end = -1;
    char shape[TENSOR_SHAPE_BYTES];
    if (tree_count(value) != 2 || !tree_get_integer(tree_at(value, 0), &begin) ||
        !tree_get_integer(tree_at(value, 1), &end) || begin < 0 || end < begin)
        return error_set(
            place->error, STATUS_CORRUPT,
            "%s: tensor '%s': data_offsets: expected [begin, end] with 0 <= begin <= end, "
            "found [%lld, %lld]",
            place->file, place->tensor, (long long)begin, (long long)end);
    if ((uint64_t)end > data.count)
        return error_set(
            place->error, STATUS_CORRUPT,
            "%s: tensor '%s': data_offsets [%lld, %lld]: expected an end within the file's "
            "%zu bytes of data: the file is truncated or damaged, fetch it again",
            place->file, place->tensor, (long long)begin, (long long)end, data.count);
    if ((uint64_t)(end - begin) != expected_bytes)
        return error_set(
            place->error, STATUS_CORRUPT,
            "%s: tensor '%s': expected %llu bytes for %s %s, found data_offsets [%lld, %lld] "
            "(%lld bytes)",
            place->file, place->tensor, (unsigned long long)expected_bytes, entry->type_name,
            tensor_shape_text(entry->shape, entry->dims, shape), (long long)begin, (long long)end,
            (long long)(end - begin));
    entry->data = data.data + begin;
    entry->bytes = expected_bytes;
    return STATUS_OK;
}

static enum status read_entry(const char *file, const struct tree *value, struct bytes data,
                              struct safetensors_entry *entry, struct error *error) {
    char shown[TENSOR_SHOWN_BYTES];
    struct safetensors_place place = {file, tensor_shown(entry->name, shown), error};
    uint32_t bits = 0;
    uint64_t bytes = 0;
    if (tree_kind(value) != TREE_OBJECT)
        return error_set(error, STATUS_CORRUPT, "%s: tensor '%s': expected an object, found %s",
                         file, place.tensor, tree_name(value));
    enum status status = safetensors_read_type(&place, tree_member(value, "dtype"), entry, &bits);
    if (status == STATUS_OK)
        status = safetensors_read_shape(&place, tree_member(value, "shape"), bits, entry, &bytes);
    if (status == STATUS_OK)
        status = read_offsets(&place, tree_member(value, "data_offsets"), data, bytes, entry);
    return status;
}

static int by_place(const void *left, const void *right) {
    const struct safetensors_entry *a = *(const struct safetensors_entry *const *)left;
    const struct safetensors_entry *b = *(const struct safetensors_entry *const *)right;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static enum status check_overlap(const char *file, struct arena *arena,
                                 const struct safetensors *tensors, struct error *error) {
    const struct safetensors_entry **order =
        arena_take(arena, (tensors->count + 1) * sizeof(struct safetensors_entry *));
    if (!order) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", file);
    uint32_t count = 0; /* an empty tensor overlaps nothing */
    for (uint32_t i = 0; i < tensors->count; i++)
        if (tensors->entries[i].bytes) order[count++] = &tensors->entries[i];
    qsort(order, count, sizeof *order, by_place);
    for (uint32_t i = 1; i < count; i++) {
        const struct safetensors_entry *before = order[i - 1], *after = order[i];
        const char *end = (const char *)before->data + before->bytes;
        char left[TENSOR_SHOWN_BYTES], right[TENSOR_SHOWN_BYTES];
        if (end > (const char *)after->data)
            return error_set(
                error, STATUS_CORRUPT,
                "%s: tensor '%s': expected to begin behind '%s', found %zu bytes that both "
                "claim",
                file, tensor_shown(after->name, right), tensor_shown(before->name, left),
                (size_t)(end - (const char *)after->data));
    }
    return STATUS_OK;
}

enum status safetensors_read(struct bytes file, const char *name, struct arena *arena,
                             struct safetensors *out, struct error *error) {
    struct safetensors found = {0};
    const struct tree *root = NULL, *value = NULL;
    struct tree_cursor cursor = {0};
    struct bytes key;
    enum status status = safetensors_header_bytes(file, name, &found.header_bytes, error);
    if (status != STATUS_OK) return status;
    struct bytes header = {file.data + LENGTH_BYTES, found.header_bytes};
    struct bytes data = {header.data + header.count, file.count - LENGTH_BYTES - header.count};
    status = tree_parse(arena, header, name, &root, error);
    if (status != STATUS_OK) return status;
    if (tree_kind(root) != TREE_OBJECT)
        return error_set(error, STATUS_CORRUPT, "%s: header: expected an object, found %s", name,
                         tree_name(root));
    size_t members = 0;
    while (tree_next_member(root, &cursor, &key, &value))
        members++;
    found.entries = arena_take_zeroed(arena, (members + 1) * sizeof *found.entries);
    if (!found.entries) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", name);
    cursor = (struct tree_cursor){0};
    while (tree_next_member(root, &cursor, &key, &value)) {
        if (bytes_equal(key, BYTES_LITERAL("__metadata__"))) continue;
        struct safetensors_entry *entry = &found.entries[found.count++];
        struct bytes copy = arena_copy(arena, key);
        if (!copy.data) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", name);
        entry->name = copy.data;
        status = read_entry(name, value, data, entry, error);
        if (status != STATUS_OK) return status;
    }
    status = check_overlap(name, arena, &found, error);
    if (status == STATUS_OK) *out = found;
    return status;
}
