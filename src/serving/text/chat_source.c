/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/chat_source.h"

#include "base/check.h"

/* ---- special tokens ---- */

/* A JSON file with its root. */
struct source_file {
    const struct tree *root; /* NULL: no file */
    const char *name;
};

static enum status open_source(struct arena *scratch, struct chat_file file,
                               struct source_file *out, struct error *error) {
    *out = (struct source_file){NULL, file.name};
    return file.text.data ? tree_parse(scratch, file.text, file.name, &out->root, error)
                          : STATUS_OK;
}

/* Reads a token, which is a text or an object with its content. If it is null or absent, there is
 * none. */
static enum status chat_source_read_token(const struct source_file *file, const char *key,
                                          struct bytes *out, struct error *error) {
    const struct tree *value = tree_member(file->root, key);
    if (tree_get_string(value, out) || tree_get_string(tree_member(value, "content"), out) ||
        !value || tree_is_null(value))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s: %s is %s, expected a string or an object",
                     file->name, key, tree_name(value));
}

/* The first two determine the start of prompts and the end of answers. The others are only
 * variables: one that is not a text is ignored. */
static const char *const token_keys[CHAT_SOURCE_TOKENS_MAX] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

static enum status chat_source_find_token(struct arena *arena, const struct source_file *config,
                                          const struct source_file *map, size_t key,
                                          struct bytes *out, struct error *error) {
    struct bytes text = {"", 0};
    enum status status = chat_source_read_token(config, token_keys[key], &text, error);
    if (!status && !text.count) status = chat_source_read_token(map, token_keys[key], &text, error);
    if (status && key < 2) return status;
    *out = arena_copy(arena, text);
    return out->data ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "%s: no memory", map->name);
}

/* Reads the special tokens. As in `transformers`, an empty one is not a variable. */
static enum status chat_source_read_tokens(struct arena *arena, const struct source_file *config,
                                           const struct source_file *map, struct chat_source *out,
                                           struct error *error) {
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS_MAX; i++) {
        struct bytes text;
        enum status status = chat_source_find_token(arena, config, map, i, &text, error);
        if (status) return status;
        if (i == 0) out->bos = text;
        if (i == 1) out->eos = text;
        if (text.count == 0) continue;
        struct jinja_variable *variable = &out->tokens[out->token_count++];
        variable->name = bytes_of(token_keys[i]);
        if (!value_of_text(arena, text, VALUE_TRUSTED, &variable->value))
            return error_set(error, STATUS_NO_MEMORY, "%s: no memory", config->name);
    }
    return STATUS_OK;
}

/* Reads add_bos_token or add_eos_token. */
static enum status read_switch(const struct source_file *config, const char *key,
                               enum chat_switch *out, struct error *error) {
    const struct tree *value = tree_member(config->root, key);
    bool on;
    if (!value || tree_is_null(value)) return STATUS_OK;
    if (!tree_get_bool(value, &on))
        return error_set(error, STATUS_INVALID, "%s: %s is %s, expected true or false",
                         config->name, key, tree_name(value));
    *out = on ? CHAT_SWITCH_ON : CHAT_SWITCH_OFF;
    return STATUS_OK;
}

/* ---- templates ---- */

struct template_texts {
    struct bytes usual, with_tools; /* data NULL: none */
};

static enum status chat_source_find_named(const struct tree *list, const char *name,
                                          struct template_texts *out, struct error *error) {
    for (size_t i = 0; i < tree_count(list); i++) {
        struct bytes label, text;
        const struct tree *entry = tree_at(list, i);
        if (!tree_get_string(tree_member(entry, "name"), &label) ||
            !tree_get_string(tree_member(entry, "template"), &text))
            return error_set(error, STATUS_INVALID,
                             "%s: chat_template: entry %zu of the list needs the strings \"name\" "
                             "and \"template\"",
                             name, i);
        if (bytes_equal(label, BYTES_LITERAL("default"))) out->usual = text;
        if (bytes_equal(label, BYTES_LITERAL("tool_use"))) out->with_tools = text;
    }
    if (!out->usual.data)
        return error_set(error, STATUS_INVALID,
                         "%s: chat_template: the list has none named \"default\"", name);
    return STATUS_OK;
}

static enum status find_texts(const struct tree *root, const char *name, struct template_texts *out,
                              struct error *error) {
    const struct tree *value = tree_member(root, "chat_template");
    if (!value || tree_is_null(value) || tree_get_string(value, &out->usual)) return STATUS_OK;
    if (tree_kind(value) == TREE_ARRAY) return chat_source_find_named(value, name, out, error);
    return error_set(error, STATUS_INVALID,
                     "%s: chat_template is %s, expected a string or a list of named ones", name,
                     tree_name(value));
}

static enum status chat_source_compile(struct arena *arena, const struct template_texts *texts,
                                       const char *name, struct chat_source *out,
                                       struct error *error) {
    if (!texts->usual.data) return STATUS_OK;
    struct bytes tools = texts->with_tools.data ? texts->with_tools : texts->usual;
    enum status status = jinja_compile(arena, texts->usual, name, &out->usual, error);
    out->with_tools = out->usual;
    out->calls = tool_format_of(tools);
    if (!status && texts->with_tools.data)
        status = jinja_compile(arena, tools, name, &out->with_tools, error);
    return status;
}

enum status chat_source_open(struct arena *arena, struct arena *scratch, struct chat_files files,
                             struct chat_source *out, struct error *error) {
    struct source_file config, map;
    struct chat_source found = {.bos = {"", 0}, .eos = {"", 0}};
    const struct chat_file *own = &files.own;
    struct template_texts texts = {.usual = own->text};
    enum status status = open_source(scratch, files.config, &config, error);
    if (!status) status = open_source(scratch, files.specials, &map, error);
    if (!status) status = chat_source_read_tokens(arena, &config, &map, &found, error);
    if (!status) status = read_switch(&config, "add_bos_token", &found.adds_bos, error);
    if (!status) status = read_switch(&config, "add_eos_token", &found.adds_eos, error);
    bool compiles = !status && !files.tokens_only;
    if (compiles && !own->text.data) status = find_texts(config.root, config.name, &texts, error);
    const char *name = own->text.data ? own->name : config.name;
    if (compiles && !texts.usual.data && files.stand_in.text.data) {
        texts.usual = files.stand_in.text;
        name = found.stand_in = files.stand_in.name;
    }
    if (compiles && !status) status = chat_source_compile(arena, &texts, name, &found, error);
    if (compiles && !status && files.brings_tools && texts.usual.data) {
        found.text = arena_copy(arena, texts.usual);
        if (!found.text.data)
            status = error_set(error, STATUS_NO_MEMORY, "%s: no memory", config.name);
    }
    if (!status) *out = found;
    return status;
}

enum status chat_source_bring_tools(struct arena *arena, bool prints_tools,
                                    struct chat_source *source, struct error *error) {
    struct builtin_template builtin;
    if (!builtin_template_suit(source->usual, prints_tools, &builtin)) return STATUS_OK;
    struct bytes own = builtin.is_front ? source->text : (struct bytes){"", 0};
    char *text = arena_take(arena, builtin.text.count + own.count);
    if (!text) return error_set(error, STATUS_NO_MEMORY, "%s: no memory", builtin.name);
    memcpy(text, builtin.text.data, builtin.text.count);
    memcpy(text + builtin.text.count, own.data, own.count);
    source->builtin = builtin.name;
    source->calls = tool_format_of(builtin.text);
    return jinja_compile(arena, (struct bytes){text, builtin.text.count + own.count}, builtin.name,
                         &source->with_tools, error);
}
