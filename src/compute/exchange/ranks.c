/* SPDX-License-Identifier: Apache-2.0
 * The exchange among ranks, over the job's messages.
 *
 * A dispatch is one message from every rank to every other, tokens or none: the receiver knows whom
 * to wait for, so no counts go ahead. It says which tokens go to which of the receiver's slots and
 * brings each token's activations once (hop.h). A rank of the same host has them written into its
 * memory (near_memory.h), and the message says that they are there. Where the sum is by groups, the
 * results of a group that all come from one other rank are summed there (exchange_options.sum).
 *
 * A combine is messages back of the results in the order of those pairs, where there were any, one
 * for the pairs of a sum, in a few waves: the first leaves while others are still computed. Both
 * sides know how long each is. A token's pairs are listed by ascending expert, and where each
 * result will come to lie is known at dispatch: nothing is sorted on the way back, and experts
 * write results for a rank of the same host right there.
 *
 * By nodes, there are two hops. A token goes once to each node, in one message for the node to the
 * rank there that has the sender's place. That rank deals it to the ranks of its node, as it deals
 * its own tokens: in messages that are those of the first way but for who brings them. Results go
 * back to it. It sums the groups that lie on its node, copies all other results, and sends that
 * home in one message. What is between two ranks of a node goes in one hop. So each rank is a relay
 * for those of its place, and no rank's transfer is over before its relays are done; whichever
 * exchange this process waits for, it moves the relays of all.
 *
 * Once the job is broken (job.h), a dispatch brings no rows, and a combine brings zeros: the step
 * goes on to its end without waiting, and its results are not used. While a rank is gone, there is
 * one hop: no rank replaces it as a relay.
 *
 * What lies in this rank's own slots takes the same way without a message, and its rows are not
 * copied: they are read where they are.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/carrier.h"
#include "compute/exchange/ranks_memory.h"

#include <stdlib.h>
#include <string.h>

static struct ranks *all_open; /* of this process: a waiting call moves the relays of all */

enum exchange_tag {
    TAG_DISPATCH,
    TAG_COUNTS,
    TAG_COMBINE, /* of the first wave */
    TAG_SPAN = TAG_COMBINE + EXCHANGE_EXPERT_BATCHES,
    TAGS_PER_CHANNEL = TAG_SPAN + EXCHANGE_EXPERT_BATCHES
};

#define TAG_NODE_SHIFT 16 /* above channels and their tags: the node that owns the tokens */

static struct ranks *ranks_of(struct exchange *exchange) {
    return (struct ranks *)exchange;
}

static uint32_t ranks_tag_of(const struct ranks *ranks, enum exchange_tag tag,
                             uint32_t expert_batch, uint32_t node) {
    return node << TAG_NODE_SHIFT |
           (ranks->exchange.options.channel * TAGS_PER_CHANNEL + tag + expert_batch);
}

/* The rank of a place on this node, and that of this place on a node. */
static uint32_t rank_at(const struct ranks *ranks, uint32_t place) {
    return ranks->node * ranks->places + place;
}
static uint32_t rank_on(const struct ranks *ranks, uint32_t node) {
    return node * ranks->places + ranks->place;
}

/* Whether a rank is on this rank's node, at any number of levels. */
static bool is_near(const struct ranks *ranks, uint32_t rank) {
    uint32_t each = ranks->exchange.options.placement->node_ranks;
    return rank / each == ranks->rank / each;
}

static void ranks_receive(struct ranks *ranks, struct job_batch *batch, enum exchange_tag tag,
                          uint32_t expert_batch, uint32_t node, uint32_t from, void *data,
                          size_t bytes, struct exchange_span *span) {
    job_receive_begin(batch, JOB_CHANNEL_ACTIVATIONS, ranks_tag_of(ranks, tag, expert_batch, node),
                      from, data, bytes);
    if (exchange_is_slow(&ranks->exchange))
        job_receive_begin(batch, JOB_CHANNEL_ACTIVATIONS,
                          ranks_tag_of(ranks, TAG_SPAN, expert_batch, node), from, span,
                          sizeof *span);
}

static void ranks_note_sent(struct ranks *ranks, uint32_t expert_batch, uint32_t node, uint32_t to,
                            size_t bytes) {
    struct exchange_counts *counts = &ranks->exchange.counts;
    counts->bytes_sent += bytes;
    if (!is_near(ranks, to)) counts->bytes_between_nodes += bytes;
    ranks->sent[ranks->sent_count++] =
        (struct sent){.to = to, .node = node, .expert_batch = expert_batch, .bytes = bytes};
}

static void send_tokens(struct ranks *ranks, uint32_t node, uint32_t to,
                        const struct hop_peer *peer) {
    job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                   ranks_tag_of(ranks, TAG_DISPATCH, 0, node), to, peer->head, peer->head_bytes);
    ranks_note_sent(ranks, 0, node, to, peer->out.bytes);
}

