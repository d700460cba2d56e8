/* SPDX-License-Identifier: Apache-2.0
 * Clients of a simulated fleet who chat, most of them with tools: what they ask for, and whether
 * the content and the calls that they are told, whole or joined from a stream, are those of the
 * undisturbed answer. Each call's name and id are told once, and indices count up.
 */
#ifndef SIMULATE_FLEET_CHATS_H
#define SIMULATE_FLEET_CHATS_H

#include "base/tree.h"
#include "contract/sampling.h"
#include "simulate/fleet_clients.h"

size_t fleet_chats_bytes(void);
bool fleet_chats_open(struct fleet_clients *clients, struct arena *arena);

/* Makes the client one who chats: fills in what it asks for, and writes the body, out[room]. Returns
 * its bytes. */
size_t fleet_chats_ask(struct fleet_clients *clients, struct fleet_client *client,
                       struct sampling *sampling, uint32_t *answer_max, char *out, size_t room);

/* The tokens that each choice may have at most are known; now so is what it says. */
void fleet_chats_expect(struct fleet_clients *clients, struct fleet_client *client);

/* A "message" or a "delta" of the choice. */
void fleet_chats_take(struct fleet_clients *clients, struct fleet_client *client,
                      struct fleet_choice *choice, const struct tree *said);

/* The choice is to end so, and has ended so: all of it must have been told. */
const char *fleet_chats_finish(const struct fleet_choice *choice, bool stops);
void fleet_chats_end(struct fleet_clients *clients, struct fleet_client *client,
                     struct fleet_choice *choice);

#endif
