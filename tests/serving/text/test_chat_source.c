/* SPDX-License-Identifier: Apache-2.0
 * Protects where a chat template is taken from: which of several wins, which tokens are variables,
 * and that what is wrong in a file is told with the file's name.
 */
#include "serving/text/chat_source.h"
#include "support.h"
#include "test_case.h"

static struct error error;

static struct chat_file file_of(const char *text, const char *name) {
    return (struct chat_file){{text, text ? strlen(text) : 0}, name};
}

static enum status opens_with(const char *config, const char *specials, const char *own,
                              struct chat_source *out) {
    struct chat_files files = {.config = file_of(config, "c.json"),
                               .specials = file_of(specials, "s.json"),
                               .own = file_of(own, "t.jinja")};
    memset(&error, 0, sizeof error);
    return chat_source_open(test_arena(4 << 20), test_arena(4 << 20), files, out, &error);
}

static enum status opens(const char *config, const char *own, struct chat_source *out) {
    return opens_with(config, NULL, own, out);
}

static void expect(const struct chat_source *source, const struct jinja_program *program,
                   const char *expected) {
    struct jinja_rendering out;
    assert_non_null(program);
    if (jinja_render(program, source->tokens, source->token_count, &jinja_limits_usual, 0,
                     test_arena(4 << 20), &out, &error))
        fail_msg("%s", error.text);
    if (!bytes_equal(out.text, bytes_of(expected)))
        fail_msg("gives %.*s", (int)out.text.count, out.text.data);
}

TEST(the_file_beside_wins_over_the_configuration) {
    struct chat_source found;
    assert_int_equal(
        opens("{\"chat_template\":\"config{{ bos_token }}\",\"bos_token\":\"<s>\"}", NULL, &found),
        STATUS_OK);
    expect(&found, found.usual, "config<s>");
    assert_ptr_equal(found.usual, found.with_tools);
    assert_int_equal(opens("{\"chat_template\":\"config\",\"bos_token\":\"<s>\"}",
                           "beside{{ bos_token }}\n", &found),
                     STATUS_OK);
    expect(&found, found.usual, "beside<s>");
    assert_int_equal(opens(NULL, "alone{{ bos_token }}", &found), STATUS_OK);
    expect(&found, found.usual, "alone");
}

TEST(a_stand_in_is_taken_where_there_is_no_other) {
    struct chat_source found;
    struct chat_files files = {.config = file_of("{\"bos_token\":\"<s>\"}", "c.json"),
                               .stand_in = file_of("stand-in{{ bos_token }}", "release")};
    struct arena *arena = test_arena(4 << 20), *scratch = test_arena(4 << 20);
    assert_int_equal(chat_source_open(arena, scratch, files, &found, &error), STATUS_OK);
    expect(&found, found.usual, "stand-in<s>");
    assert_string_equal(found.stand_in, "release");
    files.config = file_of("{\"chat_template\":\"config\"}", "c.json");
    assert_int_equal(chat_source_open(arena, scratch, files, &found, &error), STATUS_OK);
    expect(&found, found.usual, "config");
    assert_null(found.stand_in);
    files.config = file_of(NULL, "c.json");
    files.own = file_of("beside", "t.jinja");
    assert_int_equal(chat_source_open(arena, scratch, files, &found, &error), STATUS_OK);
    expect(&found, found.usual, "beside");
    assert_null(found.stand_in);
    files.own = file_of(NULL, "t.jinja");
    files.tokens_only = true;
    assert_int_equal(chat_source_open(arena, scratch, files, &found, &error), STATUS_OK);
    assert_null(found.usual);
}

TEST(a_list_has_one_for_tools) {
    struct chat_source found;
    assert_int_equal(opens("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"tools\"},"
                           "{\"name\":\"rag\",\"template\":\"{{\"},"
                           "{\"name\":\"default\",\"template\":\"usual\"}]}",
                           NULL, &found),
                     STATUS_OK);
    expect(&found, found.usual, "usual");
    expect(&found, found.with_tools, "tools");
}

