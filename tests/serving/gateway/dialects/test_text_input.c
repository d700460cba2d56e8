/* SPDX-License-Identifier: Apache-2.0
 * Protects that the client of a tool that takes text gets the text that the model wrote, as JSON
 * that any reader takes, wherever the arguments were cut and whatever is wrong with them.
 */
#include "serving/gateway/dialects/text_input.h"

#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "test_case.h"

static _Alignas(16) char memory[1 << 16], tree_memory[1 << 16];
static char reported[4096];

/* The inside of the JSON string, of arguments that came in pieces of that many bytes. */
static const char *input_of(const char *arguments, size_t piece) {
    struct answer_text text = {0};
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    for (struct bytes rest = bytes_of(arguments); rest.count;) {
        size_t count = rest.count < piece ? rest.count : piece;
        assert_true(answer_text_add(&text, &arena, (struct bytes){rest.data, count}));
        rest = (struct bytes){rest.data + count, rest.count - count};
    }
    struct json_writer writer = {.out = reported, .room = sizeof reported - 1};
    text_input_write(&text, &writer);
    assert_true(json_writer_fits(&writer));
    assert_true(writer.count <= text.escaped_count);
    reported[writer.count] = '\0';
    return reported;
}

TEST(the_text_is_the_one_that_the_model_wrote) {
    static const struct {
        const char *arguments, *input;
    } cases[] = {
        {"", ""},
        {"{\"input\": \"\"}", ""},
        {" {\n\"input\" : \"*** Begin\\n+ \\\"a\\\"\\\\\\t\\u00e9 \xc3\xa9\" } \n",
         "*** Begin\\n+ \\\"a\\\"\\\\\\t\\u00e9 \xc3\xa9"},
        {"{\"input\":\"a\nb\tc\"}", "a\\nb\\tc"},                   /* as models write them */
        {"{\"input\":\"\\d+\\uZ\\u12.\"}", "\\\\d+\\\\uZ\\\\u12."}, /* meant as they stand */
        {"{\"input\":\"cut", "cut"},
        {"{\"input\":\"cut\\", "cut"},
        {"{\"input\":\"cut\\u00e", "cut"},
        {"{\"inp", "{\\\"inp"},
        {"{\"input\":\"a\",\"b\":1}", "{\\\"input\\\":\\\"a\\\",\\\"b\\\":1}"},
        {"{\"input\":7}", "{\\\"input\\\":7}"},
        {"{\"text\":\"a\"}", "{\\\"text\\\":\\\"a\\\"}"},
        {"ls -l", "ls -l"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (size_t piece = 1; piece < 8; piece++)
            if (strcmp(input_of(cases[i].arguments, piece), cases[i].input) != 0)
                fail_msg("%s: %s", cases[i].arguments, reported);
}

/* A '\' that begins no escape is one that the model meant. */
TEST(what_is_reported_is_always_a_json_string) {
    static const char alphabet[] = "\\u\"0afnZ\x01";
    char arguments[32] = "{\"input\":\"";
    size_t begin = strlen(arguments);
    for (size_t code = 0; code < 9 * 9 * 9 * 9 * 9; code++) {
        size_t rest = code;
        for (size_t i = 0; i < 5; i++, rest /= 9)
            arguments[begin + i] = alphabet[rest % 9];
        arguments[begin + 5] = '\0';
        char json[256];
        format_text(json, sizeof json, "[\"%s\"]", input_of(arguments, 99));
        struct arena arena;
        struct error error;
        const struct tree *root;
        arena_over(&arena, tree_memory, sizeof tree_memory);
        if (tree_parse(&arena, bytes_of(json), "input", &root, &error) && !strstr(json, "\\u0000"))
            fail_msg("%s: %s", arguments, json);
    }
}
