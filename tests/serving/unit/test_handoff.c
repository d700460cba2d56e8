/* SPDX-License-Identifier: Apache-2.0
 * A prompt computed by one unit, its answer made by another: the tokens are those of one unit that
 * does both, whatever hits either has, however late or damaged the blocks come, all or the first
 * ones, whoever is cancelled when, also in the middle of a step, or fails, with a storage as the
 * second way, also where it gets the blocks late, and without; every page is back at the end, and
 * nobody touches a page whose transfer is open. Blocks are named with the step that makes them. Two
 * units in worlds of their own, and between them a carrier that copies KV rows when it likes.
 */

#include "base/check.h"
#include "base/random.h"
#include "serving/policy/kv_path.h"
#include "serving/policy/speculate.h"
#include "serving/unit/state.h"
#include "storage.h"
#include "test_case.h"

enum { PAIRS_MAX = 60 };

/* A request's transfer, as its carrier knows it. */
struct transfer {
    bool expected, pushing, named; /* EXPECT, a PUSH, the last PUSH have been said */
    bool prefill_done, decode_done;
    bool broken; /* it will fail */
    uint32_t first_block, block_count;
    struct page_id to[PAGES_MAX], from[PAGES_MAX]; /* by block */
    bool have[PAGES_MAX];
    uint32_t tokens[2];
    uint32_t reported; /* tokens of the first unit */
    bool continued, refused;
};

struct pair {
    struct world *prefill, *decode;
    struct transfer transfers[PAIRS_MAX];
    uint32_t count;
    uint64_t seed, draws;
    double break_odds, cancel_odds, fail_odds;
    uint32_t broken, handed, failed, partial;
    uint32_t named_making, named_standing; /* blocks */
    bool prefill_caches, caches;           /* the first unit, the second */
    struct storage *storage;               /* NULL: none */
    int64_t turn_ns;                       /* that a turn takes */
};

static double draw(struct pair *pair) {
    return random_uniform(pair->seed, 7, (uint32_t)pair->draws++);
}

static struct transfer *transfer_of(struct pair *pair, struct request_id id) {
    assert_true(id.low < pair->count);
    return &pair->transfers[id.low];
}

static void take_expect(struct pair *pair, const struct record_kv_expect *record) {
    struct transfer *transfer = transfer_of(pair, record->request);
    const struct page_id *pages = kv_expect_pages(record);
    assert_false(transfer->expected);
    assert_int_equal(record->grant[0], record->request.low + 1);
    transfer->first_block = record->first_block;
    transfer->expected = true;
    for (uint32_t i = 0; i < record->page_count; i++)
        transfer->to[record->first_block + i] = pages[i];
    transfer->block_count = record->first_block + record->page_count;
}

/* One row of the plan writes to these pages, all that it needs, and nobody else does. */
static void check_row(const struct step_plan *plan, const struct page_id *making, uint32_t count) {
    uint32_t writers = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        const struct page_id *pages = step_plan_pages(plan) + row->page_index;
        uint32_t first = row->first_position / KV_BLOCK_TOKENS;
        while (first < row->page_count && pages[first].index != making[0].index)
            first++; /* an interrupted one makes again what has been named before */
        if (first == row->page_count) continue;
        writers++;
        assert_true(count <= row->page_count - first);
        assert_memory_equal(pages + first, making, count * sizeof *making);
    }
    assert_int_equal(writers, 1);
}

static uint32_t made_end(const struct pair *pair, uint32_t number);

static void take_push(struct pair *pair, const struct record_kv_push *record) {
    struct transfer *transfer = transfer_of(pair, record->request);
    const struct page_id *pages = kv_push_pages(record);
    assert_false(transfer->named);
    assert_string_equal(record->route.address, "there");
    assert_int_equal(record->first, !transfer->pushing);
    transfer->pushing = true;
    transfer->named = record->last;
    uint32_t standing = record->page_count - record->making_count;
    pair->named_making += record->making_count;
    const struct known *known = &pair->prefill->known[record->request.low];
    if (known->constraint_bytes) /* its row could be lost, and would write them once more */
        assert_true(record->making_count == 0 || record->token_count < known->prompt_count);
    else
        pair->named_standing += standing;
    if (record->making_count) { /* by the very step that was planned with it */
        assert_non_null(pair->prefill->plan);
        assert_int_equal(record->step, pair->prefill->plan->step);
        check_row(pair->prefill->plan, pages + standing, record->making_count);
    }
    for (uint32_t i = 0; i < record->page_count; i++) {
        assert_false(transfer->have[record->first_block + i]);
        transfer->have[record->first_block + i] = true;
        transfer->from[record->first_block + i] = pages[i];
    }
    uint32_t number =
        (uint32_t)record->request.low; /* all that is named but for what is made now */
    assert_true(made_end(pair, number) >= record->first_block + standing);
}