/* If they are in place, a message without bytes says so. */
static void send_rows(struct ranks *ranks, uint32_t expert_batch, uint32_t node, uint32_t to,
                      const void *rows, size_t bytes, bool in_place) {
    job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                   ranks_tag_of(ranks, TAG_COMBINE, expert_batch, node), to, rows,
                   in_place ? 0 : bytes);
    ranks_note_sent(ranks, expert_batch, node, to, bytes);
}

/* Behind what begins together: over a slow link it leaves together, too. */
static void report_spans(struct ranks *ranks) {
    uint64_t bytes[2] = {0};
    struct exchange_span leaves[2] = {{0}};
    uint32_t count = ranks->sent_count;
    ranks->sent_count = 0;
    if (!exchange_is_slow(&ranks->exchange)) return;
    for (uint32_t i = 0; i < count; i++)
        bytes[is_near(ranks, ranks->sent[i].to)] += ranks->sent[i].bytes;
    for (int near = 0; near < 2; near++)
        if (bytes[near]) leaves[near] = exchange_take_link(&ranks->exchange, near, bytes[near]);
    for (uint32_t i = 0; i < count; i++) {
        const struct sent *sent = &ranks->sent[i];
        struct exchange_span *span = &ranks->spans_out[ranks->span_count++];
        *span = leaves[is_near(ranks, sent->to)];
        span->bytes = sent->bytes;
        job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                       ranks_tag_of(ranks, TAG_SPAN, sent->expert_batch, sent->node), sent->to,
                       span, sizeof *span);
    }
}

static struct hop_message message_at(const struct ranks *ranks, char *memory, uint32_t tokens,
                                     uint32_t pairs) {
    return hop_message_at(memory, tokens, pairs, ranks->exchange.options.dispatch_bytes,
                          ranks_memory_sum_groups(ranks));
}

/* The memory for tokens of a rank; at two levels for those of the sender's node and place. */
static char *in_memory(const struct ranks *ranks, uint32_t rank) {
    return ranks->in.own + rank * ranks->in_bytes;
}

static struct hop_head *head_in(char *memory) {
    return (struct hop_head *)(void *)memory;
}

/* The span of a rank's tokens, indexed like in_memory. */
static struct exchange_span *span_in(const struct ranks *ranks, uint32_t rank,
                                     uint32_t expert_batch) {
    return &ranks->spans_in[rank * EXCHANGE_EXPERT_BATCHES + expert_batch];
}

/* ---- the relays, and waiting ---- */

static void deal(struct ranks *ranks, uint32_t node);
static void return_home(struct ranks *ranks, uint32_t node);

/* A slow link has brought what has come. */
static bool link_is_through(const struct ranks *ranks, uint32_t from,
                            const struct exchange_span *span) {
    if (!exchange_is_slow(&ranks->exchange)) return true;
    return exchange_is_through(&ranks->exchange, is_near(ranks, from), span);
}

static bool list_is_here(const struct ranks *ranks, uint32_t node) {
    const struct relay *relay = &ranks->relays[node];
    if (relay->in.open) return false;
    return job_broken() || link_is_through(ranks, rank_on(ranks, node), &relay->span);
}

static bool results_are_here(const struct ranks *ranks, uint32_t node) {
    if (ranks->relays[node].in.open || ranks->rows_returned < ranks->row_count) return false;
    for (uint32_t place = 0; place < ranks->places && !job_broken(); place++)
        for (uint32_t expert_batch = 0;
             expert_batch < EXCHANGE_EXPERT_BATCHES && place != ranks->place; expert_batch++)
            if (!link_is_through(ranks, rank_at(ranks, place),
                                 span_in(ranks, node * ranks->places + place, expert_batch)))
                return false;
    return true;
}

/* Passes on what is there; true: the transfer under way is over. */
static bool move_on(struct ranks *ranks) {
    bool over = ranks->in_batch.open == 0;
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        if (!relay->is_dealt && list_is_here(ranks, node)) deal(ranks, node);
        if (ranks->dispatched && !relay->is_returned && results_are_here(ranks, node))
            return_home(ranks, node);
        over &= ranks->dispatched ? relay->in.open == 0 && relay->is_returned : relay->is_dealt;
    }
    return over;
}

static void move_all(void) {
    for (struct ranks *ranks = all_open; ranks; ranks = ranks->behind)
        move_on(ranks);
}

static bool ranks_is_over(void *context) {
    move_all();
    return move_on(context);
}

static bool batch_is_over(void *context) {
    const struct job_batch *batch = context;
    move_all();
    return batch->open == 0;
}

/* ---- dispatch ---- */

/* Clears the choices of other ranks' tokens. */
static void forget_others(struct ranks *ranks, size_t bytes) {
    struct replicas *replicas = &ranks->replicas;
    memset(replicas->all, 0, ranks->rank_count * bytes);
    memcpy((char *)replicas->all + ranks->rank * bytes, replicas->own, bytes);
}

