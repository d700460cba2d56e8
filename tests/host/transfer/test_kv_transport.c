/* SPDX-License-Identifier: Apache-2.0
 * Protects the carrying of KV blocks between two transports: every byte arrives where it belongs
 * and nowhere else; cancel, deadline, lost, foreign and damaged transfers end once on each side and
 * leave nothing behind; the next transfer works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../slow.h"
#include "base/random.h"
#include "transport_ranks.h"

#define SLICES 5

/* Two ranks; the receiver's pages are all 0xEE. */
struct pair {
    struct rank decode, prefill;
};

/* Every test runs twice: slices are copied, and slices are fetched. */
static uint64_t fetch_bytes_min;

static int choose_way(void **state) {
    fetch_bytes_min = *(const uint64_t *)*state;
    return 0;
}

static void pair_prepare_as(struct pair *pair, const struct kv_format *format, uint32_t pages) {
    rank_prepare_as(&pair->decode, format, pages);
    rank_prepare_as(&pair->prefill, format, pages);
    pair->prefill.options.fetch_bytes_min = fetch_bytes_min;
    memset(pair->decode.pages.memory, 0xEE, pair->decode.pages.mapped_bytes);
}

static void pair_prepare(struct pair *pair, enum kv_element element, uint32_t width,
                         uint32_t pages) {
    const struct kv_format format = KV_FORMAT_MLA(element, width, SLICES, 1);
    pair_prepare_as(pair, &format, pages);
}

static void pair_open(struct pair *pair, enum kv_element element, uint32_t width, uint32_t pages) {
    pair_prepare(pair, element, width, pages);
    rank_start(&pair->decode);
    rank_start(&pair->prefill);
}

static void pair_close(struct pair *pair) {
    assert_true(rank_idle(&pair->decode));
    assert_true(rank_idle(&pair->prefill));
    rank_end(&pair->prefill);
    rank_end(&pair->decode);
}

static const char *to(struct pair *pair) {
    return kv_transport_address(pair->decode.transport);
}

static void assert_ended(struct rank *rank, uint64_t number, enum transfer_end end) {
    struct transfer_ended ended = rank_wait(rank);
    if (ended.end != end) print_message("# %s\n", ended.reason);
    assert_int_equal(ended.grant.high, number);
    assert_int_equal(ended.end, end);
    assert_int_equal(ended.reason[0] == 0, end == TRANSFER_DONE);
}

static void assert_whole(struct pair *pair, const struct prompt *prompt) {
    for (uint32_t block = 0; block < prompt->block_count; block++)
        for (uint32_t slice = 0; slice < SLICES; slice++)
            assert_true(slice_is(&pair->decode, prompt->first_page + block, prompt->number, block,
                                 slice, rows_of(prompt, block), 0xEE));
}

static void assert_carried(struct pair *pair, const struct prompt *prompt) {
    assert_int_equal(prompt_expect(&pair->decode, prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair->prefill, prompt, to(pair), PATIENCE), STATUS_OK);
    assert_int_equal(prompt_send(&pair->prefill, prompt), STATUS_OK);
    struct transfer_ended ended = rank_wait(&pair->decode);
    assert_int_equal(ended.end, TRANSFER_DONE);
    assert_int_equal(ended.summary_bytes, sizeof prompt->number);
    assert_memory_equal(ended.summary, &prompt->number, sizeof prompt->number);
    assert_ended(&pair->prefill, prompt->number, TRANSFER_DONE);
    assert_whole(pair, prompt);
}

static void every_byte_arrives_in_every_format(void **state) {
    static const struct kv_format formats[] = {
        KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, SLICES, 1),
        KV_FORMAT_MLA(KV_ELEMENT_F32, 576, SLICES, 1),
        KV_FORMAT_MLA(KV_ELEMENT_BF16, 80, SLICES, 1),
        KV_FORMAT_MLA(KV_ELEMENT_F32, 3, SLICES, 1),
        {SLICES, 1, 2, {{KV_ELEMENT_BF16, 576, 1}, {KV_ELEMENT_E4M3, 128, 1}}},
        {SLICES, 0, 2, {{KV_ELEMENT_F32, 3, 1}, {KV_ELEMENT_F32, 5, 1}}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        struct pair pair;
        pair_prepare_as(&pair, &formats[i], 16);
        rank_start(&pair.decode);
        rank_start(&pair.prefill);
        static const uint32_t rows[] = {1, 7, 63, 64};
        for (uint32_t j = 0; j < ARRAY_COUNT(rows); j++)
            assert_carried(&pair, &(struct prompt){10 + j, 4 * j, 1 + j % 4, rows[j]});
        pair_close(&pair);
    }
}

