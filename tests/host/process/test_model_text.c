/* SPDX-License-Identifier: Apache-2.0
 * Protects what a checkpoint directory says about text: sampling defaults, stop tokens, and which
 * files may be missing or wrong.
 */
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "host/process/model_text.h"
#include "test_case.h"

static char directory[64];
static const struct shape shape = {
    .vocab = 100, .bos_token = 5, .eos_tokens = {9, 8}, .eos_token_count = 2};
static struct model_text text;
static struct error error;

static int make_directory(void **state) {
    strcpy(directory, "/tmp/test_model_text.XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static void write_file(const char *name, const char *content) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

/* Copies a file of the tree into the directory. */
static void copy_file(const char *from, const char *name) {
    const char *source = getenv("FATHOM_SOURCE");
    char path[512];
    struct bytes content;
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", from);
    assert_int_equal(file_take(path, 1 << 24, &content, &error), STATUS_OK);
    char *copy = calloc(content.count + 1, 1);
    memcpy(copy, content.data, content.count);
    write_file(name, copy);
    free(copy);
    free((void *)(uintptr_t)content.data);
}

static int remove_directory(void **state) {
    static const char *const names[] = {"tokenizer.json",         "tiktoken.model",
                                        "tokenizer_config.json",  "special_tokens_map.json",
                                        "chat_template.jinja",    "own.jinja",
                                        "generation_config.json", "config.json"};
    char path[128];
    model_text_close(&text);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    return rmdir(directory);
}

static enum status open_with(const char *generation) {
    write_file("generation_config.json", generation);
    return model_text_open(directory, &shape, NULL, &text, &error);
}

TEST_AROUND(an_empty_directory_leaves_token_ids, make_directory, remove_directory) {
    assert_int_equal(model_text_open(directory, &shape, NULL, &text, &error), STATUS_OK);
    assert_null(text.tokenizer);
    assert_false(text.chat_template.present);
    assert_int_equal(text.stop_token_count, 2);
    assert_int_equal(text.stop_tokens[0], 9);
    assert_int_equal(text.bos_token, 5);
    assert_int_equal(text.frame.front_count + text.frame.back_count, 0);
    assert_true(text.sampling.temperature == 1 && text.sampling.top_p == 1);
    model_text_close(&text);
    assert_int_equal(model_text_open(directory, NULL, NULL, &text, &error), STATUS_OK);
    assert_int_equal(text.stop_token_count, 0);
    model_text_close(&text);
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, directory));
    assert_non_null(strstr(error.text, "tokenizer.json"));
}

/* What stands beside it does not matter, and is not read. */
TEST_AROUND(a_tokenizer_opens_alone, make_directory, remove_directory) {
    copy_file("models/tiny-r1/tokenizer.json", "tokenizer.json");
    write_file("tokenizer_config.json", "{");
    write_file("generation_config.json", "{");
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_OK);
    assert_non_null(text.tokenizer);
    assert_false(text.chat_template.present);
    assert_int_equal(model_text_open(directory, NULL, NULL, &(struct model_text){0}, &error),
                     STATUS_INVALID);
}

TEST_AROUND(ranks_are_a_tokenizer_where_tokenizer_json_is_missing, make_directory,
            remove_directory) {
    uint32_t id = 0;
    copy_file("tests/serving/text/goldens/tiktoken.model", "tiktoken.model");
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_OK);
    assert_false(tokenizer_find(text.tokenizer, BYTES_LITERAL("<|im_end|>"), &id));
    model_text_close(&text);
    copy_file("tests/serving/text/goldens/tiktoken_config.json", "tokenizer_config.json");
    assert_int_equal(model_text_open_words(directory, &text, &error), STATUS_OK);
    assert_true(tokenizer_find(text.tokenizer, BYTES_LITERAL("<|im_end|>"), &id));
    assert_int_equal(text.bos_token, 1110);
    assert_int_equal(text.eos_token, 1111);
    assert_int_equal(text.frame.front_count + text.frame.back_count, 0);
    model_text_close(&text);
    write_file("tiktoken.model", "IQ== 1\n");
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tiktoken.model:1: expected rank 0"));
    copy_file("models/tiny-r1/tokenizer.json", "tokenizer.json");
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_OK);
}

