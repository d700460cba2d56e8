/* SPDX-License-Identifier: Apache-2.0
 * Dispatch and combine among several ranks, as messages of the job (job.h).
 *
 * In a dispatch each rank sends one message to every other rank, with or without tokens. So a
 * receiver knows from which ranks to expect a message, and no counts are exchanged before. The
 * message lists which tokens go to which of the receiver's slots, and contains each token's
 * activations once (dispatch_pack.h). If the receiver is on the same host, the sender writes the
 * message to the receiver's window (shared_window.h) and sends only a short announcement. If
 * results are summed by groups and one other rank has all results of a group, that rank computes
 * the sum (exchange_options.sum).
 *
 * In a combine each rank returns the results in the order of the dispatch's pairs, one row for each
 * sum, in a few batches. The first batch leaves while later experts still compute. Both sides know
 * the size of each batch. A token's pairs are sorted by expert, and the dispatch has assigned the
 * row of each result, so nothing is sorted on the way back, and results for a rank of the same host
 * are written where that rank reads them.
 *
 * With two levels a token is sent once to each node, in one message to the rank there that has the
 * sender's local rank. That rank is the relay. It forwards the tokens to the ranks of its node, in
 * the same messages in which it sends its own tokens. It receives the results, sums the groups that
 * its node has computed completely, copies the other results, and returns all of them in one
 * message. Traffic within a node has one level. A transfer of a rank is finished only when its work
 * as a relay is done. While the process waits for one exchange, it relays for all open exchanges.
 *
 * Once the job is broken (job.h), a dispatch returns no rows and a combine returns zeros. The step
 * runs to its end without waiting, and its results are discarded. While a rank is gone there is one
 * level, since no other rank relays in its place.
 *
 * Tokens for this rank's own slots are handled in the same way, but without a message or a copy.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/exchange_backend.h"
#include "compute/exchange/exchange_buffers.h"

#include <stdlib.h>
#include <string.h>

static struct ranks_exchange
    *open_list; /* all exchanges of this process; a waiting call relays for all of them */

enum exchange_tag {
    TAG_DISPATCH,
    TAG_COUNTS,
    TAG_COMBINE, /* of the first batch; the others follow */
    TAG_SPAN = TAG_COMBINE + EXCHANGE_EXPERT_BATCHES,
    TAGS_PER_CHANNEL = TAG_SPAN + EXCHANGE_EXPERT_BATCHES
};

#define TAG_NODE_SHIFT                                                                             \
    16 /* bits above the channel and its tags hold the node that owns the tokens */

static struct ranks_exchange *ranks_of(struct exchange *exchange) {
    return (struct ranks_exchange *)exchange;
}

static uint32_t ranks_tag_of(const struct ranks_exchange *ranks, enum exchange_tag tag,
                             uint32_t expert_batch, uint32_t node) {
    return node << TAG_NODE_SHIFT |
           (ranks->exchange.options.channel * TAGS_PER_CHANNEL + tag + expert_batch);
}

/* The rank on this node with a local rank; and the rank on a node with this rank's local rank. */
static uint32_t rank_on_node(const struct ranks_exchange *ranks, uint32_t local_rank) {
    return ranks->node * ranks->node_ranks + local_rank;
}
static uint32_t peer_on_node(const struct ranks_exchange *ranks, uint32_t node) {
    return node * ranks->node_ranks + ranks->local_rank;
}

/* Whether a rank is on this rank's node, with one level or two. */
static bool is_same_node(const struct ranks_exchange *ranks, uint32_t rank) {
    uint32_t each = ranks->exchange.options.placement->node_ranks;
    return rank / each == ranks->rank / each;
}

static void ranks_receive(struct ranks_exchange *ranks, struct job_batch *batch,
                          enum exchange_tag tag, uint32_t expert_batch, uint32_t node,
                          uint32_t from, void *data, size_t bytes, struct exchange_span *span) {
    job_receive_begin(batch, JOB_CHANNEL_ACTIVATIONS, ranks_tag_of(ranks, tag, expert_batch, node),
                      from, data, bytes);
    if (exchange_is_slow(&ranks->exchange))
        job_receive_begin(batch, JOB_CHANNEL_ACTIVATIONS,
                          ranks_tag_of(ranks, TAG_SPAN, expert_batch, node), from, span,
                          sizeof *span);
}

static void ranks_note_sent(struct ranks_exchange *ranks, uint32_t expert_batch, uint32_t node,
                            uint32_t to, size_t bytes) {
    struct exchange_counts *counts = &ranks->exchange.counts;
    counts->bytes_sent += bytes;
    if (!is_same_node(ranks, to)) counts->bytes_between_nodes += bytes;
    ranks->sent[ranks->sent_count++] =
        (struct sent){.to = to, .node = node, .expert_batch = expert_batch, .bytes = bytes};
}