/* Where replicas are split by the batch, all ranks tell each other what their tokens chose. */
static void split_replicas(struct ranks *ranks, uint32_t layer, const uint32_t *experts,
                           uint32_t pairs) {
    struct replicas *replicas = &ranks->replicas;
    size_t experts_all = ranks->exchange.options.placement->experts;
    size_t bytes = experts_all * sizeof *replicas->own;
    struct job_batch reported = {0};
    uint32_t tag = ranks_tag_of(ranks, TAG_COUNTS, 0, 0);
    if (!replicas_begin(replicas, layer, experts, pairs, ranks->exchange.splits_replicas)) return;
    forget_others(ranks, bytes);
    for (uint32_t i = 1; i < ranks->rank_count; i++) {
        uint32_t rank = (ranks->rank + i) % ranks->rank_count;
        job_receive_begin(&reported, JOB_CHANNEL_ACTIVATIONS, tag, rank,
                          replicas->all + rank * experts_all, bytes);
    }
    for (uint32_t i = 1; i < ranks->rank_count; i++) {
        uint32_t rank = (ranks->rank + i) % ranks->rank_count;
        job_send_begin(&reported, JOB_CHANNEL_ACTIVATIONS, tag, rank, replicas->own, bytes);
    }
    job_wait_until(batch_is_over, &reported);
    if (job_broken()) forget_others(ranks, bytes);
    replicas_split(replicas, layer);
}

/* Which replica computes which pair; a group's are joined. */
static void choose_slots(struct ranks *ranks, uint32_t layer, const uint32_t *experts,
                         uint32_t tokens) {
    const struct exchange_options *options = &ranks->exchange.options;
    uint32_t per_token = options->experts_per_token, group = options->group_experts;
    split_replicas(ranks, layer, experts, tokens * per_token);
    for (uint32_t token = 0; token < tokens; token++) {
        size_t first = (size_t)token * per_token;
        for (uint32_t k = 0; k < per_token; k++) {
            size_t pair = first + k;
            bool joins = group && k && experts[pair] / group == experts[pair - 1] / group;
            ranks->pair_slot[pair] = replicas_next(&ranks->replicas, layer, experts[pair], token) |
                                     (joins ? HOP_JOINS : 0);
        }
    }
}

/* Two hops where that was asked for and there is somebody at every place. */
static void ranks_choose_levels(struct ranks *ranks) {
    const struct placement *placement = ranks->exchange.options.placement;
    bool two = ranks->exchange.goes_by_nodes && ranks->node_count > 1 && placement->node_ranks > 1;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        two &= job_lives(rank);
    ranks->nodes = two ? ranks->node_count : 1;
    ranks->places = ranks->rank_count / ranks->nodes;
    check(ranks->places > 0);
    ranks->node = ranks->rank / ranks->places;
    ranks->place = ranks->rank % ranks->places;
}

/* A rank that is gone says nothing: as if it had no tokens. */
static void receive_lists(struct ranks *ranks) {
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        relay->is_dealt = relay->is_returned = node == ranks->node;
        for (uint32_t place = 0; place < ranks->places; place++) {
            uint32_t from = node * ranks->places + place;
            char *memory = in_memory(ranks, from);
            memset(memory, 0, sizeof(struct hop_head));
            if (place != ranks->place)
                ranks_receive(ranks, &ranks->in_batch, TAG_DISPATCH, 0, node, rank_at(ranks, place),
                              memory, ranks->in_bytes, span_in(ranks, from, 0));
        }
        if (node == ranks->node) continue;
        memset(relay->list_in, 0, sizeof(struct hop_head));
        ranks_receive(ranks, &relay->in, TAG_DISPATCH, 0, node, rank_on(ranks, node),
                      relay->list_in, ranks->list_bytes, &relay->span);
    }
}

/* Where results come to lie of what a rank of this node deals of a node's tokens, in its memory. */
static char *results_in(const struct ranks *ranks, char *memory, uint32_t node) {
    uint32_t at = node == ranks->node ? 0 : 1 + node;
    return memory + ranks->rank_count * ranks->in_bytes + at * ranks->results_bytes;
}

static char *ranks_results_of(const struct ranks *ranks, uint32_t node) {
    return results_in(ranks, ranks->in.own, node);
}

/* Takes a list from another node's rank, for the ranks of this node. */
static void take_list(struct ranks *ranks, struct relay *relay) {
    const struct exchange_options *options = &ranks->exchange.options;
    const struct hop_head *head = head_in(relay->list_in);
    uint32_t tokens = job_broken() ? 0 : head->tokens, pairs = tokens ? head->pairs : 0, pair = 0;
    check(tokens <= options->tokens_max && pairs <= tokens * options->experts_per_token);
    struct hop_message list = message_at(ranks, relay->list_in, tokens, pairs);
    relay->returns = 0;
    for (uint32_t token = 0; token < tokens; token++) {
        uint32_t end = pair + list.count[token];
        check(list.count[token] <= options->experts_per_token && end <= pairs);
        check(pair == end || !(list.slot[pair] & HOP_JOINS));
        for (; pair < end; pair++) {
            check((list.slot[pair] & ~HOP_JOINS) < ranks->places * ranks->slots_per_rank);
            relay->returns += !(list.slot[pair] & HOP_JOINS);
        }
    }
    check(pair == pairs);
    relay->list = (struct hop_list){.tokens = tokens,
                                    .count = list.count,
                                    .slot = list.slot,
                                    .weight = ranks_memory_sum_groups(ranks) ? list.weight : NULL,
                                    .rows = list.rows};
    ranks->exchange.counts.bytes_received += list.bytes;
}

