/* SPDX-License-Identifier: Apache-2.0
 * Opens a checkpoint directory: maps the shards, collects their tensors in one table sorted by
 * name, and validates it against the shape's list of tensors (layout.h). Owns the mappings and all
 * names. Weights are never copied here. If a file shrinks while it is mapped, the process is
 * killed, as with any mapping, so checkpoints must be replaced, not edited.
 */
#include "compute/weights/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "base/number.h"
#include "base/sha256.h"
#include "base/tree.h"
#include "compute/weights/ggml_block.h"
#include "compute/weights/gguf_config.h"
#include "compute/weights/gguf_model.h"
#include "compute/weights/layout.h"
#include "compute/weights/safetensors.h"

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define INDEX_BYTES_MAX ((size_t)256 << 20)
#define SHARDS_MAX 4096
#define SAMPLES 16
#define SAMPLE_BYTES 4096
#define PAGE_BYTES 4096
#define REPORT_TENSORS 256 /* between two reports of verified tensors */

struct shard {
    char *name;       /* for messages: directory and file */
    const char *file; /* the file's name alone, the end of `name` */
    struct bytes map;
    uint64_t start; /* of the data; before it is the header */
    char *names;    /* of the shard's tensors, each with a terminator */
};

/* A tensor with a type or dimensions that are not supported for weights. */
struct unsupported {
    const char *name, *file, *type_name;
    uint32_t dims;
    uint64_t shape[SAFETENSORS_DIMS_MAX];
};

struct index_row { /* one row of the index's weight_map */
    const char *tensor;
    uint32_t shard;
};

struct checkpoint {
    struct shape shape;
    bool is_gguf;
    struct gguf_model gguf; /* owns the mappings of shards, the names and halves of tensors */
    char *directory;
    bool whole, has_mtp, verified;
    struct shard *shards;
    uint32_t shard_count;
    struct tensor *tensors; /* by name */
    uint32_t tensor_count, tensor_room;
    struct unsupported *unsupported; /* by name */
    uint32_t unsupported_count, unsupported_room;
    char head_name[LAYOUT_NAME_BYTES]; /* of a tied head */
    char *index_name;                  /* NULL: no index */
    void *index_memory;                /* the parsed index, with its rows' names */
    size_t index_memory_bytes;
    struct index_row *rows; /* by tensor name */
    uint32_t row_count;
    uint8_t identity[SHA256_BYTES];
};

/* ---- files ---- */

static char *checkpoint_path_of(const char *directory, const char *file) {
    size_t bytes = strlen(directory) + strlen(file) + 2;
    char *path = malloc(bytes);
    check(path);
    size_t length = strlen(directory);
    bool slash = length > 0 && directory[length - 1] == '/';
    format_text(path, bytes, "%s%s%s", directory, slash ? "" : "/", file);
    return path;
}

static bool exists(const char *directory, const char *file) {
    char *path = checkpoint_path_of(directory, file);
    struct stat info;
    bool found = stat(path, &info) == 0;
    free(path);
    return found;
}

static enum status map_file(const char *path, size_t bytes_max, struct bytes *out,
                            struct error *error) {
    int file = -1;
    size_t bytes = 0;
    enum status status = file_open(path, bytes_max, &file, &bytes, error);
    if (status) return status;
    struct bytes map = {"", 0};
    if (bytes > 0) {
        void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (memory == MAP_FAILED)
            status = error_set(error, STATUS_IO, "%s: cannot be mapped: %s", path, strerror(errno));
        else
            map = (struct bytes){memory, bytes};
    }
    close(file);
    if (status == STATUS_OK) *out = map;
    return status;
}

static void checkpoint_unmap(struct bytes map) {
    if (map.count) munmap((void *)(uintptr_t)map.data, map.count);
}

/* Opening reads small places all over the shards. Without this advice, each of them would read as
 * much around it as the disk's readahead: up to 8 MiB, and thus most of a checkpoint. */
static void read_scattered(struct bytes map) {
    if (map.count) (void)madvise((void *)(uintptr_t)map.data, map.count, MADV_RANDOM);
}

/* For the packing of weights. */
static void read_in_order(struct bytes map) {
    if (map.count) (void)madvise((void *)(uintptr_t)map.data, map.count, MADV_NORMAL);
}

/* Starts to read a place of a mapped shard, and does not wait. */
static void read_ahead(const void *data, size_t bytes) {
    uintptr_t first = (uintptr_t)data & ~(uintptr_t)(PAGE_BYTES - 1);
    if (bytes) (void)madvise((void *)first, (uintptr_t)data + bytes - first, MADV_WILLNEED);
}

