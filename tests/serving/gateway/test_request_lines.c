/* SPDX-License-Identifier: Apache-2.0
 * Who is next among those that wait: in an account's line whoever came first, and among accounts
 * the one that has had least for its weight. So one that sends hundreds of requests at once makes
 * nobody wait who sends a few.
 */
#include "serving/gateway/request_lines.h"

#include "base/random.h"
#include "base/sha256.h"
#include "hands.h"
#include "serving/policy/fair_queue.h"
#include "test_case.h"

/* ---- lines alone ---- */

enum { ACCOUNTS = 50, REQUESTS = 2000 };

struct lines_test {
    struct request_lines lines;
    struct arena arena;
    char *memory;
    struct request *requests; /* [REQUESTS] */
    uint32_t count;
};

static struct lines_test *open_lines(void) {
    struct lines_test *test = calloc(1, sizeof *test);
    size_t bytes = request_lines_bytes(ACCOUNTS);
    test->memory = malloc(bytes);
    arena_over(&test->arena, test->memory, bytes);
    assert_int_equal(request_lines_open(&test->lines, &test->arena, ACCOUNTS), STATUS_OK);
    test->requests = calloc(REQUESTS, sizeof *test->requests);
    return test;
}

static void close_lines(struct lines_test *test) {
    free(test->requests);
    free(test->memory);
    free(test);
}

static struct request *come(struct lines_test *test, uint32_t account, uint64_t work) {
    struct request *request = &test->requests[test->count++];
    request->life.state = REQUEST_WAITING;
    request->life.arrival = test->count;
    request->asked.account = account;
    request->life.turn = request_lines_turn(&test->lines, account, work);
    request_lines_add(&test->lines, request);
    return request;
}

static void leave(struct lines_test *test, struct request *request) {
    request_lines_take_out(&test->lines, request);
    request_lines_audit(&test->lines);
}

/* The first is served; its account. */
static uint32_t serve(struct lines_test *test) {
    request_lines_begin(&test->lines);
    struct request *request = request_lines_next(&test->lines);
    request_lines_serve(&test->lines, request);
    request_lines_take_out(&test->lines, request);
    request_lines_end(&test->lines);
    request_lines_audit(&test->lines);
    return request->asked.account;
}

TEST(accounts_take_turns_by_their_work) {
    struct lines_test *test = open_lines();
    uint32_t served[2] = {0};
    for (uint32_t i = 0; i < 300; i++) /* one has 300 requests, the other came later with 100 */
        come(test, 0, 10);
    for (uint32_t i = 0; i < 100; i++)
        come(test, 1, 20);
    for (uint32_t i = 0; i < 150; i++)
        served[serve(test)]++;
    assert_true(served[0] >= 99 && served[0] <= 101); /* half of the work each */
    close_lines(test);
}

/* The place of a request in the queue, as its stream reports it, is the number of those that are
 * served before it. */
TEST(a_place_in_the_queue_counts_who_is_served_before) {
    struct lines_test *test = open_lines();
    for (uint32_t i = 0; i < 300; i++)
        come(test, i % 7 ? i * i % ACCOUNTS : ACCOUNT_NONE, 1 + i * 31 % 90);
    for (uint32_t i = 0; i < 300; i += 10)
        leave(test, &test->requests[i]);
    while (test->lines.count) {
        struct request *order[300], *r;
        uint32_t count = 0, before = 0;
        request_lines_begin(&test->lines);
        while ((r = request_lines_next(&test->lines)))
            order[count++] = r;
        request_lines_end(&test->lines);
        for (uint32_t i = 0; i < count; i++) {
            if (i && order[i]->life.turn > order[i - 1]->life.turn) before = i;
            uint32_t counted = request_lines_before(&test->lines, order[i], 200);
            assert_true(counted <= i && counted >= (before < 200 ? before : 200));
        }
        serve(test);
    }
    close_lines(test);
}