static void layers_arrive_while_the_next_is_computed(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 2, 3, 17};
    uint32_t layers;
    pair_open(&pair, KV_ELEMENT_BF16, 576, 16);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    for (uint32_t slice = 0; slice + 1 < SLICES; slice++) {
        assert_int_equal(prompt_push(&pair.prefill, &prompt, slice), STATUS_OK);
        int64_t until_ns = clock_now_ns() + PATIENCE;
        do {
            struct pollfd file = {kv_transport_file(pair.decode.transport), POLLIN, 0};
            struct transfer_ended ended;
            poll(&file, 1, 1000);
            assert_false(kv_transport_next(pair.decode.transport, &ended));
            assert_true(kv_transport_layers(pair.decode.transport, grant_of(1), &layers));
            assert_true(layers <= slice + 1);
        } while (layers <= slice && clock_now_ns() < until_ns);
        assert_int_equal(layers, slice + 1);
    }
    assert_int_equal(prompt_push(&pair.prefill, &prompt, SLICES - 1), STATUS_OK);
    assert_int_equal(prompt_finish(&pair.prefill, &prompt), STATUS_OK);
    assert_ended(&pair.decode, 1, TRANSFER_DONE);
    assert_ended(&pair.prefill, 1, TRANSFER_DONE);
    assert_false(kv_transport_layers(pair.decode.transport, grant_of(1), &layers));
    assert_whole(&pair, &prompt);
    pair_close(&pair);
}

/* A receiver that cancels gets its pages back; what still comes is written nowhere. */
static void after_a_cancel_not_one_byte_is_written(void **state) {
    struct pair pair;
    pair_open(&pair, KV_ELEMENT_BF16, 576, 64);
    for (uint64_t number = 1; number <= 10; number++) {
        struct prompt prompt = {number, 0, 60, 64};
        memset(pair.decode.pages.memory, 0xEE, pair.decode.pages.mapped_bytes);
        assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
        assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
        enum status pushed = STATUS_OK;
        for (uint32_t slice = 0; slice < SLICES && pushed == STATUS_OK; slice++) {
            pushed = prompt_push(&pair.prefill, &prompt, slice);
            if (slice == 2)
                assert_true(
                    kv_transport_cancel(pair.decode.transport, TRANSFER_IN, grant_of(number)));
        }
        assert_ended(&pair.decode, number, TRANSFER_CANCELLED);
        memset(pair.decode.pages.memory, 0x77, pair.decode.pages.mapped_bytes);
        if (pushed == STATUS_OK) {
            enum status finished = prompt_finish(&pair.prefill, &prompt);
            assert_true(finished == STATUS_OK || finished == STATUS_GONE);
        }
        struct transfer_ended ended = rank_wait(&pair.prefill);
        assert_true(ended.end == TRANSFER_CANCELLED || ended.end == TRANSFER_REFUSED);
        assert_true(pages_are(&pair.decode, 0x77));
    }
    assert_carried(&pair, &(struct prompt){99, 0, 3, 64});
    pair_close(&pair);
}

static void a_sender_may_give_up(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 4, 64};
    pair_open(&pair, KV_ELEMENT_BF16, 576, 16);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    assert_int_equal(prompt_push(&pair.prefill, &prompt, 0), STATUS_OK);
    struct pollfd file = {kv_transport_file(pair.decode.transport), POLLIN, 0};
    assert_int_equal(poll(&file, 1, 60000), 1); /* the layer is there */
    assert_true(kv_transport_cancel(pair.prefill.transport, TRANSFER_OUT, grant_of(1)));
    assert_false(kv_transport_cancel(pair.prefill.transport, TRANSFER_OUT, grant_of(1)));
    assert_ended(&pair.prefill, 1, TRANSFER_CANCELLED);
    assert_ended(&pair.decode, 1, TRANSFER_CANCELLED);
    assert_int_equal(prompt_push(&pair.prefill, &prompt, 1), STATUS_GONE);
    assert_int_equal(prompt_finish(&pair.prefill, &prompt), STATUS_GONE);
    assert_carried(&pair, &(struct prompt){2, 8, 4, 9});
    pair_close(&pair);
}