/* Reserves address space for a parse. Only touched pages use memory. */
static void *take_space(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* ---- the table of tensors ---- */

static int by_tensor_name(const void *left, const void *right) {
    return strcmp(((const struct tensor *)left)->name, ((const struct tensor *)right)->name);
}

static int by_unsupported_name(const void *left, const void *right) {
    return strcmp(((const struct unsupported *)left)->name,
                  ((const struct unsupported *)right)->name);
}

static int by_row_tensor(const void *left, const void *right) {
    return strcmp(((const struct index_row *)left)->tensor,
                  ((const struct index_row *)right)->tensor);
}

static void *checkpoint_grown(void *items, uint32_t count, uint32_t *room, size_t item_bytes) {
    if (count < *room) return items;
    *room = *room ? 2 * *room : 64;
    void *larger = realloc(items, *room * item_bytes);
    check(larger);
    return larger;
}

static void add_tensor(struct checkpoint *checkpoint, const struct tensor *tensor) {
    checkpoint->tensors = checkpoint_grown(checkpoint->tensors, checkpoint->tensor_count,
                                           &checkpoint->tensor_room, sizeof *checkpoint->tensors);
    checkpoint->tensors[checkpoint->tensor_count++] = *tensor;
}

static void add_unsupported(struct checkpoint *checkpoint, const struct unsupported *unsupported) {
    checkpoint->unsupported =
        checkpoint_grown(checkpoint->unsupported, checkpoint->unsupported_count,
                         &checkpoint->unsupported_room, sizeof *checkpoint->unsupported);
    checkpoint->unsupported[checkpoint->unsupported_count++] = *unsupported;
}

static const struct index_row *index_row_of(const struct checkpoint *checkpoint, const char *name) {
    struct index_row key = {.tensor = name};
    if (!checkpoint->row_count) return NULL;
    return bsearch(&key, checkpoint->rows, checkpoint->row_count, sizeof key, by_row_tensor);
}

static const struct unsupported *unsupported_of(const struct checkpoint *checkpoint,
                                                const char *name) {
    struct unsupported key = {.name = name};
    if (!checkpoint->unsupported_count) return NULL;
    return bsearch(&key, checkpoint->unsupported, checkpoint->unsupported_count, sizeof key,
                   by_unsupported_name);
}

static bool checkpoint_ends_with(const char *name, const char *suffix) {
    size_t end = strlen(name), bytes = strlen(suffix);
    return end > bytes && !strcmp(name + end - bytes, suffix);
}

/* Codes of four bits are known by the name of the weight that they stand for. */
static bool cut_packed_name(const struct checkpoint *checkpoint, char *name) {
    if (checkpoint->shape.expert_form == EXPERTS_PLAIN ||
        !checkpoint_ends_with(name, LAYOUT_PACKED_SUFFIX))
        return false;
    name[strlen(name) - strlen(LAYOUT_PACKED_SUFFIX)] = '\0';
    return true;
}

/* Makes codes of four bits and their scales of a shard's words and bytes. Returns false if the
 * tensor is neither. `packed`: its name says that it is codes. */
static bool read_packed(const struct checkpoint *checkpoint, const struct safetensors_entry *entry,
                        bool packed, struct tensor *tensor) {
    const enum expert_form form = checkpoint->shape.expert_form;
    const bool mxfp4 = form == EXPERTS_MXFP4, bytes = !strcmp(entry->type_name, "U8");
    if (form == EXPERTS_PLAIN || entry->dims != 2) return false;
    if (packed && (mxfp4 ? bytes : !strcmp(entry->type_name, "I32"))) {
        tensor->type = layout_packed_type(&checkpoint->shape);
        return !__builtin_mul_overflow(entry->shape[1], mxfp4 ? 2 : 8, &tensor->shape[1]);
    }
    if (!mxfp4 || !(bytes || !strcmp(entry->type_name, "F8_E8M0")) ||
        !checkpoint_ends_with(tensor->name, LAYOUT_GROUP_SCALE_SUFFIX))
        return false;
    tensor->type = TENSOR_E8M0;
    return true;
}

/* The same of the types that only V4's files have: experts' codes are I8, and scales end in
 * .scale. */
static bool read_v4_types(const struct checkpoint *checkpoint,
                          const struct safetensors_entry *entry, struct tensor *tensor) {
    const struct shape *shape = &checkpoint->shape;
    if (!shape_is_compressed(shape) || entry->dims != 2) return false;
    if (!strcmp(entry->type_name, "I8") && shape->expert_form == EXPERTS_MXFP4) {
        tensor->type = TENSOR_MXFP4;
        return !__builtin_mul_overflow(entry->shape[1], 2, &tensor->shape[1]);
    }
    if (!strcmp(entry->type_name, "F8_E8M0")) tensor->type = TENSOR_E8M0;
    if (!strcmp(entry->type_name, "I64")) tensor->type = TENSOR_I64;
    if (entry->type == TENSOR_E4M3 && shape->fp8_block == 32) tensor->type = TENSOR_E4M3_32;
    if (entry->type == TENSOR_E4M3 && layout_is_table(tensor->name))
        tensor->type = TENSOR_E4M3_ROWS;
    return tensor->type != entry->type;
}

/* Adds the tensors of a shard's header. If there is an index, adds only those that it assigns to
 * this shard. */
static void add_entries(struct checkpoint *checkpoint, uint32_t index,
                        const struct safetensors *header) {
    struct shard *shard = &checkpoint->shards[index];
    size_t name_bytes = 1;
    for (uint32_t i = 0; i < header->count; i++)
        name_bytes += strlen(header->entries[i].name) + 1;
    char *at = shard->names = malloc(name_bytes);
    check(at);
    for (uint32_t i = 0; i < header->count; i++) {
        const struct safetensors_entry *entry = &header->entries[i];
        char *name = memcpy(at, entry->name, strlen(entry->name) + 1);
        const bool packed = cut_packed_name(checkpoint, name);
        const struct index_row *row = index_row_of(checkpoint, name);
        if (checkpoint->index_name && (!row || row->shard != index)) continue;
        at += strlen(name) + 1;
        struct tensor tensor = {.name = name,
                                .type = entry->type,
                                .dims = entry->dims,
                                .shape = {entry->shape[0], entry->dims == 2 ? entry->shape[1] : 1},
                                .data = entry->data,
                                .bytes = entry->bytes,
                                .file = shard->name};
        if (!read_packed(checkpoint, entry, packed, &tensor) &&
            !read_v4_types(checkpoint, entry, &tensor) &&
            (packed || entry->type == TENSOR_TYPE_COUNT || entry->dims < 1 || entry->dims > 2)) {
            struct unsupported unsupported = {
                name, shard->name, entry->type_name, entry->dims, {0}};
            memcpy(unsupported.shape, entry->shape, sizeof unsupported.shape);
            add_unsupported(checkpoint, &unsupported);
            continue;
        }
        add_tensor(checkpoint, &tensor);
    }
}

/* ---- shards and index ---- */

static enum status open_shard(struct checkpoint *checkpoint, uint32_t index, struct error *error) {
    struct shard *shard = &checkpoint->shards[index];
    struct safetensors header;
    struct arena arena;
    uint64_t header_bytes = 0;
    enum status status = map_file(shard->name, SIZE_MAX, &shard->map, error);
    if (status == STATUS_NOT_FOUND) {
        if (!checkpoint->whole) return STATUS_OK;
        return error_set(error, status,
                         "%s: shard is missing, though %s names it; `hf download` into the same "
                         "folder fetches what is missing",
                         shard->name, INDEX);
    }
    if (status == STATUS_OK) {
        read_scattered(shard->map);
        status = safetensors_header_bytes(shard->map, shard->name, &header_bytes, error);
    }
    if (status != STATUS_OK) return status;
    shard->start = 8 + header_bytes;
    read_ahead(shard->map.data, header_bytes);
    size_t space_bytes = safetensors_memory(header_bytes);
    void *space = take_space(space_bytes);
    if (!space)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory to read its header",
                         shard->name);
    arena_over(&arena, space, space_bytes);
    status = safetensors_read(shard->map, shard->name, &arena, &header, error);
    if (status == STATUS_OK) add_entries(checkpoint, index, &header);
    munmap(space, space_bytes);
    return status;
}