static void take_other(struct world *world, const struct record *record) {
    struct pair *pair = world->context;
    const struct record_reserved *reserved = (const void *)record;
    switch (record->kind) {
    case RECORD_RESERVED:
        assert_true(transfer_of(pair, reserved->request)->expected); /* before the other may push */
        assert_int_equal(transfer_of(pair, reserved->request)->first_block, reserved->first_block);
        break;
    case RECORD_KV_EXPECT:
        take_expect(pair, (const void *)record);
        break;
    case RECORD_KV_PUSH:
        take_push(pair, (const void *)record);
        break;
    case RECORD_KV_CANCEL:
        transfer_of(pair, ((const struct record_kv_cancel *)record)->request)->broken = true;
        break;
    case RECORD_KV_FIND:
    case RECORD_KV_LOAD:
    case RECORD_KV_PUT:
        storage_take(pair->storage, world, record);
        break;
    default:
        fail();
    }
}

static void await_load(struct world *world, uint32_t number) {
    const struct pair *pair = world->context;
    storage_await_of(pair->storage, world, number);
}

static struct pair *pair_open(uint64_t seed, const struct unit_options *prefill,
                              const struct unit_options *decode) {
    struct pair *pair = calloc(1, sizeof *pair);
    pair->seed = seed;
    pair->prefill = world_open(prefill);
    pair->decode = world_open(decode);
    pair->prefill->forced_odds = pair->decode->forced_odds = 0.5;
    pair->prefill->late_odds = pair->decode->late_odds = 0.2;
    pair->prefill_caches = prefill->prefix_cache;
    pair->caches = decode->prefix_cache;
    pair->prefill->other = pair->decode->other = take_other;
    pair->prefill->context = pair->decode->context = pair;
    pair->prefill->await = pair->decode->await = await_load;
    return pair;
}

static void pair_close(struct pair *pair) {
    world_close(pair->prefill);
    world_close(pair->decode);
    free(pair->storage);
    free(pair);
}

/* Asks the decode unit to make ready and, if it does, the other to begin. */
static bool submit(struct pair *pair, const uint32_t *tokens, uint32_t prompt_count,
                   uint32_t new_tokens_max) {
    struct record_submit head = {.prompt_count = prompt_count,
                                 .new_tokens_max = new_tokens_max,
                                 .sampling = {.frequency_penalty = pair->count % 3 ? 0 : 0.5f},
                                 .constraint_bytes = pair->count % 4 == 3 ? 100 + pair->count : 0,
                                 .task = SUBMIT_RESERVE,
                                 .route = {.grant = {pair->count + 1}}};
    struct transfer *transfer = &pair->transfers[pair->count++];
    uint32_t number = world_submit_head(pair->decode, &head, tokens);
    world_drain(pair->decode);
    transfer->refused = pair->decode->known[number].endings > 0;
    head.task = transfer->refused ? SUBMIT_ANSWER : SUBMIT_PREFILL;
    if (transfer->refused) {
        assert_int_equal(pair->decode->known[number].reason, FINISH_REFUSED_QUEUE);
        head.route = (struct kv_route){.grant = {0}};
    } else {
        strcpy(head.route.address, "there");
        head.first_block = transfer->first_block;
    }
    world_submit_head(pair->prefill, &head, tokens);
    return !transfer->refused;
}

/* So many blocks have come. They count if the request goes on and, where they are not all, if there
 * is a cache to put them into. */
static void note_rows(struct pair *pair, uint32_t number, uint32_t blocks) {
    const struct known *known = &pair->decode->known[number];
    uint32_t tokens = (pair->transfers[number].first_block + blocks) * KV_BLOCK_TOKENS;
    if (tokens > known->prompt_count) tokens = known->prompt_count;
    if (known->cancelled || (tokens < known->prompt_count && !pair->caches)) return;
    world_note_rows(pair->decode, number, tokens);
}