/* There is room for the last request alone, of one who has many: what it asks for is rare. */
TEST(who_passes_others_takes_no_time_along) {
    struct lines_test *test = open_lines();
    struct request *request, *last = NULL;
    for (uint32_t i = 0; i < 100; i++)
        last = come(test, 0, 10);
    request_lines_begin(&test->lines);
    while ((request = request_lines_next(&test->lines)) != last)
        request_lines_pass(&test->lines, request);
    request_lines_serve(&test->lines, last);
    request_lines_take_out(&test->lines, last);
    request_lines_end(&test->lines);
    come(test, 1, 10);
    assert_int_equal(serve(test), 0);
    assert_int_equal(serve(test) + serve(test), 1); /* of the next two one is the other's */
    close_lines(test);
}

TEST(who_has_waited_in_vain_makes_up_for_nothing) {
    struct lines_test *test = open_lines();
    struct request *all[100];
    for (uint32_t i = 0; i < 100; i++)
        all[i] = come(test, 0, 10);
    for (uint32_t i = 0; i < 100; i++)
        leave(test, all[i]);
    come(test, 1, 11);
    come(test, 0, 10);
    assert_int_equal(serve(test), 0); /* as if it had never come */
    assert_int_equal(serve(test), 1);
    close_lines(test);
}

TEST(without_accounts_the_first_to_come_is_the_first) {
    struct lines_test *test = open_lines();
    struct request *first = come(test, ACCOUNT_NONE, 1000), *second = come(test, ACCOUNT_NONE, 1);
    leave(test, first);
    request_lines_add(&test->lines, first); /* it comes back */
    request_lines_begin(&test->lines);
    assert_ptr_equal(request_lines_next(&test->lines), first);
    assert_ptr_equal(request_lines_next(&test->lines), second);
    assert_null(request_lines_next(&test->lines));
    request_lines_end(&test->lines);
    close_lines(test);
}

/* Whatever comes, goes, and comes back. */
TEST(each_that_waits_is_seen_once_in_the_order_of_turns) {
    struct lines_test *test = open_lines();
    for (uint32_t round = 0; test->count < REQUESTS; round++) {
        uint32_t account = (uint32_t)(random_uniform(1, 0, round) * ACCOUNTS), seen = 0;
        struct request *request = come(test, account, (uint64_t)(random_uniform(1, 1, round) * 99));
        struct request *other =
            &test->requests[(uint32_t)(random_uniform(1, 2, round) * test->count)];
        if (round % 3 == 0) leave(test, request);
        if (round % 4 == 0 && other->life.behind && other->life.before) {
            request_lines_serve(&test->lines, other);
            leave(test, other);
            request_lines_add(&test->lines, other);
        }
        uint64_t turn = 0;
        request_lines_begin(&test->lines);
        for (struct request *next; (next = request_lines_next(&test->lines)); seen++) {
            assert_true(next->life.turn >= turn);
            turn = next->life.turn;
        }
        request_lines_end(&test->lines);
        request_lines_audit(&test->lines);
        assert_int_equal(seen, test->lines.count);
        if (round % 2) serve(test);
    }
    close_lines(test);
}

/* ---- at the gateway ---- */

enum {
    SENDERS = 10,
    FLOOD = 500,  /* requests at once, of one sender or of all */
    STEADY = 20,  /* of each other sender, one after the other */
    PROMPT = 3,   /* tokens */
    SERVE_MS = 20 /* for which the unit has each request */
};

static struct record_accounts *make_accounts(void) {
    static _Alignas(8) char memory[1 << 14];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    struct record_accounts *record = machine_outbox_put(
        &box, RECORD_ACCOUNTS,
        &(struct record_accounts){.account_count = SENDERS, .key_count = SENDERS});
    for (uint32_t i = 0; i < SENDERS; i++) {
        char key[] = {'k', (char)('0' + i)};
        accounts_named(record)[i] = (struct account){.name = {(char)('a' + i)}, .weight = 100};
        sha256_digest(key, sizeof key, accounts_keys(record)[i].sha256);
        accounts_keys(record)[i].account = i;
        accounts_keys(record)[i].budget = ACCOUNT_BUDGET_ANY;
    }
    return record;
}

static uint32_t ask_more_as(struct world *world, uint32_t sender, const char *more) {
    char authorization[] = "Bearer k0";
    authorization[8] = (char)('0' + sender);
    world->authorization = authorization;
    uint32_t client = ask(world, more);
    world->authorization = NULL;
    return client;
}