/* Adds a shard, given its path. */
static uint32_t shard_at(struct checkpoint *checkpoint, const char *path) {
    checkpoint->shards =
        realloc(checkpoint->shards, (checkpoint->shard_count + 1) * sizeof(struct shard));
    check(checkpoint->shards);
    struct shard shard = {.name = strdup(path)};
    check(shard.name);
    const char *slash = strrchr(shard.name, '/');
    shard.file = slash ? slash + 1 : shard.name;
    checkpoint->shards[checkpoint->shard_count] = shard;
    return checkpoint->shard_count++;
}

static uint32_t shard_named(struct checkpoint *checkpoint, const char *file) {
    for (uint32_t i = checkpoint->shard_count; i-- > 0;)
        if (!strcmp(checkpoint->shards[i].file, file)) return i;
    char *path = checkpoint_path_of(checkpoint->directory, file);
    const uint32_t index = shard_at(checkpoint, path);
    free(path);
    return index;
}

/* Adds a row of the index. Shard names are untrusted: they must be plain file names, and their
 * number is limited. */
static enum status checkpoint_add_row(struct checkpoint *checkpoint, struct arena *arena,
                                      struct bytes tensor, const struct tree *value,
                                      struct error *error) {
    struct bytes file, copy = arena_copy(arena, tensor);
    char shown[TENSOR_SHOWN_BYTES];
    if (!copy.data)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", checkpoint->index_name);
    tensor_shown(copy.data, shown);
    (void)cut_packed_name(checkpoint, (char *)(uintptr_t)copy.data);
    char name[256] = "";
    if (tree_get_string(value, &file) && file.count < sizeof name)
        memcpy(name, file.data, file.count);
    if (!name[0] || strlen(name) != file.count || strchr(name, '/') || name[0] == '.')
        return error_set(
            error, STATUS_INVALID,
            "%s: weight_map: tensor '%s': expected the name of a file in this directory, "
            "found %s",
            checkpoint->index_name, shown,
            tree_kind(value) == TREE_STRING ? "another string" : "no string");
    uint32_t shard = shard_named(checkpoint, name);
    if (shard >= SHARDS_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "%s: weight_map: expected at most %d shards, found more",
                         checkpoint->index_name, SHARDS_MAX);
    checkpoint->rows[checkpoint->row_count++] = (struct index_row){copy.data, shard};
    return STATUS_OK;
}

static enum status checkpoint_read_index(struct checkpoint *checkpoint, struct error *error) {
    struct bytes text, key;
    struct arena arena;
    const struct tree *root, *map, *value;
    struct tree_cursor cursor = {0};
    checkpoint->index_name = checkpoint_path_of(checkpoint->directory, INDEX);
    enum status status = map_file(checkpoint->index_name, INDEX_BYTES_MAX, &text, error);
    if (status != STATUS_OK) return status;
    checkpoint->index_memory_bytes = safetensors_memory(text.count);
    checkpoint->index_memory = take_space(checkpoint->index_memory_bytes);
    if (!checkpoint->index_memory) {
        checkpoint_unmap(text);
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory to read it",
                         checkpoint->index_name);
    }
    arena_over(&arena, checkpoint->index_memory, checkpoint->index_memory_bytes);
    status = tree_parse(&arena, text, checkpoint->index_name, &root, error);
    checkpoint_unmap(text);
    if (status != STATUS_OK) return status;
    map = tree_member(root, "weight_map");
    if (!map || tree_kind(map) != TREE_OBJECT)
        return error_set(error, STATUS_INVALID, "%s: weight_map: expected an object, found %s",
                         checkpoint->index_name, map ? tree_name(map) : "nothing");
    size_t count = 0;
    while (tree_next_member(map, &cursor, &key, &value))
        count++;
    checkpoint->rows = calloc(count + 1, sizeof *checkpoint->rows);
    check(checkpoint->rows);
    cursor = (struct tree_cursor){0};
    while (status == STATUS_OK && tree_next_member(map, &cursor, &key, &value))
        status = checkpoint_add_row(checkpoint, &arena, key, value, error);
    qsort(checkpoint->rows, checkpoint->row_count, sizeof *checkpoint->rows, by_row_tensor);
    return status;
}

