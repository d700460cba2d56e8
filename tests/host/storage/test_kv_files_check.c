/* SPDX-License-Identifier: Apache-2.0
 * Protects the look at a KV storage from outside: it counts what lies there, finds what is damaged
 * to the block, and makes a directory smaller without touching what somebody writes to.
 */
#include "host/storage/kv_files_check.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "kv_blocks.h"
#include "test_case.h"

static char damage[400], all_damage[2000];

static void note_damage(void *context, const char *line) {
    size_t used = strlen(all_damage);
    snprintf(damage, sizeof damage, "%s", line);
    snprintf(all_damage + used, sizeof all_damage - used, "%s\n", line);
}

static struct kv_check look(bool deep) {
    const struct kv_check_listener listener = {.damage = note_damage};
    struct kv_check check;
    struct error error;
    damage[0] = all_damage[0] = 0;
    if (kv_files_check(directory, deep, &listener, &check, &error)) fail_msg("%s", error.text);
    return check;
}

/* A byte of the second block's first slice. */
static void spoil_second(const char *path) {
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, "?", 1, (off_t)(2 * STORE_PAGE_BYTES + block_bytes() + 33)), 1);
    close(file);
}

TEST_AROUND(what_lies_there_is_counted_and_damage_is_found_to_the_block, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 10);
    assert_int_equal(look(false).writers, 1);
    close_store(store);
    struct kv_check check = look(true);
    assert_int_equal(check.blocks, 10);
    assert_int_equal(check.sound, 10);
    assert_int_equal(check.damaged + check.writers, 0);
    assert_int_equal(for_files(".kv", spoil_second), 1);
    assert_int_equal(look(false).damaged, 0); /* it does not read them */
    check = look(true);
    assert_int_equal(check.sound, 9);
    assert_int_equal(check.damaged, 1);
    assert_non_null(strstr(damage, "slot 1: slice 0 is damaged"));
}

TEST_AROUND(shrinking_leaves_what_somebody_writes_to, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 256);
    struct kv_store *store = open_with(&options);
    struct kv_check check;
    struct error error;
    uint64_t removed, left;
    for (uint32_t i = 0; i < 5; i++)
        keep(store, i, 0, 12);
    keep(store, 5, 0, 3); /* into a segment that is not full */
    int segments = for_files(".kv", NULL);
    assert_true(segments > 1);
    assert_int_equal(kv_files_check_shrink(directory, UINT64_MAX, &removed, &left, &error),
                     STATUS_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(kv_files_check_shrink(directory, 0, &removed, &left, &error), STATUS_OK);
    assert_int_equal(removed, segments - 1);
    assert_true(left > 0);
    close_store(store);
    assert_int_equal(kv_files_check_shrink(directory, 0, &removed, &left, &error), STATUS_OK);
    assert_int_equal(left, 0);
    assert_int_equal(kv_files_check("/nowhere", true, NULL, &check, &error), STATUS_NOT_FOUND);
}

/* Opens one file at most: the directory itself, but no second handle of it. */
TEST_AROUND(a_shrink_without_file_handles_fails_and_removes_nothing, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    struct rlimit limit;
    struct error error;
    uint64_t removed = 7, left = 7;
    keep(store, 1, 0, 10);
    close_store(store);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int lowest = open("/dev/null", O_RDONLY);
    assert_true(lowest >= 0);
    close(lowest);
    struct rlimit less = {(rlim_t)lowest + 1, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    enum status status = kv_files_check_shrink(directory, 0, &removed, &left, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(error.text, "cannot open this directory again"));
    assert_true(removed == 7 && left == 7);
    assert_int_equal(for_files(".kv", NULL), 1);
}

/* One link to the segment, which moves aside, and one file more with a second name. */
static void plant_names(const char *path) {
    char aside[200], second[200], folder[160];
    folder_of(folder);
    snprintf(aside, sizeof aside, "%s/aside", directory);
    snprintf(second, sizeof second, "%s/0000000000000001.kv", folder);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    assert_int_equal(link(aside, second), 0);
}

/* No server uses them. What they lead to stays. */
TEST_AROUND(links_are_named_and_removed, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    struct error error;
    struct stat info;
    char aside[200];
    uint64_t removed, left;
    keep(store, 1, 0, 10);
    close_store(store);
    assert_int_equal(for_files(".kv", plant_names), 1);
    struct kv_check check = look(false);
    assert_int_equal(check.segments, 0);
    assert_int_equal(check.damaged, 2);
    assert_non_null(strstr(all_damage, "it is a link"));
    assert_non_null(strstr(all_damage, "with one name"));
    assert_int_equal(kv_files_check_shrink(directory, UINT64_MAX, &removed, &left, &error),
                     STATUS_OK);
    assert_int_equal(for_files(".kv", NULL), 0);
    snprintf(aside, sizeof aside, "%s/aside", directory);
    assert_int_equal(stat(aside, &info), 0);
    assert_true(info.st_nlink == 1 && info.st_size > 0);
    assert_int_equal(unlink(aside), 0);
}
