/* SPDX-License-Identifier: Apache-2.0
 * A request's life in the gateway, transition by transition: each is possible from the states that
 * request.h names and from no other, and lists, counts and the fleet's books follow it.
 */
#include "serving/gateway/request.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "hands.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/request_lines.h"
#include "test_case.h"

enum { SLOTS = 4, FIRST_PLACE = 0, SECOND_PLACE = 1 }; /* of units, in the fleet's table */

static struct world *open_two(void) {
    struct world *world = open_with(2, (struct gateway_options){.requests_max = SLOTS});
    assert_int_equal(world->gateway->requests.counts[REQUEST_FREE], SLOTS);
    return world;
}

static const struct request_work nothing;

static struct request *claim(struct world *world, uint32_t choice_count) {
    static uint64_t connections;
    static const uint32_t prompt[] = {5};
    struct record_client_request record = {.random = {7, 9}, .connection = {++connections}};
    struct request *leader = request_claim(world->gateway, &record, 1, choice_count);
    for (uint32_t i = 0; leader && i < choice_count; i++)
        leader->choices[i]->asked.prompt = prompt;
    return leader;
}

/* ---- transitions ---- */

enum transition {
    TOKENIZE,
    UNSETTLE,
    WAIT,
    BIND,
    RESERVE,
    PREFILL,
    CONTINUE,
    PROGRESS,
    UNBIND_PROMPT,
    ANSWER,
    CANCEL,
    WAIT_AGAIN,
    END,
    DONE,
    SETTLE,
    RELEASE,
    TRANSITION_COUNT
};

static void make_transition(struct gateway *gateway, struct request *request,
                            enum transition transition) {
    switch (transition) {
    case TOKENIZE:
        request_tokenize(gateway, request);
        break;
    case UNSETTLE:
        request_mark_unchecked(gateway, request, 1);
        break;
    case WAIT:
        request_wait(gateway, request, nothing, 1);
        break;
    case BIND:
        request_bind(gateway, request, FIRST_PLACE, 5);
        break;
    case RESERVE:
        request_reserve(gateway, request, FIRST_PLACE, 5, SECOND_PLACE, 3);
        break;
    case PREFILL:
        request_prefill(gateway, request);
        break;
    case CONTINUE:
        request_continue(gateway, request);
        break;
    case PROGRESS:
        request_progress(gateway, request);
        break;
    case UNBIND_PROMPT:
        request_unbind_prompt(gateway, request);
        break;
    case ANSWER:
        request_answer(gateway, request, FINISH_LENGTH);
        break;
    case CANCEL:
        request_cancel(gateway, request, CAUSE_CLIENT_GONE);
        break;
    case WAIT_AGAIN:
        request_wait_again(gateway, request, 2);
        break;
    case END:
        request_end(gateway, request, FINISH_FAILED);
        break;
    case DONE:
        request_done(gateway, request);
        break;
    case SETTLE:
        request_await_commit(gateway, request, 3);
        break;
    default:
        request_release(gateway, request);
    }
}

/* The way from the claim to each state. */
static struct request *bring_to(struct world *world, enum request_state state) {
    static const enum transition ways[REQUEST_STATE_COUNT][6] = {
        [REQUEST_FREE] = {RELEASE, TRANSITION_COUNT},
        [REQUEST_READING] = {TRANSITION_COUNT},
        [REQUEST_TOKENIZING] = {TOKENIZE, TRANSITION_COUNT},
        [REQUEST_UNCHECKED] = {UNSETTLE, TRANSITION_COUNT},
        [REQUEST_WAITING] = {WAIT, TRANSITION_COUNT},
        [REQUEST_ANSWERING] = {WAIT, BIND, TRANSITION_COUNT},
        [REQUEST_RESERVING] = {WAIT, RESERVE, TRANSITION_COUNT},
        [REQUEST_PREFILLING] = {WAIT, RESERVE, PREFILL, TRANSITION_COUNT},
        [REQUEST_CONTINUED] = {WAIT, RESERVE, PREFILL, CONTINUE, TRANSITION_COUNT},
        [REQUEST_ANSWERED] = {WAIT, RESERVE, PREFILL, CONTINUE, ANSWER, TRANSITION_COUNT},
        [REQUEST_CANCELLED] = {WAIT, RESERVE, PREFILL, CANCEL, TRANSITION_COUNT},
        [REQUEST_FINISHING] = {WAIT, END, TRANSITION_COUNT},
        [REQUEST_DONE] = {WAIT, END, DONE, TRANSITION_COUNT},
        [REQUEST_COMMITTING] = {WAIT, END, DONE, SETTLE, TRANSITION_COUNT},
    };
    struct request *request = claim(world, 1);
    for (const enum transition *step = ways[state]; *step != TRANSITION_COUNT; step++)
        make_transition(world->gateway, request, *step);
    gateway_audit(world->gateway);
    assert_int_equal(request->life.state, state);
    return request;
}