/* Another rank's memory, if this one can write to it. */
static char *memory_of(const struct ranks *ranks, uint32_t rank) {
    if (job_broken() || rank == ranks->rank) return NULL;
    return near_memory_of(&ranks->in, rank, job_epoch());
}

/* Where a rank of the node reads what this one deals it of a node's tokens, if this one can write
 * there. No rank reads there any more: the results of all rows there have come back, or there was
 * only a head, which comes by message. Once the job is broken, results may not have. */
static char *target_of(const struct ranks *ranks, uint32_t node, uint32_t place) {
    char *memory = memory_of(ranks, rank_at(ranks, place));
    if (!memory || !ranks->relays[node].peers[place].tokens) return NULL;
    return memory + rank_on(ranks, node) * ranks->in_bytes;
}

/* To the ranks of this node, or of all; rows come back for this rank's own from `first_return` on.
 * */
static void deal_list(struct ranks *ranks, uint32_t node, uint32_t first_return,
                      uint32_t *token_rows) {
    struct relay *relay = &ranks->relays[node];
    struct hop hop = {.peer_count = ranks->places,
                      .slots_each = ranks->slots_per_rank,
                      .own = ranks->place,
                      .row_bytes = ranks->exchange.options.dispatch_bytes,
                      .weighs = ranks_memory_sum_groups(ranks),
                      .in_expert_batches = true,
                      .from = ranks->in.address,
                      .peers = relay->peers,
                      .own_row = relay->own_row};
    hop_count(&hop, &relay->list, first_return);
    for (uint32_t place = 0; place < ranks->places; place++)
        relay->peers[place].target = target_of(ranks, node, place);
    size_t bytes = hop_fill(&hop, &relay->list, relay->out, in_memory(ranks, rank_on(ranks, node)),
                            token_rows);
    check(bytes <= ranks->out_bytes);
    for (uint32_t i = 1; i < ranks->places; i++) { /* not all to the first at once */
        uint32_t place = (ranks->place + i) % ranks->places;
        send_tokens(ranks, node, rank_at(ranks, place), &relay->peers[place]);
    }
    report_spans(ranks);
}

static void deal(struct ranks *ranks, uint32_t node) {
    struct relay *relay = &ranks->relays[node];
    take_list(ranks, relay);
    deal_list(ranks, node, 0, relay->token_rows);
    relay->is_dealt = true;
}

/* This rank's tokens to the nodes. Returns how many rows come back from others than this one. */
static uint32_t deal_to_nodes(struct ranks *ranks, const struct hop_list *list) {
    struct hop hop = {.peer_count = ranks->nodes,
                      .slots_each = ranks->places * ranks->slots_per_rank,
                      .own = ranks->node,
                      .row_bytes = ranks->exchange.options.dispatch_bytes,
                      .weighs = ranks_memory_sum_groups(ranks),
                      .own_goes_on = true,
                      .peers = ranks->node_peers,
                      .own_row = ranks->own_token};
    uint32_t returned = hop_count(&hop, list, 0);
    check(hop_fill(&hop, list, ranks->out, ranks->own_list, ranks->token_rows) <= ranks->out_bytes);
    for (uint32_t i = 1; i < ranks->nodes; i++) {
        uint32_t node = (ranks->node + i) % ranks->nodes;
        send_tokens(ranks, ranks->node, rank_on(ranks, node), &ranks->node_peers[node]);
    }
    report_spans(ranks);
    return returned;
}

/* In two hops, with what this node computes in one. */
static void begin_by_nodes(struct ranks *ranks, const struct hop_list *list) {
    struct relay *own = &ranks->relays[ranks->node];
    uint32_t first = deal_to_nodes(ranks, list), next = 0;
    const struct hop_message *kept = &ranks->node_peers[ranks->node].out;
    own->list = (struct hop_list){.tokens = kept->tokens,
                                  .count = kept->count,
                                  .slot = kept->slot,
                                  .weight = kept->weight,
                                  .rows = list->rows,
                                  .row = ranks->own_token};
    deal_list(ranks, ranks->node, first, own->token_rows);
    for (uint32_t pair = 0; pair < list->tokens * list->each; pair++)
        if (ranks->token_rows[pair] == HOP_OWN) ranks->token_rows[pair] = own->token_rows[next++];
    check(next == kept->pairs);
}

static void ranks_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                                 const float *weights, uint32_t tokens, const char *activations) {
    struct ranks *ranks = ranks_of(exchange);
    check(tokens <= exchange->options.tokens_max && layer < exchange->options.placement->layers);
    ranks_choose_levels(ranks);
    ranks->span_count = 0;
    receive_lists(ranks);
    choose_slots(ranks, layer, experts, tokens);
    const struct hop_list list = {.tokens = tokens,
                                  .each = exchange->options.experts_per_token,
                                  .slot = ranks->pair_slot,
                                  .weight = weights,
                                  .rows = activations};
    if (ranks->nodes > 1) {
        begin_by_nodes(ranks, &list);
    } else {
        ranks->relays[0].list = list;
        deal_list(ranks, 0, 0, ranks->token_rows);
    }
}

