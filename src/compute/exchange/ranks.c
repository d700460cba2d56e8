/* SPDX-License-Identifier: Apache-2.0
 * The exchange among ranks, over the job's messages.
 *
 * A dispatch is one message from every rank to every other, tokens or none: the receiver knows whom
 * to wait for, so no counts go ahead. It says which tokens go to which of the receiver's slots and
 * brings each token's activations once:
 *
 *   u32 tokens, pairs; u32 count[tokens]; u32 slot[pairs]; f32 weight[pairs]; (to 64 bytes)
 *   row[tokens]
 *
 * Weights go along where the sum is by groups. There, a token's pairs of a group that all go to one
 * other rank are summed by it: a slot with SLOT_JOINS is of the same sum as the pair before it.
 *
 * A combine is a message back of the results in the order of those pairs, where there were any, one
 * for the pairs of a sum; both sides know how long it is, and the receiver has said where it goes
 * before the first expert runs. A token's pairs are listed by ascending expert, and where each result
 * will come to lie is known at dispatch: nothing is sorted on the way back.
 *
 * Once the job is broken (job.h), a dispatch brings no rows, and a combine brings zeros: the step goes
 * on to its end without waiting, and nobody uses what it computes.
 *
 * What lies in this rank's own slots takes the same way without a message, and its rows are not copied:
 * they are read where the caller has them. Buffers are for the worst case, every token of every
 * rank here, in one mapping whose pages come when they are first needed.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "compute/exchange/carrier.h"
#include "compute/exchange/job.h"
#include "compute/exchange/replicas.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MESSAGE_ALIGN 64
#define SLOT_JOINS 0x80000000u

struct message {
    uint32_t tokens, pairs;
    uint32_t *count; /* [tokens] slots of the token */
    uint32_t *slot;  /* [pairs] of the receiver's in the layer, perhaps with SLOT_JOINS */
    float *weight;   /* [pairs] by groups */
    char *rows;      /* [tokens][dispatch_bytes] activations */
    size_t bytes;
};

/* Dealings with one rank. */
struct rank_peer {
    uint32_t tokens, pairs;             /* of ours that go there */
    uint32_t tokens_placed, pairs_laid; /* of ours, in the message so far */
    uint32_t returns, returns_laid;     /* rows that come back for them */
    uint32_t returning;                 /* rows that go back there */
    uint32_t first_return;              /* row of `results` where its results begin */
    uint32_t last_token;                /* the last of ours that goes there, plus one */
    struct message out, in;
};

struct ranks {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t rank, rank_count, slots_per_rank;
    uint32_t row_count, rows_returned, group_count;
    bool dispatched;                      /* the transfer under way is a combine */
    struct job_batch in_batch, out_batch; /* of the transfers under way */
    struct replicas replicas;
    struct rank_peer *peers;         /* [ranks] */
    struct exchange_span *spans_in;  /* [ranks] */
    struct exchange_span *spans_out; /* [2][ranks] of the dispatch, then of the combine */
    struct exchange_group *groups;   /* [slots_per_rank] */
    uint32_t *next_row;              /* [slots_per_rank] */
    const char *activations;         /* the caller's */
    uint32_t sum_count;
    /* The arrays below lie in the mapping. */
    uint32_t *own_token;       /* [tokens_max] those that this rank itself computes, ascending */
    uint32_t *pair_slot;       /* [tokens_max][experts_per_token] the slot chosen, among all ranks',
                              * perhaps with SLOT_JOINS */
    uint32_t *token_rows;      /* [tokens_max][experts_per_token] row of `results` */
    char *out;                 /* messages to the ranks, behind each other */
    char *in;                  /* [ranks][in_bytes] */
    const char **token_data;   /* [ranks * tokens_max] */
    uint32_t *row_token;       /* [rows_max] */
    char **row_result;         /* [rows_max] */
    char *results;             /* [tokens_max * experts_per_token][combine_bytes] come back to us */
    char *back;                /* [rows_max][combine_bytes] on their way back to others */
    char *held;                /* [rows_max][combine_bytes] by groups: results to be summed here */
    struct exchange_sum *sums; /* [rows_max] by groups */
    size_t in_bytes, out_bytes, mapped_bytes;
    void *memory;
};

enum exchange_tag { TAG_DISPATCH, TAG_COMBINE, TAG_SPAN, TAG_COUNTS, TAGS_PER_CHANNEL };

