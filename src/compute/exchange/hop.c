/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/hop.h"

#include <string.h>

#include "base/bytes.h"
#include "base/number.h"

size_t hop_rows_at(uint32_t tokens, uint32_t pairs, bool weighs) {
    size_t words = (size_t)tokens + (size_t)pairs * (weighs ? 2 : 1);
    return round_up(sizeof(struct hop_head) + words * sizeof(uint32_t), HOP_ALIGN);
}

struct hop_message hop_message_at(char *memory, uint32_t tokens, uint32_t pairs, uint32_t row_bytes,
                                  bool weighs) {
    uint32_t *words = (uint32_t *)(void *)(memory + sizeof(struct hop_head));
    size_t at = hop_rows_at(tokens, pairs, weighs);
    return (struct hop_message){
        .tokens = tokens,
        .pairs = pairs,
        .count = words,
        .slot = words + tokens,
        .weight = (float *)(words + tokens + pairs),
        .rows = memory + at,
        .bytes = tokens ? at + (size_t)tokens * row_bytes : sizeof(struct hop_head),
    };
}

uint32_t hop_joined(const uint32_t *slot, uint32_t pair, uint32_t end) {
    uint32_t next = pair + 1;
    while (next < end && slot[next] & HOP_JOINS)
        next++;
    return next - pair;
}

static uint32_t peer_of(const struct hop *hop, uint32_t slot) {
    return (slot & ~HOP_JOINS) / hop->slots_each;
}

static bool go_together(const struct hop *hop, const uint32_t *slot, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        if (peer_of(hop, slot[i]) != peer_of(hop, slot[0])) return false;
    return true;
}

static uint32_t hop_slots_of(const struct hop_list *list, uint32_t token) {
    return list->count ? list->count[token] : list->each;
}

uint32_t hop_expert_batch_of_slot(uint32_t slot, uint32_t slots) {
    return slot * EXCHANGE_EXPERT_BATCHES / slots;
}

uint32_t hop_expert_batch(const uint32_t *slot, uint32_t count, uint32_t slots, uint32_t pairs) {
    uint32_t last = 0;
    if (pairs < HOP_EXPERT_BATCH_PAIRS) return EXCHANGE_EXPERT_BATCHES - 1;
    for (uint32_t i = 0; i < count; i++)
        last = max_u32(last, (slot[i] & ~HOP_JOINS) % slots);
    return hop_expert_batch_of_slot(last, slots);
}

static uint32_t hop_expert_batch_of(const struct hop *hop, const uint32_t *slot, uint32_t count,
                                    uint32_t pairs) {
    return hop->in_expert_batches ? hop_expert_batch(slot, count, hop->slots_each, pairs)
                                  : EXCHANGE_EXPERT_BATCHES - 1;
}

/* Rows come back wave by wave, from `first` on. What was counted is of a large message. */
static void lay_expert_batches(struct hop_peer *peer, uint32_t first) {
    if (peer->pairs < HOP_EXPERT_BATCH_PAIRS) {
        memset(peer->expert_batch_returns, 0, sizeof peer->expert_batch_returns);
        peer->expert_batch_returns[EXCHANGE_EXPERT_BATCHES - 1] = peer->returns;
    }
    peer->first_return = first;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        peer->next_return[expert_batch] = first;
        first += peer->expert_batch_returns[expert_batch];
    }
}

/* The number of the `joined` pairs that share the i'th one's row; 0: an earlier pair has the row. */
static uint32_t pairs_of_row(const struct hop *hop, uint32_t to, bool together, uint32_t i,
                             uint32_t joined) {
    if (to == hop->own) return !hop->own_goes_on;
    if (!together) return 1;
    return i == 0 ? joined : 0;
}