#define IN(state) (1u << REQUEST_##state)

static const struct {
    uint32_t from,
        to; /* sets of states: the place in both is what follows from what; 0: it stays */
} table[TRANSITION_COUNT] = {
    [TOKENIZE] = {IN(READING), IN(TOKENIZING)},
    [UNSETTLE] = {IN(READING) | IN(TOKENIZING), IN(UNCHECKED)},
    [WAIT] = {IN(READING) | IN(TOKENIZING) | IN(UNCHECKED), IN(WAITING)},
    [BIND] = {IN(WAITING), IN(ANSWERING)},
    [RESERVE] = {IN(WAITING), IN(RESERVING)},
    [PREFILL] = {IN(RESERVING), IN(PREFILLING)},
    [CONTINUE] = {IN(PREFILLING), IN(CONTINUED)},
    [PROGRESS] = {IN(ANSWERING) | IN(PREFILLING) | IN(CONTINUED), 0},
    [UNBIND_PROMPT] = {IN(CONTINUED) | IN(CANCELLED), 0},
    [ANSWER] = {IN(CONTINUED) | IN(CANCELLED), IN(ANSWERED)},
    [CANCEL] = {IN(WAITING) | IN(ANSWERING) | IN(RESERVING) | IN(PREFILLING) | IN(CONTINUED) |
                    IN(ANSWERED),
                IN(CANCELLED)},
    [WAIT_AGAIN] = {IN(ANSWERING) | IN(RESERVING) | IN(PREFILLING) | IN(CONTINUED), IN(WAITING)},
    [END] = {IN(WAITING) | IN(ANSWERING) | IN(RESERVING) | IN(PREFILLING) | IN(CONTINUED) |
                 IN(ANSWERED) | IN(CANCELLED),
             IN(FINISHING)},
    [DONE] = {IN(ANSWERING) | IN(RESERVING) | IN(PREFILLING) | IN(CONTINUED) | IN(ANSWERED) |
                  IN(CANCELLED) | IN(FINISHING),
              IN(DONE)},
    [SETTLE] = {IN(DONE), IN(COMMITTING)},
    [RELEASE] = {IN(READING) | IN(TOKENIZING) | IN(UNCHECKED) | IN(DONE) | IN(COMMITTING),
                 IN(FREE)},
};

static uint32_t state_after(enum request_state state, enum transition transition) {
    if (transition == CANCEL && state == REQUEST_WAITING) return IN(FINISHING);
    if (transition == CANCEL && state == REQUEST_ANSWERED) return IN(ANSWERED);
    return table[transition].to ? table[transition].to : 1u << state;
}

/* In a process of its own, since what is not possible is a bug and ends it. The world stays as it
 * is. */
static bool is_possible(struct world *world, struct request *request, enum transition transition) {
    enum request_state state = request->life.state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        signal(SIGABRT, SIG_DFL); /* a sanitizer would tell of it */
        make_transition(world->gateway, request, transition);
        gateway_audit(world->gateway);
        _exit(1u << request->life.state == state_after(state, transition) ? 0 : 2);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
    return !WIFSIGNALED(how);
}

TEST(transitions_lead_where_the_table_says) {
    for (uint32_t from = 0; from < REQUEST_STATE_COUNT; from++) {
        struct world *world = open_two();
        struct request *request = bring_to(world, from);
        for (uint32_t transition = 0; transition < TRANSITION_COUNT; transition++) {
            bool expected = table[transition].from >> from & 1;
            if (is_possible(world, request, transition) != expected)
                fail_msg("transition %u from state %u", transition, from);
        }
        world_close(world);
    }
}

/* ---- what follows from them ---- */

