/* SPDX-License-Identifier: Apache-2.0
 * A unit played by hand that says words: for tests of dialects through the whole gateway.
 */
#pragma once

#include "hands.h"

enum { SPEECH_IDS_MAX = 4096 };

extern uint32_t speech_said; /* tokens said so far, of the request at hand */

/* A world with one unit that does everything; the small one has a context of 2048 tokens. */
struct world *speech_open(struct gateway_options gateway);
struct world *speech_open_small(struct gateway_options gateway);

/* A new client's request goes as far as it can. */
uint32_t speech_ask(struct world *world, const char *path, const char *body);

/* Another unit comes, and the one that speaks is lost: the new one says the rest. */
void speech_move(struct world *world);

/* The tokens of a text: ids_out[SPEECH_IDS_MAX]. */
uint32_t speech_encode(const struct world *world, const char *text, uint32_t *ids_out);

/* The unit says the text, all at once or one token at a time, or these tokens, and then that it has
 * ended, half of its tokens drafted ahead, all but one rightly. */
void speech_say_ids(struct world *world, const uint32_t *said_ids, uint32_t count);
void speech_say(struct world *world, const char *text, bool at_once);
void speech_end(struct world *world, enum finish_reason reason);
