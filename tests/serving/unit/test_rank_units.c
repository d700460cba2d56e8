/* SPDX-License-Identifier: Apache-2.0
 * Protects the unit of several ranks: steps come out whole (one plan a rank, in order, all in one
 * go) and only when the last one is back; requests spread evenly, and each gets its tokens from its
 * own rank; cancellations, refusals and failed steps end each request once; hello and load speak
 * for all; what passes between a rank's unit and the KV storage of its own pages is that rank's
 * alone. When a rank runs out of pages, one of its requests goes on at another that has room, with
 * the answer it would have had alone. The world checks every plan, token and account on the way.
 */
#include "world.h"

#include "base/random.h"
#include "serving/policy/balance/balance_decode.h"
#include "serving/policy/balance/balance_prefill.h"
#include "serving/unit/pages.h"
#include "test_case.h"

enum { RANKS = 3, NEW_TOKENS = 9, PROMPT_MAX = 150, ASKS_MAX = 16 };
enum { LONG_TOKENS = 230, PAGE_COUNT = 20 };

/* What the unit says besides. */
static struct {
    uint32_t masks, experts;
    struct record_kv *asks[ASKS_MAX]; /* of the KV storage, not yet answered */
    uint32_t ask_count;
    int64_t load_ns;  /* that a load takes */
    bool from_memory; /* loads come from the storage's memory, not from its disk */
} said;

static void take_other(struct world *world, const struct record *record) {
    said.masks += record->kind == RECORD_DRAIN;
    said.experts += record->kind == RECORD_EXPERTS;
    if (!record_is_kv(record)) return;
    assert_true(said.ask_count < ASKS_MAX);
    said.asks[said.ask_count] = malloc(record->bytes);
    memcpy(said.asks[said.ask_count++], record, record->bytes);
}

static struct unit_options small_unit(void) {
    struct unit_options options = world_options();
    options.requests_max = 5;
    options.page_count = PAGE_COUNT;
    options.context_tokens_max = 400;
    options.step_rows_max = 4;
    options.chunk_tokens_max = 0;
    options.prefix_cache = true;
    return options;
}

static struct unit_options storing_unit(void) {
    struct unit_options options = small_unit();
    options.kv_storage = true;
    options.kv_choice = KV_CHOICE_LOAD;
    options.page_bytes = 1000;
    return options;
}

static struct world *open_world(const struct unit_options *options) {
    struct world *world = world_open_ranks(options, RANKS);
    memset(&said, 0, sizeof said);
    said.load_ns = 1000;
    world->other = take_other;
    world->stop_odds = 0;
    world->step_ns = 1000;
    world->token_ns = 10;
    return world;
}

static void abandon_world(struct world *world) {
    while (said.ask_count)
        free(said.asks[--said.ask_count]);
    world_close(world);
}

/* All that was asked ends. */
static void close_world(struct world *world) {
    world_run(world);
    world_assert_empty(world);
    abandon_world(world);
}

static void step(struct world *world) {
    world->now_ns++;
    world_step(world);
    world_drain(world);
}

static void complete(struct world *world) {
    world_complete(world, false);
    world_drain(world);
}

static void send(struct world *world, const void *record) {
    world_send(world, record);
    world_drain(world);
}

/* Prompts of a family begin alike. */
static void submit_of(struct world *world, uint32_t family, uint32_t prompt_count) {
    world_submit_family(world, family + 2, prompt_count, NEW_TOKENS);
    world_drain(world);
}

static void submit(struct world *world) {
    submit_of(world, world->submitted % 4, 1 + world->submitted * 7 % PROMPT_MAX);
}

static void cancel(struct world *world, uint32_t number) {
    world_cancel(world, number);
    world_drain(world);
}

static void mask(struct world *world, uint32_t rank, bool back) {
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record),
                                  .one_rank = 1,
                                  .rank = rank,
                                  .back = back};
    send(world, &record);
}

static uint32_t ended(const struct world *world, enum finish_reason reason) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->submitted; i++)
        count += world->known[i].endings && world->known[i].reason == reason;
    return count;
}