static void report(struct world *world, uint32_t number, bool arrived, uint32_t blocks) {
    struct record_kv_done *record = world_make(RECORD_KV_DONE, NULL);
    record->request.low = number;
    record->arrived = arrived;
    record->blocks = blocks;
    world_send(world, record);
}

/* What the engine wrote in one world's page stands in the other's. */
static void carry(struct pair *pair, const struct transfer *transfer, uint32_t end) {
    for (uint32_t block = transfer->first_block; block < end; block++) {
        assert_true(transfer->have[block]);
        memcpy(pair->decode->kv[transfer->to[block].index],
               pair->prefill->kv[transfer->from[block].index], sizeof pair->decode->kv[0]);
    }
}

static void spoil(struct pair *pair, const struct transfer *transfer, uint32_t first) {
    for (uint32_t block = first; block < transfer->block_count; block++)
        memset(pair->decode->kv[transfer->to[block].index], 0, sizeof pair->decode->kv[0]);
}

/* The end of the leading blocks that were named and have been made. */
static uint32_t made_end(const struct pair *pair, uint32_t number) {
    const struct transfer *transfer = &pair->transfers[number];
    const struct known *known = &pair->prefill->known[number];
    uint64_t chain = 0;
    for (uint32_t i = 0; i < known->prompt_count; i++) {
        uint32_t block = i / KV_BLOCK_TOKENS;
        chain = world_chain(chain, known->tokens[i], TOKEN_PROMPT);
        if (block < transfer->first_block) continue;
        if (!transfer->have[block]) return block;
        uint32_t page = transfer->from[block].index;
        if (pair->prefill->kv[page][i % KV_BLOCK_TOKENS].chain != chain) return block;
    }
    return transfer->block_count;
}

/* The first ones of those are there, maybe all, but not the word that they are. */
static uint32_t carry_some(struct pair *pair, uint32_t number) {
    const struct transfer *transfer = &pair->transfers[number];
    uint32_t end = transfer->prefill_done ? transfer->first_block : made_end(pair, number);
    end -= (uint32_t)(draw(pair) * (end - transfer->first_block + 1));
    carry(pair, transfer, end);
    spoil(pair, transfer, end); /* until it says so, it may write anything */
    pair->partial += end > transfer->first_block;
    return end - transfer->first_block;
}

/* The carrier's turn for one request: it may dawdle, and it may fail. */
static void travel(struct pair *pair, uint32_t number) {
    struct transfer *transfer = &pair->transfers[number];
    if (!transfer->expected || transfer->decode_done) {
        if (transfer->pushing && !transfer->prefill_done && (transfer->named || transfer->broken)) {
            transfer->prefill_done = true;
            report(pair->prefill, number, false, 0);
        }
        return;
    }
    if (draw(pair) < pair->break_odds) transfer->broken = true;
    bool ended = pair->prefill->known[number].endings > 0 && !transfer->named;
    if (draw(pair) < 0.5) return;
    if (transfer->broken || ended) {
        uint32_t blocks = carry_some(pair, number);
        pair->broken++;
        transfer->decode_done = true;
        note_rows(pair, number, blocks);
        report(pair->decode, number, false, blocks);
    } else if (transfer->named) {
        carry(pair, transfer, transfer->block_count);
        transfer->decode_done = transfer->prefill_done = true;
        note_rows(pair, number, transfer->block_count);
        report(pair->decode, number, true, transfer->block_count - transfer->first_block);
        report(pair->prefill, number, true, 0);
    }
}

/* The first token goes to the unit that is to continue, or the news that there is nothing to. */
static void go_between(struct pair *pair, uint32_t number) {
    struct transfer *transfer = &pair->transfers[number];
    struct known *first = &pair->prefill->known[number], *then = &pair->decode->known[number];
    if (transfer->refused || transfer->continued || first->received == 0) {
        if (!transfer->refused && !transfer->continued && first->endings && !then->cancelled)
            world_cancel(pair->decode, number);
        return;
    }
    transfer->continued = true;
    uint32_t token = first->tokens[first->prompt_count];
    if (token == STOP_TOKEN || first->new_tokens_max == 1) {
        world_cancel(pair->decode, number);
        return;
    }
    pair->handed++;
    then->tokens[then->prompt_count] = token;
    then->received = 1;
    then->chain = world_chain(then->chain, token, TOKEN_GENERATED);
    struct record_continue *record =
        world_make(RECORD_CONTINUE, &(struct record_continue){.token_count = 1});
    record->request.low = number;
    *continue_tokens(record) = token;
    world_send(pair->decode, record);
}

