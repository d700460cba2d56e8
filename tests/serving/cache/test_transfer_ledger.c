/* SPDX-License-Identifier: Apache-2.0
 * Protects the books of KV transfers: what may be written and when no more, that every ticket ends
 * once on each side, that every page comes back once, whatever happens in whatever order.
 */

#include "base/check.h"
#include "base/random.h"
#include "serving/cache/transfer_ledger.h"
#include "test_case.h"

#define PAGES 24
#define SLICES 4
#define TICKETS 8
#define HOUR INT64_C(3600000000000)

static const struct transfer_limits limits = {TICKETS, PAGES, SLICES};

struct books {
    struct transfer_ledger ledger;
    void *memory;
};

static void open_books(struct books *books) {
    struct arena arena;
    size_t bytes = transfer_ledger_bytes(&limits);
    books->memory = malloc(bytes);
    arena_over(&arena, books->memory, bytes);
    assert_int_equal(transfer_ledger_open(&books->ledger, &arena, &limits), STATUS_OK);
}

static void close_books(struct books *books) {
    transfer_ledger_audit(&books->ledger);
    assert_int_equal(books->ledger.used_count, 0);
    assert_int_equal(books->ledger.page_count, 0);
    assert_int_equal(books->ledger.busy_count, 0);
    assert_int_equal(books->ledger.counts.leased, books->ledger.counts.released);
    free(books->memory);
}

static struct transfer_grant grant(uint64_t number) {
    return (struct transfer_grant){number, 7};
}

/* Two blocks on pages 3 and 5, the second with 10 rows. */
static void expect_two(struct transfer_ledger *ledger, uint64_t number) {
    struct transfer_block blocks[2] = {{{3}, 64, 0, SLICES}, {{5}, 10, 0, SLICES}};
    assert_int_equal(transfer_ledger_expect(ledger, grant(number), blocks, 2, HOUR, NULL),
                     STATUS_OK);
}

static enum transfer_verdict arrive(struct transfer_ledger *ledger, uint64_t number, uint32_t block,
                                    uint32_t slice, uint32_t rows, struct transfer_write *write) {
    return transfer_ledger_arrive(ledger, 1, grant(number), block, slice, rows, write);
}

static void bring(struct transfer_ledger *ledger, uint64_t number, uint32_t block, uint32_t slice,
                  uint32_t rows) {
    struct transfer_write write;
    assert_int_equal(arrive(ledger, number, block, slice, rows, &write), TRANSFER_ACCEPT);
    transfer_ledger_written(ledger, &write, TRANSFER_WRITTEN);
}

static struct transfer_ended take_one(struct transfer_ledger *ledger) {
    struct transfer_ended announced, ended;
    assert_true(transfer_ledger_announce(ledger, &announced));
    assert_true(transfer_ledger_take(ledger, &ended));
    assert_memory_equal(&announced, &ended, sizeof ended);
    assert_false(transfer_ledger_announce(ledger, &announced));
    return ended;
}

TEST(layers_count_up_and_the_finish_may_come_first) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    uint32_t layers;
    expect_two(ledger, 1);
    bring(ledger, 1, 0, 0, 64);
    assert_true(transfer_ledger_layers(ledger, grant(1), &layers));
    assert_int_equal(layers, 0);
    bring(ledger, 1, 1, 0, 10);
    assert_true(transfer_ledger_layers(ledger, grant(1), &layers));
    assert_int_equal(layers, 1);
    assert_int_equal(transfer_ledger_finish(ledger, 1, grant(1), 2 * SLICES, "token 17", 8),
                     TRANSFER_ACCEPT);
    assert_int_equal(transfer_ledger_finish(ledger, 1, grant(1), 2 * SLICES, "token 18", 8),
                     TRANSFER_DUPLICATE);
    for (uint32_t slice = SLICES; slice-- > 1;) {
        bring(ledger, 1, 1, slice, 10);
        bring(ledger, 1, 0, slice, 64);
    }
    struct transfer_ended ended = take_one(ledger);
    assert_int_equal(ended.end, TRANSFER_DONE);
    assert_int_equal(ended.layers, SLICES);
    assert_int_equal(ended.blocks, 2);
    assert_int_equal(ended.summary_bytes, 8);
    assert_memory_equal(ended.summary, "token 17", 8);
    assert_false(transfer_ledger_layers(ledger, grant(1), &layers));
    close_books(&books);
}

