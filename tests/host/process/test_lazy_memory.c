/* SPDX-License-Identifier: Apache-2.0
 * Memory that nobody has touched costs nothing: not when it is taken, whatever malloc does, and not
 * later; what was touched is kept, and all of it is gone when it is given back.
 */
#include "host/process/lazy_memory.h"

#include "test_case.h"

#include <unistd.h>

#define WHOLE ((size_t)4 << 30)
#define PIECE ((size_t)16 << 20)

/* Of this process, in memory. */
static size_t resident_bytes(void) {
    size_t all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(what_is_not_touched_costs_nothing) {
    size_t before = resident_bytes();
    struct lazy_memory memory = lazy_memory_take(WHOLE);
    assert_non_null(memory.start);
    assert_true(memory.bytes == WHOLE);
    assert_true(resident_bytes() < before + PIECE);
    unsigned char *bytes = memory.start;
    assert_int_equal(bytes[WHOLE - 1], 0);
    for (size_t i = 0; i < 2 * PIECE; i++)
        bytes[i] = (unsigned char)(i % 251 + 1);
    for (size_t i = 0; i < 2 * PIECE; i++)
        assert_int_equal(bytes[i], i % 251 + 1);
    assert_true(resident_bytes() >= before + PIECE);
    lazy_memory_free(&memory);
    assert_null(memory.start);
    assert_true(resident_bytes() < before + PIECE);
    lazy_memory_free(&memory);
}

/* Whether or not the system has large pages. */
TEST(memory_in_large_pages_is_zero_and_keeps_what_is_written) {
    struct lazy_memory memory = lazy_memory_take(WHOLE);
    unsigned char *bytes = memory.start;
    lazy_memory_widen(&memory);
    bytes[WHOLE / 2] = 7;
    assert_int_equal(bytes[WHOLE / 2], 7);
    assert_int_equal(bytes[0] + bytes[WHOLE / 2 + 1] + bytes[WHOLE - 1], 0);
    lazy_memory_free(&memory);
}

TEST(what_is_cut_off_is_gone) {
    size_t before = resident_bytes();
    struct lazy_memory memory = lazy_memory_take(WHOLE);
    unsigned char *bytes = memory.start;
    for (size_t i = 0; i < 2 * PIECE; i++)
        bytes[i] = 7;
    lazy_memory_trim(&memory, 5);
    assert_true(memory.bytes >= 5 && memory.bytes < PIECE);
    assert_true(resident_bytes() < before + PIECE);
    assert_int_equal(bytes[4], 7);
    lazy_memory_trim(&memory, WHOLE); /* it has no more than it has */
    assert_true(memory.bytes < PIECE);
    lazy_memory_free(&memory);
}

TEST(what_cannot_be_is_reported) {
    assert_null(lazy_memory_take(SIZE_MAX / 2).start);
}
