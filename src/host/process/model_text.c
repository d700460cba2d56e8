/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/model_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/tree.h"

#define TOKENIZER_BYTES_MAX ((size_t)256 << 20)
#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define PATH_BYTES 4096
#define TEMPLATE_BYTES ((size_t)8 << 20)          /* a compiled template, at least */
#define TEMPLATE_BYTES_PER_BYTE 512               /* of its source */
#define TEMPLATE_SCRATCH_BYTES ((size_t)32 << 20) /* for probing it */

/* Reads directory/name. A file that is not there leaves out->data NULL. */
static enum status take_file(const char *directory, const char *name, size_t bytes_max, char *path,
                             struct bytes *out, struct error *error) {
    *out = (struct bytes){NULL, 0};
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, name) >= PATH_BYTES)
        return error_set(error, STATUS_INVALID, "the path of %s is too long", name);
    enum status status = file_take(path, bytes_max, out, error);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Memory for reading `bytes` of JSON. */
static enum status take_arena(size_t bytes, void **memory_out, struct arena *arena,
                              struct error *error) {
    *memory_out = malloc(bytes);
    if (!*memory_out) return error_set(error, STATUS_NO_MEMORY, "no memory: %zu bytes", bytes);
    arena_over(arena, *memory_out, bytes);
    return STATUS_OK;
}

static enum status open_tokenizer(const char *directory, struct model_text *text,
                                  struct error *error) {
    char path[PATH_BYTES];
    struct bytes json;
    enum status status =
        take_file(directory, "tokenizer.json", TOKENIZER_BYTES_MAX, path, &json, error);
    if (status || !json.data) return status;
    struct arena arena, scratch;
    void *memory = NULL;
    status = take_arena(tokenizer_arena_bytes(json.count), &text->memory, &arena, error);
    if (!status)
        status = take_arena(tokenizer_open_scratch_bytes(json.count), &memory, &scratch, error);
    if (!status) status = tokenizer_open(&arena, &scratch, json, path, &text->tokenizer, error);
    free(memory);
    free((void *)(uintptr_t)json.data);
    return status;
}

static enum status compile_template(struct chat_file config, struct chat_file own,
                                    struct model_text *text, struct error *error) {
    size_t source = config.text.count + own.text.count;
    struct lazy_memory work = lazy_memory_take(TEMPLATE_SCRATCH_BYTES + 64 * source);
    text->template_memory = lazy_memory_take(TEMPLATE_BYTES + TEMPLATE_BYTES_PER_BYTE * source);
    enum status status = STATUS_OK;
    struct arena arena, scratch;
    if (!work.start || !text->template_memory.start) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the chat template");
    } else {
        arena_over(&arena, text->template_memory.start, text->template_memory.bytes);
        arena_over(&scratch, work.start, work.bytes);
        status = chat_template_open(&arena, &scratch, config, own, &text->chat_template, error);
    }
    lazy_memory_free(&work);
    return status;
}

/* The template that `own` names, else the directory's chat_template.jinja, else the one in its
 * tokenizer_config.json. */
static enum status open_template(const char *directory, const char *own, struct model_text *text,
                                 struct error *error) {
    char config_path[PATH_BYTES] = "", beside[PATH_BYTES];
    struct chat_file config = {{NULL, 0}, config_path}, template = {{NULL, 0}, own};
    enum status status = STATUS_OK;
    if (directory)
        status = take_file(directory, "tokenizer_config.json", CONFIG_BYTES_MAX, config_path,
                           &config.text, error);
    if (!status && own) {
        status = file_take(own, CONFIG_BYTES_MAX, &template.text, error);
    } else if (!status && directory) {
        template.name = beside;
        status = take_file(directory, "chat_template.jinja", CONFIG_BYTES_MAX, beside,
                           &template.text, error);
    }
    if (!status && (config.text.data || template.text.data))
        status = compile_template(config, template, text, error);
    free((void *)(uintptr_t)config.text.data);
    free((void *)(uintptr_t) template.text.data);
    return status;
}

static enum status wrong(struct error *error, const char *path, const char *key,
                         const char *expected) {
    return error_set(error, STATUS_INVALID, "%.300s: \"%s\" must be %s", path, key, expected);
}

static enum status read_number(const struct tree *root, const char *key, double low, double high,
                               const char *path, double *out, struct error *error) {
    const struct tree *value = tree_member(root, key);
    double number;
    if (!value || tree_is_null(value)) return STATUS_OK;
    if (!tree_get_number(value, &number) || !(number >= low && number <= high)) {
        char expected[64];
        snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
        return wrong(error, path, key, expected);
    }
    *out = number;
    return STATUS_OK;
}

static bool read_token(const struct tree *value, uint32_t vocab, uint32_t *out) {
    int64_t id;
    if (!tree_get_integer(value, &id) || id < 0 || id >= vocab) return false;
    *out = (uint32_t)id;
    return true;
}

static enum status wrong_token(struct error *error, const char *path, const char *key,
                               const char *more, uint32_t vocab) {
    char expected[64];
    snprintf(expected, sizeof expected, "a token id from 0 to %u%s", vocab - 1, more);
    return wrong(error, path, key, expected);
}