static uint32_t held_by(const struct world *world, uint32_t rank) {
    return unit_request_count(world->units[rank]);
}

static uint32_t held_by_all(const struct world *world) {
    uint32_t held = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        held += held_by(world, rank);
    return held;
}

TEST(requests_spread_evenly_and_each_gets_its_tokens) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < RANKS * 3; i++)
        submit(world);
    step(world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(held_by(world, rank), 3);
    step(world); /* nothing new while a step is out */
    submit(world);
    step(world);
    assert_int_equal(world->steps, 1);
    world_run(world);
    assert_int_equal(ended(world, FINISH_LENGTH), world->submitted);
    assert_int_equal(world->load.totals.output_tokens, world->submitted * NEW_TOKENS);
    close_world(world);
}

TEST(all_ranks_introduce_themselves_as_one_and_again_with_a_new_role) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    step(world);
    assert_int_equal(world->hellos, 1);
    struct record_role role = {.record = record_head(RECORD_ROLE, sizeof role),
                               .role = UNIT_PREFILL};
    send(world, &role);
    assert_int_equal(world->hellos, 2);
    assert_int_equal(world->role, UNIT_PREFILL);
    close_world(world);
}

TEST(prompts_go_where_their_beginning_is_cached_but_not_all_of_them) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t family = 0; family < RANKS; family++)
        submit_of(world, family, 140);
    step(world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(held_by(world, rank), 1); /* nothing is cached: they spread */
    world_run(world);
    for (uint32_t turn = 0; turn < 2 * RANKS; turn++) {
        uint32_t family = (turn * 2 + 1) % RANKS;
        submit_of(world, family, 141 + turn);
        step(world);
        assert_int_equal(held_by(world, family), 1);
        world_run(world);
    }
    for (uint32_t i = 0; i < 9; i++)
        submit_of(world, 1, 150);
    step(world);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_in_range(held_by(world, rank), 1, 5);
    world_run(world);
    assert_true(world->load.prefill_choices_total[PREFILL_BOUND] >= RANKS);
    close_world(world);
}

TEST(the_simple_methods_spread_equal_requests_evenly) {
    for (uint32_t method = BALANCE_WORK + 1; method < BALANCE_METHOD_COUNT; method++) {
        struct unit_options options = small_unit();
        options.rank_balance = method;
        struct world *world = open_world(&options);
        for (uint32_t i = 0; i < 2 * RANKS; i++)
            submit_of(world, 1, 10);
        for (uint32_t rank = 0; rank < RANKS && method != BALANCE_POWER_OF_TWO; rank++)
            assert_int_equal(held_by(world, rank), 2);
        world_run(world);
        assert_int_equal(ended(world, FINISH_LENGTH), 2 * RANKS);
        close_world(world);
    }
}

/* The report has a tail of all ranks: one after each rank's results, or after each of the requests
 * that come at once, would grow with their square. */
TEST(the_results_of_a_step_bring_one_report_and_all_that_comes_between_turns_one) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < 3 * RANKS; i++)
        submit(world);
    for (uint32_t i = 0; i < 4; i++) {
        step(world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_true(world->plans[rank]->row_count > 0);
        uint32_t before = world->loads;
        complete(world);
        assert_int_equal(world->loads, before + 1);
    }
    for (uint32_t among = 0; among < 2; among++) { /* between two steps, and while one runs */
        uint32_t before = world->loads;
        for (uint32_t i = 0; i < 3; i++)
            submit(world);
        assert_int_equal(world->loads, before);
        step(world);
        assert_int_equal(world->loads, before + 1);
        step(world);
        assert_int_equal(world->loads, before + 1);
    }
    close_world(world);
}

TEST(a_rank_without_work_gets_a_plan_without_rows) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    submit(world);
    step(world);
    assert_int_equal(world->plans[0]->row_count, 1);
    assert_int_equal(world->plans[1]->row_count + world->plans[2]->row_count, 0);
    close_world(world);
}

