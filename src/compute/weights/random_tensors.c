/* SPDX-License-Identifier: Apache-2.0
 * Two walks over the shape's tensors. The first computes the required size of each kind of bytes,
 * and the second points tensors at them. The bytes are in an anonymous file: packing drops pages
 * after reading them, and the file brings them back.
 */
#include "compute/weights/random_tensors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "compute/weights/layout.h"

#define CODES_DEVIATION 1.157f /* of E4M3 codes 0x30 to 0x3F, either sign */
#define INT4_DEVIATION 4.637f  /* of all values from -8 to 7 */
#define E2M1_DEVIATION 2.926f  /* of all codes */
#define SCALES_MAX 16          /* widths and types of matrices with scales in one model */

enum random_kind { KIND_CODES, KIND_NIBBLES, KIND_HALVES, KIND_ONES, KIND_ZEROS, KIND_COUNT };

struct region {
    size_t at, bytes;
};

struct draw {
    const struct shape *shape;
    struct region regions[KIND_COUNT];
    struct {
        uint64_t columns;      /* of the weight */
        enum tensor_type type; /* of the weight */
        struct region region;
    } scales[SCALES_MAX];
    uint32_t scale_count;
    char *base; /* NULL: the first walk */
    char *names, *next_name;
    size_t names_bytes;
    struct tensor *tensors;
    uint32_t tensor_count;
};

static enum random_kind random_tensors_kind_of(const struct layout_tensor *tensor,
                                               enum tensor_type type) {
    if (tensor->is_bias) return KIND_ZEROS;
    if (tensor->kind == LAYOUT_NORM) return KIND_ONES;
    if (type == TENSOR_BF16) return KIND_HALVES;
    return type == TENSOR_E4M3 ? KIND_CODES : KIND_NIBBLES;
}

static struct region *scales_of(struct draw *draw, uint64_t columns, enum tensor_type type) {
    uint32_t i = 0;
    while (i < draw->scale_count &&
           (draw->scales[i].columns != columns || draw->scales[i].type != type))
        i++;
    check(i < SCALES_MAX);
    draw->scales[i].columns = columns;
    draw->scales[i].type = type;
    if (i == draw->scale_count) draw->scale_count++;
    return &draw->scales[i].region;
}

static void add(struct draw *draw, const struct layout_tensor *wanted, const char *suffix,
                enum tensor_type type, struct region *region) {
    struct tensor tensor = {.type = type,
                            .dims = wanted->dims,
                            .shape = {wanted->rows, wanted->columns},
                            .file = "random weights"};
    size_t name_bytes = strlen(wanted->name) + strlen(suffix) + 1;
    tensor.bytes = tensor_type_bytes(type, tensor.shape[0] * tensor.shape[1]);
    if (!draw->base) {
        if (tensor.bytes > region->bytes) region->bytes = tensor.bytes;
        draw->names_bytes += name_bytes;
        draw->tensor_count++;
        return;
    }
    format_text(draw->next_name, name_bytes, "%s%s", wanted->name, suffix);
    tensor.name = draw->next_name;
    tensor.data = draw->base + region->at;
    draw->next_name += name_bytes;
    draw->tensors[draw->tensor_count++] = tensor;
}

static enum status random_tensors_visit(void *context, const struct layout_tensor *wanted,
                                        struct error *error) {
    struct draw *draw = context;
    const struct layout_stored stored = layout_stored(draw->shape, wanted);
    add(draw, wanted, "", stored.type, &draw->regions[random_tensors_kind_of(wanted, stored.type)]);
    if (!stored.scale_suffix) return STATUS_OK;
    struct layout_tensor scale = *wanted;
    scale.rows = stored.scale_rows;
    scale.columns = stored.scale_columns;
    add(draw, &scale, stored.scale_suffix, stored.scale_type,
        scales_of(draw, wanted->columns, stored.type));
    return STATUS_OK;
}

/* ---- the bytes ---- */

