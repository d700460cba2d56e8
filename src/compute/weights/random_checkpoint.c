/* SPDX-License-Identifier: Apache-2.0
 * Two passes over the shape's tensor list. The first lays out the files (names, types, offsets).
 * The second fills them 128 rows at a time, so that memory does not grow with the model. Each value
 * depends only on (seed, tensor name, index). The weights do not resemble trained ones.
 */
#include "compute/weights/random_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"
#include "compute/weights/layout.h"

#define SHARDS_MAX 4096
#define PATH_BYTES 4096

struct checkpoint_part { /* one tensor of the files */
    struct layout_tensor tensor;
    enum tensor_type type;
    uint64_t bytes;
    uint32_t shard;
    bool is_scale; /* belongs to the part before it */
};

struct writer {
    const struct random_checkpoint *plan;
    struct shape shape;
    struct checkpoint_part *parts;
    size_t part_count, part_room;
    uint32_t shards;
    uint64_t total_bytes, done_bytes;
    FILE *file; /* the shard being written */
    char path[PATH_BYTES];
    float *rows;     /* [QUANT_GROUP][columns] */
    uint8_t *coded;  /* the rows in the file's format */
    uint8_t *scales; /* of the last written tensor, in the file's format */
    size_t row_room, scale_bytes;
};

/* ---- values ---- */

static uint64_t random_checkpoint_key_of(const char *name, uint64_t seed) {
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a; fixed, as existing checkpoints depend on it */
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001B3u;
    return hash_mix(hash + hash_mix(seed + HASH_STEP));
}

/* Sum of four uniform bytes, centred and scaled to variance 1: close enough to a normal variate. */
static float bell(uint32_t bits) {
    uint32_t pairs = (bits & 0x00FF00FFu) + (bits >> 8 & 0x00FF00FFu);
    int32_t sum = (int32_t)((pairs & 0xFFFFu) + (pairs >> 16));
    return (float)(sum - 510) * (1.0f / 147.80054f); /* sqrt(4 (256^2 - 1) / 12) */
}

static float random_checkpoint_normal_at(uint64_t key, uint64_t index) {
    return bell((uint32_t)(hash_mix(key + index * HASH_STEP) >> 16));
}

static void fill_row(uint64_t key, uint64_t row, uint64_t columns, float mean, float deviation,
                     float *out /* [columns] */) {
    const uint64_t start = key + hash_mix(row + 1);
    for (uint64_t i = 0; i + 1 < columns; i += 2) {
        uint64_t bits = hash_mix(start + i * HASH_STEP);
        out[i] = mean + deviation * bell((uint32_t)bits);
        out[i + 1] = mean + deviation * bell((uint32_t)(bits >> 32));
    }
    if (columns % 2)
        out[columns - 1] = mean + deviation * random_checkpoint_normal_at(start, columns - 1);
}

/* Gain relative to 1/sqrt(inputs), by the role of a linear. Queries and outputs have slightly more
 * than unit variance, so that attention is neither flat nor on a single token. */
static float gain_of(enum tensor_name name) {
    static const float gains[NAME_COUNT] = {
        [NAME_Q] = 1.6f,           [NAME_Q_B] = 1.6f,       [NAME_O] = 1.3f,
        [NAME_DENSE_GATE] = 1.2f,  [NAME_DENSE_UP] = 1.2f,  [NAME_DENSE_DOWN] = 1.4f,
        [NAME_EXPERT_GATE] = 1.2f, [NAME_EXPERT_UP] = 1.2f, [NAME_EXPERT_DOWN] = 1.4f,
        [NAME_SHARED_GATE] = 1.2f, [NAME_SHARED_UP] = 1.2f, [NAME_SHARED_DOWN] = 1.4f};
    return gains[name] > 0 ? gains[name] : 1.0f;
}

/* The name that seeds a tensor's values. An MTP layer repeats the main model's embedding and
 * head. */
static enum tensor_name random_checkpoint_source_of(const struct writer *writer,
                                                    const struct layout_tensor *tensor) {
    if (tensor->kind == LAYOUT_EMBEDDING) return NAME_EMBEDDING;
    if (tensor->kind != LAYOUT_HEAD) return tensor->id;
    return writer->shape.tied_head ? NAME_EMBEDDING : NAME_HEAD;
}

