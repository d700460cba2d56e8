/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/exchange_buffers.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/bytes.h"

bool exchange_buffers_sum_groups(const struct ranks_exchange *ranks) {
    return ranks->exchange.options.group_experts != 0;
}

static void *exchange_buffers_allocate(const struct ranks_exchange *ranks, size_t *used,
                                       size_t bytes) {
    size_t at = round_up(*used, DISPATCH_ALIGN);
    *used = at + bytes;
    return ranks->memory ? (char *)ranks->memory + at : NULL;
}

static void allocate_relays(struct ranks_exchange *ranks, size_t *used) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max, pairs = tokens * options->experts_per_token;
    uint32_t own = ranks->rank / options->placement->node_ranks;
    for (uint32_t node = 0; node < ranks->node_count; node++) {
        struct relay *relay = &ranks->relays[node];
        bool passes_on = node != own;
        relay->received_list =
            exchange_buffers_allocate(ranks, used, passes_on ? ranks->list_bytes : 0);
        relay->out = exchange_buffers_allocate(ranks, used, ranks->out_bytes);
        relay->own_row = exchange_buffers_allocate(ranks, used, tokens * sizeof *relay->own_row);
        relay->token_rows =
            exchange_buffers_allocate(ranks, used, pairs * sizeof *relay->token_rows);
        relay->results_out =
            exchange_buffers_allocate(ranks, used, passes_on ? pairs * options->combine_bytes : 0);
    }
}

static size_t message_bytes(const struct ranks_exchange *ranks, uint32_t slots) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max, reach = options->experts_per_token;
    if (reach > slots) reach = slots;
    return round_up(dispatch_pack_rows_offset((uint32_t)tokens, (uint32_t)(tokens * reach),
                                              exchange_buffers_sum_groups(ranks)) +
                        tokens * options->dispatch_bytes,
                    DISPATCH_ALIGN);
}

/* Returns the bytes of all buffers, and assigns their addresses if the memory is mapped. */
static size_t exchange_buffers_allocate_all(struct ranks_exchange *ranks) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max, pairs = tokens * options->experts_per_token, used = 0;
    size_t all_tokens = tokens * ranks->rank_count, reach = options->experts_per_token;
    if (reach > ranks->slots_per_rank) reach = ranks->slots_per_rank;
    size_t rows_max = all_tokens * reach,
           sums_max = exchange_buffers_sum_groups(ranks) ? rows_max : 0;
    bool nodes = ranks->node_count > 1;
    ranks->results_bytes = round_up(pairs * options->combine_bytes, DISPATCH_ALIGN);
    ranks->in_bytes = message_bytes(ranks, ranks->slots_per_rank);
    ranks->list_bytes =
        message_bytes(ranks, options->placement->node_ranks * ranks->slots_per_rank);
    ranks->out_bytes = pairs * (options->dispatch_bytes + 3 * sizeof(uint32_t)) +
                       (size_t)ranks->rank_count * 4 * DISPATCH_ALIGN;
    ranks->pair_slot = exchange_buffers_allocate(ranks, &used, pairs * sizeof *ranks->pair_slot);
    ranks->token_rows = exchange_buffers_allocate(ranks, &used, pairs * sizeof *ranks->token_rows);
    ranks->own_token =
        exchange_buffers_allocate(ranks, &used, nodes ? tokens * sizeof *ranks->own_token : 0);
    ranks->own_list = exchange_buffers_allocate(ranks, &used, nodes ? ranks->list_bytes : 0);
    ranks->out = exchange_buffers_allocate(ranks, &used, nodes ? ranks->out_bytes : 0);
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

static size_t in_bytes_all(const struct ranks_exchange *ranks) {
    uint32_t relays = ranks->node_count > 1 ? ranks->node_count : 0;
    return ranks->rank_count * ranks->in_bytes + (1 + relays) * ranks->results_bytes;
}

static enum status map_buffers(struct ranks_exchange *ranks, struct error *error) {
    size_t bytes = exchange_buffers_allocate_all(ranks);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes for the expert exchange of %u ranks; lower the "
                         "tokens per step",
                         bytes, ranks->rank_count);
    ranks->memory = memory;
    ranks->mapped_bytes = bytes;
    exchange_buffers_allocate_all(ranks);
    return shared_window_open(&ranks->window, in_bytes_all(ranks), ranks->rank_count, error);
}

static enum status open_arrays(struct ranks_exchange *ranks, struct error *error) {
    size_t count = ranks->rank_count, nodes = ranks->node_count;
    ranks->relays = calloc(nodes, sizeof *ranks->relays);
    ranks->node_peers = calloc(nodes, sizeof *ranks->node_peers);
    ranks->messages = calloc(count, sizeof *ranks->messages);
    ranks->returning = calloc(count, sizeof *ranks->returning);
    ranks->spans_in = calloc(count * EXCHANGE_EXPERT_BATCHES, sizeof *ranks->spans_in);
    ranks->spans_out =
        calloc(count * (1 + EXCHANGE_EXPERT_BATCHES) + 2 * nodes, sizeof *ranks->spans_out);
    ranks->sent = calloc(count + nodes, sizeof *ranks->sent);
    ranks->groups = calloc(ranks->slots_per_rank, sizeof *ranks->groups);
    ranks->next_row = calloc(ranks->slots_per_rank, sizeof *ranks->next_row);
    bool whole = ranks->relays && ranks->node_peers && ranks->messages && ranks->returning &&
                 ranks->spans_in && ranks->spans_out && ranks->sent && ranks->groups &&
                 ranks->next_row;
    for (uint32_t node = 0; whole && node < nodes; node++) {
        ranks->relays[node].peers = calloc(count, sizeof *ranks->relays[node].peers);
        whole = ranks->relays[node].peers != NULL;
    }
    if (whole) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the exchange of %u ranks",
                     ranks->rank_count);
}

enum status exchange_buffers_open(struct ranks_exchange *ranks, struct error *error) {
    enum status status = open_arrays(ranks, error);
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
