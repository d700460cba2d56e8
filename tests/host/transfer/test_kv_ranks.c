/* SPDX-License-Identifier: Apache-2.0
 * The KV storage of a unit of several ranks: what one rank's pages keep, another's load, byte for
 * byte; each answer comes from the rank that was asked; blocks in a rank's memory are its own; a
 * rank whose disk fails stops writing, by itself and with one line, while the others go on; a rank
 * that dies is answered for, until it is back, and one that is lost without having died is told of;
 * a rank's engine may wait for a load in the middle of a step, before its
 * storage was told of it, and that the load is over is said before the step's end. Ranks are
 * threads here, each with pages and an agent.
 */
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "contract/machine.h"
#include "contract/record_unit.h"
#include "contract/step_plan.h"
#include "host/storage/kv_files_io.h"
#include "host/transfer/kv_ranks.h"
#include "host/wire/record_queue.h"
#include "test_case.h"

enum { RANKS_MAX = 3, PAGES = 24, WIDTH = 72, SLICES = 3, BLOCKS = 6, SLOT = 5 };
#define PATIENCE_NS INT64_C(60000000000)

static int64_t death_ns_max = PATIENCE_NS;

struct rank {
    struct kv_pages pages;
    struct kv_agent *agent; /* but rank 0's */
    struct kv_io_faults faults;
    atomic_bool broken; /* its writes fail */
    atomic_int lines;   /* of its log */
};

struct unit {
    struct event_base *base;
    struct kv_ranks *kv_ranks;
    struct rank ranks[RANKS_MAX];
    uint32_t rank_count;
    struct record_queue reported;
    int lost;
    char folder[64], control[128];
};

static int fail_writes(void *context, const struct kv_io_op *op, size_t *bytes) {
    struct rank *rank = context;
    return op->write && rank->broken ? EIO : 0;
}

static void count_line(void *context, const char *line) {
    struct rank *rank = context;
    if (strstr(line, "nothing is written for now")) rank->lines++;
}

static void take_record(void *context, const struct record *record) {
    struct unit *unit = context;
    assert_true(record_valid(record, record->bytes));
    record_queue_force(&unit->reported, record);
}

static void lose(void *context, const struct error *error) {
    struct unit *unit = context;
    assert_non_null(strstr(error->text, "rank 1"));
    unit->lost++;
}

static struct kv_ranks_options options_of(struct unit *unit, uint32_t rank, const char *directory,
                                          uint64_t host_bytes) {
    static const uint8_t model[32] = "the model of these tests";
    struct rank *is = &unit->ranks[rank];
    is->faults = (struct kv_io_faults){fail_writes, is};
    return (struct kv_ranks_options){.pages = &is->pages,
                                     .model_id = model,
                                     .numerics_id = "test",
                                     .storage = {.directory = directory,
                                                 .disk_bytes = (uint64_t)64 << 20,
                                                 .host_bytes = host_bytes,
                                                 .scan_ms = 10,
                                                 .faults = &is->faults,
                                                 .log = count_line,
                                                 .log_context = is},
                                     .control = unit->control,
                                     .rank = rank,
                                     .rank_count = unit->rank_count,
                                     .context = unit,
                                     .say = take_record,
                                     .lost = lose,
                                     .death_ns_max = death_ns_max};
}

static void open_unit(struct unit *unit, uint32_t ranks, bool disk, uint64_t host_bytes) {
    struct error error = {""};
    *unit = (struct unit){.base = event_base_new(),
                          .rank_count = ranks,
                          .reported = {.bytes_max = SIZE_MAX},
                          .folder = "/tmp/fathom-kv-XXXXXX"};
    assert_non_null(mkdtemp(unit->folder));
    snprintf(unit->control, sizeof unit->control, "ipc://%s/ranks", unit->folder);
    const char *directory = disk ? unit->folder : NULL;
    for (uint32_t i = 0; i < ranks; i++) {
        const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_BF16, WIDTH, SLICES, 0);
        size_t bytes = PAGES * kv_format_block_bytes(&format);
        enum status status = kv_pages_open(&unit->ranks[i].pages, &format, bytes, &error);
        assert_int_equal(status, STATUS_OK);
    }
    for (uint32_t i = 1; i < ranks; i++) {
        struct kv_ranks_options options = options_of(unit, i, directory, host_bytes);
        if (kv_ranks_agent_open(&options, &unit->ranks[i].agent, &error))
            fail_msg("%s", error.text);
    }
    struct kv_ranks_options options = options_of(unit, 0, directory, host_bytes);
    assert_true(kv_ranks_wanted(&options));
    if (kv_ranks_open(&options, unit->base, &unit->kv_ranks, &error)) fail_msg("%s", error.text);
    assert_int_equal(kv_ranks_addresses(unit->kv_ranks)[ranks - 1][0], 0); /* no transports */
}