static void send_tokens(struct ranks_exchange *ranks, uint32_t node, uint32_t to,
                        const struct dispatch_peer *peer) {
    job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                   ranks_tag_of(ranks, TAG_DISPATCH, 0, node), to, peer->head, peer->head_bytes);
    ranks_note_sent(ranks, 0, node, to, peer->out.bytes);
}

/* Sends results. If they are in place already, the message has no bytes. */
static void send_rows(struct ranks_exchange *ranks, uint32_t expert_batch, uint32_t node,
                      uint32_t to, const void *rows, size_t bytes, bool in_place) {
    job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                   ranks_tag_of(ranks, TAG_COMBINE, expert_batch, node), to, rows,
                   in_place ? 0 : bytes);
    ranks_note_sent(ranks, expert_batch, node, to, bytes);
}

/* Sends the departure times of the messages that were begun together; over a slow link they leave
 * together. */
static void report_spans(struct ranks_exchange *ranks) {
    uint64_t bytes[2] = {0};
    struct exchange_span departures[2] = {{0}};
    uint32_t count = ranks->sent_count;
    ranks->sent_count = 0;
    if (!exchange_is_slow(&ranks->exchange)) return;
    for (uint32_t i = 0; i < count; i++)
        bytes[is_same_node(ranks, ranks->sent[i].to)] += ranks->sent[i].bytes;
    for (int within_node = 0; within_node < 2; within_node++)
        if (bytes[within_node])
            departures[within_node] =
                exchange_occupy_link(&ranks->exchange, within_node, bytes[within_node]);
    for (uint32_t i = 0; i < count; i++) {
        const struct sent *sent = &ranks->sent[i];
        struct exchange_span *span = &ranks->spans_out[ranks->span_count++];
        *span = departures[is_same_node(ranks, sent->to)];
        span->bytes = sent->bytes;
        job_send_begin(&ranks->out_batch, JOB_CHANNEL_ACTIVATIONS,
                       ranks_tag_of(ranks, TAG_SPAN, sent->expert_batch, sent->node), sent->to,
                       span, sizeof *span);
    }
}

static struct dispatch_message message_at(const struct ranks_exchange *ranks, char *memory,
                                          uint32_t tokens, uint32_t pairs) {
    return dispatch_pack_message_at(memory, tokens, pairs, ranks->exchange.options.dispatch_bytes,
                                    exchange_buffers_sums_groups(ranks));
}

/* The memory for the message with a rank's tokens; with two levels for tokens of the sender's node
 * and local rank. */
static char *in_memory(const struct ranks_exchange *ranks, uint32_t rank) {
    return ranks->window.own + rank * ranks->in_bytes;
}

static struct dispatch_header *head_in(char *memory) {
    return (struct dispatch_header *)(void *)memory;
}

/* The departure of a rank's tokens, indexed like in_memory. */
static struct exchange_span *span_in(const struct ranks_exchange *ranks, uint32_t rank,
                                     uint32_t expert_batch) {
    return &ranks->spans_in[rank * EXCHANGE_EXPERT_BATCHES + expert_batch];
}

/* ---- relays, and waiting ---- */

static void forward_tokens(struct ranks_exchange *ranks, uint32_t node);
static void return_results(struct ranks_exchange *ranks, uint32_t node);

/* Whether a slow link, if there is one, has delivered the message. */
static bool link_is_through(const struct ranks_exchange *ranks, uint32_t from,
                            const struct exchange_span *span) {
    if (!exchange_is_slow(&ranks->exchange)) return true;
    return exchange_link_delivered(&ranks->exchange, is_same_node(ranks, from), span);
}

static bool list_has_arrived(const struct ranks_exchange *ranks, uint32_t node) {
    const struct relay *relay = &ranks->relays[node];
    if (relay->in.open) return false;
    return job_broken() || link_is_through(ranks, peer_on_node(ranks, node), &relay->span);
}

static bool results_have_arrived(const struct ranks_exchange *ranks, uint32_t node) {
    if (ranks->relays[node].in.open || ranks->rows_returned < ranks->row_count) return false;
    for (uint32_t local_rank = 0; local_rank < ranks->node_ranks && !job_broken(); local_rank++)
        for (uint32_t expert_batch = 0;
             expert_batch < EXCHANGE_EXPERT_BATCHES && local_rank != ranks->local_rank;
             expert_batch++)
            if (!link_is_through(
                    ranks, rank_on_node(ranks, local_rank),
                    span_in(ranks, node * ranks->node_ranks + local_rank, expert_batch)))
                return false;
    return true;
}

/* Forwards what has arrived. True: the transfer in progress is finished. */
static bool advance(struct ranks_exchange *ranks) {
    bool over = ranks->in_batch.open == 0;
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        if (!relay->is_forwarded && list_has_arrived(ranks, node)) forward_tokens(ranks, node);
        if (ranks->dispatched && !relay->is_returned && results_have_arrived(ranks, node))
            return_results(ranks, node);
        over &= ranks->dispatched ? relay->in.open == 0 && relay->is_returned : relay->is_forwarded;
    }
    return over;
}