static void deadlines_end_both_sides(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 2, 64};
    pair_open(&pair, KV_ELEMENT_BF16, 576, 16);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, SECOND / 20), STATUS_OK);
    assert_ended(&pair.decode, 1, TRANSFER_DEADLINE); /* nobody came */
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    assert_int_equal(prompt_push(&pair.prefill, &prompt, 0), STATUS_OK);
    assert_ended(&pair.prefill, 1, TRANSFER_REFUSED); /* too late, and told so */

    prompt.number = 2; /* the sender is too slow for itself, and says so */
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), SECOND / 10), STATUS_OK);
    enum status pushed = prompt_push(&pair.prefill, &prompt, 0);
    assert_true(pushed == STATUS_OK || pushed == STATUS_GONE);
    assert_ended(&pair.prefill, 2, TRANSFER_DEADLINE);
    assert_ended(&pair.decode, 2, TRANSFER_DEADLINE);
    assert_carried(&pair, &(struct prompt){3, 8, 4, 9});
    pair_close(&pair);
}

static void a_finish_with_gaps_is_damage(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 2, 64};
    pair_open(&pair, KV_ELEMENT_BF16, 576, 16);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    assert_int_equal(prompt_push(&pair.prefill, &prompt, 0), STATUS_OK);
    assert_int_equal(prompt_finish(&pair.prefill, &prompt), STATUS_OK);
    assert_ended(&pair.decode, 1, TRANSFER_DAMAGED);
    assert_ended(&pair.prefill, 1, TRANSFER_DAMAGED);
    pair_close(&pair);
}

static void those_who_calculate_differently_are_refused(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 2, 64};
    pair_prepare(&pair, KV_ELEMENT_BF16, 576, 16);
    pair.prefill.options.numerics_id = "test-bf16";
    rank_start(&pair.decode);
    rank_start(&pair.prefill);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    enum status sent = prompt_send(&pair.prefill, &prompt);
    assert_true(sent == STATUS_OK || sent == STATUS_GONE);
    struct transfer_ended ended = rank_wait(&pair.prefill);
    assert_int_equal(ended.end, TRANSFER_REFUSED);
    assert_non_null(strstr(ended.reason, "the receiver's numerics are test-f32 and the sender's "
                                         "test-bf16"));
    assert_true(kv_transport_cancel(pair.decode.transport, TRANSFER_IN, grant_of(1)));
    assert_ended(&pair.decode, 1, TRANSFER_CANCELLED);
    pair_close(&pair);
}

static void nobody_there_is_reported_after_some_attempts(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 2, 64};
    char address[KV_ADDRESS_BYTES];
    pair_open(&pair, KV_ELEMENT_BF16, 576, 16);
    memcpy(address, to(&pair), sizeof address);
    kv_transport_close(pair.decode.transport);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, address, PATIENCE), STATUS_OK);
    enum status pushed = prompt_push(&pair.prefill, &prompt, 0);
    assert_true(pushed == STATUS_OK || pushed == STATUS_GONE); /* the attempts may be over */
    struct transfer_ended ended = rank_wait(&pair.prefill);
    assert_int_equal(ended.end, TRANSFER_PEER_LOST);
    assert_non_null(strstr(ended.reason, "in 3 attempts"));
    rank_start(&pair.decode);
    assert_carried(&pair, &(struct prompt){2, 8, 4, 9});
    struct error error;
    assert_int_equal(
        kv_transport_offer(pair.prefill.transport, grant_of(3), "localhost", 0, &error),
        STATUS_INVALID);
    pair_close(&pair);
}

static void two_senders_share_a_receiver(void **state) {
    struct pair pair;
    struct rank other;
    pair_open(&pair, KV_ELEMENT_BF16, 576, 64);
    rank_prepare(&other, KV_ELEMENT_BF16, 576, SLICES, 64);
    rank_start(&other);
    struct prompt ours = {1, 0, 20, 33}, theirs = {2, 20, 20, 1};
    assert_int_equal(prompt_expect(&pair.decode, &ours, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_expect(&pair.decode, &theirs, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &ours, to(&pair), PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&other, &theirs, to(&pair), PATIENCE), STATUS_OK);
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        assert_int_equal(prompt_push(&pair.prefill, &ours, slice), STATUS_OK);
        assert_int_equal(prompt_push(&other, &theirs, slice), STATUS_OK);
    }
    assert_int_equal(prompt_finish(&pair.prefill, &ours), STATUS_OK);
    assert_int_equal(prompt_finish(&other, &theirs), STATUS_OK);
    assert_int_equal(rank_wait(&pair.decode).end, TRANSFER_DONE);
    assert_int_equal(rank_wait(&pair.decode).end, TRANSFER_DONE);
    assert_ended(&pair.prefill, 1, TRANSFER_DONE);
    assert_ended(&other, 2, TRANSFER_DONE);
    assert_whole(&pair, &ours);
    assert_whole(&pair, &theirs);
    assert_true(rank_idle(&other));
    rank_end(&other);
    pair_close(&pair);
}

