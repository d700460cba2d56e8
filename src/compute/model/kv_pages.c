/* SPDX-License-Identifier: Apache-2.0
 * The pages are one anonymous mapping, untouched until tokens are written, so that a server uses no
 * memory for unused pages. The mapping requests huge pages, as attention reads whole slices.
 */
#include "compute/model/kv_pages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/number.h"
#include "compute/model/compressed_rows.h"

struct kv_format kv_pages_format(const struct shape *shape, enum activations activations,
                                 uint32_t slice_count, uint32_t mtp_count) {
    enum kv_element element =
        activations_round_bf16(activations) ? KV_ELEMENT_BF16 : KV_ELEMENT_F32;
    if (shape_is_compressed(shape)) return compressed_rows_format(shape, element);
    struct kv_format format = KV_FORMAT_MLA(element, shape_kv_width(shape), slice_count, mtp_count);
    if (!shape_has_index(shape)) return format;
    format.group_count = 2;
    format.groups[KV_GROUP_INDEX] = (struct kv_group){
        .element = shape->fp8 && activations != ACTIVATIONS_F32 ? KV_ELEMENT_E4M3 : element,
        .width = shape->index_dim,
        .tokens = 1,
    };
    return format;
}

enum status kv_pages_open(struct kv_pages *pages, const struct kv_format *format, uint64_t bytes,
                          struct error *error) {
    const struct kv_group *mla = &format->groups[KV_GROUP_MLA];
    size_t page_bytes = kv_format_block_bytes(format);
    uint64_t count = bytes / page_bytes;
    if (count == 0)
        return error_set(error, STATUS_TOO_LARGE,
                         "KV memory of %llu bytes holds no page: one page of 64 tokens takes %zu "
                         "bytes; raise --kv-memory",
                         (unsigned long long)bytes, page_bytes);
    if (count > UINT32_MAX - 1) count = UINT32_MAX - 1;
    size_t mapped = (size_t)count * page_bytes;
    void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes of KV memory; lower --kv-memory", mapped);
    (void)madvise(memory, mapped, MADV_HUGEPAGE); /* optional */
    *pages = (struct kv_pages){
        .memory = memory,
        .mapped_bytes = mapped,
        .page_count = (uint32_t)count,
        .format = *format,
        .page_bytes = page_bytes,
        .slice_bytes = kv_format_slice_bytes(format),
        .row_bytes = kv_group_row_bytes(mla),
        .width = mla->width,
        .element = (enum kv_element)mla->element,
    };
    return STATUS_OK;
}

/* Copies on a separate stream. All callers share it, one copy at a time. */
struct kv_staging {
    struct device *device;
    struct device_stream *stream;
    void *buffer; /* [slice_bytes] page-locked */
    pthread_mutex_t lock;
};

enum status kv_pages_put_on(struct kv_pages *pages, struct device *device, struct error *error) {
    struct kv_staging *staging = pages->staging = calloc(1, sizeof *staging);
    void *memory;
    if (!staging) return error_set(error, STATUS_NO_MEMORY, "no memory for transfers of KV blocks");
    staging->device = device;
    pthread_mutex_init(&staging->lock, NULL);
    enum status status = device_open_stream(device, &staging->stream, error);
    if (status == STATUS_OK)
        status = device_allocate_pinned(device, pages->slice_bytes, "KV rows on their way",
                                        &staging->buffer, error);
    if (status == STATUS_OK)
        status = device_allocate(device, pages->mapped_bytes, "the KV pages", &memory, error);
    if (status == STATUS_OK) pages->on_device = memory;
    return status;
}