TEST_AROUND(an_architecture_without_a_template_may_get_a_built_in_one, make_directory,
            remove_directory) {
    write_file("config.json", "{\"architectures\": [\"DeepseekV32ForCausalLM\"]}");
    assert_int_equal(model_text_open_template(directory, NULL, &text, &error), STATUS_OK);
    assert_true(text.chat_template.present && text.chat_template.prints_tools);
    assert_string_equal(text.chat_template.stand_in, "deepseek-v3.2");
    model_text_close(&text);
    write_file("tokenizer_config.json", "{\"chat_template\": \"its own\"}");
    assert_int_equal(model_text_open_template(directory, NULL, &text, &error), STATUS_OK);
    assert_null(text.chat_template.stand_in);
    model_text_close(&text);
    write_file("tokenizer_config.json", "{}");
    write_file("config.json", "{\"architectures\": [\"DeepseekV3ForCausalLM\"]}");
    assert_int_equal(model_text_open_template(directory, NULL, &text, &error), STATUS_OK);
    assert_false(text.chat_template.present);
    model_text_close(&text);
    write_file("config.json", "{\"architectures\": ");
    assert_int_equal(model_text_open_template(directory, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "/config.json"));
}

TEST_AROUND(generation_config_sets_the_defaults, make_directory, remove_directory) {
    assert_int_equal(open_with("{\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 40,"
                               "\"bos_token_id\": 0}"),
                     STATUS_OK);
    assert_true(text.sampling.temperature == 0.6f && text.sampling.top_p == 0.95f);
    assert_int_equal(text.sampling.top_k, 40);
    assert_int_equal(text.bos_token, 0);
    model_text_close(&text);
    assert_int_equal(open_with("{\"do_sample\": false, \"temperature\": -1, \"top_p\": null}"),
                     STATUS_OK);
    assert_true(text.sampling.temperature == 0 && text.sampling.top_p == 1);
    struct sampling alone;
    assert_int_equal(model_text_read_sampling(directory, &alone, &error), STATUS_OK);
    assert_true(alone.temperature == 0 && alone.top_p == 1);
}

/* Other servers write them, and mean nothing by them. */
TEST_AROUND(values_that_decide_nothing_refuse_nothing, make_directory, remove_directory) {
    static const char *const cases[] = {
        "{\"pad_token_id\": -1, \"bos_token_id\": -1}",
        "{\"bos_token_id\": 100}",
        "{\"bos_token_id\": \"<s>\"}",
        "{\"top_k\": -1}",
        "{\"top_k\": 0}",
        "{\"top_k\": 99999999}",
        "{\"temperature\": null, \"top_p\": null, \"top_k\": null, \"do_sample\": null,"
        "\"bos_token_id\": null, \"eos_token_id\": null}"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (open_with(cases[i])) fail_msg("%s: %s", cases[i], error.text);
        assert_int_equal(text.bos_token, 5);
        assert_int_equal(text.sampling.top_k, 0);
        assert_true(text.sampling.temperature == 1 && text.sampling.top_p == 1);
        model_text_close(&text);
    }
}

TEST_AROUND(wrong_values_are_named, make_directory, remove_directory) {
    static const char *const cases[][2] = {
        {"{\"temperature\": \"warm\"}", "temperature"},
        {"{\"temperature\": -1}", "temperature"},
        {"{\"top_p\": 1.5}", "top_p"},
        {"{\"top_k\": -2}", "\"top_k\" must be a count of tokens, or -1 or 0 for all"},
        {"{\"top_k\": 2.5}", "\"top_k\" must be a count"},
        {"[]", "expected an object"},
        {"{", "generation_config.json"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(open_with(cases[i][0]), STATUS_INVALID);
        assert_non_null(strstr(error.text, cases[i][1]));
        assert_non_null(strstr(error.text, "generation_config.json"));
    }
}

TEST_AROUND(a_broken_tokenizer_is_not_passed_over, make_directory, remove_directory) {
    write_file("tokenizer.json", "{\"model\": 1}");
    assert_true(model_text_open(directory, &shape, NULL, &text, &error) != STATUS_OK);
    assert_non_null(strstr(error.text, "tokenizer.json"));
}

/* The files beside config.json; nobody writes to any FIFO here. */
TEST_AROUND(no_fifo_is_waited_for, make_directory, remove_directory) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "chat_template.jinja",
                                        "generation_config.json"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(model_text_open(directory, &shape, NULL, &text, &error), STATUS_INVALID);
        assert_non_null(strstr(error.text, names[i]));
        assert_non_null(strstr(error.text, "expected a regular file, found a FIFO"));
        unlink(path);
    }
}

/* tiny-r1's, of 4096 tokens: 0 and 1 begin and end a sentence, 2 pads. Before its end stands
 * `post_processor`, if there is one. */