static void advance_all(void) {
    for (struct ranks_exchange *ranks = open_list; ranks; ranks = ranks->next)
        advance(ranks);
}

static bool ranks_is_over(void *context) {
    advance_all();
    return advance(context);
}

static bool batch_is_over(void *context) {
    const struct job_batch *batch = context;
    advance_all();
    return batch->open == 0;
}

/* ---- dispatch ---- */

/* Clears the counts of other ranks' tokens. */
static void clear_others(struct ranks_exchange *ranks, size_t bytes) {
    struct replicas *replicas = &ranks->replicas;
    memset(replicas->all, 0, ranks->rank_count * bytes);
    memcpy((char *)replicas->all + ranks->rank * bytes, replicas->own, bytes);
}

/* If the batch is balanced among replicas, all ranks exchange how many of their tokens chose each
 * expert. */
static void split_replicas(struct ranks_exchange *ranks, uint32_t layer, const uint32_t *experts,
                           uint32_t pairs) {
    struct replicas *replicas = &ranks->replicas;
    size_t experts_all = ranks->exchange.options.placement->experts;
    size_t bytes = experts_all * sizeof *replicas->own;
    struct job_batch reported = {0};
    uint32_t tag = ranks_tag_of(ranks, TAG_COUNTS, 0, 0);
    if (!replicas_begin(replicas, layer, experts, pairs, ranks->exchange.splits_replicas)) return;
    clear_others(ranks, bytes);
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
    if (job_broken()) clear_others(ranks, bytes);
    replicas_split(replicas, layer);
}

/* Chooses the replica for each pair, and marks pairs of one group as one sum. */
static void choose_slots(struct ranks_exchange *ranks, uint32_t layer, const uint32_t *experts,
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
                                     (joins ? DISPATCH_SAME_SUM : 0);
        }
    }
}

/* Uses two levels if that was requested and every rank is alive. */
static void ranks_choose_levels(struct ranks_exchange *ranks) {
    const struct placement *placement = ranks->exchange.options.placement;
    bool two = ranks->exchange.two_levels && ranks->node_count > 1 && placement->node_ranks > 1;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        two &= job_is_alive(rank);
    ranks->nodes = two ? ranks->node_count : 1;
    ranks->node_ranks = ranks->rank_count / ranks->nodes;
    check(ranks->node_ranks > 0);
    ranks->node = ranks->rank / ranks->node_ranks;
    ranks->local_rank = ranks->rank % ranks->node_ranks;
}

/* Receives the tokens of all ranks. A rank that is gone counts as one without tokens. */
static void receive_lists(struct ranks_exchange *ranks) {
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        relay->is_forwarded = relay->is_returned = node == ranks->node;
        for (uint32_t local_rank = 0; local_rank < ranks->node_ranks; local_rank++) {
            uint32_t from = node * ranks->node_ranks + local_rank;
            char *memory = in_memory(ranks, from);
            memset(memory, 0, sizeof(struct dispatch_header));
            if (local_rank != ranks->local_rank)
                ranks_receive(ranks, &ranks->in_batch, TAG_DISPATCH, 0, node,
                              rank_on_node(ranks, local_rank), memory, ranks->in_bytes,
                              span_in(ranks, from, 0));
        }
        if (node == ranks->node) continue;
        memset(relay->received_list, 0, sizeof(struct dispatch_header));
        ranks_receive(ranks, &relay->in, TAG_DISPATCH, 0, node, peer_on_node(ranks, node),
                      relay->received_list, ranks->node_message_bytes, &relay->span);
    }
}

/* The results of a node's tokens that ranks of this node return, within a rank's window. */
static char *results_in(const struct ranks_exchange *ranks, char *memory, uint32_t node) {
    uint32_t at = node == ranks->node ? 0 : 1 + node;
    return memory + ranks->rank_count * ranks->in_bytes + at * ranks->results_bytes;
}

static char *ranks_results_of(const struct ranks_exchange *ranks, uint32_t node) {
    return results_in(ranks, ranks->window.own, node);
}

/* Checks and reads the list of another node's rank, to be forwarded within this node. */
static void read_relayed_list(struct ranks_exchange *ranks, struct relay *relay) {
    const struct exchange_options *options = &ranks->exchange.options;
    const struct dispatch_header *head = head_in(relay->received_list);
    uint32_t tokens = job_broken() ? 0 : head->tokens, pairs = tokens ? head->pairs : 0, pair = 0;
    check(tokens <= options->tokens_max && pairs <= tokens * options->experts_per_token);
    struct dispatch_message list = message_at(ranks, relay->received_list, tokens, pairs);
    relay->return_rows = 0;
    for (uint32_t token = 0; token < tokens; token++) {
        uint32_t end = pair + list.count[token];
        check(list.count[token] <= options->experts_per_token && end <= pairs);
        check(pair == end || !(list.slot[pair] & DISPATCH_SAME_SUM));
        for (; pair < end; pair++) {
            check((list.slot[pair] & ~DISPATCH_SAME_SUM) <
                  ranks->node_ranks * ranks->slots_per_rank);
            relay->return_rows += !(list.slot[pair] & DISPATCH_SAME_SUM);
        }
    }
    check(pair == pairs);
    relay->list =
        (struct dispatch_tokens){.tokens = tokens,
                                 .count = list.count,
                                 .slot = list.slot,
                                 .weight = exchange_buffers_sums_groups(ranks) ? list.weight : NULL,
                                 .rows = list.rows};
    ranks->exchange.counts.bytes_received += list.bytes;
}

