/* SPDX-License-Identifier: Apache-2.0
 * Headers are parsed into reserved address space; only touched pages take memory. All parts of a
 * split model are opened at once: the metadata of the first says how many there are.
 */
#include "compute/weights/gguf_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/format.h"
#include "base/number.h"
#include "compute/weights/gguf_tensors.h"

#define SUFFIX ".gguf"
#define PATH_BYTES 4096

/* ---- files ---- */

bool gguf_model_is(const char *path) {
    struct stat info;
    const size_t count = strlen(path), suffix = strlen(SUFFIX);
    return count > suffix && !strcmp(path + count - suffix, SUFFIX) &&
           !(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* The parts in a name that ends in -00002-of-00003.gguf; 1 if it has no such end. *stem_out: the
 * bytes before it. */
static uint32_t parts_in_name(const char *path, size_t *stem_out) {
    static const char form[] = "-00000-of-00000" SUFFIX;
    const size_t count = strlen(path), end = sizeof form - 1;
    *stem_out = count;
    if (count <= end) return 1;
    const char *at = path + count - end;
    for (size_t i = 0; i < end; i++)
        if (form[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != form[i]) return 1;
    *stem_out = count - end;
    return (uint32_t)strtoul(at + strlen("-00000-of-"), NULL, 10);
}

static enum status gguf_map(struct gguf_part *part, struct error *error) {
    int file = -1;
    size_t bytes = 0;
    enum status status = file_open(part->path, SIZE_MAX, &file, &bytes, error);
    if (status) return status;
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    close(file);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_IO, "%s: cannot be mapped: %s", part->path, strerror(errno));
    part->map = (struct bytes){memory, bytes};
    return STATUS_OK;
}

static enum status gguf_open_part(struct gguf_part *part, struct gguf *gguf, struct error *error) {
    struct arena arena;
    enum status status = gguf_map(part, error);
    if (status) return status;
    part->memory_bytes = gguf_memory(part->map.count);
    void *memory = mmap(NULL, part->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory to read its header",
                         part->path);
    part->memory = memory;
    arena_over(&arena, memory, part->memory_bytes);
    status = gguf_read(part->map, part->path, &arena, gguf, error);
    if (status) return status;
    part->header_bytes = gguf->header_bytes;
    /* of the data, small places all over the file are read first (checkpoint.c) */
    (void)madvise((void *)(uintptr_t)part->map.data, part->map.count, MADV_RANDOM);
    return STATUS_OK;
}

/* Writes the path of a part: `path` itself if it is the only one. */
static char *part_path(const char *path, uint32_t index, uint32_t count) {
    char *out = malloc(PATH_BYTES);
    size_t stem;
    check(out);
    if (parts_in_name(path, &stem) <= 1)
        snprintf(out, PATH_BYTES, "%s", path);
    else
        snprintf(out, PATH_BYTES, "%.*s-%05u-of-%05u" SUFFIX, (int)stem, path, index + 1, count);
    return out;
}

static uint64_t gguf_count_or(const struct gguf *gguf, const char *key, uint64_t fallback) {
    uint64_t count = fallback;
    (void)gguf_get_count(gguf_find(gguf, key), &count);
    return count;
}

/* The number of parts by the name must be that by the metadata. */
static enum status gguf_check_parts(const char *path, uint32_t named, const struct gguf *first,
                                    struct error *error) {
    const uint64_t count = gguf_count_or(first, "split.count", 1);
    if (count == named || (named == 1 && count <= 1)) {
        if (named <= GGUF_MODEL_PARTS_MAX) return STATUS_OK;
        return error_set(error, STATUS_TOO_LARGE, "%s: expected at most %d files, found %u", path,
                         GGUF_MODEL_PARTS_MAX, named);
    }
    return error_set(
        error, STATUS_INVALID,
        "%s: split.count: expected %u, as the file's name says, found %" PRIu64
        "; the files of a split model keep their names, NAME-00001-of-%05" PRIu64 SUFFIX,
        path, named, count, count);
}

static enum status gguf_check_part(const struct gguf_part *part, uint32_t index,
                                   const struct gguf *gguf, struct error *error) {
    const uint64_t number = gguf_count_or(gguf, "split.no", 0);
    if (number == index) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%s: split.no: expected %u, found %" PRIu64 "; the file has another's name",
                     part->path, index, number);
}

/* Adds a part's tensors to those of the model. */
static enum status gguf_merge(struct gguf_model *model, const struct gguf *part,
                              struct error *error) {
    const size_t count = (size_t)model->gguf.tensor_count + part->tensor_count;
    struct gguf_tensor *tensors = realloc(model->gguf.tensors, (count + 1) * sizeof *tensors);
    if (!tensors) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", part->file);
    if (part->tensor_count)
        memcpy(tensors + model->gguf.tensor_count, part->tensors,
               part->tensor_count * sizeof *tensors);
    model->gguf.tensors = tensors;
    model->gguf.tensor_count = (uint32_t)count;
    return STATUS_OK;
}

enum status gguf_model_open(const char *path, struct gguf_model *model, struct error *error) {
    size_t stem;
    const uint32_t named = parts_in_name(path, &stem), count = named ? named : 1;
    *model = (struct gguf_model){.part_count = 0};
    if (strlen(path) >= PATH_BYTES - 1)
        return error_set(error, STATUS_INVALID, "%.80s...: the path is too long", path);
    model->parts = calloc(count, sizeof *model->parts);
    if (!model->parts) return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", path);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; !status && i < count; i++) {
        struct gguf_part *part = &model->parts[model->part_count++];
        struct gguf gguf;
        part->path = part_path(path, i, count);
        status = gguf_open_part(part, &gguf, error);
        if (status == STATUS_NOT_FOUND && count > 1)
            error_set(error, status, "%s: not found, though the model has %u files; fetch it, too",
                      part->path, count);
        if (!status && i == 0) {
            status = gguf_check_parts(part->path, count, &gguf, error);
            model->gguf = gguf;
            model->gguf.tensors = NULL;
            model->gguf.tensor_count = 0;
        }
        if (!status) status = gguf_check_part(part, i, &gguf, error);
        if (!status) status = gguf_merge(model, &gguf, error);
    }
    if (status) return status;
    const uint64_t all = gguf_count_or(&model->gguf, "split.tensors.count", UINT64_MAX);
    if (all == UINT64_MAX || all == model->gguf.tensor_count) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "%s: split.tensors.count: expected %" PRIu64 " tensors in all files, found %u",
                     model->gguf.file, all, model->gguf.tensor_count);
}

