/* SPDX-License-Identifier: Apache-2.0
 * Protects the folder of a fleet's manager: one manager at a time, a book that comes back, orders that are
 * taken once and in turn, and files that are replaced whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "contract/record_unit.h"
#include "host/fleet/fleet_folder.h"
#include "host/process/private_room.h"

static char folder[256];

static int make_folder(void **state) {
    (void)state;
    struct error error;
    strcpy(folder, "/tmp/fleet-folder-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(fleet_folder_make(folder, &error), STATUS_OK);
    assert_int_equal(fleet_folder_make(folder, &error), STATUS_OK);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    private_room_remove(folder);
    return 0;
}

static void a_second_manager_is_refused_until_the_first_has_ended(void **state) {
    (void)state;
    struct error error;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(fleet_folder_holder(folder), 0);
    pid_t first = fork();
    if (first == 0) {
        bool got = !fleet_folder_lock(folder, &error);
        if (!got || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(fleet_folder_holder(folder), first);
    assert_int_equal(fleet_folder_lock(folder, &error), STATUS_GONE);
    assert_non_null(strstr(error.text, "another manager runs this fleet"));
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    assert_int_equal(fleet_folder_lock(folder, &error), STATUS_OK);
}

static void a_book_comes_back_as_it_was_written(void **state) {
    (void)state;
    struct error error;
    struct fleet_book book, back;
    assert_int_equal(fleet_folder_read_book(folder, &book, &error), STATUS_OK);
    assert_int_equal(book.count, 0);
    assert_int_equal(book.pinned[SCALE_DECODE], SCALE_FREE);
    book.last_number = 41;
    book.pinned[SCALE_PREFILL] = 3;
    book.units[book.count++] = (struct fleet_book_unit){40, UNIT_PREFILL, true};
    book.units[book.count++] = (struct fleet_book_unit){41, UNIT_DECODE, false};
    assert_int_equal(fleet_folder_write_book(folder, &book, &error), STATUS_OK);
    assert_int_equal(fleet_folder_read_book(folder, &back, &error), STATUS_OK);
    assert_int_equal(back.last_number, 41);
    assert_int_equal(back.pinned[SCALE_PREFILL], 3);
    assert_int_equal(back.pinned[SCALE_DECODE], SCALE_FREE);
    assert_int_equal(back.count, 2);
    assert_true(back.units[0].number == 40 && back.units[0].role == UNIT_PREFILL);
    assert_true(back.units[0].held && !back.units[1].held);
    struct bytes noise = {"last 4\nsomething else\n", 22};
    assert_int_equal(fleet_folder_write(folder, "book", noise, &error), STATUS_OK);
    assert_int_equal(fleet_folder_read_book(folder, &back, &error), STATUS_CORRUPT);
}

static void orders_are_taken_once_and_in_turn(void **state) {
    (void)state;
    struct error error;
    struct record_fleet_order order = {.wish = FLEET_WISH_DRAIN, .number = 5}, taken;
    assert_false(fleet_folder_take_order(folder, &taken));
    assert_int_equal(fleet_folder_order(folder, &order, &error), STATUS_OK);
    order = (struct record_fleet_order){
        .wish = FLEET_WISH_PIN, .role = UNIT_DECODE, .count = FLEET_UNPINNED};
    assert_int_equal(fleet_folder_order(folder, &order, &error), STATUS_OK);
    struct bytes noise = {"dance 5\n", 8};
    assert_int_equal(fleet_folder_write(folder, "orders/0", noise, &error), STATUS_OK);
    assert_true(fleet_folder_take_order(folder, &taken));
    assert_true(taken.wish == FLEET_WISH_DRAIN && taken.number == 5);
    assert_true(fleet_folder_take_order(folder, &taken));
    assert_true(taken.wish == FLEET_WISH_PIN && taken.role == UNIT_DECODE);
    assert_int_equal(taken.count, FLEET_UNPINNED);
    assert_false(fleet_folder_take_order(folder, &taken));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_manager_is_refused_until_the_first_has_ended,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_book_comes_back_as_it_was_written, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(orders_are_taken_once_and_in_turn, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