/* Another rank's window, if this rank can write to it; else NULL. */
static char *memory_of(const struct ranks_exchange *ranks, uint32_t rank) {
    if (job_broken() || rank == ranks->rank) return NULL;
    return shared_window_of(&ranks->window, rank, job_epoch());
}

/* Where a rank of the node reads this rank's message with a node's tokens, if this rank can write
 * there; else NULL. The peer no longer reads the previous message there: all its results have
 * returned, or it had no tokens. That does not hold once the job is broken. */
static char *target_of(const struct ranks_exchange *ranks, uint32_t node, uint32_t local_rank) {
    char *memory = memory_of(ranks, rank_on_node(ranks, local_rank));
    if (!memory || !ranks->relays[node].peers[local_rank].tokens) return NULL;
    return memory + peer_on_node(ranks, node) * ranks->in_bytes;
}

/* Sends a list to the ranks of this node, or to all ranks. The result rows of this rank's own
 * tokens begin at `first_return`. */
static void send_list(struct ranks_exchange *ranks, uint32_t node, uint32_t first_return,
                      uint32_t *token_rows) {
    struct relay *relay = &ranks->relays[node];
    struct dispatch_pack pack = {.peer_count = ranks->node_ranks,
                                 .slots_each = ranks->slots_per_rank,
                                 .own = ranks->local_rank,
                                 .row_bytes = ranks->exchange.options.dispatch_bytes,
                                 .has_weights = exchange_buffers_sums_groups(ranks),
                                 .in_expert_batches = true,
                                 .from = ranks->window.address,
                                 .peers = relay->peers,
                                 .own_row = relay->own_row};
    dispatch_pack_count(&pack, &relay->list, first_return);
    for (uint32_t local_rank = 0; local_rank < ranks->node_ranks; local_rank++)
        relay->peers[local_rank].target = target_of(ranks, node, local_rank);
    size_t bytes = dispatch_pack_fill(&pack, &relay->list, relay->out,
                                      in_memory(ranks, peer_on_node(ranks, node)), token_rows);
    check(bytes <= ranks->out_bytes);
    for (uint32_t i = 1; i < ranks->node_ranks;
         i++) { /* begin with the next rank, so that not all ranks send to the same one first */
        uint32_t local_rank = (ranks->local_rank + i) % ranks->node_ranks;
        send_tokens(ranks, node, rank_on_node(ranks, local_rank), &relay->peers[local_rank]);
    }
    report_spans(ranks);
}

static void forward_tokens(struct ranks_exchange *ranks, uint32_t node) {
    struct relay *relay = &ranks->relays[node];
    read_relayed_list(ranks, relay);
    send_list(ranks, node, 0, relay->token_rows);
    relay->is_forwarded = true;
}

/* Sends this rank's tokens to the other nodes. Returns the number of result rows of other nodes. */
static uint32_t send_to_nodes(struct ranks_exchange *ranks, const struct dispatch_tokens *list) {
    struct dispatch_pack pack = {.peer_count = ranks->nodes,
                                 .slots_each = ranks->node_ranks * ranks->slots_per_rank,
                                 .own = ranks->node,
                                 .row_bytes = ranks->exchange.options.dispatch_bytes,
                                 .has_weights = exchange_buffers_sums_groups(ranks),
                                 .forwards_own = true,
                                 .peers = ranks->node_peers,
                                 .own_row = ranks->own_token};
    uint32_t returned = dispatch_pack_count(&pack, list, 0);
    check(dispatch_pack_fill(&pack, list, ranks->out, ranks->own_list, ranks->token_rows) <=
          ranks->out_bytes);
    for (uint32_t i = 1; i < ranks->nodes; i++) {
        uint32_t node = (ranks->node + i) % ranks->nodes;
        send_tokens(ranks, ranks->node, peer_on_node(ranks, node), &ranks->node_peers[node]);
    }
    report_spans(ranks);
    return returned;
}

/* Begins a dispatch with two levels; tokens for this node are sent with one. */
static void begin_two_levels(struct ranks_exchange *ranks, const struct dispatch_tokens *list) {
    struct relay *own = &ranks->relays[ranks->node];
    uint32_t first = send_to_nodes(ranks, list), next = 0;
    const struct dispatch_message *kept = &ranks->node_peers[ranks->node].out;
    own->list = (struct dispatch_tokens){.tokens = kept->tokens,
                                         .count = kept->count,
                                         .slot = kept->slot,
                                         .weight = kept->weight,
                                         .rows = list->rows,
                                         .row = ranks->own_token};
    send_list(ranks, ranks->node, first, own->token_rows);
    for (uint32_t pair = 0; pair < list->tokens * list->each; pair++)
        if (ranks->token_rows[pair] == DISPATCH_OWN_ROW)
            ranks->token_rows[pair] = own->token_rows[next++];
    check(next == kept->pairs);
}

