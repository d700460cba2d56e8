/* SPDX-License-Identifier: Apache-2.0
 * The chat templates of DeepSeek-V3 and R1, rendered natively. A checkpoint brings its template as
 * a Jinja program in tokenizer_config.json; we do not run Jinja. Instead the program is brought
 * into a normal form (whitespace inside tags, quoting and whitespace control removed by Jinja's own
 * rules) and compared, whole, with the family we know:
 *
 *   system messages   the last one counts (R1, first V3) | all, joined by "\n\n" (V3)
 *   earlier answers   verbatim (V3) | only what follows the last "</think>" (R1)
 *   generation prompt "<｜Assistant｜>" (V3, first R1) | "<｜Assistant｜><think>\n" (R1)
 *
 * Every combination is accepted, and nothing else: a template that differs in anything that could
 * change the text is refused, so that no model is ever prompted in a way that it was not trained
 * on. The templates' quirks are kept (docs: a single tool call is never closed; is_first and
 * is_output_first are never reset; no generation prompt after a tool message).
 */
#ifndef TEXT_CHAT_TEMPLATE_H
#define TEXT_CHAT_TEMPLATE_H

#include "base/arena.h"
#include "text/token_stream.h"

struct chat_template {
    bool present;        /* false: tokenizer_config.json has no template; only plain prompts work */
    bool joins_systems;  /* false: the last system message counts */
    bool drops_thoughts; /* earlier answers lose everything up to "</think>" */
    bool opens_thought;  /* the generation prompt ends with "<think>\n" */
    bool adds_bos;       /* add_bos_token: plain prompts (never chats) get bos in front */
    struct bytes bos;    /* text of bos_token, empty if there is none */
    struct bytes eos;
};

/* Reads tokenizer_config.json's bytes; bos and eos are copied into `arena`, `scratch` may be
 * cleared afterwards. STATUS_UNSUPPORTED: the template is not one of the known family. */
enum status chat_template_open(struct arena *arena, struct arena *scratch, struct bytes config_json,
                               const char *name, struct chat_template *out,
                               struct error *error) MUST_USE;

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL, CHAT_ROLE_COUNT };

/* "system", "user", "assistant", "tool". */
bool chat_role_from_text(struct bytes text, enum chat_role *out);

struct chat_tool_call {
    struct bytes type; /* "function" */
    struct bytes name;
    struct bytes arguments; /* JSON text, as the model wrote it */
};

struct chat_message {
    enum chat_role role;
    bool has_content; /* false: null; only an assistant's content may be null */
    struct bytes content;
    const struct chat_tool_call
        *tool_calls; /* rendered only if content is null, as the template does */
    size_t tool_call_count;
};

struct chat_rendering {
    size_t count;                  /* bytes */
    enum token_stream_mode stream; /* how the answer to this prompt starts */
};

/* Renders the conversation, bos included: encode it with parse_special. STATUS_FULL: capacity is
 * short; out->count is then the bytes needed. STATUS_INVALID: a message other than an assistant's
 * has no content. STATUS_UNSUPPORTED: there is no template. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_message *messages, size_t message_count,
                                 bool add_generation_prompt, char *text, size_t capacity,
                                 struct chat_rendering *out, struct error *error) MUST_USE;

#endif
