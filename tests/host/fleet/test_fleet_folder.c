/* SPDX-License-Identifier: Apache-2.0
 * Protects the folder of a fleet's manager: one manager at a time, a book that comes back, commands
 * that are taken once and in turn, and files that are replaced whole.
 */
#include <sys/stat.h>
#include <unistd.h>

#include <signal.h>
#include <sys/wait.h>

#include "contract/record_unit.h"
#include "host/fleet/fleet_folder.h"
#include "host/process/private_room.h"
#include "test_case.h"

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

TEST_AROUND(a_second_manager_is_refused_until_the_first_has_ended, make_folder, remove_folder) {
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

TEST_AROUND(links_and_folders_that_others_write_to_are_refused, make_folder, remove_folder) {
    struct error error;
    char victim[300], name[300];
    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(name, sizeof name, "%s/lock", folder);
    assert_int_equal(symlink(victim, name), 0);
    assert_int_equal(fleet_folder_lock(folder, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "it is a link"));
    assert_int_equal(access(victim, F_OK), -1); /* not made through the link */
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(fleet_folder_make(folder, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "chmod go-w"));
}

TEST_AROUND(a_book_comes_back_as_it_was_written, make_folder, remove_folder) {
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
    assert_true(back.units[0].drained_by_operator && !back.units[1].drained_by_operator);
    struct bytes noise = {"last 4\nsomething else\n", 22};
    assert_int_equal(fleet_folder_write(folder, "book", noise, &error), STATUS_OK);
    assert_int_equal(fleet_folder_read_book(folder, &back, &error), STATUS_CORRUPT);
}

TEST_AROUND(commands_are_taken_once_and_in_turn, make_folder, remove_folder) {
    struct error error;
    struct record_fleet_command command = {.kind = FLEET_COMMAND_DRAIN, .number = 5}, taken;
    assert_false(fleet_folder_take_command(folder, &taken));
    assert_int_equal(fleet_folder_write_command(folder, &command, &error), STATUS_OK);
    command = (struct record_fleet_command){
        .kind = FLEET_COMMAND_PIN, .role = UNIT_DECODE, .count = FLEET_UNPINNED};
    assert_int_equal(fleet_folder_write_command(folder, &command, &error), STATUS_OK);
    struct bytes noise = {"dance 5\n", 8};
    assert_int_equal(fleet_folder_write(folder, "orders/0", noise, &error), STATUS_OK);
    assert_true(fleet_folder_take_command(folder, &taken));
    assert_true(taken.kind == FLEET_COMMAND_DRAIN && taken.number == 5);
    assert_true(fleet_folder_take_command(folder, &taken));
    assert_true(taken.kind == FLEET_COMMAND_PIN && taken.role == UNIT_DECODE);
    assert_int_equal(taken.count, FLEET_UNPINNED);
    assert_false(fleet_folder_take_command(folder, &taken));
}

TEST_AROUND(a_command_that_is_not_quite_one_is_none, make_folder, remove_folder) {
    static const char *const texts[] = {
        "drain 4294967297\n", "drain -1\n",       "resume\n",
        "pin decode\n",       "pin prefillx 2\n", "pin decode 2 3\n",
        "drain 5x\n",         "pin decode 1e3\n", ""};
    struct error error;
    struct record_fleet_command taken;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct bytes text = {texts[i], strlen(texts[i])};
        assert_int_equal(fleet_folder_write(folder, "orders/0", text, &error), STATUS_OK);
        if (fleet_folder_take_command(folder, &taken)) fail_msg("taken: '%s'", texts[i]);
    }
}

TEST_AROUND(a_file_of_any_name_or_kind_stops_no_command_behind_it, make_folder, remove_folder) {
    struct error error;
    struct record_fleet_command taken;
    char path[512], name[256];
    const struct bytes text = BYTES_LITERAL("pin decode 2\n");
    snprintf(name, sizeof name, "orders/%0200d", 0);
    assert_int_equal(fleet_folder_write(folder, name, text, &error), STATUS_OK);
    snprintf(path, sizeof path, "%s/orders/1", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/orders/2", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(fleet_folder_write(folder, "orders/3", text, &error), STATUS_OK);
    assert_true(fleet_folder_take_command(folder, &taken)); /* the long name */
    assert_int_equal(taken.count, 2);
    assert_true(fleet_folder_take_command(folder, &taken));
    assert_int_equal(taken.count, 2);
    assert_false(fleet_folder_take_command(folder, &taken));
    snprintf(path, sizeof path, "%s/orders/1.refused", folder);
    assert_int_equal(rmdir(path), 0);
}

TEST_AROUND(a_book_that_is_cut_or_has_too_large_numbers_is_refused, make_folder, remove_folder) {
    static const char *const texts[] = {"last\n",          "last 4294967296\n",   "unit 3\n",
                                        "unit 0 decode\n", "unit 3 decode hel\n", "pin both 1\n"};
    struct error error;
    struct fleet_book back;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct bytes text = {texts[i], strlen(texts[i])};
        assert_int_equal(fleet_folder_write(folder, "book", text, &error), STATUS_OK);
        if (fleet_folder_read_book(folder, &back, &error) != STATUS_CORRUPT)
            fail_msg("read: '%s'", texts[i]);
    }
}

TEST(a_line_of_the_history_has_three_numbers) {
    double at_s, rates[SCALE_SIDES];
    assert_true(fleet_folder_read_history("1790000300,120.5,7e2\n", &at_s, rates));
    assert_true(at_s == 1790000300 && rates[SCALE_PREFILL] == 120.5 && rates[SCALE_DECODE] == 700);
    assert_false(fleet_folder_read_history("", &at_s, rates));
    assert_false(fleet_folder_read_history("1790000300,120.5\n", &at_s, rates));
    assert_false(fleet_folder_read_history("1790000300,120.5,\n", &at_s, rates));
    assert_false(fleet_folder_read_history("time,prefill,decode\n", &at_s, rates));
}
