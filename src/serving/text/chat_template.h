/* SPDX-License-Identifier: Apache-2.0
 * The chat template of a checkpoint. It renders a conversation in the format of OpenAI's chat API
 * to prompt text, as `transformers` does (serving/jinja interprets the template).
 * chat_template_open detects the template's features by rendering tiny conversations
 * (chat_probe.h). Each conversation is converted to the form that its template supports
 * (chat_values.h).
 *
 * The rendering marks all text from messages, tools, documents and variables as contents. The
 * encoder treats contents as plain text, so that no client's text can become a token of the
 * template, such as one that ends a turn or begins another role.
 */
#pragma once

#include "serving/text/chat_probe.h"
#include "serving/text/token_stream.h"

struct chat_template {
    bool present; /* false: the checkpoint has no template; only plain prompts work */
    enum chat_thought thought;
    bool thinks_by_default; /* CHAT_THOUGHT_SWITCHED: the value if the request has none */
    bool prints_tools;
    bool reads_documents;
    const char *builtin;    /* name of the built-in template that prints tools; NULL: its own */
    const char *stand_in;   /* name of the built-in template for all; NULL: its own */
    enum tool_format calls; /* format of the model's tool calls */
    /* add_bos_token, add_eos_token: plain prompts (never chats) start with bos, end with eos */
    enum chat_switch adds_bos, adds_eos;
    struct bytes bos, eos; /* texts of the tokens, empty if there are none */
    /* private */
    struct chat_source source;
    struct chat_facts facts;
};

/* Opens the template in `arena`. `scratch` may be cleared afterwards. Errors as in
 * chat_source_open. */
enum status chat_template_open(struct arena *arena, struct arena *scratch, struct chat_files files,
                               struct chat_template *out, struct error *error) MUST_USE;

/* True if the template mentions a member or a variable of this name. */
bool chat_template_uses(const struct chat_template *chat_template, const char *name);

struct chat_rendering {
    struct bytes text; /* bos included */
    /* [content_count] the parts that do not come from the template */
    const struct text_span *contents;
    size_t content_count;
    enum token_stream_mode stream; /* how the answer to this prompt starts */
    uint64_t steps;                /* steps of the template, at most LIMIT_TEMPLATE_STEPS */
};

/* Renders a conversation. The inputs and the result are in `arena`, which must last as long as the
 * rendering. Returns STATUS_INVALID if the template rejects the conversation, with its reason in
 * *error, or if the answer to be continued is missing from the rendering. Returns STATUS_TOO_LARGE
 * if the rendering exceeds LIMIT_TEMPLATE_STEPS or the memory limit, STATUS_UNSUPPORTED if there is
 * no template, and STATUS_NO_MEMORY. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_ask *ask, struct arena *arena,
                                 struct chat_rendering *out, struct error *error) MUST_USE;