/* Where the rank that sent a message has its memory. */
static void receive_of(struct ranks *ranks, uint32_t rank, const struct shared_file *address) {
    if (!job_broken() && job_shares_host(rank))
        near_memory_receive(&ranks->in, rank, address, job_epoch());
}

static void ranks_read_messages(struct ranks *ranks) {
    for (uint32_t rank = 0; rank < ranks->rank_count && job_broken(); rank++)
        memset(in_memory(ranks, rank), 0, sizeof(struct hop_head));
    uint32_t returns_max =
        ranks->exchange.options.tokens_max * ranks->exchange.options.experts_per_token;
    memset(ranks->next_row, 0, ranks->slots_per_rank * sizeof *ranks->next_row);
    ranks->row_count = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        struct hop_message *in = &ranks->messages[rank];
        const struct hop_head *head = head_in(in_memory(ranks, rank));
        check(head->tokens <= ranks->exchange.options.tokens_max &&
              head->pairs <= head->tokens * ranks->exchange.options.experts_per_token &&
              head->first_return <= returns_max - head->pairs);
        *in = message_at(ranks, in_memory(ranks, rank), head->tokens, head->pairs);
        for (uint32_t pair = 0; pair < in->pairs; pair++) {
            uint32_t slot = in->slot[pair] & ~HOP_JOINS;
            check(slot < ranks->slots_per_rank);
            ranks->next_row[slot]++;
        }
        if (rank % ranks->places != ranks->place) {
            ranks->exchange.counts.bytes_received += in->bytes;
            receive_of(ranks, rank_at(ranks, rank % ranks->places), &head->from);
        }
        ranks->row_count += in->pairs;
        ranks->exchange.counts.tokens_dispatched += in->tokens;
    }
    ranks->exchange.counts.pairs += ranks->row_count;
}

/* The wave of `pairs` of a message from `first` on. */
static uint32_t ranks_expert_batch_of(const struct ranks *ranks, const struct hop_message *in,
                                      uint32_t first, uint32_t pairs) {
    return hop_expert_batch(in->slot + first, pairs, ranks->slots_per_rank, in->pairs);
}

/* How many results leave in each wave. */
static void count_returning(struct ranks *ranks) {
    memset(ranks->expert_batch_sums, 0, sizeof ranks->expert_batch_sums);
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        const struct hop_message *in = &ranks->messages[rank];
        struct returning *returning = &ranks->returning[rank];
        *returning = (struct returning){.rows = NULL};
        for (uint32_t pair = 0, joined; pair < in->pairs; pair += joined) {
            joined = hop_joined(in->slot, pair, in->pairs);
            uint32_t expert_batch = ranks_expert_batch_of(ranks, in, pair, joined);
            returning->expert_batches[expert_batch]++;
            ranks->expert_batch_sums[expert_batch] += joined > 1;
        }
    }
}

/* Others wait for results of that wave. */
static bool expert_batch_leaves(const struct ranks *ranks, uint32_t expert_batch) {
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        if (rank % ranks->places != ranks->place &&
            ranks->returning[rank].expert_batches[expert_batch])
            return true;
    return false;
}

/* Turns next_row from each slot's count of rows into its first row. */
static void form_groups(struct ranks *ranks) {
    uint32_t row = 0;
    ranks->group_count = ranks->expert_batch = 0;
    for (uint32_t slot = 0; slot < ranks->slots_per_rank; slot++) {
        uint32_t count = ranks->next_row[slot];
        ranks->next_row[slot] = row;
        if (!count) continue;
        ranks->groups[ranks->group_count++] =
            (struct exchange_group){.slot = slot, .first_row = row, .row_count = count};
        row += count;
    }
    for (uint32_t expert_batch = 0, group = 0; expert_batch < EXCHANGE_EXPERT_BATCHES;
         expert_batch++) {
        ranks->expert_batch_rows[expert_batch] =
            expert_batch ? ranks->expert_batch_rows[expert_batch - 1] : 0;
        for (; group < ranks->group_count &&
               hop_expert_batch_of_slot(ranks->groups[group].slot, ranks->slots_per_rank) ==
                   expert_batch;
             group++)
            ranks->expert_batch_rows[expert_batch] += ranks->groups[group].row_count;
        if (group)
            ranks->groups[group - 1].results_leave |= expert_batch_leaves(ranks, expert_batch);
    }
}

/* Where results go that have no row of their own, and who sums them. */
struct held {
    char *next;
    const char **next_row;
};

/* Where the results of a rank's rows go: `pairs` of a token's from pair `first` on, which become
 * one sum if they are several. */