/* The finish may come while slices are still being written: they are not missing yet. */
TEST(slices_being_written_are_no_gap) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_write writes[2 * SLICES];
    struct transfer_ended ended;
    expect_two(ledger, 1);
    for (uint32_t i = 0; i < ARRAY_COUNT(writes); i++)
        assert_int_equal(arrive(ledger, 1, i % 2, i / 2, i % 2 ? 10 : 64, &writes[i]),
                         TRANSFER_ACCEPT);
    assert_int_equal(transfer_ledger_finish(ledger, 1, grant(1), ARRAY_COUNT(writes), NULL, 0),
                     TRANSFER_ACCEPT);
    for (uint32_t i = 0; i < ARRAY_COUNT(writes); i++) {
        assert_false(transfer_ledger_announce(ledger, &ended));
        transfer_ledger_written(ledger, &writes[i], TRANSFER_WRITTEN);
    }
    assert_int_equal(take_one(ledger).end, TRANSFER_DONE);
    close_books(&books);
}

TEST(nothing_is_taken_without_an_open_grant) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_write write;
    assert_int_equal(arrive(ledger, 9, 0, 0, 64, &write), TRANSFER_UNKNOWN);
    assert_false(transfer_ledger_knows(ledger, grant(1)));
    expect_two(ledger, 1);
    assert_true(transfer_ledger_knows(ledger, grant(1)));
    bring(ledger, 1, 0, 0, 64);
    assert_int_equal(arrive(ledger, 1, 0, 0, 64, &write), TRANSFER_DUPLICATE);
    assert_int_equal(transfer_ledger_arrive(ledger, 2, grant(1), 0, 1, 64, &write),
                     TRANSFER_FOREIGN);
    assert_int_equal(transfer_ledger_finish(ledger, 2, grant(1), 1, NULL, 0), TRANSFER_FOREIGN);
    assert_false(transfer_ledger_end_by(ledger, TRANSFER_IN, 2, grant(1), TRANSFER_CANCELLED, ""));
    assert_true(transfer_ledger_end(ledger, TRANSFER_IN, grant(1), TRANSFER_CANCELLED, NULL));
    assert_false(transfer_ledger_end(ledger, TRANSFER_IN, grant(1), TRANSFER_DONE, NULL));
    assert_int_equal(arrive(ledger, 1, 0, 1, 64, &write), TRANSFER_LATE);
    assert_true(transfer_ledger_knows(ledger, grant(1)));
    assert_int_equal(take_one(ledger).end, TRANSFER_CANCELLED);
    assert_false(transfer_ledger_knows(ledger, grant(1)));
    assert_int_equal(arrive(ledger, 1, 0, 1, 64, &write), TRANSFER_UNKNOWN);
    close_books(&books);
}

TEST(a_cancelled_grant_waits_for_its_last_write) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_ended ended;
    struct transfer_write write;
    int64_t wake_ns;
    expect_two(ledger, 1);
    assert_int_equal(arrive(ledger, 1, 0, 2, 64, &write), TRANSFER_ACCEPT);
    assert_int_equal(transfer_ledger_stuck(ledger, 100, 1000, &wake_ns), TRANSFER_NO_PEER);
    assert_true(wake_ns == INT64_MAX);
    assert_true(transfer_ledger_end(ledger, TRANSFER_IN, grant(1), TRANSFER_CANCELLED, NULL));
    assert_false(transfer_ledger_announce(ledger, &ended));
    assert_false(transfer_ledger_take(ledger, &ended));
    assert_int_equal(transfer_ledger_stuck(ledger, 100, 1000, &wake_ns), TRANSFER_NO_PEER);
    assert_true(wake_ns == 1100);
    assert_int_equal(transfer_ledger_stuck(ledger, 100, 1100, &wake_ns), 1);
    assert_int_equal(ledger->page_count, 2);
    transfer_ledger_written(ledger, &write, TRANSFER_WRITTEN);
    assert_int_equal(take_one(ledger).end, TRANSFER_CANCELLED);
    close_books(&books);
}

