/* SPDX-License-Identifier: Apache-2.0
 * Protects memory that ranks of a host write into: what one writes the other reads; a rank that was
 * not heard of in this epoch, says that it has none, or names another's file is not written to; and
 * one that comes back with other memory gets what is meant for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "compute/exchange/near_memory.h"

#define BYTES 20000
#define RANKS 3
#define EPOCH 7

static void open_memory(struct near_memory *near, size_t bytes) {
    struct error error;
    if (near_memory_open(near, bytes, RANKS, &error)) fail_msg("%s", error.text);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(near->own[i], 0);
}

static struct near_memory mine, other;

static int open_two(void **state) {
    open_memory(&mine, BYTES);
    open_memory(&other, BYTES);
    return 0;
}

static int close_two(void **state) {
    near_memory_close(&mine);
    near_memory_close(&other);
    return 0;
}

static void what_is_written_there_is_read_here(void **state) {
    near_memory_receive(&mine, 1, &other.address, EPOCH);
    char *there = near_memory_of(&mine, 1, EPOCH);
    assert_non_null(there);
    assert_ptr_not_equal(there, other.own);
    memset(there, 5, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(other.own[i], 5);
    assert_null(near_memory_of(&mine, 2, EPOCH));
}

static void another_process_writes_too(void **state) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct near_memory own;
        if (near_memory_open(&own, BYTES, RANKS, NULL)) _exit(1);
        near_memory_receive(&own, 0, &mine.address, EPOCH);
        char *there = near_memory_of(&own, 0, EPOCH);
        if (!there) _exit(2);
        there[BYTES - 1] = 9;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(mine.own[BYTES - 1], 9);
}

static void each_epoch_hears_anew(void **state) {
    near_memory_receive(&mine, 1, &other.address, EPOCH);
    char *there = near_memory_of(&mine, 1, EPOCH);
    assert_null(near_memory_of(&mine, 1, EPOCH + 1));
    near_memory_receive(&mine, 1, &other.address, EPOCH + 1);
    assert_ptr_equal(near_memory_of(&mine, 1, EPOCH + 1), there);
}

static void who_comes_back_with_other_memory_gets_what_is_meant_for_it(void **state) {
    struct near_memory back;
    open_memory(&back, BYTES);
    near_memory_receive(&mine, 1, &other.address, EPOCH);
    near_memory_receive(&mine, 1, &back.address, EPOCH + 1);
    near_memory_of(&mine, 1, EPOCH + 1)[3] = 4;
    assert_true(back.own[3] == 4 && other.own[3] == 0);
    near_memory_close(&back);
}

static void nobody_elses_file_is_written_to(void **state) {
    struct shared_file wrong = other.address;
    wrong.name++;
    near_memory_receive(&mine, 1, &wrong, EPOCH);
    assert_null(near_memory_of(&mine, 1, EPOCH));
    wrong = other.address;
    wrong.file = STDERR_FILENO;
    near_memory_receive(&mine, 1, &wrong, EPOCH);
    assert_null(near_memory_of(&mine, 1, EPOCH));
    wrong = (struct shared_file){.process = (uint32_t)getpid(), .file = other.address.file};
    near_memory_receive(&mine, 1, &wrong, EPOCH);
    assert_null(near_memory_of(&mine, 1, EPOCH));
    near_memory_receive(&mine, 1, &other.address, EPOCH); /* the right one, after all */
    assert_non_null(near_memory_of(&mine, 1, EPOCH));
}

static void memory_of_another_size_is_left_alone(void **state) {
    struct near_memory small;
    open_memory(&small, BYTES / 2);
    near_memory_receive(&mine, 1, &small.address, EPOCH);
    assert_null(near_memory_of(&mine, 1, EPOCH));
    near_memory_close(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_there_is_read_here, open_two, close_two),
        cmocka_unit_test_setup_teardown(another_process_writes_too, open_two, close_two),
        cmocka_unit_test_setup_teardown(each_epoch_hears_anew, open_two, close_two),
        cmocka_unit_test_setup_teardown(who_comes_back_with_other_memory_gets_what_is_meant_for_it,
                                        open_two, close_two),
        cmocka_unit_test_setup_teardown(nobody_elses_file_is_written_to, open_two, close_two),
        cmocka_unit_test_setup_teardown(memory_of_another_size_is_left_alone, open_two, close_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