static struct ranks *ranks_of(struct exchange *exchange) {
    return (struct ranks *)exchange;
}

static uint32_t tag_of(const struct ranks *ranks, enum exchange_tag tag) {
    return ranks->exchange.options.channel * TAGS_PER_CHANNEL + (uint32_t)tag;
}

static void receive(struct ranks *ranks, enum exchange_tag tag, uint32_t from, void *data,
                    size_t bytes) {
    job_receive_begin(&ranks->in_batch, JOB_LANE_ACTIVATIONS, tag_of(ranks, tag), from, data,
                      bytes);
}

static void send_to(struct ranks *ranks, enum exchange_tag tag, uint32_t to, const void *data,
                    size_t bytes) {
    job_send_begin(&ranks->out_batch, JOB_LANE_ACTIVATIONS, tag_of(ranks, tag), to, data, bytes);
}

static void await_span(struct ranks *ranks, uint32_t rank) {
    if (!exchange_is_slow(&ranks->exchange)) return;
    receive(ranks, TAG_SPAN, rank, &ranks->spans_in[rank], sizeof *ranks->spans_in);
}

static bool sums_groups(const struct ranks *ranks) {
    return ranks->exchange.options.group_experts != 0;
}

static size_t rows_at(const struct ranks *ranks, uint32_t tokens, uint32_t pairs) {
    size_t words = 2 + (size_t)tokens + (size_t)pairs * (sums_groups(ranks) ? 2 : 1);
    return round_up(words * sizeof(uint32_t), MESSAGE_ALIGN);
}

/* The parts of a message that lies, or will lie, in memory. */
static struct message message_at(const struct ranks *ranks, char *memory, uint32_t tokens,
                                 uint32_t pairs) {
    uint32_t *words = (uint32_t *)(void *)memory;
    size_t at = rows_at(ranks, tokens, pairs);
    size_t row_bytes = ranks->exchange.options.dispatch_bytes;
    return (struct message){
        .tokens = tokens,
        .pairs = pairs,
        .count = words + 2,
        .slot = words + 2 + tokens,
        .weight = (float *)(words + 2 + tokens + pairs),
        .rows = memory + at,
        .bytes = tokens ? at + tokens * row_bytes : 2 * sizeof *words,
    };
}

static char *in_memory(const struct ranks *ranks, uint32_t rank) {
    return ranks->in + rank * ranks->in_bytes;
}

/* What other ranks' tokens chose: nothing. */
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
    struct job_batch told = {0};
    if (!replicas_begin(replicas, layer, experts, pairs, ranks->exchange.splits_replicas)) return;
    forget_others(ranks, bytes);
    for (uint32_t i = 1; i < ranks->rank_count; i++) {
        uint32_t rank = (ranks->rank + i) % ranks->rank_count;
        job_receive_begin(&told, JOB_LANE_ACTIVATIONS, tag_of(ranks, TAG_COUNTS), rank,
                          replicas->all + rank * experts_all, bytes);
    }
    for (uint32_t i = 1; i < ranks->rank_count; i++) {
        uint32_t rank = (ranks->rank + i) % ranks->rank_count;
        job_send_begin(&told, JOB_LANE_ACTIVATIONS, tag_of(ranks, TAG_COUNTS), rank, replicas->own,
                       bytes);
    }
    job_wait(&told);
    if (job_broken()) forget_others(ranks, bytes);
    replicas_split(replicas, layer);
}

/* Joins the token's pairs of each group that go to one rank, and not to this. */
static void join_groups(struct ranks *ranks, const uint32_t *experts, uint32_t *slots) {
    const struct exchange_options *options = &ranks->exchange.options;
    for (uint32_t k = 0, run; k < options->experts_per_token; k += run) {
        uint32_t rank = slots[k] / ranks->slots_per_rank, same = 1;
        run =
            exchange_group_run(experts + k, options->experts_per_token - k, options->group_experts);
        while (same < run && slots[k + same] / ranks->slots_per_rank == rank)
            same++;
        if (same < run || rank == ranks->rank) continue;
        for (uint32_t i = k + 1; i < k + run; i++)
            slots[i] |= SLOT_JOINS;
        ranks->peers[rank].returns -= run - 1;
    }
}