static void place_pairs(struct ranks *ranks, uint32_t rank, uint32_t first, uint32_t pairs,
                        uint32_t token_index, struct held *held) {
    const struct hop_message *in = &ranks->messages[rank];
    size_t bytes = ranks->exchange.options.combine_bytes;
    uint32_t expert_batch = ranks_expert_batch_of(ranks, in, first, pairs);
    char *result = ranks->returning[rank].next[expert_batch];
    ranks->returning[rank].next[expert_batch] += bytes;
    if (pairs > 1) {
        ranks->sums[ranks->next_sum[expert_batch]++] =
            (struct exchange_sum){.count = pairs,
                                  .weights = in->weight + first,
                                  .results = held->next_row,
                                  .sum = result};
        result = held->next;
        held->next += pairs * bytes;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t row = ranks->next_row[in->slot[first + i] & ~HOP_JOINS]++;
        ranks->row_token[row] = token_index;
        ranks->row_result[row] = result + i * bytes;
        if (pairs > 1) *held->next_row++ = ranks->row_result[row];
    }
}

static void place_message(struct ranks *ranks, uint32_t rank, uint32_t token_index,
                          struct held *held) {
    const struct exchange_options *options = &ranks->exchange.options;
    const struct hop_message *in = &ranks->messages[rank];
    const struct relay *relay = &ranks->relays[rank / ranks->places];
    bool own = rank % ranks->places == ranks->place;
    uint32_t pair = 0;
    for (uint32_t token = 0; token < in->tokens; token++, token_index++) {
        const char *rows = own ? relay->list.rows : in->rows;
        size_t at = own ? relay->own_row[token] : token;
        ranks->token_data[token_index] = rows + at * options->dispatch_bytes;
        uint32_t end = pair + in->count[token];
        check(end <= in->pairs && (pair == end || !(in->slot[pair] & HOP_JOINS)));
        for (uint32_t joined; pair < end; pair += joined) {
            joined = hop_joined(in->slot, pair, end);
            check(joined == 1 || ranks_memory_sum_groups(ranks));
            place_pairs(ranks, rank, pair, joined, token_index, held);
        }
    }
    check(pair == in->pairs);
}

/* The results of a rank's rows where they are wanted: in this rank's own memory, or in that of the
 * one who dealt; NULL: they have to be sent. */
static char *wanted_rows(const struct ranks *ranks, uint32_t rank) {
    uint32_t node = rank / ranks->places, place = rank % ranks->places;
    const struct hop_head *head = head_in(in_memory(ranks, rank));
    char *memory = place == ranks->place ? ranks->in.own : memory_of(ranks, rank_at(ranks, place));
    if (!memory) return NULL;
    return results_in(ranks, memory, node) +
           (size_t)head->first_return * ranks->exchange.options.combine_bytes;
}

/* Its results lie behind each other, wave by wave, where they are wanted or, else, where they are
 * sent from. Returns where those of the next rank may begin. */
static char *lay_returning(struct ranks *ranks, uint32_t rank, char *back) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    struct returning *returning = &ranks->returning[rank];
    char *wanted = wanted_rows(ranks, rank), *rows = wanted ? wanted : back;
    returning->rows = rows;
    returning->in_place = wanted != NULL;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        returning->next[expert_batch] = rows;
        rows += returning->expert_batches[expert_batch] * bytes;
    }
    return wanted ? back : rows;
}

static void place_rows(struct ranks *ranks) {
    struct held held = {.next = ranks->held, .next_row = ranks->sum_rows};
    uint32_t token_index = 0, sums = 0;
    char *back = ranks->back;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        ranks->next_sum[expert_batch] = sums;
        sums += ranks->expert_batch_sums[expert_batch];
    }
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        back = lay_returning(ranks, rank, back);
        place_message(ranks, rank, token_index, &held);
        token_index += ranks->messages[rank].tokens;
    }
}

/* exchange.leaves: of what came, once it is here; ranks that sent nothing said nothing. */
static void gather_span(struct ranks *ranks, uint32_t from, struct exchange_span *span,
                        int64_t *link_ns) {
    struct exchange_span *all = &ranks->exchange.leaves[is_near(ranks, from)];
    if (span->ended_ns == 0) return;
    *link_ns += span->ended_ns - span->began_ns;
    if (all->ended_ns == 0 || span->began_ns < all->began_ns) all->began_ns = span->began_ns;
    if (span->ended_ns > all->ended_ns) all->ended_ns = span->ended_ns;
    all->bytes += span->bytes;
    *span = (struct exchange_span){0};
}

static void gather_spans(struct ranks *ranks) {
    int64_t *most_ns = &ranks->exchange.link_ns;
    if (!exchange_is_slow(&ranks->exchange)) return;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        int64_t link_ns = 0;
        for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++)
            gather_span(ranks, rank_at(ranks, rank % ranks->places),
                        span_in(ranks, rank, expert_batch), &link_ns);
        if (link_ns > *most_ns) *most_ns = link_ns;
    }
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        int64_t link_ns = 0;
        gather_span(ranks, rank_on(ranks, node), &ranks->relays[node].span, &link_ns);
        if (link_ns > *most_ns) *most_ns = link_ns;
    }
}

/* One that is not over, or any. */
static const struct job_batch *open_batch(const struct ranks *ranks) {
    for (uint32_t node = 0; node < ranks->nodes; node++)
        if (ranks->relays[node].in.open) return &ranks->relays[node].in;
    return &ranks->in_batch;
}

