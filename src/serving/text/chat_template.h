/* SPDX-License-Identifier: Apache-2.0
 * The chat template of a checkpoint: converts a conversation in the format of OpenAI's chat API to
 * the prompt's text, as `transformers` renders it (serving/jinja interprets the template). Opening
 * a template finds its features by rendering tiny conversations (chat_probe.h). Each conversation
 * is converted to the form that its template supports (chat_values.h).
 *
 * The rendering marks all text from messages, tools, documents and variables as contents. The
 * encoder treats contents as plain text, so that no client's text can become a token of the
 * template, which would end a turn or begin one of another role.
 */
#ifndef SERVING_TEXT_CHAT_TEMPLATE_H
#define SERVING_TEXT_CHAT_TEMPLATE_H

#include "serving/text/chat_probe.h"
#include "serving/text/token_stream.h"

struct chat_template {
    bool present; /* false: the checkpoint has no template; only plain prompts work */
    enum chat_thought thought;
    bool thinks_by_default; /* CHAT_THOUGHT_SWITCHED: if the request does not say */
    bool prints_tools;
    bool reads_documents;
    enum tool_format calls; /* how the model writes calls */
    /* add_bos_token, add_eos_token: plain prompts (never chats) get bos in front, eos behind */
    enum chat_switch adds_bos, adds_eos;
    struct bytes bos, eos; /* the tokens' texts, empty if there are none */
    /* private */
    struct chat_source source;
    struct chat_facts facts;
};

/* The result is in `arena`; `scratch` may be cleared afterwards. */
enum status chat_template_open(struct arena *arena, struct arena *scratch, struct chat_files files,
                               struct chat_template *out, struct error *error) MUST_USE;

/* The template speaks of a member or a variable of this name. */
bool chat_template_uses(const struct chat_template *chat_template, const char *name);

struct chat_rendering {
    struct bytes text;                /* bos included */
    const struct text_span *contents; /* [content_count] parts of it that are not the template's */
    size_t content_count;
    enum token_stream_mode stream; /* how the answer to this prompt starts */
    uint64_t steps;                /* that the template took, of LIMIT_TEMPLATE_STEPS */
};

/* All that is taken and put out lies in `arena`, which must last as long as the rendering.
 * STATUS_INVALID: the template refuses the conversation, for the reason in *error, or the answer
 * that is to be continued does not come out of it; STATUS_TOO_LARGE: it takes more than
 * LIMIT_TEMPLATE_STEPS, or more memory than any sensible one; STATUS_NO_MEMORY; STATUS_UNSUPPORTED: there is no template. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_ask *ask, struct arena *arena,
                                 struct chat_rendering *out, struct error *error) MUST_USE;

#endif
