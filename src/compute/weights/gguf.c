/* SPDX-License-Identifier: Apache-2.0
 * The reader of a GGUF header, which is untrusted. Counts, lengths, offsets and extents are
 * compared with the bytes that are left before they are used, and products are checked for
 * overflow. The data is not read.
 */
#include "compute/weights/gguf.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/format.h"
#include "compute/weights/ggml_block.h"

#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX (1 << 20)
#define PAIR_BYTES_MIN 13   /* length of a key, type, one byte */
#define TENSOR_BYTES_MIN 24 /* length of a name, count of dimensions, type, offset */
#define MEMORY_BYTES_MAX ((size_t)256 << 20)

struct gguf_reader {
    const char *file; /* its name */
    struct bytes bytes;
    size_t at;
    struct arena *arena;
    struct error *error;
};

static const uint32_t item_bytes[GGUF_TYPE_COUNT] = {
    [GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,  [GGUF_INT16] = 2,
    [GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
    [GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8,
};

size_t gguf_memory(uint64_t file_bytes) {
    const size_t most = MEMORY_BYTES_MAX;
    return file_bytes < most / 16 ? 16 * (size_t)file_bytes + 65536 : most;
}

static uint64_t little_endian(const char *data, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | (uint8_t)data[i];
    return value;
}

static enum status gguf_truncated(const struct gguf_reader *reader, const char *what) {
    return error_set(reader->error, STATUS_CORRUPT,
                     "%s: expected %s at byte %zu, found the file's end: it is truncated, fetch it "
                     "again",
                     reader->file, what, reader->at);
}

static enum status read_number(struct gguf_reader *reader, size_t bytes, const char *what,
                               uint64_t *out) {
    if (reader->bytes.count - reader->at < bytes) return gguf_truncated(reader, what);
    *out = little_endian(reader->bytes.data + reader->at, bytes);
    reader->at += bytes;
    return STATUS_OK;
}

static enum status gguf_read_text(struct gguf_reader *reader, const char *what, struct bytes *out) {
    uint64_t count = 0;
    enum status status = read_number(reader, 8, what, &count);
    if (status) return status;
    if (count > reader->bytes.count - reader->at) return gguf_truncated(reader, what);
    *out = (struct bytes){reader->bytes.data + reader->at, (size_t)count};
    reader->at += (size_t)count;
    return STATUS_OK;
}

/* A name that may be printed: short, and without control characters. */
static enum status gguf_read_name(struct gguf_reader *reader, const char *what, struct bytes *out) {
    size_t start = reader->at;
    enum status status = gguf_read_text(reader, what, out);
    bool good = !status && out->count > 0 && out->count <= GGUF_NAME_BYTES_MAX;
    for (size_t i = 0; good && i < out->count; i++)
        good = out->data[i] > ' ' && out->data[i] < 127;
    if (status || good) return status;
    return error_set(reader->error, STATUS_CORRUPT,
                     "%s: %s at byte %zu: expected 1 to %d visible characters; the file is damaged",
                     reader->file, what, start, GGUF_NAME_BYTES_MAX);
}

/* Moves behind the items of a value. */
static enum status gguf_skip_items(struct gguf_reader *reader, const struct gguf_value *value) {
    struct bytes text;
    uint64_t bytes = 0;
    if (value->type == GGUF_STRING) {
        enum status status = STATUS_OK;
        for (uint64_t i = 0; !status && i < value->count; i++)
            status = gguf_read_text(reader, "a string of its metadata", &text);
        return status;
    }
    if (__builtin_mul_overflow(value->count, (uint64_t)item_bytes[value->type], &bytes) ||
        bytes > reader->bytes.count - reader->at)
        return gguf_truncated(reader, "a value of its metadata");
    reader->at += (size_t)bytes;
    return STATUS_OK;
}

static enum status gguf_read_pair(struct gguf_reader *reader, struct gguf_pair *pair) {
    uint64_t type = 0, item = 0;
    struct gguf_value *value = &pair->value;
    enum status status = gguf_read_name(reader, "a key of its metadata", &pair->key);
    if (!status) status = read_number(reader, 4, "the type of a value", &type);
    if (status) return status;
    *value = (struct gguf_value){.count = 1, .is_array = type == GGUF_ARRAY};
    if (value->is_array) {
        status = read_number(reader, 4, "the type of an array", &item);
        if (!status) status = read_number(reader, 8, "the length of an array", &value->count);
        if (status) return status;
        type = item;
    }
    if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: key '%.*s': expected a type of 0 to 12%s, found %" PRIu64
                         "; the file is damaged, or of a later version",
                         reader->file, (int)pair->key.count, pair->key.data,
                         value->is_array ? " and no array in an array" : "", type);
    value->type = (enum gguf_type)type;
    size_t start = reader->at;
    status = gguf_skip_items(reader, value);
    value->raw = (struct bytes){reader->bytes.data + start, reader->at - start};
    return status;
}

/* ---- tensors ---- */

static enum status gguf_bad_tensor(const struct gguf_reader *reader,
                                   const struct gguf_tensor *tensor, const char *expected,
                                   uint64_t found) {
    return error_set(reader->error, STATUS_CORRUPT,
                     "%s: tensor '%s': expected %s, found %" PRIu64 "; the file is damaged",
                     reader->file, tensor->name, expected, found);
}

/* Reads the extents. *values_out: their product. */
static enum status gguf_read_extents(struct gguf_reader *reader, struct gguf_tensor *tensor,
                                     uint64_t *values_out) {
    uint64_t dims = 0, values = 1;
    enum status status = read_number(reader, 4, "the number of a tensor's dimensions", &dims);
    if (!status && (dims < 1 || dims > GGUF_DIMS_MAX))
        status = gguf_bad_tensor(reader, tensor, "1 to 4 dimensions", dims);
    if (status) return status;
    tensor->dims = (uint32_t)dims;
    for (uint32_t i = 0; i < GGUF_DIMS_MAX; i++) {
        tensor->shape[i] = 1;
        if (i < dims) status = read_number(reader, 8, "a tensor's extent", &tensor->shape[i]);
        if (status) return status;
        if (tensor->shape[i] > INT64_MAX ||
            __builtin_mul_overflow(values, tensor->shape[i], &values) || values > INT64_MAX)
            return gguf_bad_tensor(reader, tensor, "extents with a product below 2^63",
                                   tensor->shape[i]);
    }
    *values_out = values;
    return STATUS_OK;
}

/* Computes the bytes of a tensor of a supported type: rows of whole blocks. */
static enum status gguf_size_tensor(const struct gguf_reader *reader, uint64_t values,
                                    struct gguf_tensor *tensor) {
    const uint64_t block = ggml_block_values(tensor->type);
    if (tensor->shape[0] % block) {
        char expected[64];
        format_text(expected, sizeof expected, "rows of a multiple of %" PRIu64 " values (%s)",
                    block, tensor->type_name);
        return gguf_bad_tensor(reader, tensor, expected, tensor->shape[0]);
    }
    if (__builtin_mul_overflow(values / block, (uint64_t)ggml_block_bytes(tensor->type),
                               &tensor->bytes))
        return gguf_bad_tensor(reader, tensor, "a size below 2^64 bytes", values);
    return STATUS_OK;
}

/* Leaves the offset in *offset_out. */
static enum status gguf_read_tensor(struct gguf_reader *reader, struct gguf_tensor *tensor,
                                    uint64_t *offset_out) {
    struct bytes name;
    uint64_t id = 0, values = 0;
    enum status status = gguf_read_name(reader, "the name of a tensor", &name);
    if (status) return status;
    tensor->file = reader->file;
    tensor->name = arena_copy(reader->arena, name).data;
    if (!tensor->name)
        return error_set(reader->error, STATUS_NO_MEMORY, "%s: not enough memory", reader->file);
    status = gguf_read_extents(reader, tensor, &values);
    if (!status) status = read_number(reader, 4, "a tensor's type", &id);
    if (!status) status = read_number(reader, 8, "a tensor's offset", offset_out);
    if (status) return status;
    tensor->type = ggml_block_find((uint32_t)id, &tensor->type_name);
    return tensor->type == TENSOR_TYPE_COUNT ? STATUS_OK : gguf_size_tensor(reader, values, tensor);
}

/* Until here `bytes` are a tensor's, and `data` is not known. */
static enum status gguf_place_tensor(const struct gguf_reader *reader, uint64_t alignment,
                                     uint64_t offset, struct gguf_tensor *tensor) {
    const size_t start = round_up(reader->at, alignment);
    const uint64_t room = start < reader->bytes.count ? reader->bytes.count - start : 0;
    if (offset % alignment)
        return gguf_bad_tensor(reader, tensor, "an offset at a multiple of the alignment", offset);
    if (offset > room || tensor->bytes > room - offset)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: tensor '%s': expected %" PRIu64 " bytes at offset %" PRIu64
                         ", found %" PRIu64
                         " bytes of data in all: the file is truncated, fetch it again",
                         reader->file, tensor->name, tensor->bytes, offset, room);
    tensor->data = reader->bytes.data + start + offset;
    return STATUS_OK;
}

/* ---- the whole header ---- */

static enum status gguf_read_front(struct gguf_reader *reader, uint64_t *tensors_out,
                                   uint64_t *pairs_out) {
    uint64_t version = 0;
    if (reader->bytes.count < 4 || memcmp(reader->bytes.data, "GGUF", 4) != 0)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: expected a GGUF file, found other first bytes; fetch it again",
                         reader->file);
    reader->at = 4;
    enum status status = read_number(reader, 4, "a version", &version);
    if (!status && version != 2 && version != 3)
        status = error_set(reader->error, STATUS_UNSUPPORTED,
                           "%s: expected GGUF version 2 or 3, found %" PRIu64
                           "%s; convert the model again with "
                           "a current convert_hf_to_gguf.py",
                           reader->file, version, version & 0xFFFF ? "" : " (a big-endian file)");
    if (!status) status = read_number(reader, 8, "the number of tensors", tensors_out);
    if (!status) status = read_number(reader, 8, "the number of keys", pairs_out);
    if (status) return status;
    const uint64_t left = reader->bytes.count - reader->at;
    if (*pairs_out > GGUF_KEYS_MAX || *pairs_out > left / PAIR_BYTES_MIN)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: expected keys that fit the file, at most %d, found %" PRIu64
                         ": the file is truncated or damaged",
                         reader->file, GGUF_KEYS_MAX, *pairs_out);
    if (*tensors_out > GGUF_TENSORS_MAX || *tensors_out > left / TENSOR_BYTES_MIN)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: expected tensors that fit the file, at most %d, found %" PRIu64
                         ": the file is truncated or damaged",
                         reader->file, GGUF_TENSORS_MAX, *tensors_out);
    return STATUS_OK;
}