uint32_t hop_count(struct hop *hop, const struct hop_list *list, uint32_t first_return) {
    uint32_t pair = 0, returned = first_return;
    memset(hop->peers, 0, hop->peer_count * sizeof *hop->peers);
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + hop_slots_of(list, token), joined;
        for (; pair < end; pair += joined) {
            joined = hop_joined(list->slot, pair, end);
            bool together = go_together(hop, list->slot + pair, joined);
            for (uint32_t i = 0; i < joined; i++) {
                uint32_t to = peer_of(hop, list->slot[pair + i]);
                struct hop_peer *peer = &hop->peers[to];
                peer->pairs++;
                uint32_t row_pairs = pairs_of_row(hop, to, together, i, joined);
                if (row_pairs) {
                    peer->returns++;
                    peer->expert_batch_returns[hop_expert_batch_of(hop, list->slot + pair + i,
                                                                   row_pairs, UINT32_MAX)]++;
                }
                if (peer->last_token != token + 1) peer->tokens++;
                peer->last_token = token + 1;
            }
        }
    }
    for (uint32_t i = 0; i < hop->peer_count; i++) {
        lay_expert_batches(&hop->peers[i], returned);
        hop->peers[i].last_token = 0;
        returned += hop->peers[i].returns;
    }
    return returned - first_return;
}

static size_t hop_lay_out(struct hop *hop, char *out, char *own) {
    size_t at = 0;
    for (uint32_t i = 0; i < hop->peer_count; i++) {
        struct hop_peer *peer = &hop->peers[i];
        char *memory = i == hop->own ? own : out + at;
        peer->out = hop_message_at(peer->target ? peer->target : memory, peer->tokens, peer->pairs,
                                   hop->row_bytes, hop->weighs);
        peer->head = (struct hop_head *)(void *)memory;
        *peer->head = (struct hop_head){peer->tokens, peer->pairs, peer->first_return, hop->from};
        peer->head_bytes = peer->target ? sizeof *peer->head : peer->out.bytes;
        if (i != hop->own) at += round_up(peer->head_bytes, HOP_ALIGN);
    }
    return at;
}

static void place_token(struct hop *hop, struct hop_peer *peer, const struct hop_list *list,
                        uint32_t token) {
    uint32_t row = list->row ? list->row[token] : token;
    size_t bytes = hop->row_bytes;
    if (peer == &hop->peers[hop->own])
        hop->own_row[peer->tokens_placed] = row;
    else
        memcpy(peer->out.rows + peer->tokens_placed * bytes, list->rows + row * bytes, bytes);
    peer->out.count[peer->tokens_placed++] = 0;
    peer->last_token = token + 1;
}

/* A row of `row_pairs` from this pair on; 0: it has none of its own. Returns the row. */
static uint32_t place_pair(struct hop *hop, struct hop_peer *peer, const struct hop_list *list,
                           uint32_t pair, uint32_t row_pairs, bool joins) {
    bool own = peer == &hop->peers[hop->own];
    uint32_t slot = (list->slot[pair] & ~HOP_JOINS) % hop->slots_each;
    if (hop->weighs) peer->out.weight[peer->pairs_laid] = list->weight[pair];
    peer->out.slot[peer->pairs_laid++] =
        slot | (joins && (!own || hop->own_goes_on) ? HOP_JOINS : 0);
    peer->out.count[peer->tokens_placed - 1]++;
    if (row_pairs)
        return peer
            ->next_return[hop_expert_batch_of(hop, list->slot + pair, row_pairs, peer->pairs)]++;
    return own ? HOP_OWN : EXCHANGE_SUMMED;
}

size_t hop_fill(struct hop *hop, const struct hop_list *list, char *out, char *own,
                uint32_t *token_rows) {
    size_t bytes = hop_lay_out(hop, out, own);
    uint32_t pair = 0;
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + hop_slots_of(list, token), joined;
        for (; pair < end; pair += joined) {
            joined = hop_joined(list->slot, pair, end);
            bool together = go_together(hop, list->slot + pair, joined);
            for (uint32_t i = 0; i < joined; i++) {
                uint32_t to = peer_of(hop, list->slot[pair + i]);
                struct hop_peer *peer = &hop->peers[to];
                if (peer->last_token != token + 1) place_token(hop, peer, list, token);
                token_rows[pair + i] =
                    place_pair(hop, peer, list, pair + i,
                               pairs_of_row(hop, to, together, i, joined), together && i > 0);
            }
        }
    }
    return bytes;
}