/* Which replica computes which pair, and how much goes to each rank. */
static void choose_slots(struct ranks *ranks, uint32_t layer, const uint32_t *experts,
                         uint32_t tokens) {
    const struct exchange_options *options = &ranks->exchange.options;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        ranks->peers[rank] = (struct rank_peer){0};
    split_replicas(ranks, layer, experts, tokens * options->experts_per_token);
    for (uint32_t token = 0; token < tokens; token++) {
        size_t first = (size_t)token * options->experts_per_token;
        for (uint32_t k = 0; k < options->experts_per_token; k++) {
            size_t pair = first + k;
            uint32_t slot = replicas_next(&ranks->replicas, layer, experts[pair], token);
            struct rank_peer *peer = &ranks->peers[slot / ranks->slots_per_rank];
            ranks->pair_slot[pair] = slot;
            peer->pairs++;
            peer->returns++;
            if (peer->last_token != token + 1) peer->tokens++;
            peer->last_token = token + 1;
        }
        if (sums_groups(ranks)) join_groups(ranks, experts + first, ranks->pair_slot + first);
    }
}

static void lay_out_messages(struct ranks *ranks) {
    size_t at = 0;
    uint32_t returned = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        struct rank_peer *peer = &ranks->peers[rank];
        char *memory = rank == ranks->rank ? in_memory(ranks, rank) : ranks->out + at;
        peer->out = message_at(ranks, memory, peer->tokens, peer->pairs);
        memcpy(memory, &(uint32_t[2]){peer->tokens, peer->pairs}, 2 * sizeof(uint32_t));
        peer->first_return = returned;
        peer->last_token = 0;
        returned += peer->returns;
        if (rank != ranks->rank) at += round_up(peer->out.bytes, MESSAGE_ALIGN);
    }
    check(at <= ranks->out_bytes);
}

static void fill_messages(struct ranks *ranks, const float *weights, uint32_t tokens) {
    const struct rank_peer *own = &ranks->peers[ranks->rank];
    uint32_t per_token = ranks->exchange.options.experts_per_token;
    size_t row_bytes = ranks->exchange.options.dispatch_bytes;
    for (uint32_t token = 0; token < tokens; token++)
        for (uint32_t k = 0; k < per_token; k++) {
            size_t pair = (size_t)token * per_token + k;
            uint32_t joins = ranks->pair_slot[pair] & SLOT_JOINS;
            uint32_t slot = ranks->pair_slot[pair] & ~SLOT_JOINS;
            struct rank_peer *peer = &ranks->peers[slot / ranks->slots_per_rank];
            if (peer->last_token != token + 1) {
                if (peer == own)
                    ranks->own_token[peer->tokens_placed] = token;
                else
                    memcpy(peer->out.rows + peer->tokens_placed * row_bytes,
                           ranks->activations + token * row_bytes, row_bytes);
                peer->out.count[peer->tokens_placed++] = 0;
                peer->last_token = token + 1;
            }
            peer->out.count[peer->tokens_placed - 1]++;
            ranks->token_rows[pair] =
                joins ? EXCHANGE_SUMMED : peer->first_return + peer->returns_laid++;
            if (sums_groups(ranks)) peer->out.weight[peer->pairs_laid] = weights[pair];
            peer->out.slot[peer->pairs_laid++] = slot % ranks->slots_per_rank | joins;
        }
}

/* A rank that is gone says nothing: as if it had no tokens. */
static void receive_message(struct ranks *ranks, uint32_t rank) {
    memset(in_memory(ranks, rank), 0, 2 * sizeof(uint32_t));
    receive(ranks, TAG_DISPATCH, rank, in_memory(ranks, rank), ranks->in_bytes);
    await_span(ranks, rank);
}

static void receive_results(struct ranks *ranks, uint32_t rank) {
    const struct rank_peer *peer = &ranks->peers[rank];
    size_t at = (size_t)peer->first_return * ranks->exchange.options.combine_bytes;
    receive(ranks, TAG_COMBINE, rank, ranks->results + at,
            (size_t)peer->returns * ranks->exchange.options.combine_bytes);
    await_span(ranks, rank);
}

static void dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           const float *weights, uint32_t tokens, const char *activations) {
    struct ranks *ranks = ranks_of(exchange);
    check(tokens <= exchange->options.tokens_max && layer < exchange->options.placement->layers);
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        if (rank != ranks->rank) receive_message(ranks, rank);
    choose_slots(ranks, layer, experts, tokens);
    lay_out_messages(ranks);
    ranks->activations = activations;
    fill_messages(ranks, weights, tokens);
    for (uint32_t i = 1; i < ranks->rank_count; i++) { /* not all to rank 0 at once */
        uint32_t rank = (ranks->rank + i) % ranks->rank_count;
        const struct message *out = &ranks->peers[rank].out;
        const char *memory = (const char *)(out->count - 2);
        send_to(ranks, TAG_DISPATCH, rank, memory, out->bytes);
        exchange->counts.bytes_sent += out->bytes;
    }
}