TEST(what_does_not_fit_ends_the_grant) {
    static const struct {
        uint32_t block, slice, rows;
    } wrong[] = {
        {2, 0, 64}, {0, SLICES, 64}, {0, 0, 63}, {1, 0, 64}, {UINT32_MAX, UINT32_MAX, UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct books books;
        struct transfer_write write;
        open_books(&books);
        expect_two(&books.ledger, 1);
        assert_int_equal(
            arrive(&books.ledger, 1, wrong[i].block, wrong[i].slice, wrong[i].rows, &write),
            TRANSFER_MISFIT);
        assert_int_equal(take_one(&books.ledger).end, TRANSFER_REFUSED);
        close_books(&books);
    }
}

/* However it ends: the leading blocks of which every slice is there and checked. */
TEST(blocks_that_arrived_whole_are_counted) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_write write;
    expect_two(ledger, 1);
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        bring(ledger, 1, 1, slice, 10); /* the second is no use without the first */
        if (slice + 1 < SLICES) bring(ledger, 1, 0, slice, 64);
    }
    assert_true(transfer_ledger_end(ledger, TRANSFER_IN, grant(1), TRANSFER_DEADLINE, NULL));
    assert_int_equal(take_one(ledger).blocks, 0);
    for (enum transfer_written how = TRANSFER_WRITTEN; how <= TRANSFER_BROKEN; how++) {
        expect_two(ledger, 2 + how);
        for (uint32_t slice = 0; slice + 1 < SLICES; slice++)
            bring(ledger, 2 + how, 0, slice, 64);
        bring(ledger, 2 + how, 1, 0, 10);
        assert_int_equal(arrive(ledger, 2 + how, 0, SLICES - 1, 64, &write), TRANSFER_ACCEPT);
        if (how != TRANSFER_BROKEN) /* a slice that is being written when the end comes */
            transfer_ledger_end(ledger, TRANSFER_IN, grant(2 + how), TRANSFER_CANCELLED, NULL);
        transfer_ledger_written(ledger, &write, how);
        assert_int_equal(take_one(ledger).blocks, how == TRANSFER_WRITTEN);
    }
    close_books(&books);
}

TEST(damage_and_gaps_end_the_grant) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_write write;
    expect_two(ledger, 1);
    assert_int_equal(arrive(ledger, 1, 1, 3, 10, &write), TRANSFER_ACCEPT);
    transfer_ledger_written(ledger, &write, TRANSFER_SPOILT);
    struct transfer_ended ended = take_one(ledger);
    assert_int_equal(ended.end, TRANSFER_DAMAGED);
    assert_string_equal(ended.reason, "slice 3 of block 1 came with a wrong checksum");

    expect_two(ledger, 2);
    bring(ledger, 2, 0, 0, 64);
    assert_int_equal(transfer_ledger_finish(ledger, 1, grant(2), 1, NULL, 0), TRANSFER_ACCEPT);
    ended = take_one(ledger);
    assert_int_equal(ended.end, TRANSFER_DAMAGED);
    assert_string_equal(ended.reason, "the sender finished with 7 slices missing");

    expect_two(ledger, 3);
    assert_int_equal(arrive(ledger, 3, 0, 0, 64, &write), TRANSFER_ACCEPT);
    transfer_ledger_written(ledger, &write, TRANSFER_BROKEN);
    assert_int_equal(take_one(ledger).end, TRANSFER_PEER_LOST);
    close_books(&books);
}