void gguf_model_close(struct gguf_model *model) {
    for (uint32_t i = 0; i < model->part_count; i++) {
        struct gguf_part *part = &model->parts[i];
        if (part->map.count) munmap((void *)(uintptr_t)part->map.data, part->map.count);
        if (part->memory) munmap(part->memory, part->memory_bytes);
        free(part->path);
    }
    free(model->parts);
    free(model->gguf.tensors);
    free(model->names);
    free(model->halves);
    *model = (struct gguf_model){.part_count = 0};
}

/* ---- tensors ---- */

struct gguf_visit {
    struct gguf_model *model;
    const struct shape *shape;
    gguf_model_visit *visit;
    void *context;
    char *name; /* the next one's place */
    uint32_t halves_count;
};

static void gguf_emit(struct gguf_visit *walk, struct gguf_place place, uint32_t expert,
                      struct tensor tensor, const struct gguf_tensor *found) {
    layout_write_name(walk->shape, place.id, place.layer, expert, walk->name);
    tensor.name = walk->name;
    tensor.file = found->file;
    walk->name += strlen(walk->name) + 1;
    walk->visit(walk->context, &tensor, found);
}

/* Rows [first, first + rows) of each matrix of experts. */
static void gguf_emit_experts(struct gguf_visit *walk, struct gguf_place place, uint64_t first,
                              uint64_t rows, const struct gguf_tensor *found) {
    const uint64_t all_rows = found->shape[1], experts = found->shape[2];
    const uint64_t row_bytes =
        found->bytes && all_rows && experts ? found->bytes / (all_rows * experts) : 0;
    for (uint64_t i = 0; i < experts && i < walk->shape->experts; i++) {
        struct tensor tensor = {.type = found->type,
                                .dims = 2,
                                .shape = {rows, found->shape[0]},
                                .data =
                                    (const char *)found->data + (i * all_rows + first) * row_bytes,
                                .bytes = rows * row_bytes};
        gguf_emit(walk, place, (uint32_t)i, tensor, found);
    }
}

