/* SPDX-License-Identifier: Apache-2.0
 * Sizes and allocates the buffers of expert-parallel dispatch and combine (all-to-all).
 */
#include "compute/exchange/exchange_buffers.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/bytes.h"

bool exchange_buffers_sums_groups(const struct ranks_exchange *ranks) {
    return ranks->exchange.options.group_experts != 0;
}

/* Reserves `bytes` of the mapping. Returns NULL while memory is not mapped and only the total is
 * computed. */
static void *exchange_buffers_allocate(const struct ranks_exchange *ranks, size_t *used,
                                       size_t bytes) {
    size_t at = round_up(*used, DISPATCH_ALIGN);
    *used = at + bytes;
    return ranks->memory ? (char *)ranks->memory + at : NULL;
}

/* One relay per node. A relay for another node also has buffers for what it receives from that node
 * and returns to it. */
static void allocate_relays(struct ranks_exchange *ranks, size_t *used) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max;
    size_t pairs = tokens * options->experts_per_token; /* (token, expert) pairs */
    uint32_t own_node = ranks->rank / options->placement->node_ranks;
    for (uint32_t node = 0; node < ranks->node_count; node++) {
        struct relay *relay = &ranks->relays[node];
        bool is_other_node = node != own_node;
        relay->received_list =
            exchange_buffers_allocate(ranks, used, is_other_node ? ranks->node_message_bytes : 0);
        relay->out = exchange_buffers_allocate(ranks, used, ranks->out_bytes);
        relay->own_row = exchange_buffers_allocate(ranks, used, tokens * sizeof *relay->own_row);
        relay->token_rows =
            exchange_buffers_allocate(ranks, used, pairs * sizeof *relay->token_rows);
        relay->results_out = exchange_buffers_allocate(
            ranks, used, is_other_node ? pairs * options->combine_bytes : 0);
    }
}

/* The largest dispatch message to a peer with `slots` expert slots: a rank, or all ranks of a
 * node. */
static size_t message_bytes(const struct ranks_exchange *ranks, uint32_t slots) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max, slots_per_token_max = options->experts_per_token;
    if (slots_per_token_max > slots) slots_per_token_max = slots;
    return round_up(dispatch_pack_rows_offset((uint32_t)tokens,
                                              (uint32_t)(tokens * slots_per_token_max),
                                              exchange_buffers_sums_groups(ranks)) +
                        tokens * options->dispatch_bytes,
                    DISPATCH_ALIGN);
}

/* Lays out all buffers and returns their total size. Called twice: first to compute the size, then,
 * once the memory is mapped, to set the addresses. */
static size_t exchange_buffers_allocate_all(struct ranks_exchange *ranks) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t used = 0, tokens = options->tokens_max, all_tokens = tokens * ranks->rank_count;
    size_t pairs = tokens * options->experts_per_token; /* (token, expert) pairs */
    size_t slots_per_token_max = options->experts_per_token;
    if (slots_per_token_max > ranks->slots_per_rank) slots_per_token_max = ranks->slots_per_rank;
    size_t rows_max = all_tokens * slots_per_token_max,
           sums_max = exchange_buffers_sums_groups(ranks) ? rows_max : 0;
    bool is_multi_node = ranks->node_count > 1;
    ranks->results_bytes = round_up(pairs * options->combine_bytes, DISPATCH_ALIGN);
    ranks->in_bytes = message_bytes(ranks, ranks->slots_per_rank);
    ranks->node_message_bytes =
        message_bytes(ranks, options->placement->node_ranks * ranks->slots_per_rank);
    /* The worst case: each pair sends its own row with a count, a slot and a weight; each peer gets
     * a header and padding. */
    ranks->out_bytes = pairs * (options->dispatch_bytes + 3 * sizeof(uint32_t)) +
                       (size_t)ranks->rank_count * 4 * DISPATCH_ALIGN;
    ranks->pair_slot = exchange_buffers_allocate(ranks, &used, pairs * sizeof *ranks->pair_slot);
    ranks->token_rows = exchange_buffers_allocate(ranks, &used, pairs * sizeof *ranks->token_rows);
    ranks->own_token = exchange_buffers_allocate(
        ranks, &used, is_multi_node ? tokens * sizeof *ranks->own_token : 0);
    ranks->own_list =
        exchange_buffers_allocate(ranks, &used, is_multi_node ? ranks->node_message_bytes : 0);
    ranks->out = exchange_buffers_allocate(ranks, &used, is_multi_node ? ranks->out_bytes : 0);
    ranks->token_data =
        exchange_buffers_allocate(ranks, &used, all_tokens * sizeof *ranks->token_data);
    ranks->row_token = exchange_buffers_allocate(ranks, &used, rows_max * sizeof *ranks->row_token);
    ranks->row_result =
        exchange_buffers_allocate(ranks, &used, rows_max * sizeof *ranks->row_result);
    ranks->results_out = exchange_buffers_allocate(ranks, &used, rows_max * options->combine_bytes);
    ranks->summands = exchange_buffers_allocate(ranks, &used, sums_max * options->combine_bytes);
    ranks->sums = exchange_buffers_allocate(ranks, &used, sums_max * sizeof *ranks->sums);
    ranks->sum_rows = exchange_buffers_allocate(ranks, &used, sums_max * sizeof *ranks->sum_rows);
    allocate_relays(ranks, &used);
    return used;
}