/* ---- a GGUF file in place of a directory ---- */

static enum status open_gguf(struct checkpoint *checkpoint, struct sha256 *hash,
                             struct error *error) {
    struct bytes text;
    enum status status = gguf_model_open(checkpoint->directory, &checkpoint->gguf, error);
    if (!status) status = gguf_model_json(&checkpoint->gguf, gguf_config_write, &text, error);
    if (status) return status;
    status = shape_parse(text, checkpoint->directory, &checkpoint->shape, error);
    sha256_update(hash, text.data, text.count);
    free((void *)(uintptr_t)text.data);
    return status;
}

static void add_found(void *context, const struct tensor *tensor, const struct gguf_tensor *found) {
    struct checkpoint *checkpoint = context;
    struct unsupported unsupported = {
        tensor->name, tensor->file, found->type_name, tensor->dims, {0}};
    memcpy(unsupported.shape, tensor->shape, sizeof tensor->shape);
    if (tensor->type == TENSOR_TYPE_COUNT)
        add_unsupported(checkpoint, &unsupported);
    else
        add_tensor(checkpoint, tensor);
}

static enum status read_gguf(struct checkpoint *checkpoint, struct error *error) {
    const struct gguf_model *model = &checkpoint->gguf;
    for (uint32_t i = 0; i < model->part_count; i++) {
        const struct gguf_part *part = &model->parts[i];
        const uint32_t shard = shard_at(checkpoint, part->path);
        checkpoint->shards[shard].map = part->map;
        checkpoint->shards[shard].start = part->header_bytes;
    }
    return gguf_model_tensors(&checkpoint->gguf, &checkpoint->shape, add_found, checkpoint, error);
}

/* ---- the directory's texts ---- */

static enum status checkpoint_read_config(struct checkpoint *checkpoint, struct sha256 *hash,
                                          struct error *error) {
    struct bytes text;
    if (checkpoint->is_gguf) return open_gguf(checkpoint, hash, error);
    char *path = checkpoint_path_of(checkpoint->directory, "config.json");
    enum status status = map_file(path, CONFIG_BYTES_MAX, &text, error);
    if (status == STATUS_NOT_FOUND)
        error_set(error, status,
                  "%s: not found; expected the directory of a Hugging Face checkpoint", path);
    if (status == STATUS_OK) {
        status = shape_parse(text, path, &checkpoint->shape, error);
        sha256_update(hash, text.data, text.count);
        checkpoint_unmap(text);
    }
    free(path);
    if (status != STATUS_OK || !exists(checkpoint->directory, "generation_config.json"))
        return status;
    path = checkpoint_path_of(checkpoint->directory, "generation_config.json");
    status = map_file(path, CONFIG_BYTES_MAX, &text, error);
    if (status == STATUS_OK) {
        status = shape_add_generation(text, path, &checkpoint->shape, error);
        checkpoint_unmap(text);
    }
    free(path);
    return status;
}

/* Checks that every tensor which the index assigns to a present shard is in that shard. */
static enum status check_index(const struct checkpoint *checkpoint, struct error *error) {
    for (uint32_t i = 0; i < checkpoint->row_count; i++) {
        const struct index_row *row = &checkpoint->rows[i];
        const struct shard *shard = &checkpoint->shards[row->shard];
        char shown[TENSOR_SHOWN_BYTES];
        if (!shard->map.count || checkpoint_tensor(checkpoint, row->tensor) ||
            unsupported_of(checkpoint, row->tensor))
            continue;
        return error_set(error, STATUS_CORRUPT,
                         "%s: tensor '%s': expected in this file by %s, found no such tensor in it",
                         shard->name, tensor_shown(row->tensor, shown), INDEX);
    }
    return STATUS_OK;
}

/* ---- the check against the shape ---- */

/* The file name for messages about an absent tensor: the index, or the only file. */
static const char *listing_name(const struct checkpoint *checkpoint) {
    return checkpoint->index_name    ? checkpoint->index_name
           : checkpoint->shard_count ? checkpoint->shards[0].name
                                     : checkpoint->directory;
}

static const char *expected_text(const struct shape *shape, const struct layout_tensor *wanted,
                                 char out[128]) {
    char dims[TENSOR_SHAPE_BYTES];
    uint64_t extents[2] = {wanted->rows, wanted->columns};
    const struct layout_stored stored = layout_stored(shape, wanted);
    const bool other = stored.scale_suffix != NULL; /* none of those that are always taken */
    format_text(out, 128, "%s%sBF16, F16 or F32 %s", other ? tensor_type_name(stored.type) : "",
                other ? ", " : "", tensor_shape_text(extents, wanted->dims, dims));
    return out;
}

