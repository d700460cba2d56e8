/* SPDX-License-Identifier: Apache-2.0
 * Protects what a checkpoint directory says about text: sampling defaults, stop tokens, and which
 * files may be missing or wrong.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/file.h"
#include "host/process/model_text.h"

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

static int remove_directory(void **state) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "own.jinja",
                                        "generation_config.json"};
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

static void an_empty_directory_leaves_token_ids(void **state) {
    assert_int_equal(model_text_open(directory, &shape, NULL, &text, &error), STATUS_OK);
    assert_null(text.tokenizer);
    assert_false(text.chat_template.present);
    assert_int_equal(text.stop_token_count, 2);
    assert_int_equal(text.stop_tokens[0], 9);
    assert_int_equal(text.bos_token, 5);
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
static void a_tokenizer_opens_alone(void **state) {
    const char *source = getenv("FATHOM_SOURCE");
    char path[512];
    struct bytes json;
    snprintf(path, sizeof path, "%s/models/tiny-r1/tokenizer.json", source ? source : ".");
    assert_int_equal(file_take(path, 1 << 24, &json, &error), STATUS_OK);
    char *copy = calloc(json.count + 1, 1);
    memcpy(copy, json.data, json.count);
    write_file("tokenizer.json", copy);
    write_file("tokenizer_config.json", "{");
    write_file("generation_config.json", "{");
    free(copy);
    free((void *)(uintptr_t)json.data);
    assert_int_equal(model_text_open_tokenizer(directory, &text, &error), STATUS_OK);
    assert_non_null(text.tokenizer);
    assert_false(text.chat_template.present);
    assert_int_equal(model_text_open(directory, NULL, NULL, &(struct model_text){0}, &error),
                     STATUS_INVALID);
}

static void generation_config_sets_the_defaults(void **state) {
    assert_int_equal(open_with("{\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 40,"
                               "\"eos_token_id\": [1, 2, 3], \"bos_token_id\": 0}"),
                     STATUS_OK);
    assert_true(text.sampling.temperature == 0.6f && text.sampling.top_p == 0.95f);
    assert_int_equal(text.sampling.top_k, 40);
    assert_int_equal(text.stop_token_count, 3);
    assert_int_equal(text.stop_tokens[2], 3);
    assert_int_equal(text.bos_token, 0);
    model_text_close(&text);
    assert_int_equal(open_with("{\"do_sample\": false, \"temperature\": 0.6, \"eos_token_id\": 4,"
                               "\"top_p\": null}"),
                     STATUS_OK);
    assert_true(text.sampling.temperature == 0 && text.sampling.top_p == 1);
    assert_int_equal(text.stop_token_count, 1);
    assert_int_equal(text.stop_tokens[0], 4);
}

static void wrong_values_are_named(void **state) {
    static const char *const cases[][2] = {
        {"{\"temperature\": \"warm\"}", "temperature"},
        {"{\"temperature\": -1}", "temperature"},
        {"{\"top_p\": 1.5}", "top_p"},
        {"{\"eos_token_id\": \"1\"}", "eos_token_id"},
        {"{\"eos_token_id\": [1, -2]}", "eos_token_id"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "eos_token_id"},
        {"{\"eos_token_id\": 100}", "\"eos_token_id\" must be a token id from 0 to 99"},
        {"{\"eos_token_id\": [1, 100]}", "\"eos_token_id\" must be a token id from 0 to 99"},
        {"{\"bos_token_id\": 100}", "\"bos_token_id\" must be a token id from 0 to 99"},
        {"{\"bos_token_id\": \"<s>\"}", "bos_token_id"},
        {"[]", "expected an object"},
        {"{", "generation_config.json"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(open_with(cases[i][0]), STATUS_INVALID);
        assert_non_null(strstr(error.text, cases[i][1]));
        assert_non_null(strstr(error.text, "generation_config.json"));
    }
}

static void a_broken_tokenizer_is_not_passed_over(void **state) {
    write_file("tokenizer.json", "{\"model\": 1}");
    assert_true(model_text_open(directory, &shape, NULL, &text, &error) != STATUS_OK);
    assert_non_null(strstr(error.text, "tokenizer.json"));
}

/* The files beside config.json; nobody writes to any FIFO here. */
static void no_fifo_is_waited_for(void **state) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "generation_config.json"};
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

/* Each prompt would begin with no token at all. */
static void a_bos_that_is_no_token_is_refused(void **state) {
    const char *source = getenv("FATHOM_SOURCE");
    char path[512], link[128], whole[PATH_MAX];
    struct shape none = {.vocab = 4096, .bos_token = UINT32_MAX};
    snprintf(path, sizeof path, "%s/models/tiny-r1/tokenizer.json", source ? source : ".");
    snprintf(link, sizeof link, "%s/tokenizer.json", directory);
    assert_non_null(realpath(path, whole));
    assert_int_equal(symlink(whole, link), 0);
    write_file("tokenizer_config.json", "{\"add_bos_token\": true}");
    assert_int_equal(model_text_open(directory, &none, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer_config.json: add_bos_token"));
    none.bos_token = 7;
    assert_int_equal(model_text_open(directory, &none, NULL, &text, &error), STATUS_OK);
    assert_int_equal(text.bos_token, 7);
}

static void expect_template(const char *own, const char *says) {
    static char memory[1 << 20];
    static const struct tree *nobody;
    struct arena arena;
    struct chat_rendering rendering;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of("[]"), "messages", &nobody, &error), STATUS_OK);
    if (model_text_open(directory, &shape, own, &text, &error)) fail_msg("%s", error.text);
    assert_true(text.chat_template.present);
    struct chat_ask ask = {.messages = nobody};
    assert_int_equal(chat_template_render(&text.chat_template, &ask, &arena, &rendering, &error),
                     STATUS_OK);
    assert_true(bytes_equal(rendering.text, bytes_of(says)));
    model_text_close(&text);
}

static void the_nearest_template_wins(void **state) {
    char own[128];
    snprintf(own, sizeof own, "%s/own.jinja", directory);
    write_file("tokenizer_config.json",
               "{\"chat_template\": \"config {{ bos_token }}\", \"bos_token\": \"<s>\"}");
    expect_template(NULL, "config <s>");
    write_file("chat_template.jinja", "beside {{ bos_token }}\n");
    expect_template(NULL, "beside <s>");
    write_file("own.jinja", "own {{ bos_token }}");
    expect_template(own, "own <s>");
    assert_int_equal(model_text_open_template(NULL, own, &text, &error), STATUS_OK);
    assert_true(text.chat_template.present && text.chat_template.bos.count == 0);
}

static void a_template_that_is_wrong_is_refused(void **state) {
    write_file("tokenizer_config.json", "{\"chat_template\": \"a\\n{{ messages\"}");
    assert_int_equal(model_text_open(directory, &shape, NULL, &text, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokenizer_config.json:2: "));
    assert_int_equal(model_text_open(directory, &shape, "/nonexistent.jinja", &text, &error),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nonexistent.jinja"));
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        CASE(an_empty_directory_leaves_token_ids),   CASE(a_tokenizer_opens_alone),
        CASE(generation_config_sets_the_defaults),   CASE(wrong_values_are_named),
        CASE(a_broken_tokenizer_is_not_passed_over), CASE(the_nearest_template_wins),
        CASE(a_template_that_is_wrong_is_refused),   CASE(no_fifo_is_waited_for),
        CASE(a_bos_that_is_no_token_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
