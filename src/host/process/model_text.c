/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/model_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/tree.h"
#include "host/process/gguf_text.h"

#define TOKENIZER_BYTES_MAX ((size_t)256 << 20)
#define TIKTOKEN_BYTES_MAX ((size_t)32 << 20)
#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define PATH_BYTES 4096
#define TEMPLATE_BYTES ((size_t)8 << 20)          /* least memory for a compiled template */
#define TEMPLATE_BYTES_PER_BYTE 512               /* of its source */
#define TEMPLATE_SCRATCH_BYTES ((size_t)32 << 20) /* for probing it */

/* Reads a text file of the model. If it is missing, out->data is NULL. */
static enum status take_file(const char *directory, const char *name, size_t bytes_max, char *path,
                             struct bytes *out, struct error *error) {
    *out = (struct bytes){NULL, 0};
    enum status status = gguf_text_take(directory, name, bytes_max, path, PATH_BYTES, out, error);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Allocates memory for parsing `bytes` of JSON. */
static enum status take_arena(size_t bytes, void **memory_out, struct arena *arena,
                              struct error *error) {
    *memory_out = malloc(bytes);
    if (!*memory_out) return error_set(error, STATUS_NO_MEMORY, "no memory: %zu bytes", bytes);
    arena_over(arena, *memory_out, bytes);
    return STATUS_OK;
}

static enum status open_ranks(struct tiktoken_files files, struct model_text *text,
                              struct error *error) {
    struct arena arena, scratch;
    void *memory = NULL;
    enum status status =
        take_arena(tokenizer_tiktoken_arena_bytes(&files), &text->memory, &arena, error);
    if (!status)
        status = take_arena(tokenizer_tiktoken_scratch_bytes(&files), &memory, &scratch, error);
    if (!status) status = tokenizer_open_tiktoken(&arena, &scratch, files, &text->tokenizer, error);
    free(memory);
    return status;
}

static enum status open_tiktoken(const char *directory, struct model_text *text,
                                 struct error *error) {
    char model[PATH_BYTES], config[PATH_BYTES];
    struct tiktoken_files files = {.name = model, .config_name = config};
    enum status status =
        take_file(directory, "tiktoken.model", TIKTOKEN_BYTES_MAX, model, &files.model, error);
    if (status || !files.model.data) return status;
    status = take_file(directory, "tokenizer_config.json", CONFIG_BYTES_MAX, config, &files.config,
                       error);
    if (!status) status = open_ranks(files, text, error);
    free((void *)(uintptr_t)files.model.data);
    free((void *)(uintptr_t)files.config.data);
    return status;
}

static enum status open_tokenizer(const char *directory, struct model_text *text,
                                  struct error *error) {
    char path[PATH_BYTES];
    struct bytes json;
    enum status status =
        take_file(directory, "tokenizer.json", TOKENIZER_BYTES_MAX, path, &json, error);
    if (!status && !json.data) return open_tiktoken(directory, text, error);
    if (status) return status;
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

static enum status compile_template(struct chat_files files, struct model_text *text,
                                    struct error *error) {
    size_t source = files.config.text.count + files.specials.text.count + files.own.text.count +
                    files.stand_in.text.count;
    struct lazy_memory work = lazy_memory_take(TEMPLATE_SCRATCH_BYTES + 64 * source);
    text->template_memory = lazy_memory_take(TEMPLATE_BYTES + TEMPLATE_BYTES_PER_BYTE * source);
    enum status status = STATUS_OK;
    struct arena arena, scratch;
    if (!work.start || !text->template_memory.start) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the chat template");
    } else {
        arena_over(&arena, text->template_memory.start, text->template_memory.bytes);
        arena_over(&scratch, work.start, work.bytes);
        status = chat_template_open(&arena, &scratch, files, &text->chat_template, error);
    }
    lazy_memory_free(&work);
    return status;
}

/* Takes a built-in template or reads a file. */
static enum status take_chosen(const char *chosen, struct bytes *out, struct error *error) {
    struct builtin_template builtin;
    if (!builtin_template_find(bytes_of(chosen), &builtin))
        return file_take(chosen, CONFIG_BYTES_MAX, out, error);
    char *text = malloc(builtin.text.count);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "no memory for %s", builtin.name);
    memcpy(text, builtin.text.data, builtin.text.count);
    *out = (struct bytes){text, builtin.text.count};
    return STATUS_OK;
}

/* Finds the built-in template for the architecture in config.json, if there is one. */
static enum status take_stand_in(const char *directory, struct chat_file *out,
                                 struct error *error) {
    char path[PATH_BYTES];
    struct bytes json, name = {"", 0};
    struct builtin_template builtin;
    struct arena arena;
    void *memory = NULL;
    const struct tree *root = NULL;
    enum status status = take_file(directory, "config.json", CONFIG_BYTES_MAX, path, &json, error);
    if (status || !json.data) return status;
    status = take_arena(64 * json.count + 65536, &memory, &arena, error);
    if (!status) status = tree_parse(&arena, json, path, &root, error);
    (void)tree_get_string(tree_at(tree_member(root, "architectures"), 0), &name);
    if (!status && builtin_template_stand_in(name, &builtin))
        *out = (struct chat_file){builtin.text, builtin.name};
    free(memory);
    free((void *)(uintptr_t)json.data);
    return status;
}

