/* SPDX-License-Identifier: Apache-2.0
 * A unit played by hand that says words: for tests of dialects through the whole gateway.
 */
#ifndef TESTS_GATEWAY_DIALECTS_SPEECH_H
#define TESTS_GATEWAY_DIALECTS_SPEECH_H

#include "hands.h"

/* A world whose unit does everything. */
struct world *speech_open(struct gateway_options gateway);

/* A new client's request goes as far as it can. */
uint32_t speech_ask(struct world *world, const char *path, const char *body);

/* Another unit comes, and the one that speaks is lost: the new one says the rest. */
void speech_move(struct world *world);

/* The unit says the text, all at once or one token at a time, and then that it has ended. */
void speech_say(struct world *world, const char *text, bool at_once);
void speech_end(struct world *world, enum finish_reason reason);

#endif