TEST(bad_expectations_take_nothing) {
    static const struct transfer_block wrong[] = {
        {{PAGES}, 64, 0, SLICES}, {{5}, 0, 0, SLICES},
        {{5}, 65, 0, SLICES},     {{5}, 64, 0, SLICES + 1},
        {{5}, 64, 1, SLICES},     {{5}, 64, SLICES, 1},
        {{5}, 64, 0, 0},          {{4}, 64, 0, SLICES} /* twice */,
        {{5}, 64, UINT32_MAX, 2},
    };
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct transfer_block blocks[2] = {{{4}, 64, 0, SLICES}, wrong[i]};
        struct error error;
        assert_int_equal(transfer_ledger_expect(ledger, grant(1), blocks, 2, HOUR, &error),
                         STATUS_INVALID);
        assert_int_equal(ledger->page_count, 0);
        transfer_ledger_audit(ledger);
    }
    struct transfer_block block = {{4}, 64, 0, SLICES};
    assert_int_equal(transfer_ledger_expect(ledger, grant(1), &block, 0, HOUR, NULL),
                     STATUS_INVALID);
    struct transfer_grant zeros = {0, 0};
    assert_int_equal(transfer_ledger_expect(ledger, zeros, &block, 1, HOUR, NULL), STATUS_INVALID);
    for (uint64_t i = 0; i < TICKETS; i++) {
        block.page.index = (uint32_t)i;
        assert_int_equal(transfer_ledger_expect(ledger, grant(i), &block, 1, HOUR, NULL),
                         STATUS_OK);
        assert_int_equal(transfer_ledger_expect(ledger, grant(i), &block, 1, HOUR, NULL),
                         STATUS_INVALID);
    }
    block.page.index = TICKETS;
    assert_int_equal(transfer_ledger_expect(ledger, grant(99), &block, 1, HOUR, NULL), STATUS_FULL);
    transfer_ledger_end_all(ledger, TRANSFER_CANCELLED, "the rank ends");
    for (uint64_t i = 0; i < TICKETS; i++) {
        struct transfer_ended ended;
        assert_true(transfer_ledger_announce(ledger, &ended) &&
                    transfer_ledger_take(ledger, &ended));
        assert_string_equal(ended.reason, "the rank ends");
    }
    close_books(&books);
}

TEST(deadlines_end_only_what_is_due) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(transfer_ledger_offer(ledger, grant(i + 1), 5, 100 * (i + 1), NULL),
                         STATUS_OK);
    assert_int_equal(transfer_ledger_next_deadline(ledger), 100);
    transfer_ledger_expire(ledger, 99);
    transfer_ledger_audit(ledger);
    struct transfer_ended ended;
    assert_false(transfer_ledger_announce(ledger, &ended));
    transfer_ledger_expire(ledger, 250);
    assert_int_equal(transfer_ledger_next_deadline(ledger), 300);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(transfer_ledger_announce(ledger, &ended));
        assert_int_equal(ended.end, TRANSFER_DEADLINE);
        assert_int_equal(ended.grant.high, i + 1);
    }
    transfer_ledger_expire(ledger, HOUR);
    assert_true(transfer_ledger_next_deadline(ledger) == INT64_MAX);
    while (transfer_ledger_announce(ledger, &ended)) {
    }
    while (transfer_ledger_take(ledger, &ended)) {
    }
    close_books(&books);
}

TEST(a_sender_keeps_its_memory_until_nobody_reads_it) {
    struct books books;
    open_books(&books);
    struct transfer_ledger *ledger = &books.ledger;
    struct transfer_ended ended;
    uint32_t slot, other;
    uint64_t peer, slice_count;
    assert_int_equal(transfer_ledger_offer(ledger, grant(1), 5, HOUR, NULL), STATUS_OK);
    assert_true(transfer_ledger_hold(ledger, grant(1), &slot));
    assert_true(transfer_ledger_hold(ledger, grant(1), &other));
    assert_true(transfer_ledger_finish_sending(ledger, grant(1), &peer, &slice_count));
    assert_int_equal(slice_count, 2);
    assert_int_equal(peer, 5);
    assert_false(transfer_ledger_hold(ledger, grant(1), &other));
    assert_false(transfer_ledger_finish_sending(ledger, grant(1), &peer, &slice_count));
    assert_false(transfer_ledger_end_by(ledger, TRANSFER_OUT, 6, grant(1), TRANSFER_DONE, NULL));
    assert_true(transfer_ledger_end_by(ledger, TRANSFER_OUT, 5, grant(1), TRANSFER_DONE, NULL));
    transfer_ledger_release(ledger, slot);
    assert_false(transfer_ledger_announce(ledger, &ended));
    transfer_ledger_release(ledger, slot);
    assert_int_equal(take_one(ledger).end, TRANSFER_DONE);
    close_books(&books);
}

