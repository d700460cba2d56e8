/* SPDX-License-Identifier: Apache-2.0
 * Whose long text is tokenized next, and how many may wait. One text is in work at a time, and one
 * of 8 MB takes seconds: first come, first served would let a few large ones hold up everybody.
 *
 * Fair queueing (Demers, Keshav and Shenker, 1989): each text gets as its turn the virtual time at
 * which it would be done if all clients were served at the same time, byte by byte; the smallest
 * turn is next. Virtual time goes on by the bytes of each text that had to wait, divided by the
 * clients that share the tokenizer: the most that waited at the same time since nobody did, since
 * who is done with before the others would not be if all were served together. A text that finds
 * the tokenizer idle passes nobody, and virtual time stays.
 *
 * So a short text passes the long ones that came before it, nobody waits for ever, and a client
 * with many texts has no more of the tokenizer than one with few: its turns stand one behind the
 * other. A client is an account; where there are none, each request stands for itself, since all
 * who come through one proxy have one address.
 *
 * What waits is bounded: a text is let in while it takes, with those of its client that wait, at
 * most half of the room that is left (Choudhury and Hahne, 1998: dynamic thresholds). So there is
 * always room for short ones, however many long ones there are.
 *
 * The host's compiler of constraints is shared in the same way. What a constraint costs there is
 * not seen from its length, so each counts as much as the longest: clients take turns.
 *
 * And so are the units, among accounts: a request's turn is made in the same way of the work that it
 * is predicted to be, and virtual time is the turn of the request that got a unit last (self-clocked
 * fair queueing: Golestani, 1994), since how many are served at the same time is the units' choice.
 */
#ifndef SERVING_POLICY_SHARE_TURNS_H
#define SERVING_POLICY_SHARE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/record_ledger.h"

/* The turn of a text that comes at the virtual time `now`. `before`: the last turn of its client's
 * texts that wait or are in work; 0: none. */
uint64_t share_turns_turn(uint64_t now, uint64_t before, size_t bytes);

/* Virtual time after a text of so many bytes. `clients_max` (>= 1): see above. */
uint64_t share_turns_after(uint64_t now, size_t bytes, uint32_t clients_max);

/* A request is so many tokens of work: those of its prompts that have to be computed, and
 * SHARE_TURNS_ANSWER for each of its answers, which takes units about so much longer: so published
 * prices say, and nodes' published rates. What that is of its account's share; who is of high priority has four times the share, who is of low priority a quarter: more, but
 * never all. */
#define SHARE_TURNS_ANSWER 4
uint64_t share_turns_work(uint64_t tokens, uint32_t weight, enum account_priority priority);

/* May a text wait? `client_bytes`: of its client's texts that wait already. */
bool share_turns_admits(size_t bytes, size_t client_bytes, size_t free_bytes);

#endif
