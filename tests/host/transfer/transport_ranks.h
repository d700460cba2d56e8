/* SPDX-License-Identifier: Apache-2.0
 * For tests of the KV transport: ranks with pages and a transport each, and prompts whose bytes are
 * known by ticket and place, so that any byte in any page can be checked.
 */
#pragma once

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/transfer/kv_transport.h"

#define SECOND INT64_C(1000000000)
#define PATIENCE (120 * SECOND)

/* UCX keeps what it has until the process ends. */
#if defined(__SANITIZE_ADDRESS__)
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libucp.so\nleak:libuct.so\nleak:libucs.so\nleak:libucm.so\n";
}
#endif

struct rank {
    struct kv_pages pages;
    struct kv_transport *transport;
    struct kv_transport_options options;
};

static const uint8_t test_model[32] = "the model of these tests";

static inline void rank_prepare_as(struct rank *rank, const struct kv_format *format,
                                   uint32_t page_count) {
    *rank = (struct rank){0};
    check(kv_pages_open(&rank->pages, format, page_count * kv_format_block_bytes(format), NULL) ==
          STATUS_OK);
    rank->options = kv_transport_defaults();
    rank->options.pages = &rank->pages;
    rank->options.model_id = test_model;
    rank->options.numerics_id = "test-f32";
    rank->options.host = "127.0.0.1";
}

static inline void rank_prepare(struct rank *rank, enum kv_element element, uint32_t width,
                                uint32_t slices, uint32_t page_count) {
    const struct kv_format format = KV_FORMAT_MLA(element, width, slices, 1);
    rank_prepare_as(rank, &format, page_count);
}

static inline void rank_start(struct rank *rank) {
    struct error error = {.text = ""};
    if (kv_transport_open(&rank->options, &rank->transport, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
}

static inline void rank_end(struct rank *rank) {
    kv_transport_close(rank->transport);
    kv_pages_close(&rank->pages);
}

static inline struct transfer_grant grant_of(uint64_t number) {
    return (struct transfer_grant){number, ~number};
}

/* Every byte of the pages is `value`. */
static inline bool pages_are(const struct rank *rank, char value) {
    const char *memory = rank->pages.memory;
    return memory[0] == value && !memcmp(memory, memory + 1, rank->pages.mapped_bytes - 1);
}

/* Byte i of a ticket's slice. */
static inline uint8_t byte_of(uint64_t number, uint32_t block, uint32_t slice, size_t i) {
    uint64_t mixed = (number * 1000003 + block * 257 + slice) * 0x9E3779B97F4A7C15u + i * 131;
    return (uint8_t)(mixed >> 24 ^ mixed);
}

static inline void fill_slice(struct rank *rank, uint32_t page, uint64_t number, uint32_t block,
                              uint32_t slice) {
    uint8_t *rows = kv_pages_slice(&rank->pages, page, slice);
    for (size_t i = 0; i < rank->pages.slice_bytes; i++)
        rows[i] = byte_of(number, block, slice, i);
}

/* Rows 0..row_count-1 are the ticket's, and all of the groups before the last; behind them
 * everything is `rest` as before. */
static inline bool slice_is(struct rank *rank, uint32_t page, uint64_t number, uint32_t block,
                            uint32_t slice, uint32_t row_count, uint8_t rest) {
    const uint8_t *rows = kv_pages_slice(&rank->pages, page, slice);
    size_t bytes = kv_format_filled_bytes(&rank->pages.format, row_count);
    for (size_t i = 0; i < rank->pages.slice_bytes; i++)
        if (rows[i] != (i < bytes ? byte_of(number, block, slice, i) : rest)) return false;
    return true;
}

/* All blocks but the last have 64 rows; block i lies on page first_page + i. */
struct prompt {
    uint64_t number;
    uint32_t first_page, block_count, last_rows;
};

static inline uint32_t rows_of(const struct prompt *prompt, uint32_t block) {
    return block + 1 < prompt->block_count ? 64 : prompt->last_rows;
}

static inline enum status prompt_expect(struct rank *rank, const struct prompt *prompt,
                                        int64_t wait_ns) {
    struct transfer_block blocks[256];
    check(prompt->block_count <= ARRAY_COUNT(blocks));
    for (uint32_t i = 0; i < prompt->block_count; i++)
        blocks[i] = (struct transfer_block){
            {prompt->first_page + i}, rows_of(prompt, i), 0, rank->pages.format.slice_count};
    return kv_transport_expect(rank->transport, grant_of(prompt->number), blocks,
                               prompt->block_count, clock_now_ns() + wait_ns, NULL);
}

static inline enum status prompt_offer(struct rank *rank, const struct prompt *prompt,
                                       const char *address, int64_t wait_ns) {
    return kv_transport_offer(rank->transport, grant_of(prompt->number), address,
                              clock_now_ns() + wait_ns, NULL);
}

/* One layer of all blocks; waits while the queue is full. */
static inline enum status prompt_push(struct rank *rank, const struct prompt *prompt,
                                      uint32_t slice) {
    for (uint32_t block = 0; block < prompt->block_count; block++) {
        uint32_t page = prompt->first_page + block;
        enum status status;
        fill_slice(rank, page, prompt->number, block, slice);
        while ((status = kv_transport_push(rank->transport, grant_of(prompt->number), block, slice,
                                           kv_pages_slice(&rank->pages, page, slice),
                                           rows_of(prompt, block))) == STATUS_FULL)
            poll(NULL, 0, 1);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static inline enum status prompt_finish(struct rank *rank, const struct prompt *prompt) {
    return kv_transport_finish(rank->transport, grant_of(prompt->number), &prompt->number,
                               sizeof prompt->number);
}

static inline enum status prompt_send(struct rank *rank, const struct prompt *prompt) {
    for (uint32_t slice = 0; slice < rank->pages.format.slice_count; slice++) {
        enum status status = prompt_push(rank, prompt, slice);
        if (status != STATUS_OK) return status;
    }
    return prompt_finish(rank, prompt);
}

/* The next end that `rank` is told. */
static inline struct transfer_ended rank_wait(struct rank *rank) {
    struct transfer_ended ended;
    int64_t until_ns = clock_now_ns() + PATIENCE;
    while (!kv_transport_next(rank->transport, &ended)) {
        struct pollfd file = {kv_transport_file(rank->transport), POLLIN, 0};
        check(clock_now_ns() < until_ns);
        poll(&file, 1, 1000);
    }
    return ended;
}

static inline struct kv_transport_state rank_state(struct rank *rank) {
    struct kv_transport_state state;
    kv_transport_get_state(rank->transport, &state);
    return state;
}

/* Nothing is open, leased, queued. */
static inline bool rank_idle(struct rank *rank) {
    struct kv_transport_state state = rank_state(rank);
    bool balanced = state.counts.leased == state.counts.released;
    for (int side = 0; side < TRANSFER_SIDE_COUNT; side++) {
        uint64_t ended = 0;
        for (int end = 0; end < TRANSFER_END_COUNT; end++)
            ended += state.counts.ended[side][end];
        balanced =
            balanced && state.counts.opened[side] == ended && state.counts.taken[side] == ended;
    }
    return balanced && state.grants == 0 && state.pages == 0 && state.queued_bytes == 0;
}