/* A rank that had a row in an earlier step alone does not count. */
TEST(the_last_step_has_the_rows_of_that_step_alone) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    uint32_t lone = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        submit_of(world, i, 40);
    for (uint32_t at = 0; at < 8 * NEW_TOKENS; at++) {
        uint32_t rows = 0;
        if (at == 2) submit_of(world, 0, 1); /* goes on when the others have ended */
        step(world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            rows += world->plans[rank] ? world->plans[rank]->row_count : 0;
        if (rows == 0) break;
        complete(world);
        assert_int_equal(world->load.last_step_rows, rows);
        assert_true(world->load.last_step_tokens >= rows);
        if (rows == 1) assert_true(world->load.last_step_tokens <= 2);
        lone += rows == 1;
    }
    assert_true(lone > 0);
    close_world(world);
}

/* One rank's prompt beside others' answers: nobody waits for it but they, and there is no other to
 * wait for. */
TEST(levelled_steps_make_a_lone_prompt_wait_for_nobody) {
    uint32_t steps[2];
    for (uint32_t levels = 0; levels < 2; levels++) {
        struct unit_options options = small_unit();
        options.step_tokens_max = 68; /* a block a step */
        options.level_steps = levels;
        struct world *world = open_world(&options);
        for (uint32_t i = 0; i < RANKS; i++)
            submit_of(world, i, 5);
        for (int i = 0; i < 2; i++) {
            step(world);
            complete(world);
        }
        submit_of(world, 5, PROMPT_MAX);
        world_run(world);
        steps[levels] = world->steps;
        close_world(world);
    }
    assert_int_equal(steps[0], steps[1]);
}

TEST(every_life_ends_each_request_once) {
    for (uint32_t life = 0; life < 30; life++) {
        struct unit_options options = small_unit();
        options.speculate = life % 2;
        options.bind_on_arrival = life % 3 == 0;
        options.level_steps = life % 4 > 1;
        struct world *world = open_world(&options);
        for (uint32_t turn = 0; turn < 400; turn++) {
            uint32_t what = (uint32_t)(random_uniform(life, 0, turn) * 10);
            uint32_t whom = (uint32_t)(random_uniform(life, 1, turn) * (world->submitted + 1));
            if (what < 4 && world->submitted < 60) submit(world);
            if (what == 4 && whom < world->submitted) cancel(world, whom);
            if (what > 4 && world->plan_count) world_complete(world, what == 5 && turn % 7 == 0);
            if (what > 4) step(world);
        }
        world_run(world);
        assert_true(world->steps > 10 && ended(world, FINISH_LENGTH) > 0);
        close_world(world);
    }
}

TEST(a_full_unit_refuses_and_so_does_one_that_drains) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < RANKS * options.requests_max + 4; i++)
        submit(world);
    assert_int_equal(ended(world, FINISH_REFUSED_QUEUE), 4);
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record)};
    send(world, &record);
    submit(world);
    assert_int_equal(ended(world, FINISH_REFUSED_DRAINING), 1);
    world_run(world);
    assert_int_equal(world->load.draining, 1); /* all gateways are told */
    assert_int_equal(ended(world, FINISH_LENGTH), RANKS * options.requests_max);
    record.back = 1;
    for (int i = 0; i < 2; i++) /* twice is as good as once */
        send(world, &record);
    step(world);
    assert_int_equal(world->load.draining, 0);
    submit(world);
    world_run(world);
    assert_int_equal(ended(world, FINISH_LENGTH), RANKS * options.requests_max + 1);
    assert_int_equal(ended(world, FINISH_REFUSED_DRAINING), 1);
    close_world(world);
}

TEST(one_rank_has_the_memory_for_prompts_that_the_others_do_not_need) {
    struct unit_options options = small_unit();
    options.prompt_bytes = POOL_CHUNK_BYTES; /* for each rank: of less than two requests */
    struct world *world = open_world(&options);
    mask(world, 1, false);
    mask(world, 2, false);
    for (uint32_t i = 0; i < 4; i++)
        submit_of(world, i, PROMPT_MAX);
    world_run(world);
    assert_int_equal(ended(world, FINISH_LENGTH), 4);
    close_world(world);
}