static void ranks_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                                 const float *weights, uint32_t tokens, const char *activations) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    check(tokens <= exchange->options.tokens_max && layer < exchange->options.placement->layers);
    ranks_choose_levels(ranks);
    ranks->span_count = 0;
    receive_lists(ranks);
    choose_slots(ranks, layer, experts, tokens);
    const struct dispatch_tokens list = {.tokens = tokens,
                                         .each = exchange->options.experts_per_token,
                                         .slot = ranks->pair_slot,
                                         .weight = weights,
                                         .rows = activations};
    if (ranks->nodes > 1) {
        begin_two_levels(ranks, &list);
    } else {
        ranks->relays[0].list = list;
        send_list(ranks, 0, 0, ranks->token_rows);
    }
}

/* Maps the window that the sender of a message announced. */
static void map_sender(struct ranks_exchange *ranks, uint32_t rank,
                       const struct shared_file *address) {
    if (!job_broken() && job_is_same_host(rank))
        shared_window_map(&ranks->window, rank, address, job_epoch());
}

static void ranks_read_messages(struct ranks_exchange *ranks) {
    for (uint32_t rank = 0; rank < ranks->rank_count && job_broken(); rank++)
        memset(in_memory(ranks, rank), 0, sizeof(struct dispatch_header));
    uint32_t returns_max =
        ranks->exchange.options.tokens_max * ranks->exchange.options.experts_per_token;
    memset(ranks->next_row, 0, ranks->slots_per_rank * sizeof *ranks->next_row);
    ranks->row_count = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        struct dispatch_message *in = &ranks->messages[rank];
        const struct dispatch_header *head = head_in(in_memory(ranks, rank));
        check(head->tokens <= ranks->exchange.options.tokens_max &&
              head->pairs <= head->tokens * ranks->exchange.options.experts_per_token &&
              head->first_return <= returns_max - head->pairs);
        *in = message_at(ranks, in_memory(ranks, rank), head->tokens, head->pairs);
        for (uint32_t pair = 0; pair < in->pairs; pair++) {
            uint32_t slot = in->slot[pair] & ~DISPATCH_SAME_SUM;
            check(slot < ranks->slots_per_rank);
            ranks->next_row[slot]++;
        }
        if (rank % ranks->node_ranks != ranks->local_rank) {
            ranks->exchange.counts.bytes_received += in->bytes;
            map_sender(ranks, rank_on_node(ranks, rank % ranks->node_ranks), &head->from);
        }
        ranks->row_count += in->pairs;
        ranks->exchange.counts.tokens_dispatched += in->tokens;
    }
    ranks->exchange.counts.pairs += ranks->row_count;
}

/* The batch in which the result of `pairs` pairs of a message, from `first` on, returns. */
static uint32_t ranks_expert_batch_of(const struct ranks_exchange *ranks,
                                      const struct dispatch_message *in, uint32_t first,
                                      uint32_t pairs) {
    return dispatch_pack_expert_batch(in->slot + first, pairs, ranks->slots_per_rank, in->pairs);
}

/* Counts the results of each batch. */
static void count_returning(struct ranks_exchange *ranks) {
    memset(ranks->expert_batch_sums, 0, sizeof ranks->expert_batch_sums);
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        const struct dispatch_message *in = &ranks->messages[rank];
        struct returning *returning = &ranks->returning[rank];
        *returning = (struct returning){.rows = NULL};
        for (uint32_t pair = 0, joined; pair < in->pairs; pair += joined) {
            joined = dispatch_pack_joined(in->slot, pair, in->pairs);
            uint32_t expert_batch = ranks_expert_batch_of(ranks, in, pair, joined);
            returning->expert_batches[expert_batch]++;
            ranks->expert_batch_sums[expert_batch] += joined > 1;
        }
    }
}

/* Whether another rank waits for results of a batch. */
static bool expert_batch_leaves(const struct ranks_exchange *ranks, uint32_t expert_batch) {
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        if (rank % ranks->node_ranks != ranks->local_rank &&
            ranks->returning[rank].expert_batches[expert_batch])
            return true;
    return false;
}

/* Builds the groups, and turns next_row from each slot's number of rows into its first row. */
static void form_groups(struct ranks_exchange *ranks) {
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
               dispatch_pack_batch_of_slot(ranks->groups[group].slot, ranks->slots_per_rank) ==
                   expert_batch;
             group++)
            ranks->expert_batch_rows[expert_batch] += ranks->groups[group].row_count;
        if (group)
            ranks->groups[group - 1].results_leave |= expert_batch_leaves(ranks, expert_batch);
    }
}

/* The next places for results that are summed here. */
struct summands {
    char *next;
    const char **next_row;
};