static enum status report_absent(const struct checkpoint *checkpoint,
                                 const struct layout_tensor *wanted, struct error *error) {
    const struct unsupported *unsupported = unsupported_of(checkpoint, wanted->name);
    char expected[128], dims[TENSOR_SHAPE_BYTES];
    expected_text(&checkpoint->shape, wanted, expected);
    if (!unsupported)
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: tensor '%s': expected %s, found no such tensor",
                         listing_name(checkpoint), wanted->name, expected);
    return error_set(error, STATUS_UNSUPPORTED, "%s: tensor '%s': expected %s, found %s %s",
                     unsupported->file, wanted->name, expected, unsupported->type_name,
                     tensor_shape_text(unsupported->shape, unsupported->dims, dims));
}

static bool has_shape(const struct tensor *tensor, uint64_t rows, uint64_t columns, uint32_t dims) {
    return tensor->dims == dims && tensor->shape[0] == rows && tensor->shape[1] == columns;
}

static bool is_fp8(const struct tensor *tensor) {
    return tensor->type == TENSOR_E4M3 || tensor->type == TENSOR_E4M3_32 ||
           tensor->type == TENSOR_E4M3_ROWS;
}

static enum status check_scale_values(const struct tensor *scale, struct error *error) {
    for (uint64_t i = 0; i < scale->shape[0] * scale->shape[1]; i++) {
        float value;
        tensor_to_float(scale, i, 1, &value);
        if (isfinite(value) && value >= 0) continue;
        return error_set(
            error, STATUS_CORRUPT,
            "%s: tensor '%s': expected finite scales of 0 or more, found %g at [%llu, %llu]",
            scale->file, scale->name, (double)value, (unsigned long long)(i / scale->shape[1]),
            (unsigned long long)(i % scale->shape[1]));
    }
    return STATUS_OK;
}

static enum status check_scale(const struct checkpoint *checkpoint, const struct tensor *weight,
                               struct error *error) {
    const struct tensor *scale = checkpoint_scale(checkpoint, weight);
    const struct layout_stored stored =
        layout_stored_as(weight->type, weight->shape[0], weight->shape[1]);
    const uint64_t extents[2] = {stored.scale_rows, stored.scale_columns};
    /* a float may be narrower; other scales are multiplied as they lie */
    const bool any_float = stored.scale_type == TENSOR_F32;
    const char *type = tensor_type_name(stored.scale_type);
    char expected[TENSOR_SHAPE_BYTES], found[TENSOR_SHAPE_BYTES];
    tensor_shape_text(extents, 2, expected);
    if (!scale) {
        char name[LAYOUT_NAME_BYTES + 16];
        layout_write_scale(&checkpoint->shape, weight->name, weight->type, name);
        const struct unsupported *unsupported = unsupported_of(checkpoint, name);
        if (unsupported)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: tensor '%s': expected %s %s, found %s %s", unsupported->file,
                             name, type, expected, unsupported->type_name,
                             tensor_shape_text(unsupported->shape, unsupported->dims, found));
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: tensor '%s': expected %s %s for its %s weight, found no such tensor",
                         listing_name(checkpoint), name, type, expected,
                         tensor_type_name(weight->type));
    }
    if ((any_float ? scale->type >= TENSOR_E4M3 && scale->type != TENSOR_E8M0
                   : scale->type != stored.scale_type) ||
        !has_shape(scale, extents[0], extents[1], 2))
        return error_set(error, STATUS_INVALID, "%s: tensor '%s': expected %s %s, found %s %s",
                         scale->file, scale->name, type, expected, tensor_type_name(scale->type),
                         tensor_shape_text(scale->shape, scale->dims, found));
    return STATUS_OK;
}

struct validation {
    struct checkpoint *checkpoint;
    bool skip_mtp;
};

static enum status check_tensor(void *context, const struct layout_tensor *wanted,
                                struct error *error) {
    const struct validation *validation = context;
    const struct checkpoint *checkpoint = validation->checkpoint;
    const struct shape *shape = &checkpoint->shape;
    const struct tensor *tensor = checkpoint_tensor(checkpoint, wanted->name);
    if (wanted->is_mtp && validation->skip_mtp) return STATUS_OK;
    if (!tensor && wanted->optional && !unsupported_of(checkpoint, wanted->name)) return STATUS_OK;
    if (!tensor) return report_absent(checkpoint, wanted, error);
    const bool quantized = is_fp8(tensor), ids = tensor->type == TENSOR_I64;
    const bool packed = tensor->type > TENSOR_E4M3 && !quantized && !ggml_block_is(tensor->type);
    if (!has_shape(tensor, wanted->rows, wanted->columns, wanted->dims) ||
        (quantized && !wanted->quantized) ||
        (ids ? !wanted->is_ids /* E8M0: only of scales */
             : packed && (!wanted->packed || tensor->type == TENSOR_E8M0)) ||
        (ggml_block_is(tensor->type) && wanted->dims == 1)) {
        char expected[128], dims[TENSOR_SHAPE_BYTES];
        return error_set(error, STATUS_INVALID, "%s: tensor '%s': expected %s, found %s %s",
                         tensor->file, tensor->name, expected_text(shape, wanted, expected),
                         tensor_type_name(tensor->type),
                         tensor_shape_text(tensor->shape, tensor->dims, dims));
    }
    if (quantized && !shape->fp8 && tensor->type != TENSOR_E4M3_ROWS)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: tensor '%s': expected BF16, F16 or F32, found F8_E4M3; config.json has no "
            "quantization_config that says how it is scaled",
            tensor->file, tensor->name);
    return quantized || (packed && !ids) ? check_scale(checkpoint, tensor, error) : STATUS_OK;
}