/* Rows [first, first + count) of the tensor as floats. */
static void make_rows(const struct writer *writer, const struct layout_tensor *tensor,
                      uint64_t first, uint64_t count) {
    const struct random_checkpoint *plan = writer->plan;
    const enum tensor_name source = random_checkpoint_source_of(writer, tensor);
    char name[LAYOUT_NAME_BYTES];
    layout_write_name(&writer->shape, source, tensor->layer, tensor->expert, name);
    const uint64_t key = random_checkpoint_key_of(name, plan->seed), columns = tensor->columns;
    const float width = 1.0f / sqrtf((float)columns);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = first + i;
        float mean = 0, deviation = width;
        if (tensor->is_bias)
            mean = plan->bias_mean, deviation = plan->bias_deviation;
        else if (tensor->kind == LAYOUT_NORM)
            mean = tensor->id == NAME_INDEX_K_BIAS ? 0 : 1, deviation = 0.2f;
        else if (tensor->kind == LAYOUT_ROUTER)
            deviation = 1.5f * width;
        else if (source == NAME_EMBEDDING)
            deviation = 1;
        else if (tensor->kind == LAYOUT_HEAD)
            deviation = 2.5f * width;
        else if (tensor->kind !=
                 LAYOUT_MTP_PROJECTION) /* uneven rows, so that quantization blocks differ */
            deviation =
                gain_of(source) * width * expf(0.35f * random_checkpoint_normal_at(~key, row));
        fill_row(key, row, columns, mean, deviation, writer->rows + i * columns);
    }
}

/* ---- types ---- */

/* One row of blocks: scale = largest magnitude / 448, codes = value / scale. */
static void quantize(struct writer *writer, const struct layout_tensor *tensor, uint64_t first,
                     uint64_t count) {
    const uint64_t columns = tensor->columns, blocks = divide_up(columns, QUANT_GROUP);
    for (uint64_t block = 0; block < blocks; block++) {
        const uint64_t from = block * QUANT_GROUP;
        const uint64_t to = from + QUANT_GROUP < columns ? from + QUANT_GROUP : columns;
        float largest = 0;
        for (uint64_t i = 0; i < count; i++)
            for (uint64_t k = from; k < to; k++)
                largest = fmaxf(largest, fabsf(writer->rows[i * columns + k]));
        const float scale = largest > 0 ? largest / 448.0f : 1.0f;
        memcpy(writer->scales + (first / QUANT_GROUP * blocks + block) * sizeof scale, &scale,
               sizeof scale);
        for (uint64_t i = 0; i < count; i++)
            for (uint64_t k = from; k < to; k++)
                writer->coded[i * columns + k] =
                    e4m3_from_float(writer->rows[i * columns + k] / scale);
    }
}

/* The nearest value of E2M1; of two equally near ones the one with an even code. */
static uint32_t e2m1_from_float(float value) {
    const float size = fabsf(value);
    uint32_t code = 0;
    for (uint32_t i = 1; i < 8; i++) {
        const float before = weight_type_value(WEIGHT_MXFP4, i - 1);
        const float half = (before + weight_type_value(WEIGHT_MXFP4, i)) / 2;
        if (size > half || (size == half && i % 2 == 0)) code = i;
    }
    return value < 0 ? code + 8 : code;
}

/* The scale of a group, written at `out`: BF16, largest magnitude / 7; or of MXFP4 a power of two
 * by which the largest magnitude is from 4 to below 8. */
static float group_scale(enum tensor_type type, float largest, uint8_t *out) {
    if (type == TENSOR_MXFP4) {
        const int exponent = largest > 0 ? ilogbf(largest) - 2 : 0;
        *out = (uint8_t)(exponent + 127);
        return ldexpf(1, exponent);
    }
    const uint16_t scale = bf16_from_float(largest > 0 ? largest / 7 : 1);
    memcpy(out, &scale, sizeof scale);
    return float_from_bf16(scale);
}

