/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/dispatch_pack.h"

#include <string.h>

#include "base/bytes.h"
#include "base/number.h"

size_t dispatch_pack_rows_offset(uint32_t tokens, uint32_t pairs, bool has_weights) {
    size_t words = (size_t)tokens + (size_t)pairs * (has_weights ? 2 : 1);
    return round_up(sizeof(struct dispatch_header) + words * sizeof(uint32_t), DISPATCH_ALIGN);
}

struct dispatch_message dispatch_pack_message_at(char *memory, uint32_t tokens, uint32_t pairs,
                                                 uint32_t row_bytes, bool has_weights) {
    uint32_t *words = (uint32_t *)(void *)(memory + sizeof(struct dispatch_header));
    size_t at = dispatch_pack_rows_offset(tokens, pairs, has_weights);
    return (struct dispatch_message){
        .tokens = tokens,
        .pairs = pairs,
        .count = words,
        .slot = words + tokens,
        .weight = (float *)(words + tokens + pairs),
        .rows = memory + at,
        .bytes = tokens ? at + (size_t)tokens * row_bytes : sizeof(struct dispatch_header),
    };
}

uint32_t dispatch_pack_joined(const uint32_t *slot, uint32_t pair, uint32_t end) {
    uint32_t next = pair + 1;
    while (next < end && slot[next] & DISPATCH_SAME_SUM)
        next++;
    return next - pair;
}

static uint32_t peer_of(const struct dispatch_pack *pack, uint32_t slot) {
    return (slot & ~DISPATCH_SAME_SUM) / pack->slots_each;
}

static bool same_peer(const struct dispatch_pack *pack, const uint32_t *slot, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        if (peer_of(pack, slot[i]) != peer_of(pack, slot[0])) return false;
    return true;
}

static uint32_t dispatch_pack_slots_of(const struct dispatch_tokens *list, uint32_t token) {
    return list->count ? list->count[token] : list->each;
}

uint32_t dispatch_pack_batch_of_slot(uint32_t slot, uint32_t slots) {
    return slot * EXCHANGE_EXPERT_BATCHES / slots;
}

uint32_t dispatch_pack_expert_batch(const uint32_t *slot, uint32_t count, uint32_t slots,
                                    uint32_t pairs) {
    uint32_t last = 0;
    if (pairs < DISPATCH_EXPERT_BATCH_PAIRS) return EXCHANGE_EXPERT_BATCHES - 1;
    for (uint32_t i = 0; i < count; i++)
        last = max_u32(last, (slot[i] & ~DISPATCH_SAME_SUM) % slots);
    return dispatch_pack_batch_of_slot(last, slots);
}

static uint32_t dispatch_pack_batch_of(const struct dispatch_pack *pack, const uint32_t *slot,
                                       uint32_t count, uint32_t pairs) {
    return pack->in_expert_batches
               ? dispatch_pack_expert_batch(slot, count, pack->slots_each, pairs)
               : EXCHANGE_EXPERT_BATCHES - 1;
}

/* Assigns result rows, batch by batch, from `first` on. The counts so far are those of a large
 * message. */
static void place_expert_batches(struct dispatch_peer *peer, uint32_t first) {
    if (peer->pairs < DISPATCH_EXPERT_BATCH_PAIRS) {
        memset(peer->expert_batch_returns, 0, sizeof peer->expert_batch_returns);
        peer->expert_batch_returns[EXCHANGE_EXPERT_BATCHES - 1] = peer->return_rows;
    }
    peer->first_return = first;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        peer->next_return[expert_batch] = first;
        first += peer->expert_batch_returns[expert_batch];
    }
}

/* How many of the `joined` pairs share the row of pair i; 0: an earlier pair has the row. */
static uint32_t pairs_of_row(const struct dispatch_pack *pack, uint32_t to, bool together,
                             uint32_t i, uint32_t joined) {
    if (to == pack->own) return !pack->forwards_own;
    if (!together) return 1;
    return i == 0 ? joined : 0;
}