static void turn(struct pair *pair, struct world *world) {
    struct storage *storage = pair->storage;
    world->now_ns += pair->turn_ns;
    world_drain(world);
    while (storage && storage->pending_count && storage_draw(storage) >= storage->late_odds)
        storage_do(storage, (uint32_t)(storage_draw(storage) * storage->pending_count));
    bool fails = world->plan && draw(pair) < pair->fail_odds;
    pair->failed += fails;
    if (world->plan) world_complete(world, fails);
    world_drain(world);
    world_step(world);
    world_drain(world);
}

static bool idle(const struct world *world) {
    return !world->plan && unit_request_count(world->unit) == 0;
}

static void run(struct pair *pair) {
    for (int i = 0; i < 100000; i++) {
        turn(pair, pair->prefill);
        turn(pair, pair->decode);
        for (uint32_t number = 0; number < pair->count; number++) {
            go_between(pair, number);
            travel(pair, number);
            struct known *first = &pair->prefill->known[number];
            struct known *then = &pair->decode->known[number];
            if (pair->transfers[number].refused || draw(pair) >= pair->cancel_odds) continue;
            if (!first->endings && !first->cancelled) world_cancel(pair->prefill, number);
            if (!then->endings && !then->cancelled) world_cancel(pair->decode, number);
        }
        bool stored = !pair->storage || pair->storage->pending_count == 0;
        if (stored && idle(pair->prefill) && idle(pair->decode)) break;
        assert_true(i < 99999);
    }
    turn(pair, pair->prefill); /* their last load reports */
    turn(pair, pair->decode);
}

static void make_prompt(struct pair *pair, uint32_t *tokens, uint32_t count) {
    uint32_t family = (uint32_t)(draw(pair) * 3);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (i < family * 100 ? family + 3 * i : pair->count * 17 + i) % VOCAB;
}

static void assert_empty(struct pair *pair) {
    world_assert_empty(pair->prefill);
    world_assert_empty(pair->decode);
    for (uint32_t i = 0; i < pair->count; i++) {
        const struct transfer *transfer = &pair->transfers[i];
        assert_true(transfer->decode_done == transfer->expected);
        assert_true(transfer->prefill_done == transfer->pushing);
    }
}

static struct unit_options options_of(uint64_t seed, uint32_t way) {
    struct unit_options options = world_options();
    options.prefix_cache = (seed >> way) & 1;
    options.speculate = (seed >> (way + 2)) & 1 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
    options.page_count = (seed >> (way + 4)) & 1 ? 12 : 30;
    return options;
}

/* The world asserts every token against the undisturbed sequence's. */
static void live_in(struct pair *pair, double break_odds, double cancel_odds, double fail_odds) {
    pair->break_odds = break_odds;
    pair->cancel_odds = cancel_odds;
    pair->fail_odds = fail_odds;
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t tokens[400], count = 1 + (uint32_t)(draw(pair) * 300);
            make_prompt(pair, tokens, count);
            submit(pair, tokens, count, 1 + (uint32_t)(draw(pair) * 120));
        }
        run(pair);
    }
    assert_empty(pair);
    assert_true(pair->named_making > 0);
    assert_true(pair->named_standing == 0 || pair->prefill_caches || pair->prefill->broken_steps);
    assert_true((pair->failed > 0) == (fail_odds > 0));
    for (uint32_t i = 0; i < pair->count && cancel_odds + fail_odds == 0; i++) {
        const struct known *first = &pair->prefill->known[i], *then = &pair->decode->known[i];
        if (pair->transfers[i].refused) continue;
        if (first->reason != FINISH_HANDED_OVER) continue;
        assert_true(then->reason == FINISH_LENGTH || then->reason == FINISH_STOP_TOKEN);
        assert_true(then->reason != FINISH_LENGTH || then->received == then->new_tokens_max);
    }
}

static void live(uint64_t seed, double break_odds, double cancel_odds, double fail_odds,
                 uint32_t *handed) {
    struct unit_options prefill = options_of(seed, 0), decode = options_of(seed, 1);
    struct pair *pair = pair_open(seed, &prefill, &decode);
    live_in(pair, break_odds, cancel_odds, fail_odds);
    *handed += pair->handed;
    pair_close(pair);
}

