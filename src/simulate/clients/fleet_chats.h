/* SPDX-License-Identifier: Apache-2.0
 * Chat clients of a simulated fleet, most of them with tools: their requests, and the check that
 * the content and the calls they receive, whole or joined from a stream, are those of the
 * undisturbed answer. Each call's name and id arrive once, and indices count up.
 */
#pragma once

#include "base/tree.h"
#include "contract/sampling.h"
#include "simulate/clients/fleet_clients.h"

bool fleet_chats_open(struct fleet_clients *clients, struct arena *arena);

/* Turns the client into a chat client: fills in its request and writes the body to out[room].
 * Returns the body's bytes. */
size_t fleet_chats_ask(struct fleet_clients *clients, struct fleet_client *client,
                       struct sampling *sampling, uint32_t *answer_max, char *out, size_t room);

/* Computes the expected text, once the token limit of each choice is known. */
void fleet_chats_expect(struct fleet_clients *clients, struct fleet_client *client);

/* Checks a "message" or a "delta" of the choice. */
void fleet_chats_take(struct fleet_clients *clients, struct fleet_client *client,
                      struct fleet_choice *choice, const struct tree *said);

/* Checks that the choice ended in the expected way and that all of it has arrived. */
const char *fleet_chats_finish(const struct fleet_choice *choice, bool stops);
void fleet_chats_end(struct fleet_clients *clients, struct fleet_client *client,
                     struct fleet_choice *choice);
