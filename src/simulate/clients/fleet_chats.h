/* SPDX-License-Identifier: Apache-2.0
 * The chat clients of a simulated fleet, most of them with tools. The module makes their requests.
 * It checks that the content and the tool calls in the response, whole or joined from a stream,
 * equal those of an undisturbed run. Each call's name and id must arrive once, and call indices
 * must count up from 0.
 */
#pragma once

#include "base/tree.h"
#include "contract/sampling.h"
#include "simulate/clients/fleet_clients.h"

bool fleet_chats_open(struct fleet_clients *clients, struct arena *arena);

/* Turns the client into a chat client: fills in its request and writes the body to out[room].
 * `binds` is the field of its constraint, with a comma before it, or "". Returns the size of the
 * body in bytes. */
size_t fleet_chats_ask(struct fleet_clients *clients, struct fleet_client *client,
                       const char *binds, struct sampling *sampling, uint32_t *answer_max,
                       char *out, size_t room);

/* Computes the expected text. The token limits of all choices must be known. */
void fleet_chats_expect(struct fleet_clients *clients, struct fleet_client *client);

/* Checks a "message" or "delta" object of the choice. */
void fleet_chats_take(struct fleet_clients *clients, struct fleet_client *client,
                      struct fleet_choice *choice, const struct tree *said);

/* Checks that the choice ended as expected and that all of its text has arrived. */
const char *fleet_chats_finish(const struct fleet_choice *choice, bool stops);
void fleet_chats_end(struct fleet_clients *clients, struct fleet_client *client,
                     struct fleet_choice *choice);