uint32_t dispatch_pack_count(struct dispatch_pack *pack, const struct dispatch_tokens *list,
                             uint32_t first_return) {
    uint32_t pair = 0, returned = first_return;
    memset(pack->peers, 0, pack->peer_count * sizeof *pack->peers);
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + dispatch_pack_slots_of(list, token), joined;
        for (; pair < end; pair += joined) {
            joined = dispatch_pack_joined(list->slot, pair, end);
            bool together = same_peer(pack, list->slot + pair, joined);
            for (uint32_t i = 0; i < joined; i++) {
                uint32_t to = peer_of(pack, list->slot[pair + i]);
                struct dispatch_peer *peer = &pack->peers[to];
                peer->pairs++;
                uint32_t row_pairs = pairs_of_row(pack, to, together, i, joined);
                if (row_pairs) {
                    peer->return_rows++;
                    peer->expert_batch_returns[dispatch_pack_batch_of(pack, list->slot + pair + i,
                                                                      row_pairs, UINT32_MAX)]++;
                }
                if (peer->last_token != token + 1) peer->tokens++;
                peer->last_token = token + 1;
            }
        }
    }
    for (uint32_t i = 0; i < pack->peer_count; i++) {
        place_expert_batches(&pack->peers[i], returned);
        pack->peers[i].last_token = 0;
        returned += pack->peers[i].return_rows;
    }
    return returned - first_return;
}

static size_t dispatch_pack_lay_out(struct dispatch_pack *pack, char *out, char *own) {
    size_t at = 0;
    for (uint32_t i = 0; i < pack->peer_count; i++) {
        struct dispatch_peer *peer = &pack->peers[i];
        char *memory = i == pack->own ? own : out + at;
        peer->out = dispatch_pack_message_at(peer->target ? peer->target : memory, peer->tokens,
                                             peer->pairs, pack->row_bytes, pack->has_weights);
        peer->head = (struct dispatch_header *)(void *)memory;
        *peer->head =
            (struct dispatch_header){peer->tokens, peer->pairs, peer->first_return, pack->from};
        peer->head_bytes = peer->target ? sizeof *peer->head : peer->out.bytes;
        if (i != pack->own) at += round_up(peer->head_bytes, DISPATCH_ALIGN);
    }
    return at;
}

static void place_token(struct dispatch_pack *pack, struct dispatch_peer *peer,
                        const struct dispatch_tokens *list, uint32_t token) {
    uint32_t row = list->row ? list->row[token] : token;
    size_t bytes = pack->row_bytes;
    if (peer == &pack->peers[pack->own])
        pack->own_row[peer->tokens_placed] = row;
    else
        memcpy(peer->out.rows + peer->tokens_placed * bytes, list->rows + row * bytes, bytes);
    peer->out.count[peer->tokens_placed++] = 0;
    peer->last_token = token + 1;
}

/* Writes a pair to the peer's message. Returns the row of its result, which is of `row_pairs`
 * pairs; 0: it has no row of its own. */
static uint32_t place_pair(struct dispatch_pack *pack, struct dispatch_peer *peer,
                           const struct dispatch_tokens *list, uint32_t pair, uint32_t row_pairs,
                           bool joins) {
    bool own = peer == &pack->peers[pack->own];
    uint32_t slot = (list->slot[pair] & ~DISPATCH_SAME_SUM) % pack->slots_each;
    if (pack->has_weights) peer->out.weight[peer->pairs_placed] = list->weight[pair];
    peer->out.slot[peer->pairs_placed++] =
        slot | (joins && (!own || pack->forwards_own) ? DISPATCH_SAME_SUM : 0);
    peer->out.count[peer->tokens_placed - 1]++;
    if (row_pairs)
        return peer->next_return[dispatch_pack_batch_of(pack, list->slot + pair, row_pairs,
                                                        peer->pairs)]++;
    return own ? DISPATCH_OWN_ROW : EXCHANGE_SUMMED;
}

size_t dispatch_pack_fill(struct dispatch_pack *pack, const struct dispatch_tokens *list, char *out,
                          char *own, uint32_t *token_rows) {
    size_t bytes = dispatch_pack_lay_out(pack, out, own);
    uint32_t pair = 0;
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + dispatch_pack_slots_of(list, token), joined;
        for (; pair < end; pair += joined) {
            joined = dispatch_pack_joined(list->slot, pair, end);
            bool together = same_peer(pack, list->slot + pair, joined);
            for (uint32_t i = 0; i < joined; i++) {
                uint32_t to = peer_of(pack, list->slot[pair + i]);
                struct dispatch_peer *peer = &pack->peers[to];
                if (peer->last_token != token + 1) place_token(pack, peer, list, token);
                token_rows[pair + i] =
                    place_pair(pack, peer, list, pair + i,
                               pairs_of_row(pack, to, together, i, joined), together && i > 0);
            }
        }
    }
    return bytes;
}