static struct tensor as_matrix(const struct gguf_tensor *found) {
    const uint64_t cols = found->shape[0];
    return (struct tensor){
        .name = found->name,
        .type = found->type,
        .dims = found->dims > 2 ? 2 : found->dims,
        .shape = {found->dims == 1 ? cols : found->shape[1] * found->shape[2] * found->shape[3],
                  found->dims == 1 ? 1 : cols},
        .data = found->data,
        .bytes = found->bytes,
        .file = found->file};
}

/* kv_b of a layer, which has two parts. */
static enum status gguf_emit_halves(struct gguf_visit *walk, struct gguf_place place,
                                    const struct gguf_tensor *keys, struct error *error) {
    const struct shape *shape = walk->shape;
    const uint64_t heads = shape->heads, rank = shape->kv_rank;
    char name[LAYOUT_NAME_BYTES];
    format_text(name, sizeof name, "blk.%u.attn_kv_b.weight", place.layer);
    if (gguf_find_tensor(&walk->model->gguf, name)) return STATUS_OK; /* some files have both */
    format_text(name, sizeof name, "blk.%u.attn_v_b.weight", place.layer);
    const struct gguf_tensor *values = gguf_find_tensor(&walk->model->gguf, name);
    if (!values)
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: tensor '%s': expected it with '%s', found "
                         "no such tensor",
                         keys->file, name, keys->name);
    struct tensor_halves halves = {as_matrix(keys), as_matrix(values), shape->nope_dim,
                                   shape->value_dim};
    const struct gguf_tensor *odd = halves.keys.type == TENSOR_TYPE_COUNT ? keys : values;
    struct tensor whole = {.type = TENSOR_TYPE_COUNT,
                           .dims = 2,
                           .shape = {heads * (shape->nope_dim + shape->value_dim), rank}};
    if (halves.keys.type == TENSOR_TYPE_COUNT || halves.values.type == TENSOR_TYPE_COUNT) {
        gguf_emit(walk, place, LAYOUT_NONE, whole, odd);
        return STATUS_OK;
    }
    char found[TENSOR_SHAPE_BYTES];
    const bool keys_fit =
        halves.keys.shape[0] == heads * rank && halves.keys.shape[1] == shape->nope_dim;
    const bool values_fit =
        halves.values.shape[0] == heads * shape->value_dim && halves.values.shape[1] == rank;
    if (!keys_fit || !values_fit) {
        const struct tensor *wrong = keys_fit ? &halves.values : &halves.keys;
        const uint64_t rows = heads * (keys_fit ? shape->value_dim : rank);
        return error_set(error, STATUS_INVALID,
                         "%s: tensor '%s': expected [%" PRIu64 ", %" PRIu64
                         "] in all heads, found %s",
                         wrong->file, wrong->name, rows, keys_fit ? rank : shape->nope_dim,
                         tensor_shape_text(wrong->shape, 2, found));
    }
    const bool is_bf16 = halves.keys.type == TENSOR_BF16 && halves.values.type == TENSOR_BF16;
    struct tensor_halves *kept = &walk->model->halves[walk->halves_count++];
    *kept = halves;
    whole.type = is_bf16 ? TENSOR_BF16 : TENSOR_F32;
    whole.bytes = tensor_type_bytes(whole.type, whole.shape[0] * whole.shape[1]);
    whole.halves = kept;
    gguf_emit(walk, place, LAYOUT_NONE, whole, keys);
    return STATUS_OK;
}