TEST(a_masked_rank_finishes_what_it_has_and_gets_nothing_new) {
    struct unit_options options = small_unit();
    struct record_experts experts = {.record = record_head(RECORD_EXPERTS, sizeof experts),
                                     .ranks = RANKS};
    options.experts = &experts;
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < RANKS; i++)
        submit(world);
    step(world);
    assert_int_equal(said.experts, world->hellos);
    mask(world, 1, false);
    mask(world, RANKS, false); /* there is none */
    assert_int_equal(said.masks, 1);
    for (uint32_t i = 0; i < (RANKS - 1) * (options.requests_max - 1); i++)
        submit(world);
    assert_int_equal(held_by(world, 1), 1);
    assert_int_equal(ended(world, FINISH_REFUSED_QUEUE), 0);
    submit(world); /* the others are full */
    assert_int_equal(ended(world, FINISH_REFUSED_QUEUE), 1);
    assert_int_equal(held_by(world, 1), 1);
    mask(world, 1, true);
    complete(world);
    step(world);
    assert_true(held_by(world, 1) > 1);
    send(world, &experts); /* what is said of experts passes */
    assert_true(said.masks == 2 && said.experts == world->hellos + 1);
    close_world(world);
}

/* It may leave before. */
TEST(a_request_belongs_to_no_rank_until_one_is_about_to_take_it) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < RANKS; i++)
        submit_of(world, i, 100);
    assert_int_equal(held_by_all(world), 0);
    step(world);
    assert_int_equal(held_by_all(world), RANKS);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        submit_of(world, i, 30 + i);
    submit_of(world, 0, 150);
    step(world); /* one is out */
    assert_int_equal(held_by_all(world), RANKS);
    assert_int_equal(world->load.requests_waiting, 2 * RANKS + 1);
    cancel(world, RANKS);
    assert_int_equal(ended(world, FINISH_CANCELLED), 1);
    step(world);
    assert_int_equal(world->load.requests_waiting, 2 * RANKS);
    struct record_drain record = {.record = record_head(RECORD_DRAIN, sizeof record)};
    send(world, &record); /* who is in line is served all the same */
    complete(world);
    step(world);
    assert_true(held_by_all(world) > RANKS + 3);
    world_run(world);
    assert_int_equal(ended(world, FINISH_LENGTH), 3 * RANKS);
    close_world(world);
}

TEST(who_waits_in_line_is_refused_when_all_ranks_are_masked) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        submit_of(world, i, 10);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        mask(world, rank, false);
    world_run(world);
    submit(world);
    assert_int_equal(ended(world, FINISH_REFUSED_DRAINING), 2 * RANKS + 1);
    close_world(world);
}

static void reserve(struct world *world, uint32_t prompt_count) {
    struct record_submit head = {.prompt_count = prompt_count,
                                 .new_tokens_max = NEW_TOKENS,
                                 .task = SUBMIT_RESERVE,
                                 .route = {.grant = {1, world->submitted}}};
    uint32_t prompt[PROMPT_MAX] = {world->submitted};
    world_submit_head(world, &head, prompt);
    world_drain(world);
}

/* Prompts that come from elsewhere: equal KV pages rather than equal counts. */
TEST(reserved_answers_spread_by_pages_and_none_comes_where_there_is_no_room) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    reserve(world, 150); /* 4 pages with the first token's: as much as two small ones */
    for (uint32_t i = 0; i < 4; i++)
        reserve(world, 20);
    assert_int_equal(held_by(world, 0), 1);
    assert_int_equal(held_by(world, 1), 2);
    assert_int_equal(held_by(world, 2), 2);
    for (uint32_t i = 0; i < 3 * 4 - 5; i++)
        reserve(world, 20);
    assert_int_equal(ended(world, FINISH_REFUSED_QUEUE), 0);
    reserve(world, 20); /* as many rows as may run */
    assert_int_equal(ended(world, FINISH_REFUSED_QUEUE), 1);
    step(world);
    assert_int_equal(world->load.decode_choices_total[DECODE_BOUND], 12);
    assert_int_equal(world->load.decode_choices_total[DECODE_WAITS_ROWS], 1);
    abandon_world(world);
}

