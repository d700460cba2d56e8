/* SPDX-License-Identifier: Apache-2.0
 * What a simulated fleet's engines say where somebody chats: a vocabulary (bytes, and words for the
 * marks and parts of calls), a chat template that prints tools, and a grammar. Which token may come
 * next follows from the last one alone; calls come often, are mostly well-formed, and at times
 * break off. A tongue is a format of calls (serving/text/tool_format.h); all of them have the same
 * token ids with other texts, so the engine need not know which one it speaks.
 *
 * It also knows what an answer must say, whole: its tokens put through one token stream at once.
 */
#ifndef SIMULATE_FLEET_TONGUE_H
#define SIMULATE_FLEET_TONGUE_H

#include "base/arena.h"
#include "serving/text/chat_template.h"

#define FLEET_SPEAKS ((uint64_t)1 << 20) /* seeds from here on make the engine speak */

enum { FLEET_SPEECH_BYTES = 6 << 10, FLEET_TONGUES = 3 };

struct fleet_tongue {
    struct tokenizer *tokenizer; /* NULL: token ids in, token ids out */
    struct chat_template chat_template;
    const struct tool_set *tools;
};

size_t fleet_tongue_bytes(void);

/* One of the FLEET_TONGUES. False when the arena is out of memory. */
bool fleet_tongue_open(struct fleet_tongue *tongue, struct arena *arena, uint32_t which);
void fleet_tongue_close(struct fleet_tongue *tongue);

/* The "tools" of a request: a JSON array. */
extern const char fleet_tongue_tools[];

/* The token behind `last`, by any number; the stop token only if it may be. */
uint32_t fleet_tongue_follow(uint64_t number, uint32_t last, uint32_t stop_token, bool may_stop);

/* The token of a byte, and whether a token is one's; the others are no bytes of a text. */
uint32_t fleet_tongue_byte(char byte);
bool fleet_tongue_is_byte(uint32_t token, char *byte_out);

/* The tokens of a chat of one message, as the template renders it: returns how many. `content` is
 * of letters. `tokens_out` has room for them and FLEET_TONGUE_FRAME more. */
enum { FLEET_TONGUE_FRAME = 16 };
uint32_t fleet_tongue_prompt(const char *content, bool with_tools, uint32_t *tokens_out);

/* An answer's content and calls. A call is '\1', the model's own id if it wrote one, '\2', the name,
 * '\3', and the arguments. */
struct fleet_speech {
    char content[FLEET_SPEECH_BYTES], calls[FLEET_SPEECH_BYTES];
    uint32_t content_bytes, calls_bytes, call_count;
    bool one_call; /* it ends where a second one begins */
    bool ended;    /* so */
};

/* What the tokens say; `speech` is empty but for one_call. Returns how many are of the answer. */
uint32_t fleet_tongue_listen(const struct fleet_tongue *tongue, bool with_tools,
                             const uint32_t *tokens, uint32_t count, struct fleet_speech *speech);

#endif