TEST(choices_are_claimed_together_or_not_at_all) {
    struct world *world = open_two();
    struct gateway *gateway = world->gateway;
    struct request *leader = claim(world, 3);
    assert_null(claim(world, 2));
    assert_int_equal(gateway_held_count(gateway), 3);
    for (uint32_t i = 0; i < 3; i++) { /* one random number, yet ids of their own */
        assert_ptr_equal(request_find(gateway, leader->choices[i]->id), leader->choices[i]);
        assert_int_equal(leader->choices[i]->index, i);
    }
    struct request_id id = leader->choices[2]->id;
    request_release(gateway, leader);
    assert_null(request_find(gateway, id));
    assert_int_equal(gateway_held_count(gateway), 0);
    close_empty(world);
}

TEST(only_leaders_stand_for_those_that_nobody_can_verify) {
    struct world *world = open_two();
    struct gateway *gateway = world->gateway;
    struct request *leader = claim(world, 3);
    request_mark_unchecked(gateway, leader, 1);
    assert_int_equal(gateway->requests.unchecked.count, 1);
    gateway_audit(gateway);
    request_wait(gateway, leader, nothing, 2);
    assert_int_equal(gateway->requests.unchecked.count, 0);
    assert_int_equal(gateway->requests.waiting.count, 3);
    gateway_audit(gateway);
    world_close(world);
}

/* Who comes back from a unit stands where it stood; those to be ended stand last come first. */
TEST(lists_keep_the_order_of_arrival) {
    struct world *world = open_two();
    struct gateway *gateway = world->gateway;
    struct request *requests[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        requests[i] = claim(world, 1);
        request_wait(gateway, requests[i], nothing, 1);
    }
    request_bind(gateway, requests[1], FIRST_PLACE, 1);
    request_bind(gateway, requests[0], FIRST_PLACE, 1);
    request_wait_again(gateway, requests[1], 2);
    request_wait_again(gateway, requests[0], 2);
    gateway_audit(gateway);
    request_lines_begin(&gateway->requests.waiting);
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_ptr_equal(request_lines_next(&gateway->requests.waiting), requests[i]);
    assert_null(request_lines_next(&gateway->requests.waiting));
    request_lines_end(&gateway->requests.waiting);
    assert_int_equal(requests[0]->id.attempt, 1);
    request_end(gateway, requests[2], FINISH_FAILED);
    request_end(gateway, requests[0], FINISH_FAILED);
    assert_ptr_equal(gateway->requests.finishing.first, requests[0]);
    assert_int_equal(gateway_queued_count(gateway), SLOTS);
    gateway_audit(gateway);
    world_close(world);
}

static void assert_books(const struct world *world, uint32_t place, uint32_t bound,
                         uint64_t promised_pages) {
    const struct fleet_unit *unit = &world->gateway->fleet.units[place];
    assert_int_equal(unit->bound, bound);
    assert_int_equal(unit->promised_pages, promised_pages);
    gateway_audit(world->gateway);
}

TEST(units_have_what_they_promised_until_tokens_come) {
    struct world *world = open_two();
    struct gateway *gateway = world->gateway;
    struct request *request = bring_to(world, REQUEST_PREFILLING);
    assert_int_equal(request_speaker(request), SECOND_PLACE);
    assert_books(world, FIRST_PLACE, 1, 5);
    assert_books(world, SECOND_PLACE, 1, 3);
    request_progress(gateway, request);
    assert_books(world, SECOND_PLACE, 1, 0);
    request_continue(gateway, request);
    assert_int_equal(request_speaker(request), FIRST_PLACE);
    request_unbind_prompt(gateway, request);
    assert_books(world, SECOND_PLACE, 0, 0);
    assert_books(world, FIRST_PLACE, 1, 5);
    request_wait_again(gateway, request, 3);
    assert_int_equal(request_speaker(request), FLEET_NONE);
    assert_books(world, FIRST_PLACE, 0, 0);
    world_close(world);
}

/* A unit that only promised pages for the prompt has heard nothing of the request. */
TEST(a_cancel_reaches_whoever_was_reported) {
    static const struct {
        enum request_state from;
        uint32_t cancels;
    } cases[] = {{REQUEST_WAITING, 0},    {REQUEST_ANSWERING, 1}, {REQUEST_RESERVING, 1},
                 {REQUEST_PREFILLING, 2}, {REQUEST_CONTINUED, 2}, {REQUEST_ANSWERED, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct world *world = open_two();
        struct request *request = bring_to(world, cases[i].from);
        request_cancel(world->gateway, request, CAUSE_CLIENT_GONE);
        assert_false(request_is_under_way(request)); /* nobody cancels it twice */
        world_carry(world);
        assert_int_equal(world->cancels, cases[i].cancels);
        world_close(world);
    }
}