/* ---- the KV storage ---- */

/* The one ask of this kind that a rank's unit has said; the caller frees it. NULL: none. */
static void *take_ask(enum record_kind kind, uint32_t rank) {
    for (uint32_t i = 0; i < said.ask_count; i++) {
        struct record_kv *ask = said.asks[i];
        if (ask->record.kind != kind || ask->rank != rank) continue;
        said.asks[i] = said.asks[--said.ask_count];
        return ask;
    }
    return NULL;
}

/* A rank is lent the keys with which its request stood in line: they are those of its prompt. */
static void assert_keys(const struct world *world, const struct record_kv_find *find) {
    const struct known *known = &world->known[find->request.low];
    struct {
        struct record_submit submit;
        uint32_t tokens[TOKENS_MAX];
    } record = {.submit = {.record.kind = RECORD_SUBMIT, .prompt_count = known->prompt_count}};
    struct block_key keys[TOKENS_MAX / KV_BLOCK_TOKENS];
    memcpy(submit_tokens(&record.submit), known->tokens,
           known->prompt_count * sizeof *known->tokens);
    assert_int_equal(pages_keys(world->units[find->rank], &record.submit, keys), find->key_count);
    assert_memory_equal(kv_find_keys(find), keys, find->key_count * sizeof *keys);
}

/* Of the leading blocks of its request, the storage of rank r has r. */
static void answer_find(struct world *world, uint32_t rank) {
    struct record_kv_find *find = take_ask(RECORD_KV_FIND, rank);
    assert_non_null(find);
    struct record_kv_found found = {.record = record_head(RECORD_KV_FOUND, sizeof found),
                                    .request = find->request,
                                    .rank = rank,
                                    .blocks = rank,
                                    .host_blocks = said.from_memory ? rank : 0};
    assert_int_equal(find->key_count, 2);
    assert_keys(world, find);
    world->known[find->request.low].found = rank * KV_BLOCK_TOKENS;
    free(find);
    send(world, &found);
}

/* All blocks that are asked for come into their pages. */
static void load_rows(struct world *world, uint32_t rank, const struct record_kv_load *load) {
    const struct page_id *pages = kv_load_pages(load);
    struct known *known = &world->known[load->request.low];
    uint32_t first = load->first_block * KV_BLOCK_TOKENS;
    uint32_t end = first + load->block_count * KV_BLOCK_TOKENS;
    uint64_t chain = 0;
    for (uint32_t i = 0; i < end; i++) {
        chain = world_chain(chain, known->tokens[i], TOKEN_PROMPT);
        if (i < first) continue;
        uint32_t page = pages[(i - first) / KV_BLOCK_TOKENS].index;
        world->kv_of[rank][page][i % KV_BLOCK_TOKENS] =
            (struct kv_row){chain, known->tokens[i], TOKEN_PROMPT};
    }
    world_note_rows(world, (uint32_t)load->request.low, end);
}

static void answer_load(struct world *world, uint32_t rank) {
    struct record_kv_load *load = take_ask(RECORD_KV_LOAD, rank);
    assert_non_null(load);
    assert_int_equal(load->block_count, rank);
    load_rows(world, rank, load);
    struct load_end end = {
        .blocks = rank, .host_blocks = said.from_memory ? rank : 0, .ns = said.load_ns};
    struct record_kv_loaded loaded = {.record = record_head(RECORD_KV_LOADED, sizeof loaded),
                                      .request = load->request,
                                      .rank = rank,
                                      .end = end};
    struct known *known = &world->known[load->request.low];
    known->load_asked = load->block_count;
    known->load_end = end;
    known->load_over = load->in_step;
    if (!load->in_step) send(world, &loaded);
    free(load);
}