static void close_unit(struct unit *unit) {
    char command[128];
    kv_ranks_close(unit->kv_ranks);
    for (uint32_t i = 0; i < unit->rank_count; i++) {
        kv_ranks_agent_close(unit->ranks[i].agent);
        kv_pages_close(&unit->ranks[i].pages);
    }
    record_queue_clear(&unit->reported);
    event_base_free(unit->base);
    snprintf(command, sizeof command, "rm -rf %s", unit->folder);
    assert_int_equal(system(command), 0);
}

/* The next answer; the caller frees it. */
static void *next_reported(struct unit *unit, enum record_kind kind, uint32_t rank) {
    int64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (!record_queue_first(&unit->reported)) {
        assert_true(clock_now_ns() < until_ns);
        event_base_loop(unit->base, EVLOOP_NONBLOCK);
        usleep(200);
    }
    const struct record *first = record_queue_first(&unit->reported);
    struct record *copy = malloc(first->bytes);
    check(copy);
    memcpy(copy, first, first->bytes);
    record_queue_drop(&unit->reported);
    assert_int_equal(copy->kind, kind);
    assert_int_equal(record_kv_rank(copy), rank);
    return copy;
}

/* ---- asking ---- */

static struct block_key key_of(uint32_t family, uint32_t block) {
    struct block_key key = {{0}};
    for (size_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)(family * 31 + block * 7 + i * (family + 3) + 1);
    return key;
}

static uint8_t byte_of(uint32_t family, uint32_t block, size_t at) {
    return (uint8_t)(family * 13 + block * 5 + at % 251);
}

static void *make(enum record_kind kind, const void *fixed, uint32_t rank) {
    uint32_t bytes = (uint32_t)record_bytes(kind, fixed);
    struct outbox box = {.memory = calloc(1, bytes), .capacity = bytes};
    struct record_kv *record = machine_outbox_put(&box, kind, fixed);
    check(record);
    record->rank = rank;
    return record;
}

static void give(struct unit *unit, void *record) {
    assert_true(record_valid(record, ((struct record *)record)->bytes));
    kv_ranks_take(unit->kv_ranks, record);
    free(record);
}

/* Blocks of a family, in the rank's pages from 0 on; what became of them. */
static struct record_kv_stored keep(struct unit *unit, uint32_t rank, uint32_t family) {
    struct record_kv_put *keep =
        make(RECORD_KV_PUT, &(struct record_kv_put){.block_count = BLOCKS}, rank);
    struct block_key *keys = kv_keep_keys(keep);
    struct page_id *pages = kv_keep_pages(keep);
    struct kv_pages *own = &unit->ranks[rank].pages;
    keep->block_count = BLOCKS;
    keep->last_page = BLOCKS - 1;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        keys[1 + i] = key_of(family, i);
        pages[i].index = i;
        kv_pages_note(own, i, KV_BLOCK_TOKENS);
        uint8_t *rows = kv_pages_slice(own, i, 0);
        for (size_t at = 0; at < SLICES * own->slice_bytes; at++)
            rows[at] = byte_of(family, i, at);
    }
    give(unit, keep);
    struct record_kv_stored *reported = next_reported(unit, RECORD_KV_STORED, rank);
    struct record_kv_stored kept = *reported;
    assert_int_equal(kept.last_page, BLOCKS - 1);
    free(reported);
    return kept;
}

static struct record_kv_found find(struct unit *unit, uint32_t rank, uint32_t family) {
    struct record_kv_find *find =
        make(RECORD_KV_FIND, &(struct record_kv_find){.key_count = BLOCKS}, rank);
    struct block_key *keys = kv_find_keys(find);
    find->request.low = 77;
    find->key_count = BLOCKS;
    for (uint32_t i = 0; i < BLOCKS; i++)
        keys[i] = key_of(family, i);
    give(unit, find);
    struct record_kv_found *reported = next_reported(unit, RECORD_KV_FOUND, rank);
    struct record_kv_found found = *reported;
    assert_int_equal(found.request.low, 77);
    free(reported);
    return found;
}

/* Until that rank sees all of it. */
static void wait_found(struct unit *unit, uint32_t rank, uint32_t family) {
    int64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (find(unit, rank, family).blocks < BLOCKS) {
        assert_true(clock_now_ns() < until_ns);
        usleep(2000);
    }
}