/* Groups of channels: codes of four bits, the first channel's lowest, and a scale each. */
static void quantize_groups(struct writer *writer, const struct checkpoint_part *part,
                            uint64_t first, uint64_t count) {
    const bool mxfp4 = part->type == TENSOR_MXFP4;
    const uint64_t columns = part->tensor.columns, group = part->type == TENSOR_INT4_128 ? 128 : 32;
    memset(writer->coded, 0, count * columns / 2);
    for (uint64_t at = 0; at < count * columns; at += group) {
        float largest = 0;
        for (uint64_t i = at; i < at + group; i++)
            largest = fmaxf(largest, fabsf(writer->rows[i]));
        const uint64_t index = (first * columns + at) / group;
        const float scale =
            group_scale(part->type, largest, writer->scales + index * (mxfp4 ? 1 : 2));
        for (uint64_t i = at; i < at + group; i++) {
            const float value = writer->rows[i] / scale;
            const uint32_t code =
                mxfp4 ? e2m1_from_float(value) : (uint32_t)(fmaxf(-8, fminf(7, rintf(value))) + 8);
            writer->coded[i / 2] |= (uint8_t)(code << (i % 2 * 4));
        }
    }
}

static bool is_packed(enum tensor_type type) {
    return type >= TENSOR_INT4_32 && type <= TENSOR_MXFP4;
}

static void random_checkpoint_encode(struct writer *writer, const struct checkpoint_part *part,
                                     uint64_t first, uint64_t count) {
    const uint64_t values = count * part->tensor.columns;
    uint16_t half;
    if (part->type == TENSOR_E4M3) {
        quantize(writer, &part->tensor, first, count);
    } else if (is_packed(part->type)) {
        quantize_groups(writer, part, first, count);
    } else if (part->type == TENSOR_F32) {
        memcpy(writer->coded, writer->rows, values * sizeof(float));
    } else {
        for (uint64_t i = 0; i < values; i++) {
            half = part->type == TENSOR_BF16 ? bf16_from_float(writer->rows[i])
                                             : f16_from_float(writer->rows[i]);
            memcpy(writer->coded + 2 * i, &half, sizeof half);
        }
    }
}

/* ---- layout of the files ---- */

static struct checkpoint_part *add_part(struct writer *writer, const struct layout_tensor *tensor,
                                        enum tensor_type type) {
    if (writer->part_count == writer->part_room) {
        writer->part_room = writer->part_room ? 2 * writer->part_room : 256;
        writer->parts = realloc(writer->parts, writer->part_room * sizeof *writer->parts);
        check(writer->parts);
    }
    struct checkpoint_part *part = &writer->parts[writer->part_count++];
    *part = (struct checkpoint_part){.tensor = *tensor, .type = type};
    part->bytes = tensor_type_bytes(type, tensor->rows * tensor->columns);
    writer->total_bytes += part->bytes;
    return part;
}

static void random_checkpoint_add_suffix(struct checkpoint_part *part, const char *suffix) {
    size_t end = strlen(part->tensor.name);
    format_text(part->tensor.name + end, LAYOUT_NAME_BYTES - end, "%s", suffix);
}

/* Adds a weight and its scales, if it has any. */
static void add_weight(struct writer *writer, const struct layout_tensor *tensor,
                       enum tensor_type type) {
    const struct layout_stored stored = layout_stored_as(type, tensor->rows, tensor->columns);
    struct checkpoint_part *part = add_part(writer, tensor, type);
    if (tensor->columns > writer->row_room) writer->row_room = tensor->columns;
    if (is_packed(type)) random_checkpoint_add_suffix(part, LAYOUT_PACKED_SUFFIX);
    if (!stored.scale_suffix) return;
    struct layout_tensor scale = *tensor;
    scale.rows = stored.scale_rows;
    scale.columns = stored.scale_columns;
    part = add_part(writer, &scale, stored.scale_type);
    part->is_scale = true;
    random_checkpoint_add_suffix(part, stored.scale_suffix);
    if (part->bytes > writer->scale_bytes) writer->scale_bytes = part->bytes;
}