/* All blocks are stored, but those of rank 1, whose disk is full. */
static uint32_t answer_keeps(struct world *world, uint32_t rank) {
    uint32_t blocks = 0;
    for (struct record_kv_put *keep; (keep = take_ask(RECORD_KV_PUT, rank)); free(keep)) {
        bool full = rank == 1;
        struct record_kv_stored kept = {.record = record_head(RECORD_KV_STORED, sizeof kept),
                                        .rank = rank,
                                        .last_page = keep->last_page,
                                        .dropped = full ? keep->block_count : 0,
                                        .writable = !full};
        blocks += keep->block_count;
        send(world, &kept);
    }
    return blocks;
}

/* One prompt for each rank. What each of their storages has of it is found; ranks 1 and 2 are to
 * load something. */
static void submit_three(struct world *world, uint32_t family) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        submit_of(world, family + rank, 140); /* two whole blocks and a bit */
    step(world);
    for (uint32_t rank = RANKS; rank-- > 0;)
        answer_find(world, rank);
    step(world);
}

TEST(each_rank_finds_loads_and_keeps_in_its_own_storage) {
    struct unit_options options = storing_unit();
    struct world *world = open_world(&options);
    submit_three(world, 0);
    assert_int_equal(world->steps, 1); /* nobody starts before it knows what there is */
    assert_int_equal(world->plans[0]->row_count, 1); /* nothing to load there */
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(world->plans[rank]->row_count, 0);
        answer_load(world, rank);
    }
    world_run(world);
    assert_int_equal(world->load.totals.loaded_disk_tokens, (1 + 2) * KV_BLOCK_TOKENS);
    assert_int_equal(ended(world, FINISH_LENGTH), RANKS);
    assert_int_equal(world->load.pages_held, 2 + 2); /* being copied, with those before them */
    uint32_t kept = 0;
    for (uint32_t rank = RANKS; rank-- > 0;) {
        uint32_t blocks = answer_keeps(world, rank);
        assert_int_equal(blocks, 2 - rank); /* what was computed */
        kept += rank == 1 ? 0 : blocks;
    }
    world_run(world);
    assert_int_equal(said.ask_count, 0);
    assert_int_equal(world->load.totals.kept_blocks, kept);
    assert_int_equal(world->load.totals.dropped_blocks, 1);
    assert_int_equal(world->load.kv_storage, KV_STORAGE_READ_ONLY); /* one of them at least */
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(world->rank_loads[rank].kv_storage,
                         rank == 1 ? KV_STORAGE_READ_ONLY : KV_STORAGE_ON);
    close_world(world);
}

/* A step is one for all ranks: a row waits in it where no rank has anything else to do, be the load
 * slow or not measured. */
TEST(a_row_waits_in_a_step_for_a_load_that_is_known_to_be_quick_or_alone) {
    for (int quick = 0; quick < 2; quick++) {
        struct unit_options options = storing_unit();
        options.kv_load_parts = 40;
        struct world *world = open_world(&options);
        said.load_ns = quick ? 10 : 1000000;
        submit_three(world, 0);
        for (uint32_t rank = 1; rank < RANKS; rank++) { /* not measured */
            assert_int_equal(world->plans[rank]->row_count, 0);
            answer_load(world, rank);
        }
        world_run(world);
        submit_three(world, 3);
        for (uint32_t rank = 1; rank < RANKS; rank++) {
            assert_int_equal(world->plans[rank]->row_count, quick);
            if (quick) assert_true(step_plan_rows(world->plans[rank])[0].loads);
            answer_load(world, rank);
        }
        world_run(world);
        assert_int_equal(world->load.totals.loads_in_step, quick * (RANKS - 1));
        mask(world, 0, false);
        mask(world, 1, false);
        submit_of(world, 6, 140);
        step(world);
        answer_find(world, 2);
        step(world);
        assert_int_equal(world->plan_count, RANKS);
        assert_int_equal(world->plans[0]->row_count + world->plans[1]->row_count, 0);
        assert_true(step_plan_rows(world->plans[2])[0].loads);
        answer_load(world, 2);
        world_run(world);
        assert_int_equal(world->load.totals.loads_in_step, 1 + quick * (RANKS - 1));
        assert_int_equal(world->load.totals.loads_in_step_lost, 0);
        assert_int_equal(ended(world, FINISH_LENGTH), world->submitted);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            answer_keeps(world, rank);
        close_world(world);
    }
}