static uint32_t ask_as(struct world *world, uint32_t sender) {
    return ask_more_as(world, sender, ",\"stream\":true");
}

struct served {
    struct request_id ids[WORLD_CLIENTS_MAX]; /* at the unit, first to last */
    uint32_t first, count, submits;
};

static void note_submits(struct world *world, struct served *served) {
    if (world->submits == served->submits) return;
    served->submits = world->submits;
    for (uint32_t i = 0; i < served->count; i++)
        if (served->ids[i].high == world->last_submit->request.high) return;
    served->ids[served->count++] = world->last_submit->request;
}

static int by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A unit that takes one request at a time: when the first tokens come to those that are steady, the
 * largest but for one of a hundred. `apart`: one sender has the whole flood, or each a part. */
static int64_t wait_of_steady(bool apart) {
    struct world *world =
        open_with(1, (struct gateway_options){.accounts = make_accounts(), .requests_max = 600});
    static struct served served;
    int64_t waits[SENDERS * STEADY];
    uint32_t owner[WORLD_CLIENTS_MAX], wait_count = 0;
    int64_t end_ms = (FLOOD + (SENDERS - 1) * STEADY / 2) * SERVE_MS;
    memset(&served, 0, sizeof served);
    for (uint32_t i = 0; i < FLOOD; i++) {
        owner[ask_as(world, apart ? 0 : i % SENDERS)] = SENDERS;
        note_submits(world, &served);
    }
    for (int64_t ms = 0, asked = 0; wait_count < (SENDERS - 1) * (STEADY / 2); ms += SERVE_MS) {
        assert_true(ms < 4 * end_ms);
        world->now_ns = ms * 1000000;
        if (asked < (SENDERS - 1) * (STEADY / 2) && ms % (2 * SERVE_MS) == 0) {
            uint32_t sender = 1 + (uint32_t)(asked++ % (SENDERS - 1));
            owner[ask_as(world, sender)] = sender;
            note_submits(world, &served);
        }
        if (served.first == served.count) continue;
        struct request_id id = served.ids[served.first++];
        uint32_t client = (uint32_t)(id.high - 0x1000);
        int64_t waited = world->now_ns - (int64_t)world->clients[client].asked_at_ns;
        if (owner[client] < SENDERS) waits[wait_count++] = waited;
        report_tokens(world, 1, id, 0, ids, 6);
        report_finished(world, 1, id, FINISH_LENGTH, 6);
        note_submits(world, &served);
        report_load(world, 1, 0, 0);
        note_submits(world, &served);
    }
    qsort(waits, wait_count, sizeof *waits, by_size);
    lose(world, 1);
    world_close(world);
    return waits[wait_count * 99 / 100];
}

TEST(who_floods_makes_nobody_else_wait) {
    int64_t spread = wait_of_steady(false), flooded = wait_of_steady(true);
    print_message("# the steady wait %lld ms at most beside a flood of one, %lld ms of all\n",
                  (long long)(flooded / 1000000), (long long)(spread / 1000000));
    assert_true(flooded * 10 <= spread * 11);
    assert_true(flooded < 40 * SERVE_MS * (int64_t)1000000); /* units' own queues, and a turn */
}

/* Units that compute prompts have room, and none that makes answers. */
TEST(who_asks_about_a_prompt_makes_nobody_else_wait) {
    struct world *world = open_empty((struct gateway_options){.accounts = make_accounts()});
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    report_load(world, 1, 0, 0);
    report_load(world, 2, 100, 1);
    for (uint32_t i = 0; i < 3; i++)
        ask_as(world, 0);
    assert_int_equal(world->submits, 0);
    ask_more_as(world, 0, ",\"max_completion_tokens\":0,\"echo\":true,\"logprobs\":1");
    assert_int_equal(world->submits, 1); /* it passes the others */
    uint32_t other = ask_as(world, 1);
    assert_int_equal(world->submits, 1);
    report_load(world, 2, 0, 0);
    assert_int_equal(world->submits, 5);
    assert_int_not_equal(world->last_submit->request.high, 0x1000 + other); /* it is not the last */
    lose(world, 1);
    lose(world, 2);
    world_close(world);
}