static enum status gguf_visit_tensor(struct gguf_visit *walk, struct gguf_place place,
                                     const struct gguf_tensor *found, struct error *error) {
    const uint64_t rows = found->shape[1];
    bool stacked = place.form == GGUF_EXPERTS || place.form == GGUF_GATES_UPS;
    if (stacked && (found->shape[2] != walk->shape->experts || found->shape[3] != 1))
        return error_set(
            error, STATUS_INVALID,
            "%s: %s: expected %u matrices, as expert_count says, found %" PRIu64 " x %" PRIu64,
            found->file, found->name, walk->shape->experts, found->shape[2], found->shape[3]);
    switch (place.form) {
    case GGUF_EXPERTS:
        gguf_emit_experts(walk, place, 0, rows, found);
        break;
    case GGUF_GATES_UPS:
        gguf_emit_experts(walk, place, 0, rows / 2, found);
        place.id = NAME_EXPERT_UP;
        gguf_emit_experts(walk, place, rows / 2, rows / 2, found);
        break;
    case GGUF_KEY_HALVES:
        return gguf_emit_halves(walk, place, found, error);
    case GGUF_VALUE_HALVES:
        break;
    case GGUF_WHOLE:
        gguf_emit(walk, place, LAYOUT_NONE, as_matrix(found), found);
        break;
    }
    return STATUS_OK;
}

static bool in_model(const struct shape *shape, const struct gguf_tensor *tensor,
                     struct gguf_place *out) {
    return gguf_tensors_find(tensor->name, out) &&
           (out->layer == LAYOUT_NONE || out->layer < shape->layers + shape->mtp_layers);
}

enum status gguf_model_tensors(struct gguf_model *model, const struct shape *shape,
                               gguf_model_visit *visit, void *context, struct error *error) {
    struct gguf_place place;
    size_t names = 1, halves = 1;
    for (uint32_t i = 0; i < model->gguf.tensor_count; i++) {
        if (!in_model(shape, &model->gguf.tensors[i], &place)) continue;
        names += place.form == GGUF_EXPERTS     ? shape->experts
                 : place.form == GGUF_GATES_UPS ? 2 * shape->experts
                                                : 1;
        halves += place.form == GGUF_KEY_HALVES;
    }
    model->names = malloc(names * LAYOUT_NAME_BYTES);
    model->halves = calloc(halves, sizeof *model->halves);
    if (!model->names || !model->halves)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", model->gguf.file);
    struct gguf_visit walk = {model, shape, visit, context, model->names, 0};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; !status && i < model->gguf.tensor_count; i++)
        if (in_model(shape, &model->gguf.tensors[i], &place))
            status = gguf_visit_tensor(&walk, place, &model->gguf.tensors[i], error);
    return status;
}

/* ---- texts ---- */

enum status gguf_model_json(const struct gguf_model *model, gguf_model_write *write,
                            struct bytes *json_out, struct error *error) {
    struct json_writer writer = {.room = 0}; /* measures */
    enum status status = write(&model->gguf, &writer, error);
    if (status) return status;
    const size_t count = writer.count;
    writer = (struct json_writer){.out = malloc(count + 1), .room = count};
    if (!writer.out)
        return error_set(error, STATUS_NO_MEMORY, "%s: not enough memory", model->gguf.file);
    status = write(&model->gguf, &writer, error);
    check(!status && writer.count == count);
    writer.out[count] = '\0';
    *json_out = (struct bytes){writer.out, count};
    return STATUS_OK;
}
