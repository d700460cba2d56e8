/* SPDX-License-Identifier: Apache-2.0
 * Protects KV pages: as many as the memory holds, each slice and row at a place of its own, whose
 * headers say what stands in them.
 */
#include "compute/model/kv_pages.h"

#include <math.h>

#include "test_case.h"

enum { WIDTH = 36, SLICES = 3, PAGES = 4 };

static const struct kernels *plain(void) {
    const struct kernels *kernels;
    assert_int_equal(kernels_select(KERNEL_LEVEL_C, &kernels, NULL), STATUS_OK);
    return kernels;
}

static struct kv_pages open_pages(enum kv_element element) {
    struct kv_pages pages;
    struct error error;
    const struct kv_format format = KV_FORMAT_MLA(element, WIDTH, SLICES, 1);
    uint64_t bytes = PAGES * kv_format_block_bytes(&format) + 4096; /* and no whole page */
    if (kv_pages_open(&pages, &format, bytes, &error)) fail_msg("%s", error.text);
    assert_int_equal(pages.page_count, PAGES);
    return pages;
}

static float value_of(uint32_t page, uint32_t slice, uint32_t row, uint32_t column) {
    return (float)(page * 1000 + slice * 100 + row + column) / 4; /* BF16 may round it */
}

TEST(every_row_keeps_what_was_written_to_it) {
    for (int element = 0; element < KV_ELEMENT_E4M3; element++) {
        struct kv_pages pages = open_pages((enum kv_element)element);
        float row_values[WIDTH], rounded[WIDTH];
        for (uint32_t i = 0; i < PAGES * SLICES * KV_BLOCK_TOKENS * 2; i++) {
            bool look = i >= PAGES * SLICES * KV_BLOCK_TOKENS; /* when all are written */
            uint32_t at = i % (PAGES * SLICES * KV_BLOCK_TOKENS), row = at % KV_BLOCK_TOKENS;
            uint32_t slice = at / KV_BLOCK_TOKENS % SLICES, page = at / KV_BLOCK_TOKENS / SLICES;
            char *place = kv_pages_row(&pages, page, slice, KV_GROUP_MLA, row);
            for (uint32_t c = 0; c < WIDTH; c++)
                row_values[c] = value_of(page, slice, row, c);
            if (!look) {
                kv_pages_write(&pages, plain(), KV_GROUP_MLA, place, row_values);
                continue;
            }
            plain()->round_bf16(rounded, row_values, WIDTH);
            for (uint32_t c = 0; c < WIDTH; c++) {
                const char *found = place + c * pages.row_bytes / WIDTH;
                float value;
                if (element == KV_ELEMENT_F32)
                    memcpy(&value, found, sizeof value);
                else
                    plain()->float_from_bf16(&value, (const uint16_t *)(const void *)found, 1);
                assert_true(value == (element == KV_ELEMENT_F32 ? row_values[c] : rounded[c]));
            }
        }
        kv_pages_close(&pages);
    }
}

/* Bytes of a row give back what quantize_e4m3 makes of it, scales of 128 channels included. */
TEST(keys_of_an_indexer_are_read_as_they_were_rounded) {
    enum { KEY = 160 };
    for (int element = 0; element < KV_ELEMENT_COUNT; element++) {
        const struct kv_format format = {
            .slice_count = 1,
            .group_count = 2,
            .groups = {{KV_ELEMENT_BF16, WIDTH, 1}, {(uint32_t)element, KEY, 1}}};
        float values[KEY], expected[KEY], found[KEY], scales[2];
        struct kv_pages pages;
        assert_int_equal(kv_pages_open(&pages, &format, kv_format_block_bytes(&format), NULL),
                         STATUS_OK);
        assert_int_equal(kv_pages_index_element(&pages), element);
        for (uint32_t i = 0; i < KEY; i++)
            values[i] = expected[i] = (i < QUANT_GROUP ? 3.0f : 0.01f) * sinf((float)i);
        if (element == KV_ELEMENT_BF16) plain()->round_bf16(expected, values, KEY);
        if (element == KV_ELEMENT_E4M3) plain()->quantize_e4m3(expected, scales, values, KEY, true);
        for (uint32_t i = 0; element == KV_ELEMENT_E4M3 && i < KEY; i++)
            expected[i] *= scales[i / QUANT_GROUP];
        for (uint32_t row = 0; row < KV_BLOCK_TOKENS; row += 9) {
            void *place = kv_pages_row(&pages, 0, 0, KV_GROUP_INDEX, row);
            kv_pages_write(&pages, plain(), KV_GROUP_INDEX, place, values);
            kv_pages_read(&pages, plain(), KV_GROUP_INDEX, place, found);
            assert_memory_equal(found, expected, sizeof found);
        }
        kv_pages_close(&pages);
    }
}

TEST(a_cleared_row_is_zero_in_all_groups) {
    const struct kv_format format = {
        .slice_count = 2,
        .group_count = 2,
        .groups = {{KV_ELEMENT_BF16, WIDTH, 1}, {KV_ELEMENT_F32, 8, 1}}};
    struct kv_pages pages;
    assert_int_equal(kv_pages_open(&pages, &format, kv_format_block_bytes(&format), NULL),
                     STATUS_OK);
    char *slice = kv_pages_slice(&pages, 0, 1);
    size_t zeros = 0;
    memset(slice, 1, pages.slice_bytes);
    kv_pages_clear_row(&pages, 0, 1, 5);
    for (size_t i = 0; i < pages.slice_bytes; i++)
        zeros += slice[i] == 0;
    assert_int_equal(zeros, 2 * WIDTH + 4 * 8);
    char *second = kv_pages_row(&pages, 0, 1, 1, 5);
    assert_ptr_equal(second, slice + kv_format_group_offset(&format, 1) + 5 * 4 * 8);
    assert_true(slice[5 * 2 * WIDTH] == 0 && second[0] == 0 && second[-1] == 1);
    kv_pages_close(&pages);
}

TEST(a_header_says_how_many_rows_are_valid) {
    struct kv_pages pages = open_pages(KV_ELEMENT_BF16);
    kv_pages_note(&pages, 2, 17);
    const struct kv_block_header *header = kv_pages_header(&pages, 2);
    assert_memory_equal(header->magic, KV_BLOCK_MAGIC, sizeof header->magic);
    assert_int_equal(header->token_count, 17);
    assert_int_equal(header->width, WIDTH);
    assert_int_equal(header->slice_count, SLICES);
    assert_int_equal(header->mtp_count, 1);
    assert_int_equal(kv_pages_header(&pages, 1)->token_count, 0);
    kv_pages_close(&pages);
}

TEST(memory_for_no_page_is_refused) {
    struct kv_pages pages;
    struct error error;
    const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_F32, WIDTH, SLICES, 0);
    uint64_t bytes = kv_format_block_bytes(&format) - 1;
    assert_int_equal(kv_pages_open(&pages, &format, bytes, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "raise --kv-memory"));
}
