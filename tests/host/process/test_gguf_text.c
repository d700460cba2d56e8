/* SPDX-License-Identifier: Apache-2.0
 * Protects the texts in a GGUF file: each way of splitting words that it can name makes a tokenizer
 * that opens and splits, special tokens and template arrive, and a tokenizer of another kind or a
 * text that is not UTF-8 is refused by the name of its key.
 */
#include <unistd.h>

#include "test_case.h"

#include "../../compute/weights/gguf_bytes.h"
#include "base/check.h"
#include "base/utf8.h"
#include "host/process/gguf_text.h"
#include "host/process/model_text.h"

static char path[64], name[4096];
static struct error error;
static struct model_text text;

static int make_path(void **state) {
    memcpy(path, "/tmp/test_gguf_text.XXXXXX.gguf", sizeof "/tmp/test_gguf_text.XXXXXX.gguf");
    int file = mkstemps(path, (int)strlen(".gguf"));
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
    model_text_close(&text);
    return unlink(path);
}

#define TEST_HERE(name) TEST_AROUND(name, make_path, remove_path)

#define TOKENS (2 + 256 + 1)
#define TOKEN_12 (TOKENS - 1)

static uint32_t token_of(uint8_t byte) {
    return 2 + byte;
}

/* The character that stands for a byte in byte-level vocabularies: itself if it is visible in
 * Latin-1, else the next from 256 on. */
static void put_byte(struct gguf_buffer *out, uint32_t byte) {
    uint32_t character = 256;
    char spelt[UTF8_BYTES_MAX];
    for (uint32_t i = 0; i <= byte; i++) {
        bool visible = (i >= '!' && i <= '~') || (i >= 0xA1 && i != 0xAD);
        if (i == byte) character = visible ? byte : character;
        character += !visible && i < byte;
    }
    gguf_bytes_put_string(out, (struct bytes){spelt, utf8_write(character, spelt)});
}

/* A vocabulary of two special tokens, the bytes and "12". */
static struct gguf_bytes vocabulary(const char *model, const char *pre) {
    struct gguf_bytes file = {.version = 3};
    gguf_bytes_text(&file, "general.architecture", "deepseek2");
    gguf_bytes_text(&file, "tokenizer.ggml.model", model);
    gguf_bytes_text(&file, "tokenizer.ggml.pre", pre);
    struct gguf_buffer *out = gguf_bytes_array(&file, "tokenizer.ggml.tokens", GGUF_STRING, TOKENS);
    gguf_bytes_put_string(out, bytes_of("<s>"));
    gguf_bytes_put_string(out, bytes_of("</s>"));
    for (uint32_t byte = 0; byte < 256; byte++)
        put_byte(out, byte);
    gguf_bytes_put_string(out, bytes_of("12"));
    out = gguf_bytes_array(&file, "tokenizer.ggml.token_type", GGUF_INT32, TOKENS);
    for (uint32_t i = 0; i < TOKENS; i++)
        gguf_bytes_put_u32(out, i < 2 ? 3 : 1);
    out = gguf_bytes_array(&file, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_bytes_put_string(out, bytes_of("1 2"));
    gguf_bytes_count(&file, "tokenizer.ggml.bos_token_id", 0);
    gguf_bytes_count(&file, "tokenizer.ggml.eos_token_id", 1);
    gguf_bytes_bool(&file, "tokenizer.ggml.add_bos_token", true);
    return file;
}

static void write_file(struct gguf_bytes *built) {
    struct bytes content = gguf_bytes_end(built);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.count, file), content.count);
    assert_int_equal(fclose(file), 0);
    free((void *)(uintptr_t)content.data);
}

static uint32_t encoded(const char *what, uint32_t *ids) {
    const size_t bytes = tokenizer_scratch_bytes(1024);
    void *memory = malloc(bytes);
    struct arena arena;
    assert_non_null(memory);
    arena_over(&arena, memory, bytes);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, 1024);
    size_t count = 0;
    assert_int_equal(tokenizer_encode(text.tokenizer, scratch, bytes_of(what), plain_text_nowhere,
                                      ids, 32, &count),
                     STATUS_OK);
    free(memory);
    return (uint32_t)count;
}

TEST_HERE(each_way_of_splitting_makes_a_tokenizer) {
    static const char *const ways[] = {"deepseek-v3", "deepseek-llm", "deepseek-coder", "kimi-k2",
                                       "glm4",        "chatglm-bpe",  "gpt-2"};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        struct gguf_bytes file = vocabulary("gpt2", ways[i]);
        uint32_t ids[32];
        write_file(&file);
        if (model_text_open_words(path, &text, &error)) fail_msg("%s: %s", ways[i], error.text);
        const bool single = strcmp(ways[i], "deepseek-coder") == 0; /* splits digits apart */
        const uint32_t count = encoded("a <s>12", ids);
        assert_int_equal(count, single ? 5 : 4);
        assert_true(ids[0] == token_of('a') && ids[1] == token_of(' ') && ids[2] == 0);
        if (!single) assert_int_equal(ids[3], TOKEN_12);
        assert_true(text.bos_token == 0 && text.eos_token == 1);
        assert_true(text.frame.front_count == 1 && text.frame.front[0] == 0);
        model_text_close(&text);
    }
}

