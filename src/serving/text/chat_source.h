/* SPDX-License-Identifier: Apache-2.0
 * Finds a checkpoint's chat templates. In order of priority, they are a file given by the operator,
 * the file chat_template.jinja, "chat_template" in tokenizer_config.json, or a built-in one for the
 * model's architecture. The third is one text, or several with names: "tool_use" is for requests
 * with tools, "default" for the others. A template without a place for tools may get a built-in one
 * for such requests (builtin_template.h). Each is compiled once. The special tokens of
 * tokenizer_config.json (else of special_tokens_map.json) are variables of every rendering, under
 * their names, as in `transformers`.
 */
#pragma once

#include "serving/text/builtin_template.h"
#include "serving/text/tool_format.h"

#define CHAT_SOURCE_TOKENS_MAX 7

enum chat_switch { CHAT_SWITCH_NONE, CHAT_SWITCH_OFF, CHAT_SWITCH_ON }; /* NONE: not given */

struct chat_source {
    const struct jinja_program *usual;      /* NULL: there is no template */
    const struct jinja_program *with_tools; /* for requests with tools; often the usual one */
    struct bytes text;                      /* of the usual one, if files.brings_tools */
    const char *builtin;                    /* name of the built-in one for tools; NULL: none */
    const char *stand_in;                   /* name of files.stand_in, if it is the usual one */
    enum tool_format calls;                 /* detected from the text of the template for tools */
    enum chat_switch adds_bos, adds_eos;    /* add_bos_token, add_eos_token */
    struct bytes bos, eos;                  /* empty: none */
    struct jinja_variable tokens[CHAT_SOURCE_TOKENS_MAX]; /* trusted texts */
    size_t token_count;
};

struct chat_file {
    struct bytes text; /* data NULL: the file does not exist */
    const char *name;  /* name in messages */
};

struct chat_files {
    struct chat_file config;   /* tokenizer_config.json */
    struct chat_file specials; /* special_tokens_map.json: tokens that `config` does not name */
    struct chat_file own;      /* a template that has priority over the one in `config` */
    struct chat_file stand_in; /* a template for a checkpoint that has none */
    bool tokens_only;          /* ignore templates */
    bool brings_tools;         /* a template without a place for tools may get a built-in one */
};

/* Finds and compiles the templates. Programs and tokens are allocated in `arena`. `scratch` may be
 * cleared afterwards. Returns STATUS_INVALID for malformed JSON, for a template that does not
 * compile (with its line), or if there is no template for use without tools. */
enum status chat_source_open(struct arena *arena, struct arena *scratch, struct chat_files files,
                             struct chat_source *out, struct error *error) MUST_USE;

/* Replaces the template for requests with tools by the built-in one that suits the usual one, which
 * leaves out tools, or (`prints_tools`) calls alone. If none suits, nothing changes.
 * Returns STATUS_NO_MEMORY, or an error if the usual one does not compile behind a built-in one. */
enum status chat_source_bring_tools(struct arena *arena, bool prints_tools,
                                    struct chat_source *source, struct error *error) MUST_USE;
