/* SPDX-License-Identifier: Apache-2.0
 * Protects command lines: a word is quoted as a shell reads it, and a full line accepts no word.
 */
#include "host/process/child_process.h"
#include "test_case.h"

TEST(a_word_is_quoted_as_a_shell_reads_it) {
    char out[64], script[128] = "printf %s ";
    struct error error;
    assert_true(command_line_quote(script, sizeof script, "it's $HOME; \"x\""));
    struct command_line line = {.words = {"/bin/sh", "-c", script}, .count = 3};
    assert_int_equal(child_process_run(&line, 60000, out, sizeof out, &error), STATUS_OK);
    assert_string_equal(out, "it's $HOME; \"x\"");
    char small[8] = "ab";
    assert_false(command_line_quote(small, sizeof small, "longer"));
    assert_string_equal(small, "ab");
}

TEST(a_full_line_accepts_no_word) {
    struct command_line line = {.count = 0};
    const char *const words[] = {"a", "b", NULL};
    for (int i = 0; i < COMMAND_LINE_WORDS - 1; i++)
        assert_true(command_line_add(&line, "word"));
    assert_false(command_line_add_all(&line, words));
    assert_int_equal(line.count, COMMAND_LINE_WORDS);
    assert_null(line.words[line.count]);
}