TEST_HERE(the_template_arrives) {
    struct gguf_bytes file = vocabulary("gpt2", "deepseek-v3");
    gguf_bytes_text(&file, "tokenizer.chat_template",
                    "{{ bos_token }}{% for m in messages %}\"{{ m['content'] }}\"{% endfor %}");
    write_file(&file);
    if (model_text_open_template(path, NULL, &text, &error)) fail_msg("%s", error.text);
    assert_true(text.chat_template.present);
    assert_true(bytes_equal(text.chat_template.bos, BYTES_LITERAL("<s>")));
}

static void refuse(struct gguf_bytes *file, const char *expected) {
    write_file(file);
    assert_int_not_equal(model_text_open_words(path, &text, &error), STATUS_OK);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, path) || !strstr(error.text, expected))
        fail_msg("'%s' lacks '%s'", error.text, expected);
}

TEST_HERE(other_tokenizers_are_refused) {
    struct gguf_bytes file = vocabulary("llama", "default");
    refuse(&file, "tokenizer.ggml.model: expected gpt2");
    file = vocabulary("gpt2", "tekken");
    refuse(&file, "tokenizer.ggml.pre: expected deepseek-v3, ");
    file = vocabulary("gpt2", "deepseek-v3");
    memcpy(memmem(file.pairs.data, file.pairs.count, "1 2", 3),
           "1\xFF"
           "2",
           3);
    refuse(&file, "tokenizer.ggml.merges[0]: expected valid UTF-8");
    file = vocabulary("gpt2", "deepseek-v3");
    memcpy(memmem(file.pairs.data, file.pairs.count, "</s>", 4), "\xFF\xFF\xFF\xFF", 4);
    refuse(&file, "tokenizer.ggml.tokens[1]: expected valid UTF-8");
    file = (struct gguf_bytes){.version = 3};
    gguf_bytes_text(&file, "general.architecture", "qwen3");
    refuse(&file, "general.architecture: expected deepseek2");
}

TEST_HERE(defaults_of_sampling_are_taken) {
    struct gguf_bytes file = vocabulary("gpt2", "deepseek-v3");
    struct sampling sampling;
    write_file(&file);
    assert_int_equal(model_text_read_sampling(path, &sampling, &error), STATUS_OK);
    assert_true(sampling.temperature == 1 && sampling.top_p == 1 && sampling.top_k == 0);
    file = vocabulary("gpt2", "deepseek-v3");
    gguf_bytes_float(&file, "general.sampling.temp", 0.6f);
    gguf_bytes_float(&file, "general.sampling.top_p", 0.95f);
    gguf_bytes_count(&file, "general.sampling.top_k", 20);
    write_file(&file);
    assert_int_equal(model_text_read_sampling(path, &sampling, &error), STATUS_OK);
    assert_true(sampling.temperature == 0.6f && sampling.top_p == 0.95f && sampling.top_k == 20);
    file = vocabulary("gpt2", "deepseek-v3");
    gguf_bytes_float(&file, "general.sampling.top_p", 7);
    write_file(&file);
    assert_int_equal(model_text_read_sampling(path, &sampling, &error), STATUS_INVALID);
}

TEST_HERE(a_file_may_have_no_tokenizer) {
    struct gguf_bytes file = {.version = 3};
    gguf_bytes_text(&file, "general.architecture", "deepseek2");
    write_file(&file);
    assert_int_equal(model_text_open_words(path, &text, &error), STATUS_OK);
    assert_null(text.tokenizer);
}

TEST_HERE(files_of_a_folder_and_of_a_file) {
    struct bytes out;
    struct gguf_bytes file = vocabulary("gpt2", "deepseek-v3");
    write_file(&file);
    assert_int_equal(
        gguf_text_take("/nonexistent", "config.json", 1 << 20, name, sizeof name, &out, &error),
        STATUS_NOT_FOUND);
    assert_string_equal(name, "/nonexistent/config.json");
    assert_int_equal(
        gguf_text_take(path, "chat_template.jinja", 1 << 20, name, sizeof name, &out, &error),
        STATUS_NOT_FOUND);
    assert_int_equal(
        gguf_text_take(path, "tokenizer.json", 1 << 20, name, sizeof name, &out, &error),
        STATUS_OK);
    assert_string_equal(name, path);
    assert_int_equal(strlen(out.data), out.count);
    free((void *)(uintptr_t)out.data);
}