TEST(answers_go_on_elsewhere) {
    uint32_t handed = 0;
    for (uint64_t seed = 0; seed < 64; seed++)
        live(seed, 0, 0, 0, &handed);
    assert_true(handed > 500);
}

TEST(blocks_that_fail_to_come_are_computed) {
    uint32_t handed = 0;
    for (uint64_t seed = 0; seed < 64; seed++)
        live(seed, 0.2, 0, 0, &handed);
    assert_true(handed > 500);
}

TEST(cancelled_ones_leave_nothing) {
    uint32_t handed = 0;
    for (uint64_t seed = 0; seed < 64; seed++)
        live(seed, 0.05, 0.02, 0, &handed);
    assert_true(handed > 100);
}

TEST(failed_steps_leave_nothing) {
    uint32_t handed = 0;
    for (uint64_t seed = 0; seed < 64; seed++)
        live(seed, 0.05, 0.01, 0.05, &handed);
    assert_true(handed > 100);
}

/* A rank has died in the step, whose rows are all planned again, longer or shorter ones, or are
 * interrupted before. */
TEST(steps_that_break_off_are_made_again) {
    uint32_t handed = 0, broken = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct unit_options prefill = options_of(seed, 0), decode = options_of(seed, 1);
        struct pair *pair = pair_open(seed, &prefill, &decode);
        pair->prefill->break_odds = pair->decode->break_odds = 0.1;
        live_in(pair, 0.02, seed % 4 ? 0 : 0.02, 0);
        handed += pair->handed;
        broken += pair->prefill->broken_steps + pair->decode->broken_steps;
        pair_close(pair);
    }
    assert_true(handed > 400 && broken > 1000);
}

/* The storage has all of a prompt, some, or nothing, answers late, loses blocks when it is to give
 * them, and the transport loses all but the first ones; with few pages, cancellations on top. */
TEST(the_storage_is_the_second_way) {
    uint32_t handed = 0, partial = 0, loaded = 0, fresh = 0, waited = 0, lost = 0;
    for (uint64_t seed = 0; seed < 96; seed++) {
        struct unit_options prefill = options_of(seed, 0), decode = options_of(seed, 1);
        decode.prefix_cache = prefill.prefix_cache = decode.kv_storage = true;
        prefill.kv_storage = seed % 4 > 0; /* else nobody has stored anything but answers */
        decode.kv_choice = prefill.kv_choice = seed % 3 ? KV_CHOICE_LOAD : KV_CHOICE_MEASURED;
        decode.page_bytes = prefill.page_bytes = 1000;
        decode.kv_load_parts = prefill.kv_load_parts = seed % 4 / 2 * 50;
        struct pair *pair = pair_open(seed, &prefill, &decode);
        pair->prefill->step_ns = pair->decode->step_ns = seed % 8 > 3 ? 1000 : 5;
        pair->storage = storage_open(seed);
        pair->storage->late_odds = seed % 2 ? 0.3 : 0;
        pair->storage->lose_odds = seed % 5 ? 0 : 0.2;
        pair->turn_ns = 1000000;
        live_in(pair, 0.3, seed % 8 == 7 ? 0.02 : 0, seed % 16 == 3 ? 0.05 : 0);
        handed += pair->handed;
        partial += pair->partial;
        loaded += pair->storage->loaded;
        fresh += pair->storage->fresh_finds;
        waited += pair->prefill->waited_rows + pair->decode->waited_rows;
        lost += pair->prefill->lost_rows + pair->decode->lost_rows;
        pair_close(pair);
    }
    assert_true(handed > 400 && partial > 100 && loaded > 300 && fresh > 200);
    assert_true(waited > 40 && lost > 2);
}

/* The transport dawdles; its end is not waited for, and what it does then hurts nobody. */
TEST(slow_transfers_are_given_up) {
    uint32_t handed = 0, broken = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct unit_options prefill = options_of(seed, 0), decode = options_of(seed, 1);
        struct pair *pair = pair_open(seed, &prefill, &decode);
        pair->turn_ns = KV_PATH_WAIT_NS_MIN / 2;
        live_in(pair, 0, 0, 0); /* nothing but a KV_CANCEL breaks a transfer */
        handed += pair->handed;
        broken += pair->broken;
        pair_close(pair);
    }
    assert_true(handed > 500 && broken > 20);
}

/* Transfers that never arrive, one after the other: the first is waited for half a second, then it
 * is known what the link is like and what computing takes, and they are waited for an eighth of
 * that; but one in sixteen. */