/* Size of the shared window: one message from each rank, then the results of this rank's tokens
 * and, with several nodes, one area per node for the results of the tokens that this rank relays
 * (the own node's area is unused). */
static size_t window_bytes(const struct ranks_exchange *ranks) {
    uint32_t relays = ranks->node_count > 1 ? ranks->node_count : 0;
    return ranks->rank_count * ranks->in_bytes + (1 + relays) * ranks->results_bytes;
}

static enum status map_buffers(struct ranks_exchange *ranks, struct error *error) {
    size_t bytes = exchange_buffers_allocate_all(ranks);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes for the expert exchange among %u ranks; lower the "
                         "maximum number of tokens per step",
                         bytes, ranks->rank_count);
    ranks->memory = memory;
    ranks->mapped_bytes = bytes;
    exchange_buffers_allocate_all(ranks);
    return shared_window_open(&ranks->window, window_bytes(ranks), ranks->rank_count, error);
}

static enum status allocate_arrays(struct ranks_exchange *ranks, struct error *error) {
    size_t count = ranks->rank_count, nodes = ranks->node_count;
    ranks->relays = calloc(nodes, sizeof *ranks->relays);
    ranks->node_peers = calloc(nodes, sizeof *ranks->node_peers);
    ranks->messages = calloc(count, sizeof *ranks->messages);
    ranks->returning = calloc(count, sizeof *ranks->returning);
    ranks->spans_in = calloc(count * EXCHANGE_EXPERT_BATCHES, sizeof *ranks->spans_in);
    /* Messages sent from one dispatch to the next, at most: to each rank its tokens and
     * EXCHANGE_EXPERT_BATCHES batches of results; with two levels also, to each node, tokens and
     * relayed results. */
    ranks->spans_out =
        calloc(count * (1 + EXCHANGE_EXPERT_BATCHES) + 2 * nodes, sizeof *ranks->spans_out);
    ranks->sent = calloc(count + nodes, sizeof *ranks->sent);
    ranks->groups = calloc(ranks->slots_per_rank, sizeof *ranks->groups);
    ranks->next_row = calloc(ranks->slots_per_rank, sizeof *ranks->next_row);
    bool allocated = ranks->relays && ranks->node_peers && ranks->messages && ranks->returning &&
                     ranks->spans_in && ranks->spans_out && ranks->sent && ranks->groups &&
                     ranks->next_row;
    for (uint32_t node = 0; allocated && node < nodes; node++) {
        ranks->relays[node].peers = calloc(count, sizeof *ranks->relays[node].peers);
        allocated = ranks->relays[node].peers != NULL;
    }
    if (allocated) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange among %u ranks",
                     ranks->rank_count);
}

enum status exchange_buffers_open(struct ranks_exchange *ranks, struct error *error) {
    enum status status = allocate_arrays(ranks, error);
    return status ? status : map_buffers(ranks, error);
}

void exchange_buffers_close(struct ranks_exchange *ranks) {
    for (uint32_t node = 0; node < ranks->node_count && ranks->relays; node++)
        free(ranks->relays[node].peers);
    shared_window_close(&ranks->window);
    if (ranks->memory) munmap(ranks->memory, ranks->mapped_bytes);
    free(ranks->relays);
    free(ranks->node_peers);
    free(ranks->messages);
    free(ranks->returning);
    free(ranks->spans_in);
    free(ranks->spans_out);
    free(ranks->sent);
    free(ranks->groups);
    free(ranks->next_row);
}
