/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/hardware/tree_keys.h"

#include "base/check.h"
#include "test_case.h"

struct things {
    uint32_t count, choice;
    double share;
    int64_t time_ns;
    bool flag;
    char text[TREE_TEXT_BYTES];
};

#define AT(member) offsetof(struct things, member)

static const struct tree_key keys[] = {
    {"count", KEY_COUNT, AT(count), .needed = true},
    {"share", KEY_NUMBER, AT(share), .maximum = 1},
    {"time_s", KEY_TIME, .offset = AT(time_ns)},
    {"flag", KEY_FLAG, .offset = AT(flag)},
    {"text", KEY_TEXT, .offset = AT(text)},
    {"choice", KEY_CHOICE, AT(choice), .choices = "red|green"},
};

static char memory[1 << 16];
static struct error error;

static enum status read_text(const char *text, struct things *things) {
    struct arena arena;
    const struct tree *tree;
    struct tree_place place = {.file = "file", .path = "a[1]", .error = &error};
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of(text), "text", &tree, &error), STATUS_OK);
    return tree_keys_read(&place, tree, keys, ARRAY_COUNT(keys), things);
}

TEST(values_land_where_the_table_says) {
    struct things things = {.share = 0.25};
    assert_int_equal(read_text("{\"count\":3,\"time_s\":0.5,\"flag\":true,\"text\":\"x\","
                               "\"choice\":\"green\"}",
                               &things),
                     STATUS_OK);
    assert_int_equal(things.count, 3);
    assert_int_equal(things.time_ns, 500000000);
    assert_true(things.flag && things.choice == 1 && things.share == 0.25);
    assert_string_equal(things.text, "x");
}

TEST(a_value_may_say_where_it_comes_from) {
    struct things things = {0};
    assert_int_equal(read_text("{\"count\":{\"value\":7,\"source\":\"a page\"}}", &things),
                     STATUS_OK);
    assert_int_equal(things.count, 7);
}

/* Each message names the file, the key's path, and what would be right. */
TEST(what_is_wrong_is_named_with_its_path) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"cuont\":3}", "file: a[1]: unknown key 'cuont'; did you mean count?"},
        {"{\"count\":3,\"zzzzzzzz\":1}", "there are: count, share"},
        {"{}", "file: a[1]: the key count is missing"},
        {"{\"count\":1.5}", "file: a[1].count: expected a whole number, found 1.5"},
        {"{\"count\":-1}", "expected 0 to 4294967295, found -1"},
        {"{\"count\":\"x\"}", "expected a whole number, found a string"},
        {"{\"count\":1,\"share\":2}", "a[1].share: expected 0 to 1, found 2"},
        {"{\"count\":1,\"flag\":1}", "a[1].flag: expected true or false"},
        {"{\"count\":1,\"choice\":\"blue\"}", "expected one of red|green, found 'blue'"},
        {"[]", "expected an object, found an array"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct things things = {0};
        assert_int_equal(read_text(cases[i].text, &things), STATUS_INVALID);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu: %s", i, error.text);
    }
}
