/* SPDX-License-Identifier: Apache-2.0
 * Protects the JSON reader: strict text in, a message with its place out, no memory but the
 * arena's.
 */
#include "base/check.h"
#include "base/tree.h"
#include "test_case.h"

static _Alignas(16) char memory[1 << 16];
static struct arena arena;
static struct error error;

static const struct tree *parse(const char *text) {
    const struct tree *root = NULL;
    arena_over(&arena, memory, sizeof memory);
    enum status status = tree_parse(&arena, bytes_of(text), "body", &root, &error);
    assert_true((status == STATUS_OK) == (root != NULL));
    return root;
}

TEST(every_kind_is_read) {
    const struct tree *root = parse(
        "{\"s\":\"a\\u0000b\",\"i\":-7,\"r\":1.0,\"t\":true,\"f\":false,\"n\":null,\"a\":[1,2]}");
    struct bytes text;
    int64_t integer = 0;
    double number = 0;
    bool flag = false;
    assert_true(tree_get_string(tree_member(root, "s"), &text));
    assert_true(bytes_equal(text, BYTES_LITERAL("a\0b")));
    assert_true(tree_get_integer(tree_member(root, "i"), &integer));
    assert_int_equal(integer, -7);
    assert_false(tree_get_integer(tree_member(root, "r"), &integer));
    assert_true(tree_get_number(tree_member(root, "r"), &number));
    assert_true(number == 1.0);
    assert_true(tree_get_number(tree_member(root, "i"), &number));
    assert_true(number == -7.0);
    assert_true(tree_get_bool(tree_member(root, "t"), &flag));
    assert_true(flag);
    assert_true(tree_is_null(tree_member(root, "n")));
    assert_false(tree_is_null(tree_member(root, "missing")));
    assert_int_equal(tree_count(tree_member(root, "a")), 2);
    assert_null(tree_at(tree_member(root, "a"), 2));
    assert_int_equal(tree_count(root), 0);
    assert_string_equal(tree_kind_name(tree_kind(tree_member(root, "f"))), "false");
}

TEST(absent_values_are_no_values) {
    struct bytes text = BYTES_LITERAL("kept");
    int64_t integer = 5;
    assert_null(tree_member(NULL, "x"));
    assert_null(tree_member(parse("[1]"), "x"));
    assert_false(tree_get_string(NULL, &text));
    assert_false(tree_get_integer(NULL, &integer));
    assert_int_equal(integer, 5);
    assert_string_equal(text.data, "kept");
}

TEST(members_come_in_the_texts_order) {
    static const char *const names[] = {"z", "a", "m", "b"};
    const struct tree *root = parse("{\"z\":0,\"a\":1,\"m\":2,\"b\":3}"), *value;
    struct tree_cursor cursor = {0};
    struct bytes key;
    int64_t count = 0, number;
    while (tree_next_member(root, &cursor, &key, &value)) {
        assert_true(bytes_equal(key, bytes_of(names[count])));
        assert_true(tree_get_integer(value, &number));
        assert_int_equal(number, count);
        count++;
    }
    assert_int_equal(count, 4);
}

TEST(what_is_not_json_is_refused) {
    static const char *const texts[] = {"",
                                        "{",
                                        "[1,]",
                                        "{\"a\":1,\"a\":2}",
                                        "1 2",
                                        "\"\xff\"",
                                        "nul",
                                        "01",
                                        "\"\\ud800\"",
                                        "NaN",
                                        "{a:1}",
                                        "[1}",
                                        "-",
                                        "1.",
                                        ".5",
                                        "1e",
                                        "+1",
                                        "1e+",
                                        "-01",
                                        "00",
                                        "1x",
                                        "{\"a\\u0000b\":1}",
                                        "truex",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\udc00\"",
                                        "\"\\u12g4\"",
                                        "\"\\x\"",
                                        "\"a\nb\"",
                                        "\"\xc0\x80\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xf4\x90\x80\x80\"",
                                        "\"\xe2\x82\"",
                                        "\"a\\",
                                        "{\"a\"}",
                                        "{\"a\":1,}",
                                        "{\"a\":1 \"b\":2}"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (parse(texts[i])) fail_msg("accepted: %s", texts[i]);
        if (strncmp(error.text, "body: not valid JSON: line 1", 28)) fail_msg("%s", error.text);
    }
}

TEST(numbers_are_written_as_they_were_spelt) {
    static const char text[] =
        "[0,-0,7,1.0,1.10,1E5,1e+05,-0.0e-0,1e400,-1e-400,9223372036854775807,-9223372036854775808,"
        "9223372036854775808,-9223372036854775809,18446744073709551616,1000000000000000000000000000"
        "000,0.1000000000000000055511151231257827,1e99999999999999999999]";
    assert_true(bytes_equal(tree_text(&arena, parse(text)), bytes_of(text)));
}