/* Into the rank's pages from the middle on. */
static void give_load(struct unit *unit, uint32_t rank, uint32_t family, bool in_step) {
    struct record_kv_load *load = make(
        RECORD_KV_LOAD, &(struct record_kv_load){.block_count = BLOCKS, .in_step = in_step}, rank);
    struct block_key *keys = kv_load_keys(load);
    struct page_id *pages = kv_load_pages(load);
    load->request.low = 78;
    load->slot = SLOT;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        keys[i] = key_of(family, i);
        pages[i].index = PAGES / 2 + i;
    }
    give(unit, load);
}

static void check_pages(struct unit *unit, uint32_t rank, uint32_t family) {
    struct kv_pages *own = &unit->ranks[rank].pages;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        const uint8_t *rows = kv_pages_slice(own, PAGES / 2 + i, 0);
        for (size_t at = 0; at < SLICES * own->slice_bytes; at++)
            if (rows[at] != byte_of(family, i, at)) fail_msg("block %u, byte %zu", i, at);
    }
}

/* Whole, and right. How many blocks came from memory. */
static uint32_t check_loaded(struct unit *unit, uint32_t rank, uint32_t family) {
    struct record_kv_loaded *loaded = next_reported(unit, RECORD_KV_LOADED, rank);
    assert_int_equal(loaded->request.low, 78);
    assert_int_equal(loaded->end.blocks, BLOCKS);
    uint32_t host_blocks = loaded->end.host_blocks;
    free(loaded);
    check_pages(unit, rank, family);
    return host_blocks;
}

static uint32_t load(struct unit *unit, uint32_t rank, uint32_t family) {
    give_load(unit, rank, family, false);
    return check_loaded(unit, rank, family);
}

/* ---- tests ---- */

TEST(one_rank_needs_no_wire) {
    struct unit unit;
    open_unit(&unit, 1, true, 0);
    for (uint32_t family = 1; family < 5; family++) {
        assert_int_equal(find(&unit, 0, family).blocks, 0);
        assert_int_equal(keep(&unit, 0, family).dropped, 0);
    }
    for (uint32_t family = 1; family < 5; family++) {
        wait_found(&unit, 0, family);
        load(&unit, 0, family);
    }
    close_unit(&unit);
}

TEST(ranks_share_what_is_on_disk) {
    struct unit unit;
    open_unit(&unit, 3, true, 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(keep(&unit, rank, 10 + rank).dropped, 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        for (uint32_t family = 0; family < 3; family++) {
            wait_found(&unit, rank, 10 + family);
            load(&unit, rank, 10 + family);
        }
    assert_int_equal(unit.lost, 0);
    close_unit(&unit);
}

TEST(what_is_in_memory_is_the_ranks_own) {
    struct unit unit;
    open_unit(&unit, 3, false, (uint64_t)1 << 20);
    assert_int_equal(keep(&unit, 1, 20).dropped, 0);
    struct record_kv_found found = find(&unit, 1, 20);
    assert_true(found.blocks == BLOCKS && found.host_blocks == BLOCKS);
    assert_int_equal(find(&unit, 0, 20).blocks, 0);
    assert_int_equal(find(&unit, 2, 20).blocks, 0);
    assert_int_equal(load(&unit, 1, 20), BLOCKS);
    close_unit(&unit);
}

TEST(one_ranks_disk_fails_alone) {
    struct unit unit;
    open_unit(&unit, 3, true, 0);
    unit.ranks[2].broken = true;
    uint32_t family = 30;
    int64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (keep(&unit, 2, family++).writable)
        assert_true(clock_now_ns() < until_ns);
    for (uint32_t i = 0; i < 5; i++)
        keep(&unit, 2, family++); /* answered all the same */
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct record_kv_stored kept = keep(&unit, rank, family + rank);
        assert_true(kept.writable && kept.dropped == 0);
        wait_found(&unit, 2, family + rank); /* it still reads */
        assert_int_equal(load(&unit, 2, family + rank), 0);
    }
    assert_int_equal(unit.ranks[2].lines, 1);
    assert_int_equal(unit.ranks[0].lines + unit.ranks[1].lines, 0);
    close_unit(&unit);
}

struct waiter {
    struct kv_agent *agent;
    bool come, over;
    struct load_end end;
};

/* As an engine at a step's end. */
static void *wait_for_load(void *context) {
    struct waiter *waiter = context;
    struct engine_loads loads = kv_ranks_agent_loads(waiter->agent);
    waiter->come = loads.await(loads.context, SLOT, UINT32_MAX);
    waiter->over = loads.take_end(loads.context, SLOT, &waiter->end);
    return NULL;
}

/* The load goes to the rank over the wire, and its end comes with the step. */
TEST(an_engine_waits_for_what_its_rank_loads) {
    struct unit unit;
    open_unit(&unit, 2, true, 0);
    assert_int_equal(keep(&unit, 1, 40).dropped, 0);
    wait_found(&unit, 1, 40);
    for (uint32_t turn = 0; turn < 20; turn++) {
        struct waiter waiter = {.agent = unit.ranks[1].agent};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_load, &waiter), 0);
        if (turn % 2) usleep(1000);
        give_load(&unit, 1, 40, true);
        pthread_join(thread, NULL);
        assert_true(waiter.come && waiter.over);
        assert_int_equal(waiter.end.blocks, BLOCKS);
        check_pages(&unit, 1, 40);
    }
    close_unit(&unit);
}