TEST(a_slow_link_is_remembered) {
    struct unit_options options = world_options();
    struct pair *pair = pair_open(1, &options, &options);
    uint32_t long_waits = 0;
    pair->prefill->stop_odds = pair->decode->stop_odds = 0;
    pair->turn_ns = 1000000;
    pair->decode->step_ns = 80000000;
    for (uint32_t i = 0; i < 34; i++) {
        uint32_t tokens[100] = {i};
        int64_t since_ns = 0;
        assert_true(submit(pair, tokens, 100, 3));
        while (!pair->transfers[i].broken) { /* by the unit's KV_CANCEL */
            turn(pair, pair->prefill);
            turn(pair, pair->decode);
            if (!pair->transfers[i].continued) since_ns = pair->decode->now_ns;
            go_between(pair, i);
        }
        int64_t waited_ns = pair->decode->now_ns - since_ns;
        long_waits += waited_ns >= KV_PATH_WAIT_NS_MIN;
        if (i == 0) assert_true(waited_ns >= KV_PATH_WAIT_NS_MIN);
        if (i > 0 && waited_ns < KV_PATH_WAIT_NS_MIN)
            assert_in_range(waited_ns, 1000000, 50000000); /* of two or three steps */
        run(pair);
    }
    assert_in_range(long_waits, 2, 3);
    assert_empty(pair);
    pair_close(pair);
}

static struct pair *pair_of(enum kv_choice choice, uint32_t load_parts) {
    struct unit_options options = world_options();
    options.prefix_cache = options.kv_storage = true;
    options.kv_choice = choice;
    options.page_bytes = 1000;
    options.kv_load_parts = load_parts;
    struct pair *pair = pair_open(1, &options, &options);
    pair->prefill->stop_odds = pair->decode->stop_odds = 0;
    return pair;
}

static struct pair *pair_with_storage(enum kv_choice choice) {
    struct pair *pair = pair_of(choice, 0);
    pair->storage = storage_open(1);
    return pair;
}

/* Until the first unit has named all blocks of request 0, and the storage has what it keeps. */
static void compute_prompt(struct pair *pair) {
    uint32_t tokens[200];
    for (uint32_t i = 0; i < 200; i++)
        tokens[i] = (i * 7 + 1) % VOCAB;
    assert_true(submit(pair, tokens, 200, 40));
    while (!pair->transfers[0].named) {
        turn(pair, pair->prefill);
    }
    turn(pair, pair->prefill);
    assert_int_equal(pair->storage->count, 3); /* the last block is not whole */
}

/* The first blocks of request 0 have come, then the transfer failed. */
static void fail_transfer(struct pair *pair, uint32_t came) {
    struct transfer *transfer = &pair->transfers[0];
    carry(pair, transfer, came);
    spoil(pair, transfer, came);
    transfer->decode_done = true;
    note_rows(pair, 0, came);
    report(pair->decode, 0, false, came);
}

/* Nothing came, or one block of four, and the storage has none, some, or all that are whole: the
 * unit's first row begins behind what it could have, and the account says where that came from. */
TEST(what_is_stored_is_not_computed_again) {
    for (uint32_t came = 0; came < 2; came++)
        for (uint32_t stored = 0; stored < 4; stored++) {
            struct pair *pair = pair_with_storage(KV_CHOICE_LOAD);
            pair->turn_ns = 1000000;
            compute_prompt(pair);
            pair->storage->count = stored;
            fail_transfer(pair, came);
            run(pair);
            uint32_t had = came > stored ? came : stored;
            const struct known *known = &pair->decode->known[0];
            const struct unit_work *work = &known->reported_work;
            assert_int_equal(known->first_start, had * KV_BLOCK_TOKENS);
            assert_int_equal(known->received, 40);
            assert_int_equal(work->transferred_tokens, came * KV_BLOCK_TOKENS);
            assert_int_equal(work->disk_tokens + work->host_tokens, (had - came) * KV_BLOCK_TOKENS);
            assert_int_equal(work->computed_tokens, 200 - had * KV_BLOCK_TOKENS);
            assert_true((pair->storage->fresh_finds == 1) == (had == 3)); /* else: again */
            assert_int_equal(pair->decode->load.totals.transfers_arrived, 0);
            assert_int_equal(pair->decode->load.totals.transfers_failed, 1);
            assert_empty(pair);
            pair_close(pair);
        }
}