/* ---- a world of accidents ---- */

/* Two ranks, messages in any order, late, twice or lost with their connection; everything may be
 * cancelled, expire, break at any moment. The world keeps books of its own. */
#define MESSAGES 4096
#define WRITES 256

enum message_kind { MESSAGE_SLICE, MESSAGE_FINISH, MESSAGE_ACK, MESSAGE_ABORT };

struct message {
    enum message_kind kind;
    uint64_t peer, number;
    uint32_t block, slice, rows, slice_count;
    enum transfer_end end;
};

struct world_grant {
    bool expected, offered;
    bool done_in, done_out;
    uint32_t block_count, pushed, held, slot;
    uint64_t peer;
    struct transfer_block blocks[4];
};

struct world {
    struct books in, out;
    uint32_t counter[4], key[2];
    int64_t now_ns;
    uint64_t peer; /* the connection that is up */
    struct message messages[MESSAGES];
    uint32_t message_count;
    struct transfer_write writes[WRITES];
    uint32_t write_count;
    uint32_t writers[PAGES]; /* writes under way */
    uint64_t page_owner[PAGES];
    struct world_grant grants[512];
    uint32_t grant_count; /* tickets 1..grant_count exist */
    uint32_t done;
};

static uint32_t roll(struct world *world, uint32_t below) {
    uint32_t words[4];
    random_philox(world->counter, world->key, words);
    world->counter[0]++;
    return words[0] % below;
}

static void send_message(struct world *world, struct message message) {
    if (world->message_count < MESSAGES) world->messages[world->message_count++] = message;
}

static void world_expect(struct world *world) {
    if (world->grant_count + 1 == ARRAY_COUNT(world->grants)) return;
    uint32_t number = world->grant_count + 1;
    struct world_grant *fresh = &world->grants[number];
    *fresh = (struct world_grant){.block_count = 1 + roll(world, 4)};
    uint32_t page = roll(world, PAGES), found = 0;
    for (uint32_t i = 0; i < PAGES && found < fresh->block_count; i++, page = (page + 1) % PAGES) {
        if (world->page_owner[page]) continue;
        uint32_t first = roll(world, 3) ? 0 : roll(world, SLICES);
        fresh->blocks[found++] =
            (struct transfer_block){{page}, 1 + roll(world, 64), first, SLICES - first};
    }
    if (found < fresh->block_count) return;
    int64_t deadline_ns = world->now_ns + 1 + roll(world, 400);
    if (transfer_ledger_expect(&world->in.ledger, grant(number), fresh->blocks, found, deadline_ns,
                               NULL) == STATUS_FULL)
        return;
    world->grant_count = number;
    fresh->expected = true;
    for (uint32_t i = 0; i < found; i++)
        world->page_owner[fresh->blocks[i].page.index] = number;
    if (transfer_ledger_offer(&world->out.ledger, grant(number), world->peer,
                              world->now_ns + 1 + roll(world, 400), NULL) == STATUS_OK) {
        fresh->offered = true;
        fresh->peer = world->peer;
    }
}

static uint32_t some_grant(struct world *world) {
    if (world->grant_count == 0) return 0;
    uint32_t back = roll(world, world->grant_count < 8 ? world->grant_count : 8);
    return world->grant_count - back;
}