TEST(what_64_bits_do_not_hold_is_no_c_number_and_says_so) {
    static const char text[] = "[9223372036854775807,-9223372036854775808,9223372036854775808,"
                               "18446744073709551615,18446744073709551616,-9223372036854775809,-0,"
                               "1e308,1e309,-1e309,1e-400]";
    static const bool integer[] = {1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    static const bool word[] = {1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0};
    static const bool number[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1};
    static const bool beyond[] = {0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0};
    const struct tree *root = parse(text);
    int64_t signed_value = 5;
    uint64_t bits = 5;
    double value = 5;
    for (size_t i = 0; i < ARRAY_COUNT(integer); i++) {
        const struct tree *each = tree_at(root, i);
        assert_int_equal(tree_get_integer(each, &signed_value), integer[i]);
        assert_int_equal(tree_get_word(each, &bits), word[i]);
        assert_int_equal(tree_get_number(each, &value), number[i]);
        assert_int_equal(tree_is_beyond(each), beyond[i]);
    }
    assert_int_equal(signed_value, 0);
    assert_true(tree_get_integer(tree_at(root, 1), &signed_value));
    assert_true(signed_value == INT64_MIN);
    assert_true(tree_get_word(tree_at(root, 3), &bits));
    assert_true(bits == UINT64_MAX);
    assert_true(tree_get_number(tree_at(root, 4), &value));
    assert_true(value == 0x1p64);
    assert_string_equal(tree_name(tree_at(root, 4)), "an integer beyond 64 bits");
    assert_string_equal(tree_name(tree_at(root, 8)), "a number beyond 64 bits");
    assert_string_equal(tree_name(tree_at(root, 0)), "an integer");
    assert_false(tree_is_beyond(NULL));
    char brief[TREE_BRIEF_BYTES];
    assert_string_equal(tree_brief(tree_at(root, 4), brief), "18446744073709551616");
    assert_string_equal(tree_brief(tree_at(root, 0), brief), "9223372036854775807");
    root = parse("[1111111111222222222233333333334444444444,"
                 "11111111112222222222333333333344444444445,\"a\"]");
    assert_string_equal(tree_brief(tree_at(root, 0), brief),
                        "1111111111222222222233333333334444444444");
    assert_string_equal(tree_brief(tree_at(root, 1), brief),
                        "1111111111222222222233333333334444444...");
    assert_string_equal(tree_brief(tree_at(root, 2), brief), "a string");
}

TEST(a_key_that_comes_again_stays_where_it_may) {
    static const char text[] = "{\"a\":1,\"b\":{\"c\":[],\"c\":2.50},\"a\":3}";
    const struct tree *root = parse(text);
    int64_t last = 0;
    assert_null(root);
    assert_non_null(strstr(error.text, "line 1, column 20: a duplicate key \"c\""));
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse_repeated(&arena, bytes_of(text), "body", &root, &error), STATUS_OK);
    assert_true(bytes_equal(tree_text(&arena, root), bytes_of(text)));
    assert_true(tree_get_integer(tree_member(root, "a"), &last));
    assert_int_equal(last, 3);
}

TEST(members_are_found_among_many) {
    enum { COUNT = 5000 };
    static char text[COUNT * 16], large[1 << 20];
    for (int again = 0; again < 2; again++) {
        size_t used = 0;
        for (int i = 0; i < COUNT; i++)
            used += (size_t)sprintf(text + used, "%c\"k%d\":%d", i ? ',' : '{', i, i);
        used += (size_t)sprintf(text + used, "%s}", again ? ",\"k77\":0" : "");
        const struct tree *root = NULL;
        arena_over(&arena, large, sizeof large);
        enum status status = tree_parse(&arena, bytes_of(text), "body", &root, &error);
        assert_int_equal(status, again ? STATUS_INVALID : STATUS_OK);
        for (int i = 0; i < COUNT && !again; i++) {
            char key[16];
            int64_t value;
            sprintf(key, "k%d", i);
            assert_true(tree_get_integer(tree_member(root, key), &value));
            assert_int_equal(value, i);
        }
        if (!again) assert_null(tree_member(root, "k5000"));
    }
}

TEST(escapes_are_characters) {
    static const char text[] = "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00\xc3\xa9\"";
    struct bytes found;
    assert_true(tree_get_string(parse(text), &found));
    assert_true(bytes_equal(found, bytes_of("\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac"
                                            "\xf0\x9f\x98\x80\xc3\xa9")));
}

TEST(zero_bytes_are_refused) {
    static const struct bytes texts[] = {{"0\0", 2}, {"\0", 1}, {"[1\0]", 4}, {"\"a\0\"", 4}};
    const struct tree *root;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        arena_over(&arena, memory, sizeof memory);
        assert_int_equal(tree_parse(&arena, texts[i], "text", &root, &error), STATUS_INVALID);
    }
}

