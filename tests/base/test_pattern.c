/* SPDX-License-Identifier: Apache-2.0
 * Protects the regular expressions: Unicode classes, places of matches, patterns that are none, and
 * that matching gives up, rather than running for ever.
 */
#include "base/pattern.h"

#include "test_case.h"

static char memory[4 << 20];
static struct arena arena;
static struct pattern_scratch *scratch;

static int set_up(void **state) {
    arena_over(&arena, memory, sizeof memory);
    scratch = pattern_scratch_create(&arena);
    return scratch ? 0 : -1;
}

static void finds(struct bytes pattern_text, bool literal, struct bytes subject, size_t from,
                  enum pattern_result expected, size_t start, size_t end) {
    struct pattern *pattern;
    struct error error;
    size_t got_start = 777, got_end = 777;
    assert_int_equal(pattern_open(&arena, pattern_text, literal, "p", &pattern, &error), STATUS_OK);
    assert_int_equal(pattern_find(pattern, scratch, subject, from, &got_start, &got_end), expected);
    if (expected == PATTERN_FOUND) {
        assert_int_equal(got_start, start);
        assert_int_equal(got_end, end);
    } else {
        assert_int_equal(got_start, 777);
    }
    pattern_close(pattern);
}

#define FINDS(pattern, subject, from, start, end)                                                  \
    finds(BYTES_LITERAL(pattern), false, BYTES_LITERAL(subject), from, PATTERN_FOUND, start, end)

TEST_AROUND(a_pattern_is_found_where_it_stands, set_up, NULL) {
    FINDS("b+", "abba", 0, 1, 3);
    FINDS("b+", "abba", 2, 2, 3);
    FINDS("\\p{L}+", "1中é2", 0, 1, 6);
    FINDS("\\s", "a\u3000", 0, 1, 4);
    FINDS("x*", "aa", 1, 1, 1);
    FINDS("(?<=a)b", "ab", 1, 1, 2); /* what lies before `from` is seen */
    FINDS("a\0b", "xa\0b", 0, 1, 4);
    finds(BYTES_LITERAL("a.c"), true, BYTES_LITERAL("abc a.c"), 0, PATTERN_FOUND, 4, 7);
    finds(BYTES_LITERAL("z"), false, BYTES_LITERAL("abc"), 0, PATTERN_ABSENT, 0, 0);
    finds(BYTES_LITERAL("a"), false, BYTES_LITERAL(""), 0, PATTERN_ABSENT, 0, 0);
}

/* The interpreter, which takes over where machine code is forbidden, works in the scratch's memory.
 */
TEST_AROUND(the_interpreter_finds_the_same, set_up, NULL) {
    static char long_run[100001];
    memset(long_run, 'a', sizeof long_run - 1);
    long_run[sizeof long_run - 1] = 'b';
    FINDS("(*NO_JIT)(a|b)+c", "xababc", 0, 1, 6);
    finds(BYTES_LITERAL("(*NO_JIT)[a-c]+b"), false, (struct bytes){long_run, sizeof long_run}, 0,
          PATTERN_FOUND, 0, sizeof long_run);
    for (int i = 0; i < 100; i++) /* takes more and more memory: there is an end to it */
        finds(BYTES_LITERAL("(*NO_JIT)((a))+b"), false, (struct bytes){long_run, sizeof long_run},
              0, PATTERN_GAVE_UP, 0, 0);
    FINDS("(*NO_JIT)a+", "xaab", 0, 1, 3);
}

TEST_AROUND(an_endless_search_gives_up, set_up, NULL) {
    static char subject[64];
    memset(subject, 'a', sizeof subject - 1);
    memcpy(subject + sizeof subject - 2, "bc", 2);
    finds(BYTES_LITERAL("(a|aa)+b$"), false, (struct bytes){subject, sizeof subject}, 0,
          PATTERN_GAVE_UP, 0, 0);
}

TEST_AROUND(what_is_no_pattern_is_refused, set_up, NULL) {
    struct pattern *pattern = NULL;
    struct error error;
    assert_int_equal(pattern_open(&arena, BYTES_LITERAL("a[b"), false, "t.json", &pattern, &error),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "t.json: pattern cannot be used: at byte 3: "));
    struct arena none;
    arena_over(&none, memory, 64);
    assert_int_equal(pattern_open(&none, BYTES_LITERAL("a"), false, "t.json", &pattern, &error),
                     STATUS_NO_MEMORY);
    assert_null(pattern);
}
