/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/gzip_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

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

static void write_file(bool packed, size_t cut) {
    gzFile file = gzopen(path, packed ? "wb" : "wbT");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        gzprintf(file, "line %d\n", i * 7919);
    assert_int_equal(gzclose(file), Z_OK);
    if (cut) assert_int_equal(truncate(path, (off_t)cut), 0);
}

static void plain_and_packed_files_are_read_alike(void **state) {
    (void)state;
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

/* Few packed bytes may be many: the limit is what they are unpacked. */
static void what_is_too_large_or_cut_is_refused(void **state) {
    (void)state;
    struct bytes text;
    struct error error = {""};
    write_file(true, 0);
    assert_int_equal(gzip_file_take(path, 9000, &text, &error), STATUS_TOO_LARGE);
    write_file(true, 400);
    assert_int_equal(gzip_file_take(path, 1 << 20, &text, &error), STATUS_CORRUPT);
    assert_int_equal(gzip_file_take("/no/such", 100, &text, &error), STATUS_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_are_read_alike),
        cmocka_unit_test(what_is_too_large_or_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