static void say_dead(struct unit *unit, uint32_t rank) {
    struct record_drain drain = {
        .record = record_head(RECORD_DRAIN, sizeof drain), .one_rank = 1, .rank = rank, .dead = 1};
    kv_ranks_take(unit->kv_ranks, &drain.record);
}

/* Whether it is seen before or after it was told of: what it was asked, and is asked while it is
 * away, comes to nothing, and the others are asked as before. */
TEST(a_dead_rank_is_answered_for_until_it_is_back) {
    struct unit unit;
    struct error error = {""};
    open_unit(&unit, 3, false, (uint64_t)1 << 20);
    assert_int_equal(keep(&unit, 1, 50).dropped, 0);
    assert_int_equal(keep(&unit, 2, 51).dropped, 0);
    for (uint32_t turn = 0; turn < 3; turn++) {
        kv_ranks_agent_close(unit.ranks[1].agent);
        for (uint32_t i = 0; i < turn * 20; i++) {
            event_base_loop(unit.base, EVLOOP_NONBLOCK);
            usleep(1000);
        }
        give_load(&unit, 1, 50, false);
        assert_null(record_queue_first(&unit.reported));
        say_dead(&unit, 1);
        struct record_kv_loaded *loaded = next_reported(&unit, RECORD_KV_LOADED, 1);
        assert_int_equal(loaded->end.blocks, 0);
        free(loaded);
        assert_int_equal(find(&unit, 1, 50).blocks, 0);
        assert_int_equal(keep(&unit, 1, 52).dropped, BLOCKS);
        assert_int_equal(find(&unit, 2, 51).blocks, BLOCKS);
        struct kv_ranks_options options = options_of(&unit, 1, NULL, (uint64_t)1 << 20);
        assert_int_equal(kv_ranks_agent_open(&options, &unit.ranks[1].agent, &error), STATUS_OK);
        free(next_reported(&unit, RECORD_KV_HELLO, 1));
        assert_int_equal(find(&unit, 1, 50).blocks, 0); /* its memory is empty */
        assert_int_equal(keep(&unit, 1, 50).dropped, 0);
        assert_int_equal(load(&unit, 1, 50), BLOCKS);
    }
    assert_int_equal(unit.lost, 0);
    close_unit(&unit);
}

/* The next one says hello before anybody has told of the death. */
TEST(a_rank_may_be_back_before_its_death_is_reported) {
    struct unit unit;
    struct error error = {""};
    open_unit(&unit, 2, false, (uint64_t)1 << 20);
    assert_int_equal(keep(&unit, 1, 60).dropped, 0);
    kv_ranks_agent_close(unit.ranks[1].agent);
    struct kv_ranks_options options = options_of(&unit, 1, NULL, (uint64_t)1 << 20);
    assert_int_equal(kv_ranks_agent_open(&options, &unit.ranks[1].agent, &error), STATUS_OK);
    for (uint32_t i = 0; i < 100; i++) {
        event_base_loop(unit.base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    assert_null(record_queue_first(&unit.reported));
    give_load(&unit, 1, 60, false); /* for the dead one */
    say_dead(&unit, 1);
    struct record_kv_loaded *loaded = next_reported(&unit, RECORD_KV_LOADED, 1);
    assert_int_equal(loaded->end.blocks, 0);
    free(loaded);
    free(next_reported(&unit, RECORD_KV_HELLO, 1));
    assert_int_equal(keep(&unit, 1, 60).dropped, 0);
    assert_int_equal(load(&unit, 1, 60), BLOCKS);
    close_unit(&unit);
}

/* The unit cannot go on with it, nor without it. */
TEST(a_rank_that_is_lost_and_not_dead_is_reported_of) {
    struct unit unit;
    death_ns_max = 300000000;
    open_unit(&unit, 2, true, 0);
    death_ns_max = PATIENCE_NS;
    kv_ranks_agent_close(unit.ranks[1].agent);
    unit.ranks[1].agent = NULL;
    int64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (!unit.lost) {
        assert_true(clock_now_ns() < until_ns);
        event_base_loop(unit.base, EVLOOP_NONBLOCK);
        usleep(200);
    }
    close_unit(&unit);
}
