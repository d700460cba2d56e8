/* SPDX-License-Identifier: Apache-2.0
 * One anonymous mapping, untouched until tokens are written, so that an idle server holds no memory
 * for pages it never used. Huge pages are asked for: attention walks whole slices.
 */
#include "compute/model/kv_pages.h"

#include <string.h>
#include <sys/mman.h>

enum status kv_pages_open(struct kv_pages *pages, enum kv_element element, uint32_t width,
                          uint32_t slice_count, uint32_t mtp_count, uint64_t bytes,
                          struct error *error) {
    size_t page_bytes = kv_block_bytes(element, width, slice_count);
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
    *pages = (struct kv_pages){
        .memory = memory,
        .mapped_bytes = mapped,
        .page_count = (uint32_t)count,
        .page_bytes = page_bytes,
        .slice_bytes = kv_block_slice_bytes(element, width),
        .row_bytes = width * kv_element_bytes(element),
        .width = width,
        .slice_count = slice_count,
        .mtp_count = mtp_count,
        .element = element,
    };
    return STATUS_OK;
}

void kv_pages_close(struct kv_pages *pages) {
    if (pages->memory) munmap(pages->memory, pages->mapped_bytes);
    *pages = (struct kv_pages){0};
}

void kv_pages_note(struct kv_pages *pages, uint32_t page, uint32_t token_count) {
    kv_block_describe(kv_pages_header(pages, page), pages->element, pages->width,
                      pages->slice_count, pages->mtp_count, token_count);
}

void kv_pages_write(const struct kv_pages *pages, const struct kernels *kernels, void *slice,
                    uint32_t row, uint32_t column, const float *values, uint32_t count) {
    char *to = (char *)slice + row * pages->row_bytes + column * kv_element_bytes(pages->element);
    if (pages->element == KV_ELEMENT_F32)
        memcpy(to, values, count * sizeof *values);
    else
        kernels->bf16_from_float((uint16_t *)(void *)to, values, count);
}
