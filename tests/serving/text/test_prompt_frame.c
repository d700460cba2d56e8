/* SPDX-License-Identifier: Apache-2.0
 * Protects which tokens a plain prompt gets around it: those that the tokenizers library's
 * post-processors would put there, each once, and that what is not understood is refused by name.
 */
#include "serving/text/prompt_frame.h"
#include "support.h"
#include "test_case.h"

static struct error error;

static enum status reads(const char *json, struct prompt_frame *out) {
    const struct tree *root;
    memset(&error, 0, sizeof error);
    assert_int_equal(tree_parse(test_arena(1 << 20), bytes_of(json), "t.json", &root, &error),
                     STATUS_OK);
    return prompt_frame_read(root, "t.json", out, &error);
}

static void expect(const struct prompt_frame *frame, const char *front, const char *back) {
    char text[2][128] = {"", ""};
    for (uint32_t i = 0; i < frame->front_count; i++)
        snprintf(text[0] + strlen(text[0]), 16, "%u ", frame->front[i]);
    for (uint32_t i = 0; i < frame->back_count; i++)
        snprintf(text[1] + strlen(text[1]), 16, "%u ", frame->back[i]);
    assert_string_equal(text[0], front);
    assert_string_equal(text[1], back);
}

#define SPECIAL(token) "{\"SpecialToken\":{\"id\":\"" token "\",\"type_id\":0}}"
#define TEXT "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEMPLATE(single)                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[],"                        \
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[0],\"tokens\":[\"<s>\"]},"               \
    "\"</s>\":{\"id\":\"</s>\",\"ids\":[1],\"tokens\":[\"</s>\"]},"                                \
    "\"many\":{\"id\":\"many\",\"ids\":[2,3,4,5,6,7,8,9],\"tokens\":[]},"                          \
    "\"none\":{\"id\":\"none\",\"ids\":[],\"tokens\":[]},"                                         \
    "\"wrong\":{\"id\":\"wrong\",\"ids\":[-1],\"tokens\":[]}}}"
#define SEQUENCE(processors) "{\"type\":\"Sequence\",\"processors\":[" processors "]}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false}"

/* As in files of DeepSeek-V3, Llama, Llama 3 and GLM. */
TEST(the_shapes_of_releases_are_understood) {
    static const char *const cases[][3] = {
        {"null", "", ""},
        {BYTES, "", ""},
        {TEMPLATE(SPECIAL("<s>") "," TEXT), "0 ", ""},
        {TEMPLATE(TEXT), "", ""},
        {TEMPLATE(SPECIAL("<s>") "," TEXT "," SPECIAL("</s>")), "0 ", "1 "},
        {SEQUENCE(BYTES "," TEMPLATE(SPECIAL("<s>") "," TEXT)), "0 ", ""},
        {TEMPLATE(SPECIAL("</s>") "," SPECIAL("<s>") "," TEXT), "1 0 ", ""},
        {SEQUENCE(""), "", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct prompt_frame frame;
        if (reads(cases[i][0], &frame)) fail_msg("case %zu: %s", i, error.text);
        expect(&frame, cases[i][1], cases[i][2]);
    }
}

TEST(a_later_template_goes_around_an_earlier_one) {
    struct prompt_frame frame;
    assert_int_equal(reads(SEQUENCE(TEMPLATE(SPECIAL("<s>") "," TEXT) "," TEMPLATE(
                               SPECIAL("</s>") "," TEXT "," SPECIAL("</s>"))),
                           &frame),
                     STATUS_OK);
    expect(&frame, "1 0 ", "1 ");
}

TEST(what_is_not_understood_is_named) {
    static const char *const cases[][2] = {
        {"{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",1],\"cls\":[\"[CLS]\",0]}",
         "t.json: post_processor of type 'BertProcessing' is not supported"},
        {"{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",1],\"cls\":[\"<s>\",0]}",
         "'RobertaProcessing'"},
        {SEQUENCE(BYTES ",{\"type\":\"Magic\"}"), "'Magic'"},
        {SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(BYTES))))), "'Sequence'"},
        {"{}", "'?'"},
        {"7", "'?'"},
        {TEMPLATE(SPECIAL("<s>")), "the Sequence A once"},
        {TEMPLATE(TEXT "," TEXT), "the Sequence A once"},
        {TEMPLATE("{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}"), "the Sequence A once"},
        {TEMPLATE("7"), "the Sequence A once"},
        {"{\"type\":\"TemplateProcessing\"}", "the Sequence A once"},
        {TEMPLATE(SPECIAL("<t>") "," TEXT), "to have ids in special_tokens"},
        {TEMPLATE(SPECIAL("none") "," TEXT), "to have ids in special_tokens"},
        {TEMPLATE(SPECIAL("wrong") "," TEXT), "to be token ids"},
        {TEMPLATE(SPECIAL("many") "," SPECIAL("<s>") "," TEXT), "at most 8 tokens"},
        {SEQUENCE(TEMPLATE(TEXT "," SPECIAL("many")) "," TEMPLATE(TEXT "," SPECIAL("<s>"))),
         "at most 8 tokens"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct prompt_frame frame;
        assert_int_equal(reads(cases[i][0], &frame), STATUS_UNSUPPORTED);
        if (!strstr(error.text, cases[i][1])) fail_msg("case %zu: %s", i, error.text);
    }
}

TEST(a_switch_adds_a_token_once_and_takes_it_out) {
    struct prompt_frame frame = {.front = {7, 0}, .front_count = 2};
    assert_true(prompt_frame_begin(&frame, 0, true));
    expect(&frame, "7 0 ", "");
    assert_true(prompt_frame_begin(&frame, 5, true) && prompt_frame_end(&frame, 1, true));
    assert_true(prompt_frame_end(&frame, 1, true) && prompt_frame_end(&frame, 2, true));
    expect(&frame, "5 7 0 ", "1 2 ");
    assert_true(prompt_frame_begin(&frame, 7, false) && prompt_frame_end(&frame, 1, false));
    expect(&frame, "5 0 ", "2 ");
    for (uint32_t i = 10; frame.front_count < LIMIT_PROMPT_FRAME; i++)
        assert_true(prompt_frame_begin(&frame, i, true));
    assert_false(prompt_frame_begin(&frame, 99, true));
    assert_true(prompt_frame_begin(&frame, 5, true));
}