TEST(depth_is_bounded) {
    char deep[8001];
    memset(deep, '[', 4000);
    memset(deep + 4000, ']', 4000);
    deep[8000] = '\0';
    assert_null(parse(deep));
    memset(deep + 1000, ']', 1000);
    deep[2000] = '\0';
    arena_over(&arena, memory, sizeof memory);
    char *large = malloc(1 << 20);
    const struct tree *root = NULL;
    arena_over(&arena, large, 1 << 20);
    assert_int_equal(tree_parse(&arena, bytes_of(deep), "body", &root, &error), STATUS_OK);
    assert_int_equal(tree_count(root), 1);
    free(large);
}

TEST(a_small_arena_refuses) {
    static const char text[] = "{\"a\":[1,2,3,4],\"b\":{\"c\":\"some text\"},\"d\":[[],[],[]]}";
    const struct tree *root = NULL;
    bool done = false;
    for (size_t bytes = 0; bytes < 8192 && !done; bytes += 16) {
        arena_over(&arena, memory, bytes);
        enum status status = tree_parse(&arena, bytes_of(text), "body", &root, &error);
        if (status != STATUS_OK && status != STATUS_NO_MEMORY)
            fail_msg("%zu bytes: %s", bytes, error.text);
        done = status == STATUS_OK;
    }
    assert_true(done);
}

TEST(a_long_text_in_a_small_arena_refuses) {
    static char text[20000], small[19000];
    const struct tree *root = NULL;
    memset(text, 'x', sizeof text - 1);
    text[0] = text[sizeof text - 2] = '"';
    for (size_t bytes = 0; bytes < sizeof small; bytes += 1 + bytes / 50) {
        arena_over(&arena, small, bytes);
        assert_int_equal(tree_parse(&arena, bytes_of(text), "body", &root, &error),
                         STATUS_NO_MEMORY);
    }
}

TEST(text_is_what_the_tree_says) {
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "null",
                                        "true",
                                        "-7",
                                        "0.1",
                                        "1.0",
                                        "1e+30",
                                        "1E30",
                                        "\"a\\n\\u0000\\\"\"",
                                        "{\"b\":[1,{\"c\":false}],\"a\":{\"x\":null}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct bytes text = tree_text(&arena, parse(texts[i]));
        assert_true(bytes_equal(text, bytes_of(texts[i])));
    }
    const struct tree *root = parse("[1,2,3]");
    arena.end = arena.at;
    assert_null(tree_text(&arena, root).data);
}

TEST(trees_are_built_of_new_values_and_of_old_ones) {
    const struct tree *old = parse("{\"x\":[1]}");
    struct tree *object = tree_make_object(&arena), *array = tree_make_array(&arena);
    assert_true(tree_append(&arena, array, tree_make_string(&arena, BYTES_LITERAL("a\0b"))));
    assert_true(tree_append(&arena, array, tree_make_bool(true)));
    assert_true(tree_set(&arena, object, "list", array));
    assert_true(tree_append(&arena, array, tree_make_null()));
    assert_true(tree_append(&arena, array, tree_make_integer(&arena, -7)));
    assert_true(tree_set(&arena, object, "old", old));
    struct bytes text = tree_text(&arena, object);
    assert_true(bytes_equal(
        text, BYTES_LITERAL("{\"list\":[\"a\\u0000b\",true,null,-7],\"old\":{\"x\":[1]}}")));
    assert_null(tree_make_string(&arena, BYTES_LITERAL("\xff")));
    text = tree_text(&arena, tree_make_number(&arena, BYTES_LITERAL("-1.50e700")));
    assert_true(bytes_equal(text, BYTES_LITERAL("-1.50e700")));
    assert_null(tree_make_number(&arena, BYTES_LITERAL("1.5 ")));
    assert_null(tree_make_number(&arena, BYTES_LITERAL("0x1")));
    assert_true(tree_set(&arena, object, "old", tree_make_bool(false)));
    assert_true(bytes_equal(tree_text(&arena, tree_member(object, "old")), BYTES_LITERAL("false")));
    assert_false(tree_set(&arena, object, "none", NULL));
}

TEST(a_full_arena_builds_nothing) {
    struct tree *array = (parse("1"), tree_make_array(&arena));
    arena.end = arena.at;
    assert_null(tree_make_object(&arena));
    assert_null(tree_make_string(&arena, BYTES_LITERAL("a")));
    assert_null(tree_make_integer(&arena, 1));
    bool added = true;
    for (int i = 0; i < 1000 && added; i++)
        added = tree_append(&arena, array, tree_make_bool(true));
    assert_false(added);
}