static void world_push(struct world *world) {
    uint32_t number = some_grant(world);
    struct world_grant *at = &world->grants[number];
    if (!number || !at->offered) return;
    uint32_t block = at->pushed / SLICES, slice = at->pushed % SLICES;
    if (block == at->block_count || roll(world, 200) == 0) {
        uint64_t peer, slice_count;
        if (transfer_ledger_finish_sending(&world->out.ledger, grant(number), &peer, &slice_count))
            send_message(world, (struct message){.kind = MESSAGE_FINISH,
                                                 .peer = at->peer,
                                                 .number = number,
                                                 .slice_count = (uint32_t)slice_count});
        return;
    }
    at->pushed++;
    if (slice < at->blocks[block].slice_first) return;
    if (!transfer_ledger_hold(&world->out.ledger, grant(number), &at->slot)) return;
    at->held++;
    send_message(world,
                 (struct message){.kind = MESSAGE_SLICE,
                                  .peer = at->peer,
                                  .number = number,
                                  .block = block,
                                  .slice = slice,
                                  .rows = at->blocks[block].row_count + (roll(world, 500) == 0)});
}

static void world_deliver(struct world *world) {
    if (world->message_count == 0) return;
    uint32_t index = roll(world, world->message_count);
    struct message message = world->messages[index];
    if (roll(world, 20)) world->messages[index] = world->messages[--world->message_count];
    struct transfer_grant name = grant(message.number);
    struct transfer_write write;
    switch (message.kind) {
    case MESSAGE_SLICE:
        if (world->write_count == WRITES) return;
        if (transfer_ledger_arrive(&world->in.ledger, message.peer, name, message.block,
                                   message.slice, message.rows, &write) != TRANSFER_ACCEPT)
            return;
        assert_int_equal(world->page_owner[write.page.index], message.number);
        world->writers[write.page.index]++;
        world->writes[world->write_count++] = write;
        return;
    case MESSAGE_FINISH:
        (void)!transfer_ledger_finish(&world->in.ledger, message.peer, name, message.slice_count,
                                      &message.number, sizeof message.number);
        return;
    case MESSAGE_ACK:
        transfer_ledger_end_by(&world->out.ledger, TRANSFER_OUT, message.peer, name, message.end,
                               "told");
        return;
    case MESSAGE_ABORT:
        transfer_ledger_end_by(&world->in.ledger, TRANSFER_IN, message.peer, name,
                               TRANSFER_CANCELLED, "told");
        return;
    }
}

static void world_write(struct world *world) {
    if (world->write_count == 0) return;
    uint32_t index = roll(world, world->write_count);
    struct transfer_write write = world->writes[index];
    world->writes[index] = world->writes[--world->write_count];
    uint32_t luck = roll(world, 200);
    world->writers[write.page.index]--;
    transfer_ledger_written(&world->in.ledger, &write,
                            luck == 0   ? TRANSFER_SPOILT
                            : luck == 1 ? TRANSFER_BROKEN
                                        : TRANSFER_WRITTEN);
}

static void world_release(struct world *world) {
    uint32_t number = some_grant(world);
    if (!number || world->grants[number].held == 0) return;
    world->grants[number].held--;
    transfer_ledger_release(&world->out.ledger, world->grants[number].slot);
}

static void world_announce(struct world *world) {
    struct transfer_ended ended;
    if (transfer_ledger_announce(&world->in.ledger, &ended) && ended.peer)
        send_message(world, (struct message){.kind = MESSAGE_ACK,
                                             .peer = ended.peer,
                                             .number = ended.grant.high,
                                             .end = ended.end});
    if (transfer_ledger_announce(&world->out.ledger, &ended) && ended.end != TRANSFER_DONE)
        send_message(world, (struct message){.kind = MESSAGE_ABORT,
                                             .peer = ended.peer,
                                             .number = ended.grant.high});
}