/* Finds any tensor of the MTP layers. Many copies of a checkpoint have none. */
static enum status find_mtp_tensor(void *context, const struct layout_tensor *wanted,
                                   struct error *error) {
    struct validation *validation = context;
    const struct checkpoint *checkpoint = validation->checkpoint;
    if (wanted->is_mtp &&
        (checkpoint_tensor(checkpoint, wanted->name) || unsupported_of(checkpoint, wanted->name)))
        validation->skip_mtp = false;
    return STATUS_OK;
}

static enum status check_tensors(struct checkpoint *checkpoint, struct error *error) {
    if (!checkpoint->shard_count && !checkpoint->index_name) { /* config.json alone */
        checkpoint->has_mtp = checkpoint->shape.mtp_layers > 0;
        return STATUS_OK;
    }
    struct validation validation = {.checkpoint = checkpoint, .skip_mtp = true};
    enum status status = layout_for_each(&checkpoint->shape, find_mtp_tensor, &validation, error);
    if (status == STATUS_OK)
        status = layout_for_each(&checkpoint->shape, check_tensor, &validation, error);
    if (status == STATUS_OK)
        checkpoint->has_mtp = checkpoint->shape.mtp_layers > 0 && !validation.skip_mtp;
    return status;
}

/* ---- the check of values ---- */

/* True for FP8's scales, norms and biases. The many scales of codes of four bits are checked when
 * they are packed. */
static bool is_verified(const struct tensor *tensor) {
    return tensor->dims == 1 || checkpoint_ends_with(tensor->name, LAYOUT_SCALE_SUFFIX);
}

/* Checks a table of experts' ids. */
static enum status check_expert_ids(const struct tensor *tensor, uint32_t experts,
                                    struct error *error) {
    for (uint64_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++) {
        float id;
        tensor_to_float(tensor, i, 1, &id);
        if (id >= 0 && id < (float)experts) continue;
        return error_set(error, STATUS_CORRUPT,
                         "%s: tensor '%s': expected ids of experts from 0 to %u, found %g at "
                         "[%llu, %llu]",
                         tensor->file, tensor->name, experts - 1, (double)id,
                         (unsigned long long)(i / tensor->shape[1]),
                         (unsigned long long)(i % tensor->shape[1]));
    }
    return STATUS_OK;
}

struct verification {
    struct checkpoint *checkpoint;
    const struct load_progress *progress;
    uint64_t done;
};

static enum status verify_tensor(void *context, const struct layout_tensor *wanted,
                                 struct error *error) {
    struct verification *verification = context;
    const struct checkpoint *checkpoint = verification->checkpoint;
    const struct tensor *tensor = checkpoint_tensor(checkpoint, wanted->name);
    if (!tensor) return STATUS_OK; /* of an MTP layer that the checkpoint lacks */
    bool quantized = is_fp8(tensor);
    verification->done += quantized ? 2 : 1;
    if (verification->done % REPORT_TENSORS < 2)
        load_progress_report(verification->progress, LOAD_SCALES, verification->done,
                             checkpoint->tensor_count);
    if (tensor->type == TENSOR_E4M3_ROWS) return STATUS_OK; /* too many: rows are read as needed */
    if (quantized) return check_scale_values(checkpoint_scale(checkpoint, tensor), error);
    if (wanted->is_ids) return check_expert_ids(tensor, checkpoint->shape.experts, error);
    return tensor->dims == 1 ? tensor_check_finite(tensor, error) : STATUS_OK;
}

enum status checkpoint_verify(struct checkpoint *checkpoint, const struct load_progress *progress,
                              struct error *error) {
    struct verification verification = {.checkpoint = checkpoint, .progress = progress};
    if (checkpoint->verified) return STATUS_OK;
    load_progress_report(progress, LOAD_SCALES, 0, checkpoint->tensor_count);
    for (uint32_t i = 0; i < checkpoint->tensor_count; i++)
        if (is_verified(&checkpoint->tensors[i]))
            read_ahead(checkpoint->tensors[i].data, checkpoint->tensors[i].bytes);
    enum status status = layout_for_each(&checkpoint->shape, verify_tensor, &verification, error);
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        read_in_order(checkpoint->shards[i].map);
    checkpoint->verified = status == STATUS_OK;
    return status;
}

/* ---- tensors that are not in the files ---- */

/* Adds a tensor that the index assigns to an absent shard. */
static void add_absent(struct checkpoint *checkpoint, struct tensor tensor) {
    const struct index_row *row = index_row_of(checkpoint, tensor.name);
    if (!row || checkpoint->shards[row->shard].map.count) return;
    tensor.name = row->tensor; /* valid as long as the checkpoint */
    tensor.bytes = tensor_type_bytes(tensor.type, tensor.shape[0] * tensor.shape[1]);
    tensor.file = checkpoint->shards[row->shard].name;
    add_tensor(checkpoint, &tensor);
}