/* "eos_token_id": one id, or a list of them. */
static enum status read_stop_tokens(const struct tree *root, uint32_t vocab, const char *path,
                                    struct model_text *text, struct error *error) {
    const struct tree *value = tree_member(root, "eos_token_id");
    if (!value || tree_is_null(value)) return STATUS_OK;
    bool is_list = tree_kind(value) == TREE_ARRAY;
    size_t count = is_list ? tree_count(value) : 1;
    if (count > LIMIT_STOP_TOKENS)
        return wrong(error, path, "eos_token_id", "a list of at most 16 token ids");
    for (size_t i = 0; i < count; i++)
        if (!read_token(is_list ? tree_at(value, i) : value, vocab, &text->stop_tokens[i]))
            return wrong_token(error, path, "eos_token_id", ", or a list of them", vocab);
    text->stop_token_count = (uint32_t)count;
    return STATUS_OK;
}

/* "bos_token_id"; none leaves what is known. */
static enum status read_bos(const struct tree *root, uint32_t vocab, const char *path,
                            struct model_text *text, struct error *error) {
    const struct tree *value = tree_member(root, "bos_token_id");
    if (!value || tree_is_null(value) || read_token(value, vocab, &text->bos_token))
        return STATUS_OK;
    return wrong_token(error, path, "bos_token_id", "", vocab);
}

static enum status read_generation(const struct tree *root, uint32_t vocab, const char *path,
                                   struct model_text *text, struct error *error) {
    double temperature = 1, top_p = 1, top_k = 0;
    bool samples = true;
    enum status status = read_stop_tokens(root, vocab, path, text, error);
    if (!status) status = read_bos(root, vocab, path, text, error);
    if (!status) status = read_number(root, "temperature", 0, 100, path, &temperature, error);
    if (!status) status = read_number(root, "top_p", 0, 1, path, &top_p, error);
    if (!status) status = read_number(root, "top_k", 0, LIMIT_VOCAB, path, &top_k, error);
    if (status) return status;
    tree_get_bool(tree_member(root, "do_sample"), &samples);
    text->sampling.temperature = samples ? (float)temperature : 0;
    text->sampling.top_p = (float)top_p;
    text->sampling.top_k = (uint32_t)top_k;
    return STATUS_OK;
}

static enum status open_generation(const char *directory, uint32_t vocab, struct model_text *text,
                                   struct error *error) {
    char path[PATH_BYTES];
    struct bytes json;
    enum status status =
        take_file(directory, "generation_config.json", CONFIG_BYTES_MAX, path, &json, error);
    if (status || !json.data) return status;
    struct arena arena;
    void *memory;
    const struct tree *root;
    status = take_arena(64 * json.count + 65536, &memory, &arena, error);
    if (!status) status = tree_parse(&arena, json, path, &root, error);
    if (!status && tree_kind(root) != TREE_OBJECT)
        status = error_set(error, STATUS_INVALID, "%.300s: expected an object, found %s", path,
                           tree_name(root));
    if (!status) status = read_generation(root, vocab, path, text, error);
    free(memory);
    free((void *)(uintptr_t)json.data);
    return status;
}

/* The bos token by its text, which the template knows; else by the id that was read. */
static enum status find_bos(const char *directory, uint32_t vocab, struct model_text *text,
                            struct error *error) {
    const struct chat_template *chat = &text->chat_template;
    if (text->tokenizer && chat->bos.count)
        tokenizer_find(text->tokenizer, chat->bos, &text->bos_token);
    text->prepend_bos = chat->adds_bos;
    if (!text->tokenizer || !text->prepend_bos || text->bos_token < vocab) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.300s/tokenizer_config.json: add_bos_token asks for a bos_token among the "
                     "model's %u tokens; found none",
                     directory, vocab);
}

static const struct model_text nothing = {.sampling = {.temperature = 1, .top_p = 1}};

/* Hands out what was opened, or gives it back. */
static enum status end(struct model_text *text, enum status status, struct model_text *out) {
    if (status)
        model_text_close(text);
    else
        *out = *text;
    return status;
}

enum status model_text_open_tokenizer(const char *directory, struct model_text *out,
                                      struct error *error) {
    struct model_text text = nothing;
    enum status status = open_tokenizer(directory, &text, error);
    if (!status && !text.tokenizer)
        status = error_set(error, STATUS_NOT_FOUND,
                           "%.300s/tokenizer.json: cannot open it: it is not there", directory);
    return end(&text, status, out);
}

enum status model_text_open_template(const char *directory, const char *chat_template,
                                     struct model_text *out, struct error *error) {
    struct model_text text = nothing;
    enum status status = open_template(directory, chat_template, &text, error);
    return end(&text, status, out);
}

enum status model_text_open(const char *directory, const struct shape *shape,
                            const char *chat_template, struct model_text *out,
                            struct error *error) {
    static const struct shape none;
    struct model_text text = nothing;
    if (!shape) shape = &none;
    uint32_t vocab = shape->vocab ? shape->vocab : LIMIT_VOCAB;
    text.stop_token_count = shape->eos_token_count;
    text.bos_token = shape->bos_token;
    memcpy(text.stop_tokens, shape->eos_tokens, sizeof text.stop_tokens);
    enum status status = open_tokenizer(directory, &text, error);
    if (!status) status = open_template(directory, chat_template, &text, error);
    if (!status) status = open_generation(directory, vocab, &text, error);
    if (!status) status = find_bos(directory, vocab, &text, error);
    return end(&text, status, out);
}

void model_text_close(struct model_text *text) {
    if (text->tokenizer) tokenizer_close(text->tokenizer);
    free(text->memory);
    lazy_memory_free(&text->template_memory);
    *text = (struct model_text){0};
}
