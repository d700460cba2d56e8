/* SPDX-License-Identifier: Apache-2.0
 * Protects the window that ranks of a host write to: what one rank writes another reads. A rank
 * that did not announce its window in this epoch, has none, or names another rank's file is not
 * written to. A rank that comes back with a new window is written to there.
 */
#include "test_case.h"

#include <sys/wait.h>
#include <unistd.h>

#include "compute/exchange/shared_window.h"

#define BYTES 20000
#define RANKS 3
#define EPOCH 7

static void open_memory(struct shared_window *window, size_t bytes) {
    struct error error;
    if (shared_window_open(window, bytes, RANKS, &error)) fail_msg("%s", error.text);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(window->own[i], 0);
}

static struct shared_window mine, other;

static int open_two(void **state) {
    open_memory(&mine, BYTES);
    open_memory(&other, BYTES);
    return 0;
}

static int close_two(void **state) {
    shared_window_close(&mine);
    shared_window_close(&other);
    return 0;
}

TEST_AROUND(what_is_written_there_is_read_here, open_two, close_two) {
    shared_window_map(&mine, 1, &other.address, EPOCH);
    char *there = shared_window_of(&mine, 1, EPOCH);
    assert_non_null(there);
    assert_ptr_not_equal(there, other.own);
    memset(there, 5, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(other.own[i], 5);
    assert_null(shared_window_of(&mine, 2, EPOCH));
}

TEST_AROUND(another_process_writes_too, open_two, close_two) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct shared_window own;
        if (shared_window_open(&own, BYTES, RANKS, NULL)) _exit(1);
        shared_window_map(&own, 0, &mine.address, EPOCH);
        char *there = shared_window_of(&own, 0, EPOCH);
        if (!there) _exit(2);
        there[BYTES - 1] = 9;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(mine.own[BYTES - 1], 9);
}

TEST_AROUND(each_epoch_hears_anew, open_two, close_two) {
    shared_window_map(&mine, 1, &other.address, EPOCH);
    char *there = shared_window_of(&mine, 1, EPOCH);
    assert_null(shared_window_of(&mine, 1, EPOCH + 1));
    shared_window_map(&mine, 1, &other.address, EPOCH + 1);
    assert_ptr_equal(shared_window_of(&mine, 1, EPOCH + 1), there);
}

TEST_AROUND(who_comes_back_with_other_memory_gets_what_is_meant_for_it, open_two, close_two) {
    struct shared_window back;
    open_memory(&back, BYTES);
    shared_window_map(&mine, 1, &other.address, EPOCH);
    shared_window_map(&mine, 1, &back.address, EPOCH + 1);
    shared_window_of(&mine, 1, EPOCH + 1)[3] = 4;
    assert_true(back.own[3] == 4 && other.own[3] == 0);
    shared_window_close(&back);
}

TEST_AROUND(nobody_elses_file_is_written_to, open_two, close_two) {
    struct shared_file wrong = other.address;
    wrong.name++;
    shared_window_map(&mine, 1, &wrong, EPOCH);
    assert_null(shared_window_of(&mine, 1, EPOCH));
    wrong = other.address;
    wrong.file = STDERR_FILENO;
    shared_window_map(&mine, 1, &wrong, EPOCH);
    assert_null(shared_window_of(&mine, 1, EPOCH));
    wrong = (struct shared_file){.process = (uint32_t)getpid(), .file = other.address.file};
    shared_window_map(&mine, 1, &wrong, EPOCH);
    assert_null(shared_window_of(&mine, 1, EPOCH));
    shared_window_map(&mine, 1, &other.address, EPOCH); /* the right one, after all */
    assert_non_null(shared_window_of(&mine, 1, EPOCH));
}

TEST_AROUND(memory_of_another_size_is_left_alone, open_two, close_two) {
    struct shared_window small;
    open_memory(&small, BYTES / 2);
    shared_window_map(&mine, 1, &small.address, EPOCH);
    assert_null(shared_window_of(&mine, 1, EPOCH));
    shared_window_close(&small);
}