/* A transfer fails before the other unit's last blocks are in the storage: they are asked for
 * again, soon and for a while, and then loaded, or computed if they never come. */
TEST(what_is_only_being_stored_is_asked_for_again) {
    for (uint32_t asks = 0; asks < 5; asks++) { /* until the last block is there; 4: never */
        struct pair *pair = pair_with_storage(asks % 2 ? KV_CHOICE_LOAD : KV_CHOICE_MEASURED);
        uint32_t had = asks == 4 ? 1 : 3;
        int64_t began_ns = pair->decode->now_ns;
        pair->turn_ns = 1000000;
        compute_prompt(pair);
        pair->storage->count = 1; /* it is not known yet: the others */
        fail_transfer(pair, 0);
        for (int i = 0; i < 5000 && !pair->decode->known[0].endings; i++) {
            go_between(pair, 0);
            turn(pair, pair->decode);
            if (pair->storage->fresh_finds > asks && asks < 4) pair->storage->count = 3;
        }
        run(pair);
        const struct known *known = &pair->decode->known[0];
        assert_int_equal(known->received, 40);
        assert_int_equal(known->first_start, had * KV_BLOCK_TOKENS);
        assert_int_equal(known->reported_work.computed_tokens, 200 - had * KV_BLOCK_TOKENS);
        assert_in_range(pair->storage->fresh_finds, 2, 30);
        if (asks < 4) assert_int_equal(pair->storage->fresh_finds, asks + 2);
        assert_true(pair->decode->now_ns - began_ns < 2 * KV_PATH_REST_NS_MAX);
        assert_empty(pair);
        pair_close(pair);
    }
}

/* The unit that computes a prompt has its first blocks from the storage, and a row that waits for
 * them in a step: what such a step has under way does not leave. Behind it all blocks are named at
 * once; had the load not been whole, those that did come and were computed. */
TEST(blocks_leave_when_their_load_is_whole) {
    for (uint32_t lost = 0; lost < 2; lost++) {
        struct pair *before = pair_with_storage(KV_CHOICE_LOAD);
        before->turn_ns = 1000000;
        compute_prompt(before);
        run(before);
        struct pair *pair = pair_of(KV_CHOICE_LOAD, 5);
        pair->turn_ns = 1000000;
        pair->storage = before->storage;
        pair->storage->count = 3; /* of the prompt */
        before->storage = NULL;
        pair_close(before);
        uint32_t tokens[500];
        for (uint32_t i = 0; i < 500; i++)
            tokens[i] = (i * 7 + 1) % VOCAB;
        assert_true(submit(pair, tokens, 500, 20));
        struct transfer *transfer = &pair->transfers[0];
        while (!pair->prefill->plan)
            turn(pair, pair->prefill);
        const struct step_row *row = step_plan_rows(pair->prefill->plan);
        assert_true(row->loads && row->first_position == 3 * KV_BLOCK_TOKENS);
        assert_false(transfer->pushing);
        pair->storage->lose_odds = lost;
        world_complete(pair->prefill, false);
        pair->storage->lose_odds = 0;
        world_drain(pair->prefill);
        assert_false(transfer->pushing);
        world_step(pair->prefill);
        world_drain(pair->prefill);
        assert_int_equal(pair->named_standing, lost ? 0 : 5);
        assert_int_equal(pair->named_making, 2); /* a step has 128 tokens */
        run(pair);
        assert_int_equal(pair->prefill->load.totals.loads_in_step, !lost);
        assert_int_equal(pair->prefill->load.totals.loads_in_step_lost, lost);
        assert_int_equal(pair->decode->load.totals.transfers_arrived, 1);
        assert_int_equal(pair->decode->known[0].received, 20);
        assert_empty(pair);
        pair_close(pair);
    }
}

/* All blocks are there, but not the word that they are: as good as arrived. */
TEST(a_lost_last_word_costs_nothing) {
    struct pair *pair = pair_with_storage(KV_CHOICE_LOAD);
    compute_prompt(pair);
    fail_transfer(pair, 4);
    run(pair);
    assert_int_equal(pair->decode->known[0].first_start, 200);
    assert_int_equal(pair->decode->known[0].reported_work.transferred_tokens, 200);
    assert_int_equal(pair->storage->loads, 0);
    assert_int_equal(pair->decode->load.totals.transfers_arrived, 1);
    assert_int_equal(pair->decode->load.totals.transfers_failed, 0);
    assert_empty(pair);
    pair_close(pair);
}