/* Assigns rows and results of a rank's token: `pairs` pairs from `first` on, one sum if there are
 * several. */
static void place_pairs(struct ranks_exchange *ranks, uint32_t rank, uint32_t first, uint32_t pairs,
                        uint32_t token_index, struct summands *summands) {
    const struct dispatch_message *in = &ranks->messages[rank];
    size_t bytes = ranks->exchange.options.combine_bytes;
    uint32_t expert_batch = ranks_expert_batch_of(ranks, in, first, pairs);
    char *result = ranks->returning[rank].next[expert_batch];
    ranks->returning[rank].next[expert_batch] += bytes;
    if (pairs > 1) {
        ranks->sums[ranks->next_sum[expert_batch]++] =
            (struct exchange_sum){.count = pairs,
                                  .weights = in->weight + first,
                                  .results = summands->next_row,
                                  .sum = result};
        result = summands->next;
        summands->next += pairs * bytes;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t row = ranks->next_row[in->slot[first + i] & ~DISPATCH_SAME_SUM]++;
        ranks->row_token[row] = token_index;
        ranks->row_result[row] = result + i * bytes;
        if (pairs > 1) *summands->next_row++ = ranks->row_result[row];
    }
}

static void place_message(struct ranks_exchange *ranks, uint32_t rank, uint32_t token_index,
                          struct summands *summands) {
    const struct exchange_options *options = &ranks->exchange.options;
    const struct dispatch_message *in = &ranks->messages[rank];
    const struct relay *relay = &ranks->relays[rank / ranks->node_ranks];
    bool own = rank % ranks->node_ranks == ranks->local_rank;
    uint32_t pair = 0;
    for (uint32_t token = 0; token < in->tokens; token++, token_index++) {
        const char *rows = own ? relay->list.rows : in->rows;
        size_t at = own ? relay->own_row[token] : token;
        ranks->token_data[token_index] = rows + at * options->dispatch_bytes;
        uint32_t end = pair + in->count[token];
        check(end <= in->pairs && (pair == end || !(in->slot[pair] & DISPATCH_SAME_SUM)));
        for (uint32_t joined; pair < end; pair += joined) {
            joined = dispatch_pack_joined(in->slot, pair, end);
            check(joined == 1 || exchange_buffers_sums_groups(ranks));
            place_pairs(ranks, rank, pair, joined, token_index, summands);
        }
    }
    check(pair == in->pairs);
}

/* Where a rank wants the results of its rows: in this rank's window, or in the sender's. NULL: they
 * must be sent. */
static char *destination_rows(const struct ranks_exchange *ranks, uint32_t rank) {
    uint32_t node = rank / ranks->node_ranks, local_rank = rank % ranks->node_ranks;
    const struct dispatch_header *head = head_in(in_memory(ranks, rank));
    char *memory = local_rank == ranks->local_rank
                       ? ranks->window.own
                       : memory_of(ranks, rank_on_node(ranks, local_rank));
    if (!memory) return NULL;
    return results_in(ranks, memory, node) +
           (size_t)head->first_return * ranks->exchange.options.combine_bytes;
}

/* Assigns memory to the results for a rank, batch after batch: where the rank wants them, or else
 * in `results_out`, from where they are sent. Returns the rest of `results_out`. */
static char *place_returning(struct ranks_exchange *ranks, uint32_t rank, char *results_out) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    struct returning *returning = &ranks->returning[rank];
    char *wanted = destination_rows(ranks, rank), *rows = wanted ? wanted : results_out;
    returning->rows = rows;
    returning->in_place = wanted != NULL;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        returning->next[expert_batch] = rows;
        rows += returning->expert_batches[expert_batch] * bytes;
    }
    return wanted ? results_out : rows;
}

static void place_rows(struct ranks_exchange *ranks) {
    struct summands summands = {.next = ranks->summands, .next_row = ranks->sum_rows};
    uint32_t token_index = 0, sums = 0;
    char *results_out = ranks->results_out;
    for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++) {
        ranks->next_sum[expert_batch] = sums;
        sums += ranks->expert_batch_sums[expert_batch];
    }
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        results_out = place_returning(ranks, rank, results_out);
        place_message(ranks, rank, token_index, &summands);
        token_index += ranks->messages[rank].tokens;
    }
}

/* Adds a departure to exchange.departures once its message has arrived; a rank that sent nothing
 * has none. */
static void gather_span(struct ranks_exchange *ranks, uint32_t from, struct exchange_span *span,
                        int64_t *link_ns) {
    struct exchange_span *all = &ranks->exchange.departures[is_same_node(ranks, from)];
    if (span->ended_ns == 0) return;
    *link_ns += span->ended_ns - span->began_ns;
    if (all->ended_ns == 0 || span->began_ns < all->began_ns) all->began_ns = span->began_ns;
    if (span->ended_ns > all->ended_ns) all->ended_ns = span->ended_ns;
    all->bytes += span->bytes;
    *span = (struct exchange_span){0};
}