/* A rank that has nothing of a prompt in its pages loads what another one has stored. */
TEST(what_others_stored_counts_when_a_load_has_shown_what_it_costs) {
    for (int measured = 0; measured < 2; measured++) {
        struct unit_options options = storing_unit();
        struct world *world = open_world(&options);
        said.load_ns = measured ? 1 : 1000000;
        submit_three(world, 0);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            answer_load(world, rank);
        world_run(world);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            answer_keeps(world, rank);
        submit_of(world, 3, 60); /* to rank 0, the first of equals */
        step(world);
        assert_int_equal(held_by(world, 0), 1);
        submit_of(world, 0, 140); /* rank 0 has it in its pages */
        complete(world);
        step(world);
        assert_int_equal(held_by(world, 0), measured ? 1 : 2);
        abandon_world(world);
    }
}

/* On rank 2 alone, whose storage has both blocks: it comes, is loaded, and ends. */
static void pass_through(struct world *world, uint32_t family) {
    submit_of(world, family, 140);
    step(world);
    assert_int_equal(held_by(world, 2), 1);
    answer_find(world, 2);
    step(world);
    answer_load(world, 2);
    world_run(world);
    answer_keeps(world, 2);
}

/* A rank's storage keeps a prompt's blocks in memory when they have long left its pages. */
TEST(what_a_storage_has_in_memory_counts_if_it_is_remembered) {
    for (uint32_t remembered = 0; remembered < 60; remembered += 30) {
        struct unit_options options = storing_unit();
        options.kv_memory_blocks = remembered;
        struct world *world = open_world(&options);
        said.load_ns = 1;
        said.from_memory = true;
        mask(world, 0, false);
        mask(world, 1, false);
        for (uint32_t family = 0; family <= PAGE_COUNT / 2; family++)
            pass_through(world, family);
        mask(world, 0, true);
        mask(world, 1, true);
        submit_of(world, 0, 140);
        step(world);
        assert_int_equal(held_by(world, remembered ? 2 : 0), 1);
        abandon_world(world);
    }
}

/* ---- ranks that run out of pages ---- */

/* A long answer with all that a request can bring to the choice of its tokens. */
static void submit_long(struct world *world, uint32_t prompt_count, uint32_t new_tokens) {
    struct record_submit head = {
        .prompt_count = prompt_count,
        .new_tokens_max = new_tokens,
        .bias_count = 1,
        .sampling = {.top_p = 1, .frequency_penalty = 0.5f, .min_tokens = new_tokens / 2}};
    uint32_t prompt[PROMPT_MAX];
    for (uint32_t i = 0; i < prompt_count; i++)
        prompt[i] = (world->submitted * 50 + i) % VOCAB;
    world_submit_head(world, &head, prompt);
    world_drain(world);
}

enum { LONG = 4 }; /* that a rank begins, and cannot end together: 24 pages of its 20 */

/* All at rank 0, when the others may take again, or may not. */
static struct world *crowd(bool relieved) {
    struct unit_options options = small_unit();
    struct world *world = open_world(&options);
    mask(world, 1, false);
    mask(world, 2, false);
    for (uint32_t i = 0; i < LONG; i++)
        submit_long(world, PROMPT_MAX, LONG_TOKENS);
    while (held_by(world, 0) < LONG) {
        step(world);
        complete(world);
    }
    if (relieved) {
        mask(world, 1, true);
        mask(world, 2, true);
    }
    return world;
}

/* All have their whole answers, of tokens that the world has found right, and what the ranks say
 * they have done is what they did for each. */
static void assert_all_answered(const struct world *world) {
    uint64_t computed = 0, again = 0, preemptions = 0;
    assert_int_equal(ended(world, FINISH_LENGTH), world->submitted);
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct unit_work *work = &world->known[i].work;
        computed += work->computed_tokens;
        again += work->recomputed_tokens;
        preemptions += work->preemptions;
        assert_true(work->preemptions > 0 || world->known[i].late > 0 ||
                    work->recomputed_tokens == 0);
    }
    assert_int_equal(world->load.totals.prompt_tokens, computed);
    assert_int_equal(world->load.totals.recomputed_tokens, again);
    assert_int_equal(world->load.totals.preemptions, preemptions);
}

