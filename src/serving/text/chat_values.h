/* SPDX-License-Identifier: Apache-2.0
 * Converts a request to the variables of a template. Templates expect conversations in different
 * forms. A client's conversation is changed only where this template does not support its form:
 *
 *   turns        their order is converted if the template does not support it (chat_turns.h)
 *   role         "developer" becomes "system" if the template does not support it
 *   content      parts are joined if the template does not support parts; texts become parts if it
 *                supports only parts; in a message with calls, "" and null replace each other if
 *                the template supports only one of them; an absent content becomes null
 *   arguments    the JSON text of a call's arguments becomes an object if the template requires
 *                one, or {"INVALID_JSON": text} if the text is not an object; all arguments of a
 *                request together have at most as many parts as a body may have (LIMIT_BODY_KEYS)
 *   null         any other member that is null is left out, as is an empty list of calls
 *   type         a call without a type gets "function"
 */
#pragma once

#include "serving/text/chat_source.h"
#include "serving/text/chat_turns.h"

enum chat_thinking { CHAT_THINKING_DEFAULT, CHAT_THINKING_OFF, CHAT_THINKING_ON };

struct chat_ask {
    const struct tree *messages;  /* an array in the format of OpenAI's chat API, validated */
    const struct tree *tools;     /* an array; NULL or empty: none */
    const struct tree *documents; /* an array; NULL: none */
    const struct tree *variables; /* chat_template_kwargs: an object; NULL: none */
    enum chat_thinking thinking;
    struct bytes effort; /* reasoning_effort; empty: not given */
    bool prompts;        /* add_generation_prompt; excludes `continues` */
    bool continues;      /* the last message is an assistant's, which the answer continues */
    int64_t unix_time;   /* for strftime_now, UTC */
};

enum chat_parts {
    CHAT_PARTS_JOINED, /* the template supports only texts */
    CHAT_PARTS_TAKEN,  /* the template supports texts and parts */
    CHAT_PARTS_ONLY    /* the template supports only parts */
};

/* The content of an assistant message with tool calls and no text. */
enum chat_silence { CHAT_SILENCE_AS_SENT, CHAT_SILENCE_NULL, CHAT_SILENCE_EMPTY };

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
    bool wants_objects;   /* arguments of calls must be objects */
    bool knows_developer; /* the role "developer" is supported */
};

/* Mark that is appended to an answer to be continued, to find the answer's end in the rendering. A
 * blank follows, which is absent if the template trims contents. */
#define CHAT_CUT_MARK "CONTINUE_FINAL_MESSAGE_TAG"

/* The text of a message's content: a string, or parts joined. It is empty if there is none. Returns
 * false if memory is out. */
bool chat_values_text(const struct tree *content, struct arena *arena, struct bytes *out) MUST_USE;

#define CHAT_VARIABLES_OWN (CHAT_SOURCE_TOKENS_MAX + 8)

/* Creates the template's variables. `ask` and `source` must last as long. Returns STATUS_NO_MEMORY,
 * or STATUS_TOO_LARGE if the arguments of calls that become objects have too many parts. */
enum status chat_values_take(const struct chat_source *source, const struct chat_facts *facts,
                             const struct chat_ask *ask, struct arena *arena,
                             const struct jinja_variable **out, size_t *count_out) MUST_USE;