static void read_messages(struct ranks *ranks) {
    for (uint32_t rank = 0; rank < ranks->rank_count && job_broken(); rank++)
        memset(in_memory(ranks, rank), 0, 2 * sizeof(uint32_t));
    memset(ranks->next_row, 0, ranks->slots_per_rank * sizeof *ranks->next_row);
    ranks->row_count = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        struct message *in = &ranks->peers[rank].in;
        const uint32_t *words = (const uint32_t *)(const void *)in_memory(ranks, rank);
        check(words[0] <= ranks->exchange.options.tokens_max &&
              words[1] <= words[0] * ranks->exchange.options.experts_per_token);
        *in = message_at(ranks, in_memory(ranks, rank), words[0], words[1]);
        for (uint32_t pair = 0; pair < in->pairs; pair++) {
            uint32_t slot = in->slot[pair] & ~SLOT_JOINS;
            check(slot < ranks->slots_per_rank);
            ranks->next_row[slot]++;
        }
        if (rank != ranks->rank) ranks->exchange.counts.bytes_received += in->bytes;
        ranks->row_count += in->pairs;
        ranks->exchange.counts.tokens_dispatched += in->tokens;
    }
    ranks->exchange.counts.pairs += ranks->row_count;
}

/* Turns next_row from each slot's count of rows into its first row. */
static void form_groups(struct ranks *ranks) {
    uint32_t row = 0;
    ranks->group_count = 0;
    for (uint32_t slot = 0; slot < ranks->slots_per_rank; slot++) {
        uint32_t count = ranks->next_row[slot];
        ranks->next_row[slot] = row;
        if (!count) continue;
        ranks->groups[ranks->group_count++] =
            (struct exchange_group){.slot = slot, .first_row = row, .row_count = count};
        row += count;
    }
}

/* Where the results of a message's rows go: `pairs` of a token's from pair `first` on, which
 * become one sum if they are several. */
static void place_pairs(struct ranks *ranks, const struct message *in, uint32_t first,
                        uint32_t pairs, uint32_t token_index, char *result, char **held) {
    size_t bytes = ranks->exchange.options.combine_bytes;
    if (pairs > 1) {
        ranks->sums[ranks->sum_count++] = (struct exchange_sum){
            .count = pairs, .weights = in->weight + first, .results = *held, .sum = result};
        result = *held;
        *held += pairs * bytes;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t row = ranks->next_row[in->slot[first + i] & ~SLOT_JOINS]++;
        ranks->row_token[row] = token_index;
        ranks->row_result[row] = result + i * bytes;
    }
}

/* How many pairs from `first` on, which is not joined to one before it, are of one sum. */
static uint32_t count_joined(const struct ranks *ranks, const struct message *in, uint32_t first,
                             uint32_t end) {
    uint32_t pair = first + 1;
    check(!(in->slot[first] & SLOT_JOINS));
    while (pair < end && in->slot[pair] & SLOT_JOINS)
        pair++;
    check(pair == first + 1 || sums_groups(ranks));
    return pair - first;
}

static void place_rows(struct ranks *ranks) {
    const struct exchange_options *options = &ranks->exchange.options;
    uint32_t token_index = 0;
    char *back = ranks->back, *held = ranks->held;
    ranks->sum_count = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        const struct message *in = &ranks->peers[rank].in;
        uint32_t pair = 0;
        char *result = back;
        bool own = rank == ranks->rank;
        if (own)
            result =
                ranks->results + (size_t)ranks->peers[rank].first_return * options->combine_bytes;
        for (uint32_t token = 0; token < in->tokens; token++, token_index++) {
            const char *rows = own ? ranks->activations : in->rows;
            size_t at = own ? ranks->own_token[token] : token;
            ranks->token_data[token_index] = rows + at * options->dispatch_bytes;
            uint32_t end = pair + in->count[token];
            check(end <= in->pairs);
            for (uint32_t joined; pair < end; pair += joined) {
                joined = count_joined(ranks, in, pair, end);
                place_pairs(ranks, in, pair, joined, token_index, result, &held);
                result += options->combine_bytes;
                ranks->peers[rank].returning++;
            }
        }
        check(pair == in->pairs);
        if (rank != ranks->rank) back = result;
    }
}

