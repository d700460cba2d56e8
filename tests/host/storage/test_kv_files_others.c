/* SPDX-License-Identifier: Apache-2.0
 * Protects other block formats in a directory: they count towards its bound, what is old of them
 * goes first, and what a process of theirs writes to stays.
 */
#include "kv_blocks.h"
#include "test_case.h"

static void ignore_file(const char *path) {
}

static int count_segments(const struct kv_format *of) {
    other = of;
    int count = for_files(".kv", ignore_file);
    other = NULL;
    return count;
}

static int names_made;

/* As a copy made by `cp -al` has. */
static void name_twice(const char *path) {
    char second[200];
    snprintf(second, sizeof second, "%s/%d.kept", directory, names_made++);
    assert_int_equal(link(path, second), 0);
}

/* Of both formats' folders. */
static uint64_t bytes_of_both(const struct kv_format *second) {
    bytes_seen = 0;
    for_files("", add_bytes);
    other = second;
    for_files("", add_bytes);
    other = NULL;
    return bytes_seen;
}

/* Formats share one bound: what another model left goes first, being older, and what a process of
 * it writes to now stays. */
TEST_AROUND(all_formats_share_the_bound, set_up, tear_down) {
    static const struct kv_format kin =
        KV_FORMAT_MLA(KV_ELEMENT_BF16, 36, 4, 0); /* as large a block */
    struct kv_store_options options = options_of(KV_IO_AUTO, 128), kins = options;
    struct kv_store *store = open_with(&options);
    for (uint32_t i = 0; i < 8; i++)
        keep(store, i, 0, 12);
    close_store(store);
    int left = count_segments(&format);
    assert_true(left > 4);
    for_files(".kv", name_twice);
    kins.format = kin;
    struct kv_store *second = open_with(&kins);
    for (uint32_t i = 0; i < 30; i++) {
        keep(second, 100 + i, 0, 12);
        assert_true(bytes_of_both(&kin) <= options.disk_bytes);
        assert_true(count_segments(&format) <= left);
        left = count_segments(&format);
        if (left > 0) assert_int_equal(kv_store_get_stats(second).removed_segments, 0);
    }
    assert_int_equal(left, 0);
    assert_true(kv_store_get_stats(second).removed_segments > 0);
    store = open_with(&options);
    keep(store, 50, 0, 3);
    for (uint32_t i = 0; i < 30; i++)
        keep(second, 200 + i, 0, 12);
    assert_loads(store, 50, 3, 3);
    assert_int_equal(count_segments(&format), 1);
    assert_int_equal(kv_store_get_stats(store).dropped + kv_store_get_stats(second).dropped, 0);
    close_store(store);
    close_store(second);
    other = &kin;
    char folder[160];
    folder_of(folder);
    for_files("", remove_file);
    assert_int_equal(rmdir(folder), 0);
    other = NULL;
    while (names_made-- > 0) {
        snprintf(folder, sizeof folder, "%s/%d.kept", directory, names_made);
        assert_int_equal(unlink(folder), 0);
    }
}