/* A step that computes a handed-over request again would show: the decode unit's first row begins
 * behind the prompt. */
TEST(what_arrives_is_not_computed_again) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    struct pair *pair = pair_open(1, &options, &options);
    uint32_t tokens[200];
    for (uint32_t i = 0; i < 200; i++)
        tokens[i] = (i * 7 + 1) % VOCAB;
    pair->prefill->stop_odds = pair->decode->stop_odds = 0;
    assert_true(submit(pair, tokens, 200, 40));
    run(pair);
    assert_int_equal(pair->decode->known[0].first_start, 200);
    assert_int_equal(pair->decode->known[0].received, 40);
    assert_int_equal(pair->prefill->known[0].reason, FINISH_HANDED_OVER);
    assert_int_equal(pair->transfers[0].first_block, 0);
    /* The next turn of the talk: what the decode unit has need not travel. */
    assert_true(submit(pair, tokens, 200, 40));
    run(pair);
    assert_int_equal(pair->transfers[1].first_block, 3);
    assert_int_equal(pair->prefill->load.totals.prompt_tokens, 200 + 200 - 3 * KV_BLOCK_TOKENS);
    assert_int_equal(pair->decode->load.totals.transfers_arrived, 2);
    assert_int_equal(pair->prefill->load.totals.transfers_arrived, 0); /* counted once */
    assert_empty(pair);
    pair_close(pair);
}

/* A gateway asks again when it hears of the unit's load: a report of each refusal would bring the
 * same reservations back at once, for as long as there is no room. */
TEST(a_refused_reservation_is_no_news_of_the_load) {
    struct unit_options options = world_options();
    options.page_count = 12;
    struct pair *pair = pair_open(1, &options, &options);
    uint32_t tokens[200] = {1}, reports;
    while (submit(pair, tokens, 200, 3))
        continue;
    world_step(pair->decode);
    world_drain(pair->decode);
    reports = pair->decode->loads;
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(submit(pair, tokens, 200, 3));
        world_step(pair->decode);
        world_drain(pair->decode);
    }
    assert_int_equal(pair->decode->loads, reports);
    pair_close(pair);
}

/* Its rank has died: a request that only waits for its blocks ends like the others, once they come
 * no more, whoever is told first. */
TEST(a_reservation_ends_with_its_rank) {
    for (uint32_t reported_first = 0; reported_first < 2; reported_first++) {
        struct unit_options options = world_options();
        struct pair *pair = pair_open(1, &options, &options);
        uint32_t tokens[100] = {1};
        assert_true(submit(pair, tokens, 100, 3));
        pair->decode->unit->abandoned = true;
        if (reported_first) report(pair->decode, 0, false, 0);
        assert_true(pair->decode->machine.next_wake_ns(pair->decode->machine.self) == 0);
        world_step(pair->decode);
        world_drain(pair->decode);
        assert_true(pair->decode->machine.next_wake_ns(pair->decode->machine.self) > 0);
        if (!reported_first) report(pair->decode, 0, false, 0);
        world_drain(pair->decode);
        assert_int_equal(pair->decode->known[0].endings, 1);
        assert_int_equal(pair->decode->known[0].reason, FINISH_FAILED);
        assert_int_equal(unit_request_count(pair->decode->unit), 0);
        pair_close(pair);
    }
}

/* First tokens that no engine can have chosen end the request, and hurt nobody. */
TEST(wrong_first_tokens_are_refused) {
    struct unit_options options = world_options();
    struct pair *pair = pair_open(1, &options, &options);
    uint32_t tokens[100] = {1};
    submit(pair, tokens, 100, 3);
    struct record_continue *record =
        world_make(RECORD_CONTINUE, &(struct record_continue){.token_count = 1});
    record->token_count = 1;
    *continue_tokens(record) = VOCAB;
    world_send(pair->decode, record);
    world_drain(pair->decode);
    assert_int_equal(pair->decode->known[0].endings, 0); /* its pages may still be written to */
    report(pair->decode, 0, true, 2);
    world_drain(pair->decode);
    assert_int_equal(pair->decode->known[0].endings, 1);
    assert_int_equal(pair->decode->known[0].reason, FINISH_FAILED);
    world_assert_empty(pair->decode);
    pair_close(pair);
}
