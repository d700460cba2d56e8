/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/gzip_file.h"

#include "test_case.h"

#include <unistd.h>
#include <zlib.h>

static char path[] = "/tmp/gzip_file.XXXXXX";

static int make_file(void **state) {
    (void)state;
    int file = mkstemp(path);
    return file < 0 || close(file);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static void add_to_file(const char *mode) {
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        gzprintf(file, "line %d\n", i * 7919);
    assert_int_equal(gzclose(file), Z_OK);
}

static void write_file(bool packed, size_t cut) {
    add_to_file(packed ? "wb" : "wbT");
    if (cut) assert_int_equal(truncate(path, (off_t)cut), 0);
}

TEST(plain_and_packed_files_are_read_alike) {
    struct bytes plain, packed;
    struct error error = {""};
    write_file(false, 0);
    assert_int_equal(gzip_file_take(path, 1 << 20, &plain, &error), STATUS_OK);
    write_file(true, 0);
    assert_int_equal(gzip_file_take(path, 1 << 20, &packed, &error), STATUS_OK);
    assert_true(bytes_equal(plain, packed) && plain.count > 10000);
    free((void *)(uintptr_t)plain.data);
    free((void *)(uintptr_t)packed.data);
}

TEST(members_behind_each_other_are_one_file) {
    struct bytes one, two;
    struct error error = {""};
    write_file(true, 0);
    assert_int_equal(gzip_file_take(path, 1 << 20, &one, &error), STATUS_OK);
    add_to_file("ab");
    assert_int_equal(gzip_file_take(path, 1 << 20, &two, &error), STATUS_OK);
    assert_int_equal(two.count, 2 * one.count);
    assert_memory_equal((const char *)two.data + one.count, one.data, one.count);
    free((void *)(uintptr_t)one.data);
    free((void *)(uintptr_t)two.data);
}

/* `fathom sim` may be given `<(make a trace)`. */
TEST(a_pipe_is_read_to_its_end) {
    struct bytes text;
    struct error error = {""};
    char name[32];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "plain", 5), 5);
    assert_int_equal(close(ends[1]), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    assert_int_equal(gzip_file_take(name, 1 << 20, &text, &error), STATUS_OK);
    assert_true(bytes_equal(text, bytes_of("plain")));
    free((void *)(uintptr_t)text.data);
    close(ends[0]);
}

/* Few packed bytes may be many: the limit is what they are unpacked. */
TEST(what_is_too_large_or_cut_is_refused) {
    struct bytes text;
    struct error error = {""};
    write_file(true, 0);
    assert_int_equal(gzip_file_take(path, 9000, &text, &error), STATUS_TOO_LARGE);
    write_file(true, 400);
    assert_int_equal(gzip_file_take(path, 1 << 20, &text, &error), STATUS_CORRUPT);
    assert_int_equal(gzip_file_take("/no/such", 100, &text, &error), STATUS_NOT_FOUND);
}

TEST_GROUP(make_file, remove_file)