static uint64_t next_bits(uint64_t *state) { /* xorshift64* (Vigna, 2016) */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

/* Fills words with random bits where `keep` has ones, and with the bits of `set` elsewhere. */
static void fill(char *to, size_t bytes, uint64_t keep, uint64_t set) {
    uint64_t state = 0x9E3779B97F4A7C15u; /* any value except zero */
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = (next_bits(&state) & keep) | set;
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static void fill_with(const struct draw *draw, const struct region *region, const void *value,
                      size_t bytes) {
    for (size_t i = 0; i < region->bytes; i += bytes)
        memcpy(draw->base + region->at + i, value, bytes);
}

/* Fills scales of a type's codes, so that a product's outputs are about as large as its inputs. */
static void fill_scales(const struct draw *draw, uint32_t index) {
    const enum tensor_type type = draw->scales[index].type;
    const float deviation = type == TENSOR_E4M3    ? CODES_DEVIATION
                            : type == TENSOR_MXFP4 ? E2M1_DEVIATION
                                                   : INT4_DEVIATION;
    const float scale = 1 / (deviation * sqrtf((float)draw->scales[index].columns));
    const uint16_t half = bf16_from_float(scale);
    const uint8_t exponent = (uint8_t)(127 + (int)roundf(log2f(scale)));
    const struct region *region = &draw->scales[index].region;
    if (type == TENSOR_E4M3)
        fill_with(draw, region, &scale, sizeof scale);
    else if (type == TENSOR_MXFP4)
        fill_with(draw, region, &exponent, sizeof exponent);
    else
        fill_with(draw, region, &half, sizeof half);
}

/* BF16 values of about 1/sqrt(hidden). */
static void fill_halves(const struct draw *draw) {
    const struct region *halves = &draw->regions[KIND_HALVES];
    uint64_t exponent = (uint64_t)(127 + ilogbf(1 / sqrtf((float)draw->shape->hidden))) << 7;
    /* random sign and fraction, fixed exponent */
    fill(draw->base + halves->at, halves->bytes, 0x807F807F807F807Fu,
         exponent * 0x0001000100010001u);
}

static void random_tensors_fill_all(const struct draw *draw) {
    const struct region *codes = &draw->regions[KIND_CODES], *ones = &draw->regions[KIND_ONES];
    /* E4M3 codes of random sign, with magnitudes from 0.5 to 1.875 */
    fill(draw->base + codes->at, codes->bytes, 0x8F8F8F8F8F8F8F8Fu, 0x3030303030303030u);
    const struct region *nibbles = &draw->regions[KIND_NIBBLES];
    fill(draw->base + nibbles->at, nibbles->bytes, UINT64_MAX, 0);
    fill_halves(draw);
    fill(draw->base + ones->at, ones->bytes, 0, bf16_from_float(1) * 0x0001000100010001u);
    for (uint32_t i = 0; i < draw->scale_count; i++)
        fill_scales(draw, i);
}

static size_t random_tensors_place(struct region *region, size_t used) {
    region->at = used;
    return round_up(used + region->bytes, 4096);
}

static enum status random_tensors_map(struct draw *draw, size_t bytes, struct error *error) {
    int file = memfd_create("random weights", MFD_CLOEXEC);
    void *memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int cause = errno;
    if (file >= 0) close(file);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of random weights: %s",
                         bytes, strerror(cause));
    draw->base = memory;
    return STATUS_OK;
}

enum status random_tensors_open(const struct shape *shape, struct checkpoint **checkpoint_out,
                                struct error *error) {
    struct draw draw = {.shape = shape};
    size_t bytes = 0;
    check(shape->mtp_layers == 0);
    enum status status = layout_for_each(shape, random_tensors_visit, &draw, error);
    if (status != STATUS_OK) return status;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        bytes = random_tensors_place(&draw.regions[kind], bytes);
    for (uint32_t i = 0; i < draw.scale_count; i++)
        bytes = random_tensors_place(&draw.scales[i].region, bytes);
    status = random_tensors_map(&draw, bytes, error);
    if (status != STATUS_OK) return status;
    draw.tensors = calloc(draw.tensor_count, sizeof *draw.tensors);
    draw.names = draw.next_name = malloc(draw.names_bytes);
    check(draw.tensors && draw.names);
    draw.tensor_count = 0;
    random_tensors_fill_all(&draw);
    status = layout_for_each(shape, random_tensors_visit, &draw, error);
    check(status == STATUS_OK); /* the first walk succeeded */
    struct checkpoint_memory memory = {.map = {draw.base, bytes},
                                       .names = draw.names,
                                       .tensors = draw.tensors,
                                       .tensor_count = draw.tensor_count};
    *checkpoint_out = checkpoint_take(shape, &memory);
    return STATUS_OK;
}