static void take_tokenizer(const char *post_processor) {
    static const char begin[] = "\"post_processor\": ";
    const char *source = getenv("FATHOM_SOURCE");
    char path[512];
    struct bytes json;
    snprintf(path, sizeof path, "%s/models/tiny-r1/tokenizer.json", source ? source : ".");
    assert_int_equal(file_take(path, 1 << 24, &json, &error), STATUS_OK);
    char *copy = calloc(json.count + 4096, 1);
    memcpy(copy, json.data, json.count);
    if (post_processor) {
        char *at = strstr(copy, begin), *tail = strstr(at, "}") + 1;
        assert_true(at && memchr(at, '}', 400) == tail - 1);
        char *rest = strdup(tail);
        sprintf(at, "%s%s%s", begin, post_processor, rest);
        free(rest);
    }
    write_file("tokenizer.json", copy);
    free(copy);
    free((void *)(uintptr_t)json.data);
}

/* Each prompt would begin with no token at all. */
TEST_AROUND(a_bos_that_is_no_token_is_refused, make_directory, remove_directory) {
    struct shape none = {.vocab = 4096, .bos_token = UINT32_MAX};
    take_tokenizer(NULL);
    write_file("tokenizer_config.json", "{\"add_bos_token\": true}");
    assert_int_equal(model_text_open(directory, &none, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer_config.json: add_bos_token"));
    none.bos_token = 7;
    assert_int_equal(model_text_open(directory, &none, NULL, &text, &error), STATUS_OK);
    assert_int_equal(text.bos_token, 7);
    assert_true(text.frame.front_count == 1 && text.frame.front[0] == 7);
    model_text_close(&text);
    write_file("tokenizer_config.json", "{\"add_eos_token\": true}");
    assert_int_equal(model_text_open(directory, &none, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer_config.json: add_eos_token asks for an eos_to"));
}

#define BOS "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
#define EOS "<\uff5cend\u2581of\u2581sentence\uff5c>"
#define PAD "<\uff5c\u2581pad\u2581\uff5c>"

/* As transformers' tokenizers do with add_special_tokens: add_bos_token and add_eos_token win over
 * the file's post_processor, and none is added twice. */
TEST_AROUND(prompts_are_framed_as_the_files_say, make_directory, remove_directory) {
    static const char begins[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"b\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"b\": {\"ids\": [0]}}}";
    static const struct {
        const char *post_processor, *config;
        uint32_t front, back; /* 9: none */
    } cases[] = {
        {NULL, "{}", 9, 9},
        {NULL, "{\"model_max_length\": 1000000000000000019884624838656, \"x\": 1e400}", 9, 9},
        {NULL, "{\"add_bos_token\": true, \"bos_token\": \"" BOS "\"}", 0, 9},
        {begins, "{}", 0, 9},
        {begins, "{\"add_bos_token\": true, \"bos_token\": {\"content\": \"" BOS "\"}}", 0, 9},
        {begins, "{\"add_bos_token\": false, \"bos_token\": \"" BOS "\"}", 9, 9},
        {begins, "{\"add_bos_token\": null, \"bos_token\": \"" BOS "\"}", 0, 9},
        {begins, "{\"add_eos_token\": true, \"eos_token\": \"" EOS "\"}", 0, 1},
        {NULL, "{\"add_eos_token\": false, \"eos_token\": \"" EOS "\"}", 9, 9},
    };
    struct shape tiny = {.vocab = 4096, .bos_token = UINT32_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        take_tokenizer(cases[i].post_processor);
        write_file("tokenizer_config.json", cases[i].config);
        if (model_text_open(directory, &tiny, NULL, &text, &error))
            fail_msg("case %zu: %s", i, error.text);
        const struct prompt_frame *frame = &text.frame;
        assert_int_equal(frame->front_count, cases[i].front != 9);
        assert_int_equal(frame->back_count, cases[i].back != 9);
        assert_true(!frame->front_count || frame->front[0] == cases[i].front);
        assert_true(!frame->back_count || frame->back[0] == cases[i].back);
        model_text_close(&text);
    }
    take_tokenizer(begins);
    tiny.vocab = 0;
    assert_int_equal(model_text_open(directory, &tiny, NULL, &text, &error), STATUS_OK);
}

/* A prompt cannot begin with a token of which the model has no row. */
TEST_AROUND(a_frame_of_tokens_that_the_model_lacks_is_refused, make_directory, remove_directory) {
    take_tokenizer(
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"b\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"b\": {\"ids\": "
        "[4096]}}}");
    struct shape tiny = {.vocab = 4096, .bos_token = UINT32_MAX};
    assert_int_equal(model_text_open(directory, &tiny, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer.json: post_processor puts token 4096 around"));
}

static void expect_stops(uint32_t count, const uint32_t *stops) {
    assert_int_equal(text.stop_token_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(text.stop_tokens[i], stops[i]);
}

/* config.json and generation_config.json are in the shape; `generate` asks once it knows that. */
TEST_AROUND(an_answer_ends_at_the_end_token_of_any_file, make_directory, remove_directory) {
    struct shape tiny = {.vocab = 4096, .bos_token = 0, .eos_tokens = {9}, .eos_token_count = 1};
    take_tokenizer(NULL);
    write_file("special_tokens_map.json", "{\"eos_token\": {\"content\": \"" PAD "\"}}");
    assert_int_equal(model_text_open(directory, &tiny, NULL, &text, &error), STATUS_OK);
    expect_stops(2, (uint32_t[]){9, 2});
    model_text_close(&text);
    write_file("tokenizer_config.json", "{\"eos_token\": \"" EOS "\", \"chat_template\": \"{{\"}");
    assert_int_equal(model_text_open_words(directory, &text, &error), STATUS_OK);
    expect_stops(0, NULL);
    assert_int_equal(model_text_find_stops(&text, &tiny, &error), STATUS_OK);
    expect_stops(2, (uint32_t[]){9, 1});
    tiny.eos_tokens[0] = 1;
    assert_int_equal(model_text_find_stops(&text, &tiny, &error), STATUS_OK);
    expect_stops(1, (uint32_t[]){1}); /* each once */
    tiny.eos_token_count = 0;
    assert_int_equal(model_text_find_stops(&text, &tiny, &error), STATUS_OK);
    expect_stops(1, (uint32_t[]){1});
    tiny.vocab = 1;
    assert_int_equal(model_text_find_stops(&text, &tiny, &error), STATUS_OK);
    expect_stops(0, NULL); /* no token of the model */
    tiny = (struct shape){.vocab = 4096, .eos_token_count = LIMIT_STOP_TOKENS};
    for (uint32_t i = 0; i < LIMIT_STOP_TOKENS; i++)
        tiny.eos_tokens[i] = 100 + i;
    assert_int_equal(model_text_find_stops(&text, &tiny, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "at most 16 different ids"));
    model_text_close(&text);
    write_file("tokenizer_config.json", "{\"eos_token\": \"no such token\"}");
    write_file("special_tokens_map.json", "{}");
    assert_int_equal(model_text_open_words(directory, &text, &error), STATUS_OK);
    assert_int_equal(text.eos_token, UINT32_MAX);
}

static void expect_template(const char *own, const char *says) {
    static char memory[1 << 20];
    static const struct tree *nobody;
    struct arena arena;
    struct chat_rendering rendering;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of("[]"), "messages", &nobody, &error), STATUS_OK);
    struct template_choice choice = {.chat_template = own};
    if (model_text_open(directory, &shape, &choice, &text, &error)) fail_msg("%s", error.text);
    assert_true(text.chat_template.present);
    struct chat_ask ask = {.messages = nobody};
    assert_int_equal(chat_template_render(&text.chat_template, &ask, &arena, &rendering, &error),
                     STATUS_OK);
    assert_true(bytes_equal(rendering.text, bytes_of(says)));
    model_text_close(&text);
}

TEST_AROUND(the_nearest_template_wins, make_directory, remove_directory) {
    char own[128];
    snprintf(own, sizeof own, "%s/own.jinja", directory);
    write_file("tokenizer_config.json",
               "{\"chat_template\": \"config {{ bos_token }}\", \"bos_token\": \"<s>\"}");
    expect_template(NULL, "config <s>");
    write_file("chat_template.jinja", "beside {{ bos_token }}\n");
    expect_template(NULL, "beside <s>");
    write_file("own.jinja", "own {{ bos_token }}");
    expect_template(own, "own <s>");
    assert_int_equal(model_text_open_template(NULL, &(struct template_choice){.chat_template = own},
                                              &text, &error),
                     STATUS_OK);
    assert_true(text.chat_template.present && text.chat_template.bos.count == 0);
}

TEST_AROUND(a_template_that_is_wrong_is_refused, make_directory, remove_directory) {
    write_file("tokenizer_config.json", "{\"chat_template\": \"a\\n{{ messages\"}");
    assert_int_equal(model_text_open(directory, &shape, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer_config.json:2: "));
    struct template_choice missing = {.chat_template = "/nonexistent.jinja"};
    assert_int_equal(model_text_open(directory, &shape, &missing, &text, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nonexistent.jinja"));
}
