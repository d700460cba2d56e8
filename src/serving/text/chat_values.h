/* SPDX-License-Identifier: Apache-2.0
 * Converts a request to the variables of a template. Templates take conversations in several forms;
 * a client's conversation is converted to the form that this template takes, and otherwise
 * unchanged:
 *
 *   turns        of speakers, if the template does not support their order (chat_turns.h)
 *   role         "developer" becomes "system" if the template does not support it
 *   content      parts are joined if the template does not support parts, texts become parts if it
 *                supports nothing else; with calls, an empty one and null replace each other if the
 *                template supports only one of them; absent is null
 *   arguments    a call's arguments, JSON text, become an object if the template requires one, and
 *                {"INVALID_JSON": text} if the text is none; all of a request together have no more
 *                parts than a body may have (LIMIT_BODY_KEYS)
 *   null         any other member that is null is left out, as is an empty list of calls
 *   type         of a call: "function" if it is missing
 */
#ifndef SERVING_TEXT_CHAT_VALUES_H
#define SERVING_TEXT_CHAT_VALUES_H

#include "serving/text/chat_source.h"
#include "serving/text/chat_turns.h"

enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_OFF, CHAT_THINKING_ON };

struct chat_ask {
    const struct tree *messages;  /* an array in the shape of OpenAI's chat API, checked */
    const struct tree *tools;     /* an array; NULL or empty: none */
    const struct tree *documents; /* an array; NULL: none */
    const struct tree *variables; /* chat_template_kwargs: an object; NULL: none */
    enum chat_thinking thinking;
    struct bytes effort; /* reasoning_effort; empty: not given */
    bool prompts;        /* add_generation_prompt; not with `continues` */
    bool continues;      /* the last message is an assistant's, which goes on */
    int64_t unix_time;   /* for strftime_now, UTC */
};

enum chat_parts {
    CHAT_PARTS_JOINED, /* the template takes texts alone */
    CHAT_PARTS_TAKEN,  /* it takes both */
    CHAT_PARTS_ONLY    /* it takes parts alone */
};

enum chat_silence { /* of an assistant who calls tools and says nothing */
                    CHAT_SILENCE_AS_SENT,
                    CHAT_SILENCE_NULL,
                    CHAT_SILENCE_EMPTY
};

enum chat_speaker {
    CHAT_SPEAKER_SYSTEM,
    CHAT_SPEAKER_USER,
    CHAT_SPEAKER_ASSISTANT,
    CHAT_SPEAKER_TOOL,
    CHAT_SPEAKER_COUNT
};

/* The features of a template. */
struct chat_facts {
    enum chat_parts parts[CHAT_SPEAKER_COUNT];
    enum chat_silence silence;
    struct chat_turns turns;
    bool wants_objects;   /* arguments */
    bool knows_developer; /* the role */
};

/* Stands at the end of an answer that goes on, so that its place in the rendering is found: the
 * text, and a blank that a template which trims contents takes away. */
#define CHAT_CUT_MARK "CONTINUE_FINAL_MESSAGE_TAG"

#define CHAT_VARIABLES_OWN (CHAT_SOURCE_TOKENS_MAX + 8)

/* The template's variables; those of `ask` and `source` must last as long. STATUS_NO_MEMORY;
 * STATUS_TOO_LARGE: arguments of calls that become objects have too many parts. */
enum status chat_values_take(const struct chat_source *source, const struct chat_facts *facts,
                             const struct chat_ask *ask, struct arena *arena,
                             const struct jinja_variable **out, size_t *count_out) MUST_USE;

#endif