static enum status plan_tensor(void *context, const struct layout_tensor *tensor,
                               struct error *error) {
    struct writer *writer = context;
    if (tensor->is_mtp && writer->plan->without_mtp) return STATUS_OK;
    const struct layout_stored stored = layout_stored(&writer->shape, tensor);
    add_weight(writer, tensor, stored.type == TENSOR_BF16 ? writer->plan->type : stored.type);
    return STATUS_OK;
}

static void file_name(const struct writer *writer, uint32_t shard, char out[64]) {
    if (writer->shards == 1)
        format_text(out, 64, "model.safetensors");
    else
        format_text(out, 64, "model-%05u-of-%06u.safetensors", shard + 1, writer->shards);
}

/* Creates a file. It replaces an existing one instead of writing into it, as a link may lead into a
 * cache of models, and a server may have mapped the file. */
static enum status random_checkpoint_open_file(struct writer *writer, const char *name,
                                               struct error *error) {
    format_text(writer->path, sizeof writer->path, "%s/%s", writer->plan->directory, name);
    if (unlink(writer->path) == 0 || errno == ENOENT) {
        int file = open(writer->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        writer->file = file < 0 ? NULL : fdopen(file, "wb");
        if (writer->file) return STATUS_OK;
        if (file >= 0) close(file);
    }
    return error_set(error, STATUS_IO, "%s: %s", writer->path, strerror(errno));
}

static enum status close_file(struct writer *writer, enum status status, struct error *error) {
    bool failed = ferror(writer->file) != 0;
    failed |= fclose(writer->file) != 0;
    writer->file = NULL;
    if (status != STATUS_OK || !failed) return status;
    return error_set(error, STATUS_IO, "%s: cannot be written: %s", writer->path, strerror(errno));
}

/* Codes of four bits lie in words, or in MXFP4's bytes, as compressed-tensors has them. */
static uint32_t codes_of_element(enum tensor_type type) {
    if (!is_packed(type)) return 1;
    return type == TENSOR_MXFP4 ? 2 : 8;
}

static const char *file_type(enum tensor_type type) {
    if (type == TENSOR_MXFP4 || type == TENSOR_E8M0) return "U8";
    return is_packed(type) ? "I32" : tensor_type_name(type);
}

/* Writes the JSON of one shard's header, padded so that the data begins at a multiple of eight. */
static void random_checkpoint_write_header(struct writer *writer, uint32_t shard) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    check(memory);
    unsigned long long offset = 0;
    fprintf(memory, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < writer->part_count; i++) {
        const struct checkpoint_part *part = &writer->parts[i];
        if (part->shard != shard) continue;
        fprintf(memory, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu", part->tensor.name,
                file_type(part->type), (unsigned long long)part->tensor.rows);
        if (part->tensor.dims == 2)
            fprintf(memory, ",%llu",
                    (unsigned long long)(part->tensor.columns / codes_of_element(part->type)));
        fprintf(memory, "],\"data_offsets\":[%llu,%llu]}", offset, offset + part->bytes);
        offset += part->bytes;
    }
    fprintf(memory, "}");
    fclose(memory);
    uint64_t length = round_up(bytes, 8);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> (8 * i) & 0xFF), writer->file);
    fprintf(writer->file, "%s%*s", text, (int)(length - bytes), "");
    free(text);
}

static enum status write_config(struct writer *writer, struct error *error) {
    enum status status = random_checkpoint_open_file(writer, "config.json", error);
    if (status != STATUS_OK) return status;
    fwrite(writer->plan->config.data, 1, writer->plan->config.count, writer->file);
    return close_file(writer, status, error);
}

static enum status write_index(struct writer *writer, struct error *error) {
    enum status status = random_checkpoint_open_file(writer, "model.safetensors.index.json", error);
    if (status != STATUS_OK) return status;
    fprintf(writer->file, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
            (unsigned long long)writer->total_bytes);
    for (size_t i = 0; i < writer->part_count; i++) {
        char name[64];
        file_name(writer, writer->parts[i].shard, name);
        fprintf(writer->file, "%s\n\"%s\":\"%s\"", i ? "," : "", writer->parts[i].tensor.name,
                name);
    }
    fprintf(writer->file, "}}\n");
    return close_file(writer, status, error);
}