static int by_gguf_key(const void *left, const void *right) {
    const struct gguf_pair *a = left, *b = right;
    size_t shared = a->key.count < b->key.count ? a->key.count : b->key.count;
    int order = memcmp(a->key.data, b->key.data, shared);
    return order ? order : (a->key.count > b->key.count) - (a->key.count < b->key.count);
}

static enum status gguf_check_keys(const struct gguf_reader *reader, const struct gguf *gguf) {
    if (gguf->pair_count) qsort(gguf->pairs, gguf->pair_count, sizeof *gguf->pairs, by_gguf_key);
    for (uint32_t i = 1; i < gguf->pair_count; i++)
        if (bytes_equal(gguf->pairs[i - 1].key, gguf->pairs[i].key))
            return error_set(reader->error, STATUS_CORRUPT,
                             "%s: key '%.*s': expected it once, found it twice", reader->file,
                             (int)gguf->pairs[i].key.count, gguf->pairs[i].key.data);
    return STATUS_OK;
}

static int by_gguf_name(const void *left, const void *right) {
    return strcmp((*(const struct gguf_tensor *const *)left)->name,
                  (*(const struct gguf_tensor *const *)right)->name);
}

static int by_gguf_place(const void *left, const void *right) {
    const struct gguf_tensor *a = *(const struct gguf_tensor *const *)left;
    const struct gguf_tensor *b = *(const struct gguf_tensor *const *)right;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Names must differ, and data must not overlap. */
static enum status gguf_check_tensors(const struct gguf_reader *reader, const struct gguf *gguf) {
    const uint32_t count = gguf->tensor_count;
    const struct gguf_tensor **order = arena_take(reader->arena, (count + 1) * sizeof *order);
    if (!order)
        return error_set(reader->error, STATUS_NO_MEMORY, "%s: not enough memory", reader->file);
    for (uint32_t i = 0; i < count; i++)
        order[i] = &gguf->tensors[i];
    qsort(order, count, sizeof *order, by_gguf_name);
    for (uint32_t i = 1; i < count; i++)
        if (!strcmp(order[i - 1]->name, order[i]->name))
            return error_set(reader->error, STATUS_CORRUPT,
                             "%s: tensor '%s': expected it once, found it twice", reader->file,
                             order[i]->name);
    qsort(order, count, sizeof *order, by_gguf_place);
    const struct gguf_tensor *last = NULL; /* of those before, the one that ends last */
    for (uint32_t i = 0; i < count; i++) {
        if (!order[i]->bytes) continue;
        const char *end = last ? (const char *)last->data + last->bytes : NULL;
        if (end > (const char *)order[i]->data)
            return error_set(reader->error, STATUS_CORRUPT,
                             "%s: tensor '%s': expected to begin behind '%s', found bytes that "
                             "both claim",
                             reader->file, order[i]->name, last->name);
        last = order[i];
    }
    return STATUS_OK;
}

static enum status gguf_read_alignment(const struct gguf_reader *reader, const struct gguf *gguf,
                                       uint64_t *out) {
    const struct gguf_value *value = gguf_find(gguf, "general.alignment");
    *out = ALIGNMENT_DEFAULT;
    if (!value) return STATUS_OK;
    if (gguf_get_count(value, out) && *out && *out <= ALIGNMENT_MAX && !(*out & (*out - 1)))
        return STATUS_OK;
    return error_set(reader->error, STATUS_CORRUPT,
                     "%s: general.alignment: expected a power of two up to %d", reader->file,
                     ALIGNMENT_MAX);
}

static enum status gguf_read_tensors(struct gguf_reader *reader, struct gguf *gguf) {
    uint64_t *offsets = arena_take(reader->arena, (gguf->tensor_count + 1) * sizeof *offsets);
    uint64_t alignment = 0;
    if (!offsets)
        return error_set(reader->error, STATUS_NO_MEMORY, "%s: not enough memory", reader->file);
    enum status status = gguf_read_alignment(reader, gguf, &alignment);
    for (uint32_t i = 0; !status && i < gguf->tensor_count; i++)
        status = gguf_read_tensor(reader, &gguf->tensors[i], &offsets[i]);
    for (uint32_t i = 0; !status && i < gguf->tensor_count; i++)
        status = gguf_place_tensor(reader, alignment, offsets[i], &gguf->tensors[i]);
    if (status) return status;
    gguf->header_bytes = round_up(reader->at, alignment);
    if (gguf->header_bytes > reader->bytes.count) gguf->header_bytes = reader->bytes.count;
    return gguf_check_tensors(reader, gguf);
}

enum status gguf_read(struct bytes file, const char *name, struct arena *arena, struct gguf *out,
                      struct error *error) {
    struct gguf_reader reader = {.file = name, .bytes = file, .arena = arena, .error = error};
    struct gguf gguf = {.file = name};
    uint64_t tensors = 0, pairs = 0;
    enum status status = gguf_read_front(&reader, &tensors, &pairs);
    if (status) return status;
    gguf.pair_count = (uint32_t)pairs;
    gguf.tensor_count = (uint32_t)tensors;
    gguf.pairs = arena_take_zeroed(arena, (pairs + 1) * sizeof *gguf.pairs);
    gguf.tensors = arena_take_zeroed(arena, (tensors + 1) * sizeof *gguf.tensors);
    if (!gguf.pairs || !gguf.tensors)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", name);
    for (uint32_t i = 0; !status && i < gguf.pair_count; i++)
        status = gguf_read_pair(&reader, &gguf.pairs[i]);
    if (!status) status = gguf_check_keys(&reader, &gguf);
    if (!status) status = gguf_read_tensors(&reader, &gguf);
    if (!status) *out = gguf;
    return status;
}

/* ---- values ---- */

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key) {
    const struct gguf_pair wanted = {.key = bytes_of(key)};
    if (!gguf->pair_count) return NULL;
    const struct gguf_pair *pair =
        bsearch(&wanted, gguf->pairs, gguf->pair_count, sizeof wanted, by_gguf_key);
    return pair ? &pair->value : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name) {
    for (uint32_t i = 0; i < gguf->tensor_count; i++)
        if (!strcmp(gguf->tensors[i].name, name)) return &gguf->tensors[i];
    return NULL;
}