static void a_full_queue_says_so(void **state) {
    struct pair pair;
    struct prompt prompt = {1, 0, 8, 64};
    pair_prepare(&pair, KV_ELEMENT_BF16, 576, 16);
    pair.prefill.options.queue_bytes_max = 200000; /* two slices and a half */
    pair.prefill.options.bytes_per_second = 20 << 20;
    rank_start(&pair.decode);
    rank_start(&pair.prefill);
    assert_int_equal(prompt_expect(&pair.decode, &prompt, PATIENCE), STATUS_OK);
    assert_int_equal(prompt_offer(&pair.prefill, &prompt, to(&pair), PATIENCE), STATUS_OK);
    for (uint32_t i = 0; i < prompt.block_count * SLICES; i++) /* no slower than the link is */
        fill_slice(&pair.prefill, i % prompt.block_count, 1, i % prompt.block_count,
                   i / prompt.block_count);
    int64_t start_ns = clock_now_ns();
    uint32_t full = 0;
    for (uint32_t i = 0; i < prompt.block_count * SLICES; i++) {
        uint32_t block = i % prompt.block_count, slice = i / prompt.block_count;
        const void *rows = kv_pages_slice(&pair.prefill.pages, block, slice);
        enum status status;
        while ((status = kv_transport_push(pair.prefill.transport, grant_of(1), block, slice, rows,
                                           64)) == STATUS_FULL) {
            struct pollfd file = {kv_transport_file(pair.prefill.transport), POLLIN, 0};
            struct transfer_ended ended;
            full++;
            assert_true(rank_state(&pair.prefill).queued_bytes <= 200000);
            assert_int_equal(poll(&file, 1, 60000), 1);
            assert_false(kv_transport_next(pair.prefill.transport, &ended));
        }
        assert_int_equal(status, STATUS_OK);
    }
    assert_int_equal(prompt_finish(&pair.prefill, &prompt), STATUS_OK);
    assert_ended(&pair.decode, 1, TRANSFER_DONE);
    assert_ended(&pair.prefill, 1, TRANSFER_DONE);
    assert_whole(&pair, &prompt);
    assert_true(full > 0);
    assert_true(clock_now_ns() - start_ns > SECOND / 10); /* 2.9 MB at 20 MiB/s */
    pair_close(&pair);
}

/* ---- a thousand tickets, of which many go wrong ---- */

#define CROWD test_times(1000, 250)
#define PAGES_EACH 3
#define AT_ONCE 20

static uint32_t roll(uint32_t number, uint32_t what, uint32_t below) {
    uint32_t counter[4] = {number, what, 0, 0}, key[2] = {4, 2}, words[4];
    random_philox(counter, key, words);
    return words[0] % below;
}

struct crowd {
    struct pair pair;
    uint64_t on_page[AT_ONCE], from_page[AT_ONCE]; /* the tickets that have these pages */
    uint32_t in_ended, out_ended, done;
    int64_t until_ns; /* something more has ended by then */
};

static void take_ends(struct crowd *crowd) {
    struct transfer_ended ended;
    uint32_t before = crowd->in_ended + crowd->out_ended;
    while (kv_transport_next(crowd->pair.decode.transport, &ended)) {
        crowd->in_ended++;
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            if (crowd->on_page[i] != ended.grant.high) continue;
            struct prompt prompt = {ended.grant.high, i * PAGES_EACH, PAGES_EACH, 5};
            for (uint32_t block = 0; ended.end == TRANSFER_DONE && block < PAGES_EACH; block++)
                for (uint32_t slice = 0; slice < SLICES; slice++)
                    assert_true(slice_is(&crowd->pair.decode, prompt.first_page + block,
                                         prompt.number, block, slice, rows_of(&prompt, block),
                                         0xEE));
            crowd->on_page[i] = 0;
            crowd->done += ended.end == TRANSFER_DONE;
            /* whoever writes now writes into somebody else's page */
            memset(kv_pages_slice(&crowd->pair.decode.pages, prompt.first_page, 0), 0xEE,
                   PAGES_EACH * crowd->pair.decode.pages.page_bytes - KV_BLOCK_HEADER_BYTES);
        }
    }
    while (kv_transport_next(crowd->pair.prefill.transport, &ended)) {
        crowd->out_ended++;
        for (uint32_t i = 0; i < AT_ONCE; i++)
            if (crowd->from_page[i] == ended.grant.high) crowd->from_page[i] = 0;
    }
    if (crowd->in_ended + crowd->out_ended > before) crowd->until_ns = clock_now_ns() + PATIENCE;
    assert_true(clock_now_ns() < crowd->until_ns);
}