static void gather_spans(struct ranks_exchange *ranks) {
    int64_t *most_ns = &ranks->exchange.link_ns;
    if (!exchange_is_slow(&ranks->exchange)) return;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        int64_t link_ns = 0;
        for (uint32_t expert_batch = 0; expert_batch < EXCHANGE_EXPERT_BATCHES; expert_batch++)
            gather_span(ranks, rank_on_node(ranks, rank % ranks->node_ranks),
                        span_in(ranks, rank, expert_batch), &link_ns);
        if (link_ns > *most_ns) *most_ns = link_ns;
    }
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        int64_t link_ns = 0;
        gather_span(ranks, peer_on_node(ranks, node), &ranks->relays[node].span, &link_ns);
        if (link_ns > *most_ns) *most_ns = link_ns;
    }
}

/* A batch that is not done, if there is one. */
static const struct job_batch *open_batch(const struct ranks_exchange *ranks) {
    for (uint32_t node = 0; node < ranks->nodes; node++)
        if (ranks->relays[node].in.open) return &ranks->relays[node].in;
    return &ranks->in_batch;
}

static bool ranks_arrived(struct exchange *exchange) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    job_done(open_batch(ranks));
    bool over = ranks_is_over(ranks);
    if (over) gather_spans(ranks);
    return over;
}

static void receive_results(struct ranks_exchange *ranks) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    for (uint32_t node = 0; node < ranks->nodes; node++) {
        struct relay *relay = &ranks->relays[node];
        for (uint32_t local_rank = 0; local_rank < ranks->node_ranks; local_rank++) {
            const struct dispatch_peer *peer = &relay->peers[local_rank];
            char *rows = ranks_results_of(ranks, node) + peer->first_return * bytes;
            for (uint32_t expert_batch = 0;
                 expert_batch < EXCHANGE_EXPERT_BATCHES && local_rank != ranks->local_rank;
                 expert_batch++) {
                size_t expert_batch_bytes = peer->expert_batch_returns[expert_batch] * bytes;
                if (!expert_batch_bytes) continue;
                ranks_receive(ranks, &relay->in, TAG_COMBINE, expert_batch, node,
                              rank_on_node(ranks, local_rank), rows, expert_batch_bytes,
                              span_in(ranks, node * ranks->node_ranks + local_rank, expert_batch));
                rows += expert_batch_bytes;
            }
        }
        const struct dispatch_peer *peer = &ranks->node_peers[node];
        if (node == ranks->node || !peer->return_rows) continue;
        ranks_receive(ranks, &ranks->in_batch, TAG_COMBINE, 0, ranks->node,
                      peer_on_node(ranks, node),
                      ranks_results_of(ranks, ranks->node) + peer->first_return * bytes,
                      peer->return_rows * bytes, &relay->span);
    }
}

static void ranks_dispatch_finish(struct exchange *exchange,
                                  struct exchange_received *received_out) {
    struct ranks_exchange *ranks = ranks_of(exchange);
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
    const struct ranks_exchange *ranks = (const struct ranks_exchange *)exchange;
    for (uint32_t pair = 0; pair < pairs; pair++)
        slots_out[pair] = ranks->pair_slot[pair] & ~DISPATCH_SAME_SUM;
}

static uint32_t ranks_nodes_of(const struct exchange *exchange) {
    return ((const struct ranks_exchange *)exchange)->nodes;
}

static uint32_t relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                        const char **rows_out) {
    const struct ranks_exchange *ranks = (const struct ranks_exchange *)exchange;
    const struct dispatch_tokens *list = &ranks->relays[node].list;
    uint32_t per_token = exchange->options.experts_per_token, pair = 0;
    check(node < ranks->nodes && node != ranks->node && ranks->relays[node].is_forwarded);
    for (uint32_t token = 0; token < list->tokens; token++)
        for (uint32_t k = 0; k < per_token; k++)
            *slots_out++ =
                k < list->count[token] ? list->slot[pair++] & ~DISPATCH_SAME_SUM : EXCHANGE_NO_SLOT;
    *rows_out = list->rows;
    return list->tokens;
}

/* ---- combine ---- */

static char *ranks_result(struct exchange *exchange, uint32_t row) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    check(row < ranks->row_count);
    return ranks->row_result[row];
}

static void ranks_make_sums(const struct ranks_exchange *ranks, uint32_t first, uint32_t count) {
    const struct exchange_options *options = &ranks->exchange.options;
    if (count) options->sum(options->sum_context, ranks->sums + first, count);
}

/* Sends the current batch's results to the ranks of this node that sent tokens of `node`. */
static void send_results(struct ranks_exchange *ranks, uint32_t node) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    for (uint32_t local_rank = 0; local_rank < ranks->node_ranks; local_rank++) {
        struct returning *returning = &ranks->returning[node * ranks->node_ranks + local_rank];
        size_t expert_batch_bytes = returning->expert_batches[ranks->expert_batch] * bytes;
        if (local_rank == ranks->local_rank || !expert_batch_bytes) continue;
        send_rows(ranks, ranks->expert_batch, node, rank_on_node(ranks, local_rank),
                  returning->rows, expert_batch_bytes, returning->in_place);
        returning->rows += expert_batch_bytes;
    }
    report_spans(ranks);
}