static void close_staging(struct kv_pages *pages) {
    struct kv_staging *staging = pages->staging;
    if (!staging) return;
    device_release(staging->device, pages->on_device);
    device_release(staging->device, staging->buffer);
    device_close_stream(staging->device, staging->stream);
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

/* A failure here also fails the engine's next step, which reports it. */
static void kv_pages_move(const struct kv_pages *pages, uint32_t page, uint32_t slice,
                          bool to_device) {
    struct kv_staging *staging = pages->staging;
    char *host = kv_pages_slice(pages, page, slice);
    char *there = pages->on_device + (host - pages->memory);
    pthread_mutex_lock(&staging->lock);
    if (to_device) {
        memcpy(staging->buffer, host, pages->slice_bytes);
        device_copy(staging->device, staging->stream, there, staging->buffer, pages->slice_bytes,
                    DEVICE_FROM_HOST);
    } else {
        device_copy(staging->device, staging->stream, staging->buffer, there, pages->slice_bytes,
                    DEVICE_TO_HOST);
    }
    (void)device_synchronize_stream(staging->device, staging->stream, NULL);
    if (!to_device) memcpy(host, staging->buffer, pages->slice_bytes);
    pthread_mutex_unlock(&staging->lock);
}

void kv_pages_take(const struct kv_pages *pages, uint32_t page, uint32_t first, uint32_t count) {
    for (uint32_t slice = first; pages->on_device && slice < first + count; slice++)
        kv_pages_move(pages, page, slice, false);
}

void kv_pages_give(const struct kv_pages *pages, uint32_t page, uint32_t first, uint32_t count) {
    for (uint32_t slice = first; pages->on_device && slice < first + count; slice++)
        kv_pages_move(pages, page, slice, true);
}

void kv_pages_close(struct kv_pages *pages) {
    close_staging(pages);
    if (pages->memory) munmap(pages->memory, pages->mapped_bytes);
    *pages = (struct kv_pages){0};
}

void kv_pages_note(struct kv_pages *pages, uint32_t page, uint32_t token_count) {
    kv_block_describe(kv_pages_header(pages, page), &pages->format, token_count);
}

/* The scales of a row of E4M3 codes. */
static float *kv_pages_scales(const struct kv_group *group, const void *row) {
    return (float *)(void *)((char *)(uintptr_t)row + round_up(group->width, 4));
}

static void kv_pages_quantize(const struct kernels *kernels, const struct kv_group *group,
                              uint8_t *codes, const float *values) {
    float rounded[LIMIT_INDEX_DIM];
    check(group->width <= LIMIT_INDEX_DIM);
    kernels->quantize_e4m3(rounded, kv_pages_scales(group, codes), values, group->width, true);
    for (uint32_t i = 0; i < group->width; i++)
        codes[i] = e4m3_from_float(rounded[i]);
}

void kv_pages_write(const struct kv_pages *pages, const struct kernels *kernels, uint32_t index,
                    void *row, const float *values) {
    const struct kv_group *group = &pages->format.groups[index];
    if (group->element == KV_ELEMENT_F32)
        memcpy(row, values, group->width * sizeof *values);
    else if (group->element == KV_ELEMENT_E4M3)
        kv_pages_quantize(kernels, group, row, values);
    else
        kernels->bf16_from_float(row, values, group->width);
}

void kv_pages_read(const struct kv_pages *pages, const struct kernels *kernels, uint32_t index,
                   const void *row, float *values_out) {
    const struct kv_group *group = &pages->format.groups[index];
    if (group->element == KV_ELEMENT_F32)
        memcpy(values_out, row, group->width * sizeof *values_out);
    else if (group->element == KV_ELEMENT_BF16)
        kernels->float_from_bf16(values_out, row, group->width);
    else
        for (uint32_t i = 0; i < group->width; i += QUANT_GROUP)
            kernels->float_from_e4m3(values_out + i, (const uint8_t *)row + i,
                                     kv_pages_scales(group, row)[i / QUANT_GROUP],
                                     min_u32(group->width - i, QUANT_GROUP));
}

void kv_pages_clear_row(const struct kv_pages *pages, uint32_t page, uint32_t slice,
                        uint32_t token) {
    for (uint32_t group = 0; group < pages->format.group_count; group++)
        memset(kv_pages_row(pages, page, slice, group, token), 0,
               kv_group_row_bytes(&pages->format.groups[group]));
}
