/* SPDX-License-Identifier: Apache-2.0
 * DeepSeek's chat templates, rendered natively. A checkpoint brings its template as a Jinja program
 * in tokenizer_config.json; we do not run Jinja. Instead the program is brought into a normal form
 * (whitespace inside tags, quoting and whitespace control removed by Jinja's own rules) and
 * compared, whole, with those we know:
 *
 *   V2, V2-Lite     "User: ", "Assistant: "; no tools
 *   V3, R1          systems: the last one counts (R1, first V3) | all, joined (V3)
 *                   earlier answers: verbatim (V3) | what follows the last "</think>" (R1)
 *                   prompt: "<｜Assistant｜>" (V3, first R1) | "<｜Assistant｜><think>\n" (R1)
 *   V3-0324         "<｜Assistant｜>" follows a user's text at once; answers verbatim
 *   R1-0528         the same, without thoughts; the model itself opens "<think>"
 *   V3.1            "<｜Assistant｜></think>": without thinking, the template's default
 *
 * Every combination is accepted, and nothing else: a template that differs in anything that could
 * change the text is refused, so that no model is ever prompted in a way that it was not trained
 * on. The templates' quirks are kept (V3, R1: a single tool call is never closed; is_first and
 * is_output_first are never reset; no generation prompt after a tool message. V2: tools' messages
 * and calls are left out).
 */
#ifndef SERVING_TEXT_CHAT_TEMPLATE_H
#define SERVING_TEXT_CHAT_TEMPLATE_H

#include "base/arena.h"
#include "serving/text/token_stream.h"

/* Named for the first model that shipped it. */
enum chat_form { CHAT_FORM_V3, CHAT_FORM_V3_0324, CHAT_FORM_V3_1, CHAT_FORM_V2, CHAT_FORM_COUNT };

enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_OFF, CHAT_THINKING_ON };
enum chat_thought { CHAT_THOUGHT_NEVER, CHAT_THOUGHT_ALWAYS, CHAT_THOUGHT_SWITCHED };

struct chat_template {
    enum chat_thought thought;
    bool prints_tools;
    bool present;        /* false: tokenizer_config.json has no template; only plain prompts work */
    bool joins_systems;  /* V3: false: the last system message counts */
    bool drops_thoughts; /* earlier answers lose everything up to "</think>" */
    bool opens_thought;  /* the generation prompt ends with "<think>\n" */
    bool adds_bos;       /* add_bos_token: plain prompts (never chats) get bos in front */
    enum chat_form form;
    struct bytes bos; /* text of bos_token, empty if there is none */
    struct bytes eos;
};

/* Reads tokenizer_config.json's bytes; bos and eos are copied into `arena`, `scratch` may be
 * cleared afterwards. STATUS_UNSUPPORTED: the template is none of the known ones. */
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
        *tool_calls; /* V3, R1: rendered only if content is null, as the template does */
    size_t tool_call_count;
};

struct chat_rendering {
    char *text; /* room, given by the caller: [capacity] */
    size_t capacity;
    struct text_span *contents; /* room, [content_capacity]; NULL: not wanted */
    size_t content_capacity;
    /* what was rendered */
    size_t count;                  /* bytes of text */
    size_t content_count;          /* parts of it that come from messages, not from the template */
    enum token_stream_mode stream; /* how the answer to this prompt starts */
};

/* Renders the conversation, bos included. Who encodes the text takes `contents` as plain, so that
 * no message can write a token of the template's: end a turn, or begin one of another role. All of
 * a message is content: what users, tools and systems say, earlier answers and calls. Contents must
 * be valid UTF-8 where they are to be plain (tokenizer_encode). STATUS_FULL: a capacity is short;
 * count and content_count are then those needed. STATUS_INVALID: a message has no content, and is
 * not an assistant's calls. STATUS_UNSUPPORTED: there is no template. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_message *messages, size_t message_count,
                                 bool add_generation_prompt, struct chat_rendering *rendering,
                                 struct error *error) MUST_USE;

#endif