/* Sends a prompt, or part of it, and lets something go wrong half of the time. */
static void play(struct crowd *crowd, uint32_t number, uint32_t place) {
    struct pair *pair = &crowd->pair;
    struct prompt prompt = {number, place * PAGES_EACH, PAGES_EACH, 5};
    uint32_t fate = roll(number, 0, 10), until = roll(number, 1, SLICES);
    int64_t wait_ns = fate == 0   ? (int64_t)roll(number, 2, 2000) * 1000
                      : fate == 4 ? SECOND / 5
                                  : PATIENCE;
    crowd->on_page[place] = crowd->from_page[place] = number;
    assert_int_equal(prompt_expect(&pair->decode, &prompt, wait_ns), STATUS_OK);
    int64_t patience_ns = fate == 1 ? 1000 : fate == 4 ? SECOND / 5 : PATIENCE;
    assert_int_equal(prompt_offer(&pair->prefill, &prompt, to(pair), patience_ns), STATUS_OK);
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        if (slice == until && fate == 2)
            kv_transport_cancel(pair->decode.transport, TRANSFER_IN, grant_of(number));
        if (slice == until && fate == 3)
            kv_transport_cancel(pair->prefill.transport, TRANSFER_OUT, grant_of(number));
        if (slice == until && fate == 4) break;
        if (prompt_push(&pair->prefill, &prompt, slice) != STATUS_OK) return;
    }
    (void)!prompt_finish(&pair->prefill, &prompt);
}

static void a_thousand_grants_leave_nothing_behind(void **state) {
    static struct crowd crowd;
    memset(&crowd, 0, sizeof crowd);
    pair_prepare(&crowd.pair, KV_ELEMENT_BF16, 80, AT_ONCE * PAGES_EACH);
    /* UCX keeps what was to be fetched and never was: those who wait for it wait less long here. */
    crowd.pair.decode.options.drain_ns_max = crowd.pair.prefill.options.drain_ns_max = SECOND / 10;
    crowd.pair.decode.options.early_ns_max = crowd.pair.prefill.options.early_ns_max = SECOND / 20;
    rank_start(&crowd.pair.decode);
    rank_start(&crowd.pair.prefill);
    crowd.until_ns = clock_now_ns() + PATIENCE;
    for (uint32_t number = 1; number <= CROWD; number++) {
        uint32_t place = AT_ONCE;
        for (;;) {
            take_ends(&crowd);
            for (place = 0; place < AT_ONCE && (crowd.on_page[place] || crowd.from_page[place]);
                 place++) {
            }
            if (place < AT_ONCE) break;
            struct pollfd files[2] = {{kv_transport_file(crowd.pair.decode.transport), POLLIN, 0},
                                      {kv_transport_file(crowd.pair.prefill.transport), POLLIN, 0}};
            poll(files, 2, 100);
        }
        play(&crowd, number, place);
    }
    while (crowd.in_ended < CROWD || crowd.out_ended < CROWD) {
        take_ends(&crowd);
        poll(NULL, 0, 1);
    }
    assert_true(crowd.done > CROWD / 4);
    struct kv_transport_state seen = rank_state(&crowd.pair.decode);
    assert_true(seen.counts.ended[TRANSFER_IN][TRANSFER_CANCELLED] > 0);
    assert_int_equal(seen.malformed, 0);
    assert_int_equal(seen.counts.damaged, 0);
    pair_close(&crowd.pair);
}

#define BOTH_WAYS(test)                                                                            \
    {#test " (copied)", test, choose_way, NULL, &copied}, {                                        \
#test " (fetched)", test, choose_way, NULL, &fetched                                       \
    }

int main(void) {
    static uint64_t copied = UINT64_MAX, fetched = 1;
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(every_byte_arrives_in_every_format),
        BOTH_WAYS(layers_arrive_while_the_next_is_computed),
        BOTH_WAYS(after_a_cancel_not_one_byte_is_written),
        BOTH_WAYS(a_sender_may_give_up),
        BOTH_WAYS(deadlines_end_both_sides),
        BOTH_WAYS(a_finish_with_gaps_is_damage),
        BOTH_WAYS(those_who_calculate_differently_are_refused),
        BOTH_WAYS(nobody_there_is_reported_after_some_attempts),
        BOTH_WAYS(two_senders_share_a_receiver),
        BOTH_WAYS(a_full_queue_says_so),
        BOTH_WAYS(a_thousand_grants_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