static bool ranks_arrived(struct exchange *exchange) {
    struct ranks *ranks = ranks_of(exchange);
    job_done(open_batch(ranks));
    bool over = ranks_is_over(ranks);
    if (over) gather_spans(ranks);
    return over;
}

static void receive_results(struct ranks *ranks) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        for (uint32_t place = 0; place < ranks->places; place++) {
            const struct hop_peer *peer = &relay->peers[place];
            char *rows = ranks_results_of(ranks, node) + peer->first_return * bytes;
            for (uint32_t expert_batch = 0;
                 expert_batch < EXCHANGE_EXPERT_BATCHES && place != ranks->place; expert_batch++) {
                size_t expert_batch_bytes = peer->expert_batch_returns[expert_batch] * bytes;
                if (!expert_batch_bytes) continue;
                ranks_receive(ranks, &relay->in, TAG_COMBINE, expert_batch, node,
                              rank_at(ranks, place), rows, expert_batch_bytes,
                              span_in(ranks, node * ranks->places + place, expert_batch));
                rows += expert_batch_bytes;
            }
        }
        const struct hop_peer *peer = &ranks->node_peers[node];
        if (node == ranks->node || !peer->returns) continue;
        ranks_receive(ranks, &ranks->in_batch, TAG_COMBINE, 0, ranks->node, rank_on(ranks, node),
                      ranks_results_of(ranks, ranks->node) + peer->first_return * bytes,
                      peer->returns * bytes, &relay->span);
    }
}

static void ranks_dispatch_finish(struct exchange *exchange,
                                  struct exchange_received *received_out) {
    struct ranks *ranks = ranks_of(exchange);
    job_wait_until(ranks_is_over, ranks);
    gather_spans(ranks);
    receive_results(ranks);
    ranks_read_messages(ranks);
    count_returning(ranks);
    form_groups(ranks);
    place_rows(ranks);
    ranks->rows_returned = 0;
    ranks->dispatched = true;
    *received_out = (struct exchange_received){
        .group_count = ranks->group_count,
        .groups = ranks->groups,
        .row_count = ranks->row_count,
        .row_token = ranks->row_token,
        .token_data = ranks->token_data,
    };
}

static void pair_slots(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs) {
    const struct ranks *ranks = (const struct ranks *)exchange;
    for (uint32_t pair = 0; pair < pairs; pair++)
        slots_out[pair] = ranks->pair_slot[pair] & ~HOP_JOINS;
}

static uint32_t ranks_nodes_of(const struct exchange *exchange) {
    return ((const struct ranks *)exchange)->nodes;
}

static uint32_t relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                        const char **rows_out) {
    const struct ranks *ranks = (const struct ranks *)exchange;
    const struct hop_list *list = &ranks->relays[node].list;
    uint32_t per_token = exchange->options.experts_per_token, pair = 0;
    check(node < ranks->nodes && node != ranks->node && ranks->relays[node].is_dealt);
    for (uint32_t token = 0; token < list->tokens; token++)
        for (uint32_t k = 0; k < per_token; k++)
            *slots_out++ =
                k < list->count[token] ? list->slot[pair++] & ~HOP_JOINS : EXCHANGE_NO_SLOT;
    *rows_out = list->rows;
    return list->tokens;
}

/* ---- combine ---- */

static char *ranks_result(struct exchange *exchange, uint32_t row) {
    struct ranks *ranks = ranks_of(exchange);
    check(row < ranks->row_count);
    return ranks->row_result[row];
}

static void ranks_make_sums(const struct ranks *ranks, uint32_t first, uint32_t count) {
    const struct exchange_options *options = &ranks->exchange.options;
    if (count) options->sum(options->sum_context, ranks->sums + first, count);
}

/* The wave's, to those of this node who dealt that node's tokens. */
static void send_results(struct ranks *ranks, uint32_t node) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    for (uint32_t place = 0; place < ranks->places; place++) {
        struct returning *returning = &ranks->returning[node * ranks->places + place];
        size_t expert_batch_bytes = returning->expert_batches[ranks->expert_batch] * bytes;
        if (place == ranks->place || !expert_batch_bytes) continue;
        send_rows(ranks, ranks->expert_batch, node, rank_at(ranks, place), returning->rows,
                  expert_batch_bytes, returning->in_place);
        returning->rows += expert_batch_bytes;
    }
    report_spans(ranks);
}

static void ranks_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    struct ranks *ranks = ranks_of(exchange);
    check(first_row == ranks->rows_returned && row_count <= ranks->row_count - first_row);
    ranks->rows_returned += row_count;
    for (; ranks->expert_batch < EXCHANGE_EXPERT_BATCHES; ranks->expert_batch++) {
        uint32_t sums = ranks->expert_batch_sums[ranks->expert_batch];
        if (ranks->rows_returned < ranks->expert_batch_rows[ranks->expert_batch]) return;
        ranks_make_sums(ranks, ranks->next_sum[ranks->expert_batch] - sums, sums);
        for (uint32_t i = 1; i <= ranks->nodes; i++) /* what another node waits for goes first */
            send_results(ranks, (ranks->node + i) % ranks->nodes);
    }
}

