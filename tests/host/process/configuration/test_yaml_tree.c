/* SPDX-License-Identifier: Apache-2.0
 * Protects what scenarios and hardware files are read by: every kind of scalar is what YAML's core
 * schema says, and what could surprise (anchors, tags, keys that stand twice) is refused with its
 * line.
 */
#include "base/check.h"
#include "host/process/configuration/yaml_tree.h"
#include "test_case.h"

static _Alignas(16) char memory[1 << 20];
static struct arena arena;
static struct error error;

static const struct tree *parse(const char *text) {
    const struct tree *root = NULL;
    arena_over(&arena, memory, sizeof memory);
    enum status status = yaml_tree_parse(&arena, bytes_of(text), "f.yaml", &root, &error);
    assert_true((status == STATUS_OK) == (root != NULL));
    return root;
}

static void is_refused(const char *text, const char *message) {
    assert_null(parse(text));
    assert_string_equal(error.text, message);
}

static void is_written_as(const char *yaml, const char *json) {
    struct bytes text = tree_text(&arena, parse(yaml));
    assert_int_equal(text.count, strlen(json));
    assert_memory_equal(text.data, json, text.count);
}

TEST(scalars_have_the_types_of_the_core_schema) {
    is_written_as("[1, -7, +3, 0x1F, 0o17, 00012]", "[1,-7,3,31,15,12]");
    is_written_as("[1.0, .5, 5., 1e3, -2.5E-1]", "[1.0,0.5,5.0,1e3,-2.5E-1]");
    is_written_as("[true, False, TRUE, yes, on]", "[true,false,true,\"yes\",\"on\"]");
    is_written_as("[~, null, NULL, '']", "[null,null,null,\"\"]");
    is_written_as("['1', \"true\", 1.2.3, 0x, -, 1_000, e5]",
                  "[\"1\",\"true\",\"1.2.3\",\"0x\",\"-\",\"1_000\",\"e5\"]");
}

TEST(numbers_of_json_are_kept_as_they_are_spelt) {
    double number = 0;
    is_written_as("[9223372036854775807, 9223372036854775808, 1e999, 0x8000000000000000]",
                  "[9223372036854775807,9223372036854775808,1e999,\"0x8000000000000000\"]");
    assert_true(tree_get_number(tree_at(parse("[9223372036854775808]"), 0), &number));
    assert_true(number == 0x1p63);
}

TEST(mappings_keep_their_order_and_hold_anything) {
    is_written_as("b: 1\na:\n- x: {y: [1, 2]}\n- z\nc: |\n  l1\n  l2\n",
                  "{\"b\":1,\"a\":[{\"x\":{\"y\":[1,2]}},\"z\"],\"c\":\"l1\\nl2\\n\"}");
    is_written_as("# a word first\n1: one\nempty:\n", "{\"1\":\"one\",\"empty\":null}");
}

TEST(what_could_surprise_is_refused_with_its_line) {
    is_refused("a: 1\nb: &x 2\n", "f.yaml, line 2: anchors and tags are not read: 2");
    is_refused("a: 1\nb: *x\n", "f.yaml, line 2: aliases are not read");
    is_refused("a: !!str 1\n", "f.yaml, line 1: anchors and tags are not read: 1");
    is_refused("a: &x [1]\n", "f.yaml, line 1: anchors and tags are not read");
    is_refused("a: !t {b: 1}\n", "f.yaml, line 1: anchors and tags are not read");
    is_refused("? &k a\n: 1\n", "f.yaml, line 1: anchors and tags are not read: a");
    is_refused("a: 1\n\na: 2\n", "f.yaml, line 3: the key stands here twice: a");
    is_refused("[a]: 1\n", "f.yaml, line 1: expected a text as the key");
    is_refused("a: .inf\n", "f.yaml, line 1: expected a finite number: .inf");
    is_refused("a: +1e999\n", "f.yaml, line 1: expected a smaller number: +1e999");
    is_refused("", "f.yaml, line 1: there is nothing in it");
    is_refused("--- 1\n--- 2\n", "f.yaml, line 2: expected one document");
}

TEST(text_that_is_no_yaml_is_refused_with_its_line) {
    assert_null(parse("a: 1\nb: [1, 2\nc: 3\n"));
    assert_non_null(strstr(error.text, "f.yaml, line 3: not valid YAML: "));
    assert_null(parse("a: \"\\q\"\n"));
    assert_non_null(strstr(error.text, "f.yaml, line 1: not valid YAML: "));
}

TEST(limits_are_kept) {
    const struct tree *root = NULL;
    char deep[64];
    memset(deep, '[', 40);
    deep[40] = '\0';
    is_refused(deep, "f.yaml, line 1: more than 24 levels");
    struct bytes huge = {deep, YAML_TREE_BYTES_MAX + 1};
    assert_int_equal(yaml_tree_parse(&arena, huge, "f.yaml", &root, &error), STATUS_TOO_LARGE);
    arena_over(&arena, memory, 256);
    assert_int_equal(
        yaml_tree_parse(&arena, BYTES_LITERAL("a: [1, 2, 3, 4, 5, 6]"), "f.yaml", &root, &error),
        STATUS_NO_MEMORY);
    assert_string_equal(error.text, "f.yaml: not enough memory for its values");
}