TEST(tokens_are_variables_under_their_names) {
    struct chat_source found;
    assert_int_equal(
        opens("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false},"
              "\"unk_token\":null,\"pad_token\":\"\",\"cls_token\":\"[CLS]\","
              "\"add_bos_token\":true}",
              "{{ bos_token }}{{ eos_token }}{{ cls_token }}{{ unk_token is defined }}"
              "{{ pad_token is defined }}",
              &found),
        STATUS_OK);
    expect(&found, found.usual, "<s></s>[CLS]FalseFalse");
    assert_true(bytes_equal(found.bos, bytes_of("<s>")) && found.adds_bos == CHAT_SWITCH_ON);
    assert_true(bytes_equal(found.eos, bytes_of("</s>")));
    struct jinja_rendering out;
    assert_int_equal(jinja_render(found.usual, found.tokens, found.token_count, &jinja_limits_usual,
                                  0, test_arena(4 << 20), &out, &error),
                     STATUS_OK);
    assert_int_equal(out.data_count, 0); /* they may be special tokens */
}

TEST(tokens_that_the_configuration_lacks_are_those_of_the_map) {
    struct chat_source found;
    assert_int_equal(opens_with("{\"bos_token\":\"<s>\",\"eos_token\":null}",
                                "{\"bos_token\":\"<t>\",\"eos_token\":{\"content\":\"</t>\"}}",
                                "{{ bos_token }}{{ eos_token }}", &found),
                     STATUS_OK);
    expect(&found, found.usual, "<s></t>");
    assert_true(bytes_equal(found.eos, bytes_of("</t>")));
    assert_int_equal(opens_with(NULL, "{\"eos_token\":\"</t>\"}", NULL, &found), STATUS_OK);
    assert_true(bytes_equal(found.eos, bytes_of("</t>")));
    assert_int_equal(opens_with("{}", "{\"eos_token\":7}", NULL, &found), STATUS_INVALID);
    assert_non_null(strstr(error.text, "s.json: eos_token is an integer"));
}

/* Only the first and the last token of a sentence decide about more than the template's text. */
TEST(values_that_decide_nothing_are_passed_over) {
    struct chat_source found;
    assert_int_equal(opens("{\"pad_token\":-1,\"unk_token\":false,\"cls_token\":{},"
                           "\"add_bos_token\":null,\"add_eos_token\":false}",
                           "{{ pad_token is defined }}{{ unk_token is defined }}", &found),
                     STATUS_OK);
    expect(&found, found.usual, "FalseFalse");
    assert_int_equal(found.adds_bos, CHAT_SWITCH_NONE);
    assert_int_equal(found.adds_eos, CHAT_SWITCH_OFF);
}

TEST(nothing_is_no_template) {
    struct chat_source found;
    assert_int_equal(opens("{}", NULL, &found), STATUS_OK);
    assert_true(!found.usual && !found.with_tools && !found.adds_bos && !found.bos.count);
    assert_int_equal(opens("{\"chat_template\":null,\"eos_token\":null}", NULL, &found), STATUS_OK);
    assert_null(found.usual);
    assert_int_equal(opens("{\"chat_template\":\"\"}", NULL, &found), STATUS_OK);
    expect(&found, found.usual, "");
}

TEST(what_is_wrong_is_named) {
    static const struct {
        const char *config, *own, *says;
    } cases[] = {
        {"{", NULL, "c.json"},
        {"{\"bos_token\":7}", NULL, "c.json: bos_token is an integer"},
        {"{\"eos_token\":[1]}", NULL, "c.json: eos_token is an array, expected a string"},
        {"{\"add_bos_token\":\"true\"}", NULL, "c.json: add_bos_token is a string, expected true"},
        {"{\"add_eos_token\":1}", NULL, "c.json: add_eos_token is an integer, expected true or"},
        {"{\"chat_template\":7}", NULL, "c.json: chat_template is an integer"},
        {"{\"chat_template\":[{\"name\":\"rag\",\"template\":\"x\"}]}", NULL,
         "none named \"default\""},
        {"{\"chat_template\":[{\"name\":\"default\"}]}", NULL, "entry 0"},
        {"{\"chat_template\":\"a\\nb\\n{{ 'x }}\"}", NULL, "c.json:3: "},
        {"{}", "{% if %}", "t.jinja:1: "},
        {"{}", "{% include 'x' %}", "t.jinja:1: "},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct chat_source found;
        assert_int_equal(opens(cases[i].config, cases[i].own, &found), STATUS_INVALID);
        if (!strstr(error.text, cases[i].says) || strchr(error.text, '\n'))
            fail_msg("case %zu: %s", i, error.text);
    }
}