/* ---- filling ---- */

static void random_checkpoint_write_part(struct writer *writer,
                                         const struct checkpoint_part *part) {
    if (part->is_scale) {
        fwrite(writer->scales, 1, part->bytes, writer->file);
    } else {
        for (uint64_t first = 0; first < part->tensor.rows; first += QUANT_GROUP) {
            uint64_t left = part->tensor.rows - first,
                     count = left < QUANT_GROUP ? left : QUANT_GROUP;
            make_rows(writer, &part->tensor, first, count);
            random_checkpoint_encode(writer, part, first, count);
            fwrite(writer->coded, 1, tensor_type_bytes(part->type, count * part->tensor.columns),
                   writer->file);
        }
    }
    writer->done_bytes += part->bytes;
    if (writer->plan->progress)
        writer->plan->progress(writer->plan->context, writer->done_bytes, writer->total_bytes);
}

static enum status write_shards(struct writer *writer, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t shard = 0; status == STATUS_OK && shard < writer->shards; shard++) {
        char name[64];
        file_name(writer, shard, name);
        status = random_checkpoint_open_file(writer, name, error);
        if (status != STATUS_OK) break;
        random_checkpoint_write_header(writer, shard);
        for (size_t i = 0; i < writer->part_count && !ferror(writer->file); i++)
            if (writer->parts[i].shard == shard)
                random_checkpoint_write_part(writer, &writer->parts[i]);
        status = close_file(writer, status, error);
    }
    return status;
}

static enum status random_checkpoint_prepare(struct writer *writer, struct error *error) {
    const struct random_checkpoint *plan = writer->plan;
    enum status status = shape_parse(plan->config, "config.json", &writer->shape, error);
    if (status != STATUS_OK) return status;
    if (writer->shards > SHARDS_MAX)
        return error_set(error, STATUS_INVALID, "shards: expected at most %d, found %u", SHARDS_MAX,
                         writer->shards);
    status = layout_for_each(&writer->shape, plan_tensor, writer, error);
    if (status != STATUS_OK) return status;
    uint64_t before = 0;
    for (size_t i = 0; i < writer->part_count; i++) {
        writer->parts[i].shard =
            (uint32_t)((double)before * writer->shards / (double)writer->total_bytes);
        before += writer->parts[i].bytes;
    }
    if (plan->planned) status = plan->planned(plan->context, writer->total_bytes, error);
    if (status != STATUS_OK) return status;
    if (mkdir(plan->directory, 0777) && errno != EEXIST)
        return error_set(error, STATUS_IO, "%s: %s", plan->directory, strerror(errno));
    /* Files of an earlier checkpoint in the same place must not shadow this one. */
    format_text(writer->path, sizeof writer->path, "%s/%s", plan->directory,
                writer->shards > 1 ? "model.safetensors" : "model.safetensors.index.json");
    if (unlink(writer->path) && errno != ENOENT)
        return error_set(error, STATUS_IO, "%s: %s", writer->path, strerror(errno));
    writer->rows = malloc(writer->row_room * QUANT_GROUP * sizeof(float));
    writer->coded = malloc(tensor_type_bytes(TENSOR_F32, writer->row_room * QUANT_GROUP));
    writer->scales = malloc(writer->scale_bytes + 1);
    check(writer->rows && writer->coded && writer->scales);
    return STATUS_OK;
}

enum status random_checkpoint_write(const struct random_checkpoint *plan, struct error *error) {
    struct writer writer = {.plan = plan, .shards = plan->shards ? plan->shards : 1};
    enum status status = random_checkpoint_prepare(&writer, error);
    if (status == STATUS_OK) status = write_config(&writer, error);
    if (status == STATUS_OK && writer.shards > 1) status = write_index(&writer, error);
    if (status == STATUS_OK) status = write_shards(&writer, error);
    free(writer.parts);
    free(writer.rows);
    free(writer.coded);
    free(writer.scales);
    return status;
}
