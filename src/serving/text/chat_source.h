/* SPDX-License-Identifier: Apache-2.0
 * Where chat templates come from: tokenizer_config.json's "chat_template" (one text, or several
 * with names, of which "tool_use" is for requests with tools and "default" for the others), the file
 * chat_template.jinja beside it, which wins, or a file that the operator names, which wins over
 * both. Each is compiled once. The special tokens of tokenizer_config.json are variables of every
 * rendering, under their names, as in `transformers`.
 */
#ifndef SERVING_TEXT_CHAT_SOURCE_H
#define SERVING_TEXT_CHAT_SOURCE_H

#include "serving/jinja/jinja.h"
#include "serving/text/tool_format.h"

#define CHAT_SOURCE_TOKENS_MAX 7

struct chat_source {
    const struct jinja_program *usual;      /* NULL: there is no template */
    const struct jinja_program *with_tools; /* for requests with tools; often the usual one */
    enum tool_format calls;                 /* by the text of the one for tools */
    bool adds_bos;                          /* add_bos_token */
    struct bytes bos, eos;                  /* empty: none */
    struct jinja_variable tokens[CHAT_SOURCE_TOKENS_MAX]; /* trusted texts */
    size_t token_count;
};

struct chat_file {
    struct bytes text; /* data NULL: there is none */
    const char *name;  /* stands for it in messages */
};

/* `config` is tokenizer_config.json, `own` a template that wins over the one in it. Programs and
 * tokens are put into `arena`; `scratch` may be cleared afterwards. STATUS_INVALID: no JSON, a
 * template that does not compile (with its line), or none of those for use without tools. */
enum status chat_source_open(struct arena *arena, struct arena *scratch, struct chat_file config,
                             struct chat_file own, struct chat_source *out,
                             struct error *error) MUST_USE;

#endif
