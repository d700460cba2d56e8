/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include "base/tree.h"
#include "test_case.h"

/* Whatever is written as a string is read back the same by a strict JSON reader: all 128 ASCII
 * characters and characters of two, three and four bytes. */
TEST(strings_survive_the_round_trip) {
    static char memory[1 << 20];
    char text[160], out[1024];
    for (int i = 0; i < 128; i++)
        text[i] = (char)i;
    static const char others[] = "é｜😀";
    memcpy(text + 128, others, sizeof others - 1);
    struct bytes all = {text, 128 + sizeof others - 1};
    struct json_writer writer = {.out = out, .room = sizeof out};
    json_writer_string(&writer, all);
    assert_true(json_writer_fits(&writer));
    assert_int_equal(writer.count, json_writer_escaped_count(all) + 2);

    struct arena arena;
    const struct tree *root;
    struct bytes back;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, (struct bytes){out, writer.count}, "text", &root, &error),
                     STATUS_OK);
    assert_true(tree_get_string(root, &back));
    assert_true(bytes_equal(back, all));
}

TEST(numbers_reach_their_limits) {
    char out[128];
    struct json_writer writer = {.out = out, .room = sizeof out};
    json_writer_unsigned(&writer, UINT64_MAX);
    json_writer_text(&writer, ",");
    json_writer_integer(&writer, INT64_MIN);
    json_writer_text(&writer, ",");
    json_writer_integer(&writer, 0);
    static const char expected[] = "18446744073709551615,-9223372036854775808,0";
    assert_int_equal(writer.count, sizeof expected - 1);
    assert_memory_equal(out, expected, writer.count);
}

/* A text can be measured first, and a writer never passes its room. */
TEST(counting_goes_on_beyond_the_room) {
    struct bytes text = BYTES_LITERAL("a\nb\x01");
    struct json_writer counter = {0};
    json_writer_string(&counter, text);
    assert_int_equal(counter.count, 12);
    assert_false(json_writer_fits(&counter));
    char out[8];
    memset(out, '#', sizeof out);
    struct json_writer writer = {.out = out, .room = 4};
    json_writer_string(&writer, text);
    assert_int_equal(writer.count, 12);
    assert_memory_equal(out, "\"a\\n####", 8);
}

/* Texts are escaped, and each number is what printf makes of it. */
TEST(values_are_printed_into_the_text) {
    char out[256];
    struct json_writer writer = {.out = out, .room = sizeof out};
    struct bytes text = BYTES_LITERAL("a\"b%s");
    json_writer_print(&writer, "{\"a\":\"%.*s\",\"b\":%u,\"c\":%lu,\"d\":%ld", PRINT_BYTES(text),
                      UINT32_MAX, UINT64_MAX, INT64_MIN);
    json_writer_print(&writer, ",%s%016lx,%04x,%.3f,%.9g,%d,%-4s|%4s%%}", "\"e\":", UINT64_C(0xabc),
                      10u, 0.5, 0.25, -3, "l", "r");
    static const char expected[] =
        "{\"a\":\"a\\\"b%s\",\"b\":4294967295,\"c\":18446744073709551615,"
        "\"d\":-9223372036854775808,\"e\":0000000000000abc,000a,0.500,0.25,-3,l   |   r%}";
    assert_int_equal(writer.count, sizeof expected - 1);
    assert_memory_equal(out, expected, writer.count);
}