/* exchange.leaves: of what came, once it is here; ranks that sent nothing said nothing. */
static void gather_spans(struct ranks *ranks) {
    struct exchange_span *all = &ranks->exchange.leaves;
    if (!exchange_is_slow(&ranks->exchange)) return;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        struct exchange_span *span = &ranks->spans_in[rank];
        if (span->ended_ns == 0) continue;
        if (all->ended_ns == 0 || span->began_ns < all->began_ns) all->began_ns = span->began_ns;
        if (span->ended_ns > all->ended_ns) all->ended_ns = span->ended_ns;
        all->bytes += span->bytes;
        *span = (struct exchange_span){0};
    }
}

static bool arrived(struct exchange *exchange) {
    struct ranks *ranks = ranks_of(exchange);
    bool done = job_done(&ranks->in_batch);
    if (done) gather_spans(ranks);
    return done;
}

static void tell(struct exchange *exchange, struct exchange_span leaves) {
    struct ranks *ranks = ranks_of(exchange);
    bool results = ranks->dispatched;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        const struct rank_peer *peer = &ranks->peers[rank];
        if (rank == ranks->rank || (results && !peer->returning)) continue;
        struct exchange_span *span = &ranks->spans_out[results * ranks->rank_count + rank];
        *span = leaves;
        span->bytes =
            results ? (uint64_t)peer->returning * exchange->options.combine_bytes : peer->out.bytes;
        send_to(ranks, TAG_SPAN, rank, span, sizeof *span);
    }
}

static void dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    struct ranks *ranks = ranks_of(exchange);
    job_wait(&ranks->in_batch);
    gather_spans(ranks);
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        if (rank != ranks->rank && ranks->peers[rank].pairs) receive_results(ranks, rank);
    read_messages(ranks);
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
        .sum_count = ranks->sum_count,
        .sums = ranks->sums,
    };
}

static char *result(struct exchange *exchange, uint32_t row) {
    struct ranks *ranks = ranks_of(exchange);
    check(row < ranks->row_count);
    return ranks->row_result[row];
}

static void combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    struct ranks *ranks = ranks_of(exchange);
    check(first_row == ranks->rows_returned && row_count <= ranks->row_count - first_row);
    ranks->rows_returned += row_count;
    if (ranks->rows_returned < ranks->row_count) return;
    const char *back = ranks->back;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++) {
        uint32_t rows = ranks->peers[rank].returning;
        if (rank == ranks->rank || !rows) continue;
        size_t bytes = (size_t)rows * exchange->options.combine_bytes;
        send_to(ranks, TAG_COMBINE, rank, back, bytes);
        back += bytes;
        exchange->counts.bytes_sent += bytes;
    }
}

/* What came of them may be anything; the model goes on with numbers. */
static void forget_results(struct ranks *ranks) {
    size_t rows = 0;
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        rows += ranks->peers[rank].returns;
    memset(ranks->results, 0, rows * ranks->exchange.options.combine_bytes);
}

static void combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    struct ranks *ranks = ranks_of(exchange);
    check(ranks->rows_returned == ranks->row_count);
    job_wait(&ranks->in_batch);
    job_wait(&ranks->out_batch);
    gather_spans(ranks);
    ranks->dispatched = false;
    if (job_broken()) forget_results(ranks);
    for (uint32_t rank = 0; rank < ranks->rank_count; rank++)
        if (rank != ranks->rank)
            exchange->counts.bytes_received +=
                (uint64_t)ranks->peers[rank].returns * exchange->options.combine_bytes;
    *returned_out =
        (struct exchange_returned){.token_rows = ranks->token_rows, .results = ranks->results};
}

static void progress(struct exchange *exchange) {
    job_progress();
}

static void close_ranks(struct exchange *exchange) {
    struct ranks *ranks = ranks_of(exchange);
    if (ranks->memory) munmap(ranks->memory, ranks->mapped_bytes);
    replicas_close(&ranks->replicas);
    free(ranks->peers);
    free(ranks->spans_in);
    free(ranks->spans_out);
    free(ranks->groups);
    free(ranks->next_row);
    free(ranks);
}

static const struct carrier ranks_carrier = {
    .carries = true,
    .close = close_ranks,
    .dispatch_begin = dispatch_begin,
    .dispatch_finish = dispatch_finish,
    .result = result,
    .combine_begin = combine_begin,
    .combine_finish = combine_finish,
    .progress = progress,
    .arrived = arrived,
    .tell = tell,
};