/* For inspection without shards: adds a tensor with its size given by the shape. */
static enum status add_expected(void *context, const struct layout_tensor *wanted,
                                struct error *error) {
    struct checkpoint *checkpoint = context;
    const struct layout_stored stored = layout_stored(&checkpoint->shape, wanted);
    char scale[LAYOUT_NAME_BYTES + 16];
    add_absent(checkpoint, (struct tensor){
                               .name = wanted->name,
                               .type = stored.type,
                               .dims = wanted->dims,
                               .shape = {wanted->rows, wanted->columns},
                           });
    if (!layout_write_scale(&checkpoint->shape, wanted->name, stored.type, scale)) return STATUS_OK;
    add_absent(checkpoint, (struct tensor){
                               .name = scale,
                               .type = stored.scale_type,
                               .dims = 2,
                               .shape = {stored.scale_rows, stored.scale_columns},
                           });
    return STATUS_OK;
}

static void sort_tensors(struct checkpoint *checkpoint) {
    if (checkpoint->tensor_count)
        qsort(checkpoint->tensors, checkpoint->tensor_count, sizeof *checkpoint->tensors,
              by_tensor_name);
    if (checkpoint->unsupported_count)
        qsort(checkpoint->unsupported, checkpoint->unsupported_count,
              sizeof *checkpoint->unsupported, by_unsupported_name);
}

/* The names of a file differ, but those of codes are cut. */
static enum status check_names(const struct checkpoint *checkpoint, struct error *error) {
    for (uint32_t i = 1; i < checkpoint->tensor_count; i++) {
        const struct tensor *tensor = &checkpoint->tensors[i];
        if (!strcmp(tensor[-1].name, tensor->name))
            return error_set(error, STATUS_INVALID,
                             "%s: tensor '%s': expected one tensor, found it twice%s", tensor->file,
                             tensor->name,
                             checkpoint->is_gguf ? "" : ", as codes and as another type");
    }
    return STATUS_OK;
}

/* With a tied head the embedding replaces lm_head, whatever the file has under that name. */
static void tie_head(struct checkpoint *checkpoint) {
    const struct tensor *embedding =
        checkpoint_find(checkpoint, NAME_EMBEDDING, LAYOUT_NONE, LAYOUT_NONE);
    if (!checkpoint->shape.tied_head || !embedding) return;
    layout_write_name(&checkpoint->shape, NAME_HEAD, LAYOUT_NONE, LAYOUT_NONE,
                      checkpoint->head_name);
    struct tensor head = *embedding, *present = NULL;
    head.name = checkpoint->head_name;
    for (uint32_t i = 0; i < checkpoint->tensor_count; i++)
        if (!strcmp(checkpoint->tensors[i].name, head.name)) present = &checkpoint->tensors[i];
    if (present) {
        *present = head;
    } else {
        add_tensor(checkpoint, &head);
        sort_tensors(checkpoint);
    }
}

/* ---- identity ---- */

static void hash_number(struct sha256 *hash, uint64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    sha256_update(hash, bytes, sizeof bytes);
}

/* Hashes the header, the size, and evenly spaced samples of the data. Headers alone are the same
 * for two trainings of one shape, and hashing all data would take minutes. */
static void hash_shard(struct sha256 *hash, const struct shard *shard) {
    const size_t start = shard->start, bytes = shard->map.count;
    if (!bytes) return;
    hash_number(hash, bytes);
    sha256_update(hash, shard->map.data, start);
    if (bytes - start <= (size_t)SAMPLES * SAMPLE_BYTES) {
        sha256_update(hash, shard->map.data + start, bytes - start);
        return;
    }
    const size_t apart = (bytes - start - SAMPLE_BYTES) / (SAMPLES - 1);
    for (size_t i = 0; i < SAMPLES; i++)
        read_ahead(shard->map.data + start + apart * i, SAMPLE_BYTES);
    for (size_t i = 0; i < SAMPLES; i++)
        sha256_update(hash, shard->map.data + start + apart * i, SAMPLE_BYTES);
}

/* ---- opening and closing ---- */

static enum status find_shards(struct checkpoint *checkpoint, struct error *error) {
    if (exists(checkpoint->directory, SINGLE)) {
        shard_named(checkpoint, SINGLE);
        return STATUS_OK;
    }
    if (exists(checkpoint->directory, INDEX)) return checkpoint_read_index(checkpoint, error);
    if (!checkpoint->whole) return STATUS_OK;
    return error_set(
        error, STATUS_NOT_FOUND,
        "%s: expected %s or %s, found neither: the weights are not there; `hf download` "
        "into the same folder fetches them",
        checkpoint->directory, SINGLE, INDEX);
}

static enum status read_directory(struct checkpoint *checkpoint, enum checkpoint_parts parts,
                                  const struct load_progress *progress, struct error *error) {
    struct sha256 hash;
    sha256_init(&hash);
    enum status status = checkpoint_read_config(checkpoint, &hash, error);
    if (status || parts == CHECKPOINT_CONFIG_ONLY) return status;
    status = checkpoint->is_gguf ? read_gguf(checkpoint, error) : find_shards(checkpoint, error);
    for (uint32_t i = 0; status == STATUS_OK && i < checkpoint->shard_count; i++) {
        load_progress_report(progress, LOAD_HEADERS, i, checkpoint->shard_count);
        if (!checkpoint->is_gguf) status = open_shard(checkpoint, i, error);
        if (status == STATUS_OK) hash_shard(&hash, &checkpoint->shards[i]);
    }
    if (status != STATUS_OK) return status;
    sort_tensors(checkpoint);
    status = check_names(checkpoint, error);
    if (status == STATUS_OK && !checkpoint->whole) {
        status = layout_for_each(&checkpoint->shape, add_expected, checkpoint, error);
        sort_tensors(checkpoint);
    }
    if (status == STATUS_OK) status = check_index(checkpoint, error);
    tie_head(checkpoint);
    if (status == STATUS_OK) status = check_tensors(checkpoint, error);
    for (uint32_t i = 0; i < checkpoint->row_count; i++) {
        sha256_update(&hash, checkpoint->rows[i].tensor, strlen(checkpoint->rows[i].tensor) + 1);
        hash_number(&hash, checkpoint->rows[i].shard);
    }
    sha256_final(&hash, checkpoint->identity);
    return status;
}