/* The item at `at`, which is inside; false if the items are no integers, or it has more than 63
 * bits. */
static bool gguf_integer_at(const struct gguf_value *value, size_t at, int64_t *out) {
    const size_t bytes = item_bytes[value->type];
    const uint64_t bits = little_endian(value->raw.data + at, bytes);
    switch (value->type) {
    case GGUF_UINT8:
    case GGUF_UINT16:
    case GGUF_UINT32:
    case GGUF_UINT64:
        *out = (int64_t)bits;
        return bits <= INT64_MAX;
    case GGUF_INT8:
        *out = (int8_t)bits;
        return true;
    case GGUF_INT16:
        *out = (int16_t)bits;
        return true;
    case GGUF_INT32:
        *out = (int32_t)bits;
        return true;
    case GGUF_INT64:
        *out = (int64_t)bits;
        return true;
    default:
        return false;
    }
}

bool gguf_get_count(const struct gguf_value *value, uint64_t *out) {
    int64_t number = -1;
    if (!value || value->is_array || !value->raw.count || !gguf_integer_at(value, 0, &number) ||
        number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

bool gguf_get_number(const struct gguf_value *value, double *out) {
    float single;
    int64_t integer;
    if (!value || value->is_array) return false;
    if (value->type == GGUF_FLOAT32) {
        memcpy(&single, value->raw.data, sizeof single);
        *out = (double)single;
        return true;
    }
    if (value->type == GGUF_FLOAT64) {
        memcpy(out, value->raw.data, sizeof *out);
        return true;
    }
    if (!gguf_integer_at(value, 0, &integer)) return false;
    *out = (double)integer;
    return true;
}

bool gguf_get_bool(const struct gguf_value *value, bool *out) {
    if (!value || value->is_array || value->type != GGUF_BOOL) return false;
    *out = value->raw.data[0] != 0;
    return true;
}

bool gguf_get_string(const struct gguf_value *value, struct bytes *out) {
    size_t at = 0;
    return value && !value->is_array && gguf_next_string(value, &at, out);
}

bool gguf_next_string(const struct gguf_value *value, size_t *at, struct bytes *out) {
    if (!value || value->type != GGUF_STRING || *at >= value->raw.count) return false;
    const size_t count = (size_t)little_endian(value->raw.data + *at, 8);
    *out = (struct bytes){value->raw.data + *at + 8, count};
    *at += 8 + count;
    return true;
}

bool gguf_next_integer(const struct gguf_value *value, size_t *at, int64_t *out) {
    if (!value || *at >= value->raw.count || value->type == GGUF_STRING) return false;
    if (!gguf_integer_at(value, *at, out)) return false;
    *at += item_bytes[value->type];
    return true;
}