static void *cut(const struct ranks *ranks, size_t *used, size_t bytes) {
    size_t at = round_up(*used, MESSAGE_ALIGN);
    *used = at + bytes;
    return ranks->memory ? (char *)ranks->memory + at : NULL;
}

/* Counts without memory, hands out addresses with it. */
static size_t cut_all(struct ranks *ranks) {
    const struct exchange_options *options = &ranks->exchange.options;
    size_t tokens = options->tokens_max, pairs = tokens * options->experts_per_token, used = 0;
    size_t all_tokens = tokens * ranks->rank_count, reach = options->experts_per_token;
    if (reach > ranks->slots_per_rank) reach = ranks->slots_per_rank;
    size_t rows_max = all_tokens * reach;
    ranks->in_bytes = round_up(rows_at(ranks, (uint32_t)tokens, (uint32_t)(tokens * reach)) +
                                   tokens * options->dispatch_bytes,
                               MESSAGE_ALIGN);
    ranks->out_bytes = pairs * (options->dispatch_bytes + 3 * sizeof(uint32_t)) +
                       (size_t)ranks->rank_count * 3 * MESSAGE_ALIGN;
    ranks->pair_slot = cut(ranks, &used, pairs * sizeof *ranks->pair_slot);
    ranks->own_token = cut(ranks, &used, tokens * sizeof *ranks->own_token);
    ranks->token_rows = cut(ranks, &used, pairs * sizeof *ranks->token_rows);
    ranks->out = cut(ranks, &used, ranks->out_bytes);
    ranks->in = cut(ranks, &used, ranks->rank_count * ranks->in_bytes);
    ranks->token_data = cut(ranks, &used, all_tokens * sizeof *ranks->token_data);
    ranks->row_token = cut(ranks, &used, rows_max * sizeof *ranks->row_token);
    ranks->row_result = cut(ranks, &used, rows_max * sizeof *ranks->row_result);
    ranks->results = cut(ranks, &used, pairs * options->combine_bytes);
    ranks->back = cut(ranks, &used, rows_max * options->combine_bytes);
    ranks->held = cut(ranks, &used, sums_groups(ranks) ? rows_max * options->combine_bytes : 0);
    ranks->sums = cut(ranks, &used, sums_groups(ranks) ? rows_max * sizeof *ranks->sums : 0);
    return used;
}

static enum status map_buffers(struct ranks *ranks, struct error *error) {
    size_t bytes = cut_all(ranks);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes for the expert exchange of %u ranks; lower the "
                         "tokens per step",
                         bytes, ranks->rank_count);
    ranks->memory = memory;
    ranks->mapped_bytes = bytes;
    cut_all(ranks);
    return STATUS_OK;
}

enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) {
    const struct placement *placement = options->placement;
    check(options->dispatch_bytes % EXCHANGE_ALIGN == 0 &&
          options->combine_bytes % EXCHANGE_ALIGN == 0 && options->rank < placement->ranks);
    struct ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    ranks->exchange.carrier = &ranks_carrier;
    ranks->exchange.options = *options;
    ranks->rank = options->rank;
    ranks->rank_count = placement->ranks;
    ranks->slots_per_rank = placement->slots_per_rank;
    ranks->peers = calloc(ranks->rank_count, sizeof *ranks->peers);
    ranks->spans_in = calloc(ranks->rank_count, sizeof *ranks->spans_in);
    ranks->spans_out = calloc(2 * (size_t)ranks->rank_count, sizeof *ranks->spans_out);
    ranks->groups = calloc(ranks->slots_per_rank, sizeof *ranks->groups);
    ranks->next_row = calloc(ranks->slots_per_rank, sizeof *ranks->next_row);
    enum status status = STATUS_OK;
    if (!ranks->peers || !ranks->spans_in || !ranks->spans_out || !ranks->groups ||
        !ranks->next_row)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the exchange of %u ranks",
                           ranks->rank_count);
    if (status == STATUS_OK)
        status = replicas_open(&ranks->replicas, placement, options->rank, error);
    if (status == STATUS_OK) status = map_buffers(ranks, error);
    if (status != STATUS_OK) {
        close_ranks(&ranks->exchange);
        return status;
    }
    *exchange_out = &ranks->exchange;
    return STATUS_OK;
}