/* Reads the special tokens and the template: the chosen one, or else the directory's
 * chat_template.jinja, or else the template in its tokenizer_config.json, or else a built-in one
 * for its architecture. */
static enum status open_template(const char *directory, const struct template_choice *choice,
                                 bool tokens_only, struct model_text *text, struct error *error) {
    char config[PATH_BYTES] = "", specials[PATH_BYTES] = "", in_folder[PATH_BYTES];
    const char *own = choice ? choice->chat_template : NULL;
    struct chat_files files = {.config = {{NULL, 0}, config},
                               .specials = {{NULL, 0}, specials},
                               .own = {{NULL, 0}, own ? own : in_folder},
                               .tokens_only = tokens_only,
                               .brings_tools = choice && choice->brings_tools};
    struct bytes *own_text = &files.own.text;
    enum status status = STATUS_OK;
    if (directory)
        status = take_file(directory, "tokenizer_config.json", CONFIG_BYTES_MAX, config,
                           &files.config.text, error);
    if (!status && directory)
        status = take_file(directory, "special_tokens_map.json", CONFIG_BYTES_MAX, specials,
                           &files.specials.text, error);
    if (!status && own)
        status = take_chosen(own, own_text, error);
    else if (!status && directory && !tokens_only)
        status = take_file(directory, "chat_template.jinja", CONFIG_BYTES_MAX, in_folder, own_text,
                           error);
    if (!status && directory && !tokens_only && !own_text->data)
        status = take_stand_in(directory, &files.stand_in, error);
    if (!status && (files.config.text.data || files.specials.text.data || own_text->data ||
                    files.stand_in.text.data))
        status = compile_template(files, text, error);
    free((void *)(uintptr_t)files.config.text.data);
    free((void *)(uintptr_t)files.specials.text.data);
    free((void *)(uintptr_t)own_text->data);
    return status;
}

static enum status model_text_wrong(struct error *error, const char *path, const char *key,
                                    const char *expected) {
    return error_set(error, STATUS_INVALID, "%.300s: \"%s\" must be %s", path, key, expected);
}

static enum status model_text_read_number(const struct tree *root, const char *key, double low,
                                          double high, const char *path, double *out,
                                          struct error *error) {
    const struct tree *value = tree_member(root, key);
    double number;
    if (!value || tree_is_null(value)) return STATUS_OK;
    if (!tree_get_number(value, &number) || !(number >= low && number <= high)) {
        char expected[64];
        snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
        return model_text_wrong(error, path, key, expected);
    }
    *out = number;
    return STATUS_OK;
}

static bool model_text_read_token(const struct tree *value, uint32_t vocab, uint32_t *out) {
    int64_t id;
    if (!tree_get_integer(value, &id) || id < 0 || id >= vocab) return false;
    *out = (uint32_t)id;
    return true;
}

/* 0, -1 and any number above the vocabulary mean all tokens. */
static enum status read_top_k(const struct tree *root, const char *path, uint32_t *out,
                              struct error *error) {
    const struct tree *value = tree_member(root, "top_k");
    int64_t top_k = 0;
    if (value && !tree_is_null(value) && (!tree_get_integer(value, &top_k) || top_k < -1))
        return model_text_wrong(error, path, "top_k", "a count of tokens, or -1 or 0 for all");
    *out = top_k > 0 && top_k <= LIMIT_VOCAB ? (uint32_t)top_k : 0;
    return STATUS_OK;
}

static enum status read_generation(const struct tree *root, uint32_t vocab, const char *path,
                                   struct model_text *text, struct error *error) {
    double temperature = 1, top_p = 1;
    bool samples = true;
    enum status status = STATUS_OK;
    (void)model_text_read_token(tree_member(root, "bos_token_id"), vocab, &text->bos_token);
    (void)tree_get_bool(tree_member(root, "do_sample"), &samples);
    if (samples)
        status = model_text_read_number(root, "temperature", 0, 100, path, &temperature, error);
    if (!status) status = model_text_read_number(root, "top_p", 0, 1, path, &top_p, error);
    if (!status) status = read_top_k(root, path, &text->sampling.top_k, error);
    if (status) return status;
    text->sampling.temperature = samples ? (float)temperature : 0;
    text->sampling.top_p = (float)top_p;
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

/* ---- prompt frame and stop tokens ---- */

static enum status refuse_switch(const char *directory, const char *key, const char *token,
                                 uint32_t vocab, struct error *error) {
    return error_set(error, STATUS_INVALID,
                     "%.300s/tokenizer_config.json: %s asks for %s among the model's %u tokens; "
                     "found none",
                     directory, key, token, vocab);
}

static enum status check_frame(const char *directory, const struct prompt_frame *frame,
                               uint32_t vocab, struct error *error) {
    uint32_t worst = 0;
    for (uint32_t i = 0; i < frame->front_count; i++)
        worst = frame->front[i] > worst ? frame->front[i] : worst;
    for (uint32_t i = 0; i < frame->back_count; i++)
        worst = frame->back[i] > worst ? frame->back[i] : worst;
    if (worst < vocab) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%.300s/tokenizer.json: post_processor puts token %u around prompts; expected "
                     "one of the model's %u tokens",
                     directory, worst, vocab);
}