static void ranks_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    check(first_row == ranks->rows_returned && row_count <= ranks->row_count - first_row);
    ranks->rows_returned += row_count;
    for (; ranks->expert_batch < EXCHANGE_EXPERT_BATCHES; ranks->expert_batch++) {
        uint32_t sums = ranks->expert_batch_sums[ranks->expert_batch];
        if (ranks->rows_returned < ranks->expert_batch_rows[ranks->expert_batch]) return;
        ranks_make_sums(ranks, ranks->next_sum[ranks->expert_batch] - sums, sums);
        for (uint32_t i = 1; i <= ranks->nodes; i++) /* other nodes first */
            send_results(ranks, (ranks->node + i) % ranks->nodes);
    }
}

/* Returns a node's results to it. Each sum is one row, computed here or by the one rank that had
 * all of it. */
static void return_results(struct ranks_exchange *ranks, uint32_t node) {
    struct relay *relay = &ranks->relays[node];
    const struct dispatch_tokens *list = &relay->list;
    size_t bytes = ranks->exchange.options.combine_bytes;
    const char **row = ranks->sum_rows, *results = ranks_results_of(ranks, node);
    char *to = relay->results_out;
    uint32_t pair = 0, sum_count = 0;
    relay->is_returned = true;
    if (!relay->return_rows || job_broken()) return;
    for (uint32_t token = 0; token < list->tokens; token++) {
        uint32_t end = pair + list->count[token], joined;
        for (; pair < end; pair += joined, to += bytes) {
            const uint32_t *rows = relay->token_rows + pair;
            joined = dispatch_pack_joined(list->slot, pair, end);
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
    send_rows(ranks, 0, node, peer_on_node(ranks, node), relay->results_out,
              relay->return_rows * bytes, false);
    report_spans(ranks);
}

/* Result rows that other peers send. */
static uint32_t rows_from_others(const struct dispatch_peer *peers, uint32_t count, uint32_t own) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i != own) rows += peers[i].return_rows;
    return rows;
}

/* Zeroes the results in a broken job: their memory holds arbitrary bytes, and the model computes
 * with them. */
static void clear_results(struct ranks_exchange *ranks) {
    const struct dispatch_peer *last = &ranks->relays[ranks->node].peers[ranks->node_ranks - 1];
    size_t rows = last->first_return + last->return_rows;
    memset(ranks_results_of(ranks, ranks->node), 0, rows * ranks->exchange.options.combine_bytes);
}

static void ranks_combine_finish(struct exchange *exchange,
                                 struct exchange_returned *returned_out) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    uint32_t rows = 0;
    check(ranks->rows_returned == ranks->row_count);
    job_wait_until(ranks_is_over, ranks);
    job_wait_until(batch_is_over, &ranks->out_batch);
    gather_spans(ranks);
    ranks->dispatched = false;
    if (job_broken()) clear_results(ranks);
    for (uint32_t node = 0; node < ranks->nodes; node++)
        rows += rows_from_others(ranks->relays[node].peers, ranks->node_ranks, ranks->local_rank);
    if (ranks->nodes > 1) rows += rows_from_others(ranks->node_peers, ranks->nodes, ranks->node);
    exchange->counts.bytes_received += (uint64_t)rows * exchange->options.combine_bytes;
    *returned_out = (struct exchange_returned){.token_rows = ranks->token_rows,
                                               .results = ranks_results_of(ranks, ranks->node)};
}

static void progress(struct exchange *exchange) {
    job_progress();
    advance_all();
}

/* ---- opening and closing ---- */

static void close_ranks(struct exchange *exchange) {
    struct ranks_exchange *ranks = ranks_of(exchange);
    for (struct ranks_exchange **at = &open_list; *at; at = &(*at)->next)
        if (*at == ranks) {
            *at = ranks->next;
            break;
        }
    exchange_buffers_close(ranks);
    replicas_close(&ranks->replicas);
    free(ranks);
}

static const struct exchange_backend ranks_backend = {
    .moves_rows = true,
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
    struct ranks_exchange *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    ranks->exchange.backend = &ranks_backend;
    ranks->exchange.options = *options;
    ranks->rank = options->rank;
    ranks->rank_count = placement->ranks;
    ranks->slots_per_rank = placement->slots_per_rank;
    ranks->node_count = placement->ranks / placement->node_ranks;
    enum status status = exchange_buffers_open(ranks, error);
    if (status == STATUS_OK)
        status = replicas_open(&ranks->replicas, placement, options->rank, error);
    if (status != STATUS_OK) {
        close_ranks(&ranks->exchange);
        return status;
    }
    ranks->next = open_list;
    open_list = ranks;
    *exchange_out = &ranks->exchange;
    return STATUS_OK;
}