enum status checkpoint_open_reporting(const char *directory, enum checkpoint_parts parts,
                                      const struct load_progress *progress,
                                      struct checkpoint **checkpoint_out, struct error *error) {
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    check(checkpoint);
    checkpoint->directory = checkpoint_path_of(directory, "");
    checkpoint->directory[strlen(checkpoint->directory) - 1] = '\0';
    checkpoint->is_gguf = gguf_model_is(checkpoint->directory);
    checkpoint->whole = parts == CHECKPOINT_WHOLE || parts == CHECKPOINT_UNVERIFIED;
    enum status status = read_directory(checkpoint, parts, progress, error);
    if (status == STATUS_OK && parts == CHECKPOINT_WHOLE)
        status = checkpoint_verify(checkpoint, progress, error);
    if (status == STATUS_OK)
        *checkpoint_out = checkpoint;
    else
        checkpoint_close(checkpoint);
    return status;
}

enum status checkpoint_open(const char *directory, enum checkpoint_parts parts,
                            struct checkpoint **checkpoint_out, struct error *error) {
    return checkpoint_open_reporting(directory, parts, NULL, checkpoint_out, error);
}

struct checkpoint *checkpoint_take(const struct shape *shape,
                                   const struct checkpoint_memory *memory) {
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    check(checkpoint);
    checkpoint->shape = *shape;
    checkpoint->directory = checkpoint_path_of("random weights", "");
    checkpoint->whole = checkpoint->verified = true;
    shard_named(checkpoint, "memory");
    checkpoint->shards[0].map = memory->map;
    checkpoint->shards[0].names = memory->names;
    checkpoint->tensors = memory->tensors;
    checkpoint->tensor_count = checkpoint->tensor_room = memory->tensor_count;
    sort_tensors(checkpoint);
    return checkpoint;
}

void checkpoint_close(struct checkpoint *checkpoint) {
    if (!checkpoint) return;
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        if (!checkpoint->is_gguf) checkpoint_unmap(checkpoint->shards[i].map);
        free(checkpoint->shards[i].name);
        free(checkpoint->shards[i].names);
    }
    if (checkpoint->index_memory) munmap(checkpoint->index_memory, checkpoint->index_memory_bytes);
    gguf_model_close(&checkpoint->gguf);
    free(checkpoint->index_name);
    free(checkpoint->rows);
    free(checkpoint->shards);
    free(checkpoint->tensors);
    free(checkpoint->unsupported);
    free(checkpoint->directory);
    free(checkpoint);
}

const struct shape *checkpoint_shape(const struct checkpoint *checkpoint) {
    return &checkpoint->shape;
}

const char *checkpoint_directory(const struct checkpoint *checkpoint) {
    return checkpoint->directory;
}

bool checkpoint_has_mtp(const struct checkpoint *checkpoint) {
    return checkpoint->has_mtp;
}

const struct tensor *checkpoint_tensor(const struct checkpoint *checkpoint, const char *name) {
    struct tensor key = {.name = name};
    if (!checkpoint->tensor_count) return NULL;
    return bsearch(&key, checkpoint->tensors, checkpoint->tensor_count, sizeof key, by_tensor_name);
}

const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, enum tensor_name name,
                                     uint32_t layer, uint32_t expert) {
    char text[LAYOUT_NAME_BYTES];
    layout_write_name(&checkpoint->shape, name, layer, expert, text);
    return checkpoint_tensor(checkpoint, text);
}

const struct tensor *checkpoint_scale(const struct checkpoint *checkpoint,
                                      const struct tensor *weight) {
    char name[LAYOUT_NAME_BYTES + 16];
    if (!layout_write_scale(&checkpoint->shape, weight->name, weight->type, name))
        return NULL; /* no weight has such a long name */
    return checkpoint_tensor(checkpoint, name);
}

uint32_t checkpoint_tensor_count(const struct checkpoint *checkpoint) {
    return checkpoint->tensor_count;
}

const struct tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint, uint32_t index) {
    check(index < checkpoint->tensor_count);
    return &checkpoint->tensors[index];
}

void checkpoint_files(const struct checkpoint *checkpoint, uint8_t out[32]) {
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, checkpoint->identity, sizeof checkpoint->identity);
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        struct stat info = {.st_size = 0};
        if (stat(checkpoint->shards[i].name, &info) != 0)
            continue; /* removed since it was mapped */
        hash_number(&hash, (uint64_t)info.st_size);
        hash_number(&hash, (uint64_t)info.st_mtim.tv_sec);
        hash_number(&hash, (uint64_t)info.st_mtim.tv_nsec);
    }
    sha256_final(&hash, out);
}

void checkpoint_identity(const struct checkpoint *checkpoint, uint8_t out[32]) {
    memcpy(out, checkpoint->identity, sizeof checkpoint->identity);
}

bool checkpoint_has_weights(const struct checkpoint *checkpoint) {
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        if (!checkpoint->shards[i].map.count) return false;
    return checkpoint->shard_count > 0;
}