/* One row for each sum of the list, made here or by the one rank that had all of it. */
static void return_home(struct ranks *ranks, uint32_t node) {
    struct relay *relay = &ranks->relays[node];
    const struct hop_list *list = &relay->list;
    size_t bytes = ranks->exchange.options.combine_bytes;
    const char **row = ranks->sum_rows, *results = ranks_results_of(ranks, node);
    char *to = relay->back;
    uint32_t pair = 0, sum_count = 0;
    relay->is_returned = true;
    if (!relay->returns || job_broken()) return;
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + list->count[token], joined;
        for (; pair < end; pair += joined, to += bytes) {
            const uint32_t *rows = relay->token_rows + pair;
            joined = hop_joined(list->slot, pair, end);
            if (joined == 1 || rows[1] == EXCHANGE_SUMMED) {
                memcpy(to, results + rows[0] * bytes, bytes);
                continue;
            }
            ranks->sums[sum_count++] = (struct exchange_sum){
                .count = joined, .weights = list->weight + pair, .results = row, .sum = to};
            for (uint32_t i = 0; i < joined; i++)
                *row++ = results + rows[i] * bytes;
        }
    }
    ranks_make_sums(ranks, 0, sum_count);
    send_rows(ranks, 0, node, rank_on(ranks, node), relay->back, relay->returns * bytes, false);
    report_spans(ranks);
}

/* Rows that come to a hop's peers from others. */
static uint32_t rows_from_others(const struct hop_peer *peers, uint32_t count, uint32_t own) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i != own) rows += peers[i].returns;
    return rows;
}

/* Their results may be any numbers; the model continues with them. */
static void forget_results(struct ranks *ranks) {
    const struct hop_peer *last = &ranks->relays[ranks->node].peers[ranks->places - 1];
    size_t rows = last->first_return + last->returns;
    memset(ranks_results_of(ranks, ranks->node), 0, rows * ranks->exchange.options.combine_bytes);
}

static void ranks_combine_finish(struct exchange *exchange,
                                 struct exchange_returned *returned_out) {
    struct ranks *ranks = ranks_of(exchange);
    uint32_t rows = 0;
    check(ranks->rows_returned == ranks->row_count);
    job_wait_until(ranks_is_over, ranks);
    job_wait_until(batch_is_over, &ranks->out_batch);
    gather_spans(ranks);
    ranks->dispatched = false;
    if (job_broken()) forget_results(ranks);
    for (uint32_t node = 0; node < ranks->nodes; node++)
        rows += rows_from_others(ranks->relays[node].peers, ranks->places, ranks->place);
    if (ranks->nodes > 1) rows += rows_from_others(ranks->node_peers, ranks->nodes, ranks->node);
    exchange->counts.bytes_received += (uint64_t)rows * exchange->options.combine_bytes;
    *returned_out = (struct exchange_returned){.token_rows = ranks->token_rows,
                                               .results = ranks_results_of(ranks, ranks->node)};
}

static void progress(struct exchange *exchange) {
    job_progress();
    move_all();
}

/* ---- opening and closing ---- */

static void close_ranks(struct exchange *exchange) {
    struct ranks *ranks = ranks_of(exchange);
    for (struct ranks **at = &all_open; *at; at = &(*at)->behind)
        if (*at == ranks) {
            *at = ranks->behind;
            break;
        }
    ranks_memory_close(ranks);
    replicas_close(&ranks->replicas);
    free(ranks);
}

static const struct carrier ranks_carrier = {
    .forwards = true,
    .close = close_ranks,
    .dispatch_begin = ranks_dispatch_begin,
    .dispatch_finish = ranks_dispatch_finish,
    .pair_slots = pair_slots,
    .nodes = ranks_nodes_of,
    .relayed = relayed,
    .result = ranks_result,
    .combine_begin = ranks_combine_begin,
    .combine_finish = ranks_combine_finish,
    .progress = progress,
    .arrived = ranks_arrived,
};

enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) {
    const struct placement *placement = options->placement;
    check(options->dispatch_bytes % EXCHANGE_ALIGN == 0 &&
          options->combine_bytes % EXCHANGE_ALIGN == 0 && options->rank < placement->ranks);
    check(placement->ranks % placement->node_ranks == 0);
    check(!options->group_experts || options->sum);
    struct ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    ranks->exchange.carrier = &ranks_carrier;
    ranks->exchange.options = *options;
    ranks->rank = options->rank;
    ranks->rank_count = placement->ranks;
    ranks->slots_per_rank = placement->slots_per_rank;
    ranks->node_count = placement->ranks / placement->node_ranks;
    enum status status = ranks_memory_open(ranks, error);
    if (status == STATUS_OK)
        status = replicas_open(&ranks->replicas, placement, options->rank, error);
    if (status != STATUS_OK) {
        close_ranks(&ranks->exchange);
        return status;
    }
    ranks->behind = all_open;
    all_open = ranks;
    *exchange_out = &ranks->exchange;
    return STATUS_OK;
}