/* Finds bos and eos by their texts in tokenizer_config.json, or else bos by its id. add_bos_token
 * and add_eos_token override the tokenizer's own frame, as in `transformers`. */
static enum status find_frame(const char *directory, uint32_t vocab, struct model_text *text,
                              struct error *error) {
    const struct chat_template *chat = &text->chat_template;
    struct prompt_frame *frame = &text->frame;
    bool fits = true;
    if (!text->tokenizer) return STATUS_OK;
    *frame = *tokenizer_frame(text->tokenizer);
    if (chat->bos.count) (void)tokenizer_find(text->tokenizer, chat->bos, &text->bos_token);
    if (chat->eos.count) (void)tokenizer_find(text->tokenizer, chat->eos, &text->eos_token);
    if (chat->adds_bos == CHAT_SWITCH_ON && text->bos_token >= vocab)
        return refuse_switch(directory, "add_bos_token", "a bos_token", vocab, error);
    if (chat->adds_eos == CHAT_SWITCH_ON && text->eos_token >= vocab)
        return refuse_switch(directory, "add_eos_token", "an eos_token", vocab, error);
    if (chat->adds_bos)
        fits &= prompt_frame_begin(frame, text->bos_token, chat->adds_bos == CHAT_SWITCH_ON);
    if (chat->adds_eos)
        fits &= prompt_frame_end(frame, text->eos_token, chat->adds_eos == CHAT_SWITCH_ON);
    if (fits) return check_frame(directory, frame, vocab, error);
    return error_set(error, STATUS_UNSUPPORTED,
                     "%.300s/tokenizer.json: post_processor: expected at most 8 tokens around "
                     "prompts, with those that tokenizer_config.json adds",
                     directory);
}

enum status model_text_find_stops(struct model_text *text, const struct shape *shape,
                                  struct error *error) {
    struct shape with = *shape;
    if (text->eos_token < shape->vocab && !shape_add_eos(&with, text->eos_token))
        return error_set(error, STATUS_TOO_LARGE,
                         "eos_token_id of config.json and generation_config.json and eos_token of "
                         "tokenizer_config.json: expected at most %d different ids",
                         LIMIT_STOP_TOKENS);
    text->stop_token_count = with.eos_token_count;
    memcpy(text->stop_tokens, with.eos_tokens, sizeof text->stop_tokens);
    return STATUS_OK;
}

static const struct model_text nothing = {
    .sampling = {.temperature = 1, .top_p = 1}, .bos_token = UINT32_MAX, .eos_token = UINT32_MAX};

/* Returns what was opened, or closes it after an error. */
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
        status =
            error_set(error, STATUS_NOT_FOUND,
                      "%.300s/tokenizer.json: cannot open it: it does not exist, and neither does "
                      "tiktoken.model",
                      directory);
    return end(&text, status, out);
}

enum status model_text_open_template(const char *directory, const struct template_choice *choice,
                                     struct model_text *out, struct error *error) {
    struct model_text text = nothing;
    enum status status = open_template(directory, choice, false, &text, error);
    return end(&text, status, out);
}

enum status model_text_open_words(const char *directory, struct model_text *out,
                                  struct error *error) {
    struct model_text text = nothing;
    enum status status = open_tokenizer(directory, &text, error);
    if (!status) status = open_template(directory, NULL, true, &text, error);
    if (!status) status = find_frame(directory, LIMIT_VOCAB, &text, error);
    return end(&text, status, out);
}

enum status model_text_open(const char *directory, const struct shape *shape,
                            const struct template_choice *choice, struct model_text *out,
                            struct error *error) {
    static const struct shape none;
    struct model_text text = nothing;
    if (!shape) shape = &none;
    uint32_t vocab = shape->vocab ? shape->vocab : LIMIT_VOCAB;
    if (shape->vocab) text.bos_token = shape->bos_token;
    enum status status = open_tokenizer(directory, &text, error);
    if (!status) status = open_template(directory, choice, false, &text, error);
    if (!status) status = open_generation(directory, vocab, &text, error);
    if (!status) status = find_frame(directory, vocab, &text, error);
    if (!status) status = model_text_find_stops(&text, shape, error);
    return end(&text, status, out);
}

enum status model_text_read_sampling(const char *directory, struct sampling *out,
                                     struct error *error) {
    struct model_text text = nothing;
    enum status status = open_generation(directory, LIMIT_VOCAB, &text, error);
    if (!status) *out = text.sampling;
    return status;
}

void model_text_close(struct model_text *text) {
    if (text->tokenizer) tokenizer_close(text->tokenizer);
    free(text->memory);
    lazy_memory_free(&text->template_memory);
    *text = (struct model_text){0};
}