static void world_take(struct world *world) {
    struct transfer_ended ended;
    if (transfer_ledger_take(&world->in.ledger, &ended)) {
        struct world_grant *at = &world->grants[ended.grant.high];
        assert_true(at->expected && !at->done_in);
        at->done_in = true;
        for (uint32_t i = 0; i < at->block_count; i++) {
            uint32_t page = at->blocks[i].page.index;
            assert_int_equal(world->writers[page], 0);
            assert_int_equal(world->page_owner[page], ended.grant.high);
            world->page_owner[page] = 0;
        }
        if (ended.end == TRANSFER_DONE) {
            world->done++;
            assert_int_equal(ended.layers, SLICES);
            assert_int_equal(ended.blocks, at->block_count);
            assert_memory_equal(ended.summary, &ended.grant.high, sizeof(uint64_t));
        }
    }
    if (transfer_ledger_take(&world->out.ledger, &ended)) {
        struct world_grant *at = &world->grants[ended.grant.high];
        assert_true(at->offered && !at->done_out && at->held == 0);
        at->done_out = true;
    }
}

static void world_accident(struct world *world) {
    uint32_t number = some_grant(world);
    int64_t wake_ns;
    switch (roll(world, 5)) {
    case 0:
        transfer_ledger_end(&world->in.ledger, TRANSFER_IN, grant(number), TRANSFER_CANCELLED,
                            NULL);
        break;
    case 1:
        transfer_ledger_end(&world->out.ledger, TRANSFER_OUT, grant(number), TRANSFER_CANCELLED,
                            NULL);
        break;
    case 2: /* the connection breaks; each side learns it at its own time */
        transfer_ledger_end_peer(&world->out.ledger, world->peer, TRANSFER_PEER_LOST, NULL);
        world->peer++;
        break;
    case 3:
        transfer_ledger_end_peer(&world->in.ledger, 1 + roll(world, (uint32_t)world->peer),
                                 TRANSFER_PEER_LOST, NULL);
        break;
    default:
        transfer_ledger_stuck(&world->in.ledger, 10, world->now_ns, &wake_ns);
    }
}

static void world_step(struct world *world) {
    uint32_t luck = roll(world, 100);
    if (luck < 4)
        world_expect(world);
    else if (luck < 36)
        world_push(world);
    else if (luck < 62)
        world_deliver(world);
    else if (luck < 84)
        world_write(world);
    else if (luck < 93)
        world_release(world);
    else if (luck < 96)
        world_announce(world);
    else if (luck < 99)
        world_take(world);
    else
        world_accident(world);
    if (roll(world, 4) == 0) {
        world->now_ns++;
        transfer_ledger_expire(&world->in.ledger, world->now_ns);
        transfer_ledger_expire(&world->out.ledger, world->now_ns);
    }
}

static void world_end(struct world *world) {
    transfer_ledger_expire(&world->in.ledger, HOUR);
    transfer_ledger_expire(&world->out.ledger, HOUR);
    while (world->write_count)
        world_write(world);
    for (uint32_t number = 1; number <= world->grant_count; number++)
        for (struct world_grant *at = &world->grants[number]; at->held; at->held--)
            transfer_ledger_release(&world->out.ledger, at->slot);
    for (uint32_t i = 0; i < TICKETS; i++) {
        world_announce(world);
        world_take(world);
    }
    for (uint32_t number = 1; number <= world->grant_count; number++) {
        struct world_grant *at = &world->grants[number];
        assert_true(at->done_in == at->expected && at->done_out == at->offered);
    }
    while (world->message_count && world->write_count < WRITES) /* nothing is written any more */
        world_deliver(world);
    assert_int_equal(world->write_count, 0);
    close_books(&world->in);
    close_books(&world->out);
}

TEST(whatever_happens_every_grant_ends_once) {
    static struct world world;
    uint64_t done = 0, all = 0;
    for (uint32_t seed = 0; seed < 1000; seed++) {
        memset(&world, 0, sizeof world);
        world.key[0] = seed;
        world.peer = 1;
        open_books(&world.in);
        open_books(&world.out);
        for (uint32_t step = 0; step < 1200; step++) {
            world_step(&world);
            if (step % 64 == 0) {
                transfer_ledger_audit(&world.in.ledger);
                transfer_ledger_audit(&world.out.ledger);
            }
        }
        world_end(&world);
        done += world.done;
        all += world.grant_count;
    }
    assert_true(done > all / 10); /* accidents, but not only */
    assert_true(done < all);
}