TEST(a_rank_that_runs_out_of_pages_gives_a_request_to_one_that_has_some) {
    struct world *world = crowd(true);
    uint32_t moved = 0;
    world_run(world);
    assert_all_answered(world);
    for (uint32_t i = 0; i < LONG; i++) {
        const struct unit_work *work = &world->known[i].work;
        moved += work->rank != 0;
        assert_int_equal(work->preemptions, work->rank != 0);
    }
    assert_int_equal(moved, 1);
    assert_int_equal(world->load.totals.preemptions, 1);
    assert_int_equal(world->load.decode_choices_total[DECODE_BOUND], 1);
    close_world(world);
}

TEST(where_no_other_rank_takes_it_a_request_waits_for_pages_of_its_own) {
    struct world *world = crowd(false);
    world_run(world);
    assert_all_answered(world);
    for (uint32_t i = 0; i < LONG; i++)
        assert_int_equal(world->known[i].work.rank, 0);
    assert_true(world->load.totals.preemptions > 0);
    assert_true(world->load.decode_choices_total[DECODE_WAITS_ROWS] > 0);
    close_world(world);
}

TEST(a_request_that_moved_is_cancelled_where_it_is_now) {
    struct world *world = crowd(true);
    while (held_by(world, 1) + held_by(world, 2) == 0) {
        step(world);
        complete(world);
    }
    for (uint32_t i = 0; i < LONG; i++)
        cancel(world, i);
    world_run(world);
    assert_int_equal(ended(world, FINISH_CANCELLED), LONG);
    close_world(world);
}

static uint32_t dice(uint32_t life, uint32_t what, uint32_t i, uint32_t below) {
    return (uint32_t)(random_uniform(life, what, i) * below);
}

static uint32_t some(uint32_t most, uint32_t life, uint32_t what, uint32_t i) {
    return most / 2 + dice(life, what, i, most / 2);
}

/* More than all ranks together have pages for. */
TEST(crowded_ranks_interrupt_and_move_requests_and_change_no_answer) {
    uint64_t moved = 0, preempted = 0;
    for (uint32_t life = 0; life < 30; life++) {
        struct unit_options options = small_unit();
        options.step_rows_max = options.requests_max;
        struct world *world = open_world(&options);
        world->forced_odds = 0.5;
        world->late_odds = 0.05;
        for (uint32_t i = 0; i < 40; i++) {
            while (i - ended(world, FINISH_LENGTH) > 12 || dice(life, 2, world->steps, 3)) {
                step(world);
                if (!world->plan_count) break;
                complete(world);
            }
            world->constraint_bytes = i % 3 ? 0 : 100 + i;
            submit_long(world, some(PROMPT_MAX, life, 0, i), some(LONG_TOKENS, life, 1, i));
        }
        world_run(world);
        assert_all_answered(world);
        moved += world->load.decode_choices_total[DECODE_BOUND];
        preempted += world->load.totals.preemptions;
        close_world(world);
    }
    print_message("# moved %llu of %llu interrupted\n", (unsigned long long)moved,
                  (unsigned long long)preempted);
    assert_true(moved > 0 && preempted > moved);
}

/* Its host of KV pages says hello, at another address maybe, which gateways are told. */
TEST(a_rank_that_comes_back_has_its_new_address) {
    struct unit_options options = small_unit();
    static const char addresses[RANKS][KV_ADDRESS_BYTES] = {"a", "b", "c"};
    options.kv_addresses = addresses;
    struct world *world = open_world(&options);
    step(world);
    assert_string_equal(world->kv_address, "c");
    uint32_t hellos = world->hellos;
    struct record_kv_hello hello = {
        .record = record_head(RECORD_KV_HELLO, sizeof hello), .rank = 2, .address = "d"};
    send(world, &hello);
    assert_int_equal(world->hellos, hellos + 1);
    assert_string_equal(world->kv_address, "d");
    close_world(world);
}
