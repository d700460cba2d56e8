/* SPDX-License-Identifier: Apache-2.0
 * Prompts that come back with their log probabilities, as the gateway sees it: every token of the
 * prompt is told once, in order, its first one as unknown, and the answer's behind them, whole or
 * streamed, whichever units are lost on the way and whatever they repeat; no unit is asked twice
 * for what is known, or believed when it tells what cannot be. Units are played by hand.
 */

#include "askers.h"
#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

enum { PROMPT_MAX = 2000 };

static uint32_t prompt_count; /* of the request at hand: tokens 5, 6, 7, ... */

static uint32_t ask_echo(struct world *world, uint32_t count, uint32_t logprobs, const char *more) {
    static char body[PROMPT_MAX * 6];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"prompt\":[5");
    for (uint32_t i = 1; i < count; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",%u", 5 + i);
    snprintf(body + used, sizeof body - used, "],\"echo\":true,\"logprobs\":%u%s}", logprobs, more);
    prompt_count = count;
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    return client;
}

/* Of prompt tokens [first, first + count): minus its id, as have the likeliest, itself first. */
static void report_scores(struct world *world, uint32_t unit, struct request_id id, uint32_t first,
                          uint32_t count, uint32_t each) {
    struct record_scores *record =
        make(RECORD_SCORES, &(struct record_scores){.token_count = count, .logprobs_each = each});
    struct token_logprob *scores = scores_logprobs(record);
    record->request = id;
    record->first_position = first;
    for (uint32_t i = 0; i < count * each; i++) {
        uint32_t token = 5 + first + i / each;
        uint32_t ahead = i % each ? i % each - 1 : 0;
        scores[i] = (struct token_logprob){(token + ahead) % VOCAB, -(float)token};
    }
    report(world, unit, record);
}

static void report_all_scores(struct world *world, uint32_t unit, struct request_id id,
                              uint32_t each) {
    for (uint32_t first = 1; first < prompt_count; first += SCORES_TOKENS_MAX) {
        uint32_t left = prompt_count - first;
        report_scores(world, unit, id, first, left < SCORES_TOKENS_MAX ? left : SCORES_TOKENS_MAX,
                      each);
    }
}

/* Its log probability is that of a token of the prompt, too. */
static void report_token(struct world *world, uint32_t unit, struct request_id id,
                         uint32_t position, uint32_t each) {
    struct record_tokens *record =
        make(RECORD_TOKENS,
             &(struct record_tokens){.token_count = 1, .logprobs_each = each, .work_count = 1});
    struct token_logprob *logprobs = tokens_logprobs(record);
    record->request = id;
    record->first_output_position = position;
    tokens_work(record)->prompt_miss_tokens = prompt_count;
    tokens_work(record)->computed_tokens = prompt_count;
    *tokens_chosen(record) = 100 + position;
    for (uint32_t i = 0; i < each; i++)
        logprobs[i] =
            (struct token_logprob){100 + position + (i ? i - 1 : 0), -100 - (float)position};
    report(world, unit, record);
}

static void report_end(struct world *world, uint32_t unit, struct request_id id,
                       enum finish_reason reason, uint32_t output_tokens) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = id;
    record->reason = reason;
    record->output_tokens = output_tokens;
    record->work.prompt_miss_tokens = prompt_count;
    report(world, unit, record);
}

/* FINISHED of a prompt of which so many tokens were computed. */
static void report_computed(struct world *world, uint32_t unit, struct request_id id,
                            uint32_t tokens) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = id;
    record->reason = FINISH_CANCELLED;
    record->work.prompt_miss_tokens = prompt_count;
    record->work.computed_tokens = tokens;
    report(world, unit, record);
}

static int64_t number_at(const struct tree *object, const char *name) {
    int64_t number = -1;
    assert_true(tree_get_integer(tree_member(object, name), &number));
    return number;
}

/* Token i of all that is told: 5, 6, ... of the prompt, then 100, 101, ... */
static uint32_t reported_token(uint32_t i) {
    return i < prompt_count ? 5 + i : 100 + i - prompt_count;
}

static uint32_t count_members(const struct tree *object) {
    struct tree_cursor cursor = {0};
    const struct tree *value;
    struct bytes name;
    uint32_t count = 0;
    while (tree_next_member(object, &cursor, &name, &value))
        count++;
    return count;
}

/* The arrays of one choice or event hold tokens [from, ...); returns how many. */
static uint32_t assert_logprobs(const struct tree *logprobs, uint32_t from, uint32_t top) {
    const struct tree *tokens = tree_member(logprobs, "tokens");
    const struct tree *own = tree_member(logprobs, "token_logprobs");
    const struct tree *tops = tree_member(logprobs, "top_logprobs");
    const struct tree *offsets = tree_member(logprobs, "text_offset");
    uint32_t count = (uint32_t)tree_count(tokens);
    assert_int_equal(tree_count(own), count);
    assert_int_equal(tree_count(tops), count);
    assert_int_equal(tree_count(offsets), count);
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        struct bytes text;
        double number;
        int64_t offset;
        snprintf(name, sizeof name, "token_id:%u", reported_token(from + i));
        assert_true(tree_get_string(tree_at(tokens, i), &text) &&
                    bytes_equal(text, bytes_of(name)));
        assert_true(tree_get_integer(tree_at(offsets, i), &offset) && offset == 0);
        if (from + i == 0) {
            assert_true(tree_is_null(tree_at(own, 0)) && tree_is_null(tree_at(tops, 0)));
            continue;
        }
        assert_true(tree_get_number(tree_at(own, i), &number));
        assert_true(number == -(double)reported_token(from + i));
        assert_int_equal(count_members(tree_at(tops, i)), top ? top : 1);
        assert_non_null(tree_member(tree_at(tops, i), name));
    }
    return count;
}

static const struct tree *choice_of(struct world *world, uint32_t client, size_t index) {
    assert_true(world->clients[client].ended);
    if (world->clients[client].http_status != 200) fail_msg("%s", world->clients[client].data);
    return tree_at(tree_member(read_body(world, client), "choices"), index);
}

/* A whole answer of so many tokens. */
static void assert_whole(struct world *world, uint32_t client, uint32_t output, uint32_t top) {
    const struct tree *choice = choice_of(world, client, 0);
    const struct tree *usage = tree_member(read_body(world, client), "usage");
    assert_int_equal(number_at(usage, "prompt_tokens"), prompt_count);
    assert_int_equal(number_at(usage, "completion_tokens"), output);
    assert_int_equal(number_at(usage, "prompt_cache_hit_tokens"), 0);
    choice = choice_of(world, client, 0);
    assert_int_equal(tree_count(tree_member(choice, "token_ids")), output);
    assert_int_equal(assert_logprobs(tree_member(choice, "logprobs"), 0, top),
                     prompt_count + output);
}

/* A stream's events, one behind the other. */
static void assert_streamed(struct world *world, uint32_t client, uint32_t output, uint32_t top) {
    static char memory[1 << 20];
    uint32_t count = 0;
    const char *text = world->clients[client].data, *end;
    assert_true(world->clients[client].ended);
    for (; (end = strstr(text, "\n\n")); text = end + 2) {
        const struct tree *root;
        struct arena arena;
        struct error error;
        struct bytes event = {text + 6, (size_t)(end - text) - 6};
        if (text[0] == ':' || bytes_equal(event, BYTES_LITERAL("[DONE]"))) continue;
        arena_over(&arena, memory, sizeof memory);
        if (tree_parse(&arena, event, "event", &root, &error)) fail_msg("%s", error.text);
        const struct tree *choice = tree_at(tree_member(root, "choices"), 0);
        const struct tree *logprobs = choice ? tree_member(choice, "logprobs") : NULL;
        if (!logprobs || tree_is_null(logprobs)) continue;
        count += assert_logprobs(logprobs, count, top);
    }
    assert_int_equal(count, prompt_count + output);
}

TEST(the_prompt_stands_before_the_answer) {
    for (uint32_t stream = 0; stream < 2; stream++)
        for (uint32_t top = 0; top <= 20; top += 5) {
            struct world *world = open_with(1, (struct gateway_options){0});
            uint32_t client = ask_echo(
                world, 40, top, stream ? ",\"max_tokens\":2,\"stream\":true" : ",\"max_tokens\":2");
            struct request_id id = world->last_submit->request;
            assert_int_equal(world->last_submit->sampling.flags,
                             SAMPLING_LOGPROBS | SAMPLING_SCORES);
            report_all_scores(world, 1, id, 1 + top);
            report_scores(world, 1, id, 3, 9, 1 + top); /* once more */
            report_token(world, 1, id, 0, 1 + top);
            report_token(world, 1, id, 1, 1 + top);
            report_end(world, 1, id, FINISH_LENGTH, 2);
            if (stream)
                assert_streamed(world, client, 2, top);
            else
                assert_whole(world, client, 2, top);
            close_empty(world);
        }
}

TEST(a_prompt_of_one_token_is_unknown) {
    for (uint32_t stream = 0; stream < 2; stream++) {
        struct world *world = open_with(1, (struct gateway_options){0});
        uint32_t client = ask_echo(
            world, 1, 1, stream ? ",\"max_tokens\":1,\"stream\":true" : ",\"max_tokens\":1");
        struct request_id id = world->last_submit->request;
        report_token(world, 1, id, 0, 2);
        report_end(world, 1, id, FINISH_LENGTH, 1);
        if (stream)
            assert_streamed(world, client, 1, 1);
        else
            assert_whole(world, client, 1, 1);
        close_empty(world);
    }
}

/* The unit's token is nobody's, though it be a stop token. */
TEST(no_token_at_all_is_an_answer) {
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t stream = round & 1, stops = round & 2, count = round & 4 ? 1 : 3;
        char more[100];
        snprintf(more, sizeof more, ",\"max_tokens\":0%s%s", stream ? ",\"stream\":true" : "",
                 stops ? ",\"stop_token_ids\":[100]" : "");
        struct world *world = open_with(1, (struct gateway_options){0});
        uint32_t client = ask_echo(world, count, 1, more);
        struct request_id id = world->last_submit->request;
        assert_int_equal(world->last_submit->new_tokens_max, 1);
        report_all_scores(world, 1, id, 2);
        report_token(world, 1, id, 0, 2);
        report_end(world, 1, id, stops ? FINISH_STOP_TOKEN : FINISH_LENGTH, 1);
        assert_non_null(strstr(world->clients[client].data, "\"finish_reason\":\"length\""));
        if (stream)
            assert_streamed(world, client, 0, 1);
        else
            assert_whole(world, client, 0, 1);
        close_empty(world);
    }
}

TEST(each_choice_has_its_prompt) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask_echo(world, 3, 1, ",\"max_tokens\":1,\"n\":2");
    for (uint32_t i = 2; i-- > 0;) { /* the second first: both have been submitted */
        struct request_id id = world->last_submit->request;
        id.low -= 1 - i;
        report_all_scores(world, 1, id, 2);
        report_token(world, 1, id, 0, 2);
        report_end(world, 1, id, FINISH_LENGTH, 1);
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            assert_logprobs(tree_member(choice_of(world, client, i), "logprobs"), 0, 1), 4);
    close_empty(world);
}

/* Lost in mid-prompt, when all of it has been told, and in mid-answer. */
TEST(nothing_is_reported_twice_when_units_are_lost) {
    for (uint32_t stage = 0; stage < 4; stage++)
        for (uint32_t stream = 0; stream < 2; stream++) {
            struct world *world = open_with(2, (struct gateway_options){0});
            uint32_t client = ask_echo(
                world, 5, 1, stream ? ",\"max_tokens\":3,\"stream\":true" : ",\"max_tokens\":3");
            uint32_t first = world->last_unit.value, reported = 0;
            struct request_id id = world->last_submit->request;
            if (stage == 1) report_scores(world, first, id, 1, 2, 2);
            if (stage > 1) report_all_scores(world, first, id, 2);
            if (stage > 2) report_token(world, first, id, reported++, 2);
            lose(world, first);
            uint32_t second = world->last_unit.value;
            assert_true(second != first);
            const struct record_submit *submit = world->last_submit;
            assert_int_equal(submit->request.attempt, 1);
            assert_int_equal(submit->resumed_count, reported);
            assert_int_equal(submit->sampling.flags,
                             stage < 2 ? SAMPLING_LOGPROBS | SAMPLING_SCORES : SAMPLING_LOGPROBS);
            report_scores(world, first, id, 3, 2, 2); /* it is dead */
            id = submit->request;
            if (stage < 2) report_all_scores(world, second, id, 2);
            while (reported < 3)
                report_token(world, second, id, reported++, 2);
            report_end(world, second, id, FINISH_LENGTH, 3);
            if (stream)
                assert_streamed(world, client, 3, 1);
            else
                assert_whole(world, client, 3, 1);
            close_empty(world);
        }
}

static struct world *open_apart(void) {
    struct world *world = open_empty((struct gateway_options){0});
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    return world;
}

/* The unit that computes the prompt tells of it; the one that only takes its blocks is not asked.
 */
TEST(prefill_units_report_of_the_prompt) {
    struct world *world = open_apart();
    uint32_t client = ask_echo(world, 20, 1, ",\"max_tokens\":2");
    struct request_id id = world->last_submit->request;
    assert_int_equal(world->last_submit->task, SUBMIT_RESERVE);
    assert_int_equal(world->last_submit->sampling.flags, SAMPLING_LOGPROBS);
    report_reserved(world, 2, id);
    assert_int_equal(world->last_submit->task, SUBMIT_PREFILL);
    assert_int_equal(world->last_submit->sampling.flags, SAMPLING_LOGPROBS | SAMPLING_SCORES);
    report_scores(world, 2, id, 1, 5, 2); /* not its turn */
    report_all_scores(world, 1, id, 2);
    report_token(world, 1, id, 0, 2);
    assert_int_equal(world->continues, 1);
    report_end(world, 1, id, FINISH_HANDED_OVER, 1);
    report_token(world, 2, id, 1, 2);
    report_end(world, 2, id, FINISH_LENGTH, 2);
    assert_whole(world, client, 2, 1);
    close_empty(world);
}

/* Where nothing follows the prompt, nothing is handed over. */
TEST(a_prompt_alone_stays_where_prompts_are_computed) {
    struct world *world = open_apart();
    uint32_t client = ask_echo(world, 20, 1, ",\"max_tokens\":0");
    struct request_id id = world->last_submit->request;
    assert_int_equal(world->last_unit.value, 1);
    assert_int_equal(world->last_submit->task, SUBMIT_ANSWER);
    report_all_scores(world, 1, id, 2);
    report_token(world, 1, id, 0, 2);
    report_end(world, 1, id, FINISH_LENGTH, 1);
    assert_whole(world, client, 0, 1);
    assert_int_equal(world->continues, 0);
    close_empty(world);
}

/* Whoever says so is no unit of ours any more; another goes on. */
TEST(what_cannot_be_true_is_not_believed) {
    for (uint32_t lie = 0; lie < 6; lie++) {
        struct world *world = open_with(2, (struct gateway_options){0});
        uint32_t client = ask_echo(world, 6, 1, ",\"max_tokens\":1");
        uint32_t liar = world->last_unit.value;
        struct request_id id = world->last_submit->request;
        report_scores(world, liar, id, 1, 2, 2);
        if (lie == 0) report_scores(world, liar, id, 4, 1, 2); /* one is missing */
        if (lie == 1) report_scores(world, liar, id, 3, 4, 2); /* more than the prompt has */
        if (lie == 2) report_scores(world, liar, id, 3, 1, 3);
        if (lie == 3) report_token(world, liar, id, 0, 2); /* before all have been told */
        if (lie > 3) {
            struct record_scores *record =
                make(RECORD_SCORES, &(struct record_scores){.token_count = 1, .logprobs_each = 2});
            struct token_logprob *scores = scores_logprobs(record);
            record->request = id;
            record->first_position = 3;
            record->token_count = 1;
            record->logprobs_each = 2;
            scores[0].token = lie == 4 ? 9 : 8; /* it is 8 */
            scores[1].token = lie == 5 ? VOCAB : 0;
            report(world, liar, record);
        }
        uint32_t unit = world->last_unit.value;
        assert_true(unit != liar);
        id = world->last_submit->request;
        assert_int_equal(id.attempt, 1);
        report_all_scores(world, unit, id, 2);
        report_token(world, unit, id, 0, 2);
        report_end(world, unit, id, FINISH_LENGTH, 1);
        assert_whole(world, client, 1, 1);
        close_empty(world);
    }
}

TEST(scores_that_nobody_asked_for_are_not_believed) {
    struct world *world = open_with(2, (struct gateway_options){0});
    uint32_t client = ask(world, "");
    uint32_t liar = world->last_unit.value;
    prompt_count = 3;
    report_scores(world, liar, world->last_submit->request, 1, 2, 1);
    assert_true(world->last_unit.value != liar);
    report_tokens(world, world->last_unit.value, world->last_submit->request, 0, ids, 6);
    report_finished(world, world->last_unit.value, world->last_submit->request, FINISH_LENGTH, 6);
    assert_ids(world, client, ids, 6);
    close_empty(world);
}

/* Asks with room for answers of 1 MiB in all. The names of other tokens are far longer here than
 * the shortest, so a prompt outgrows its answer only when its scores have come. */
static struct world *open_narrow(void) {
    return open_with(1, (struct gateway_options){.outbox_bytes = 1 << 20});
}

static void report_scores_until_cancelled(struct world *world, struct request_id id,
                                          uint32_t each) {
    for (uint32_t first = 1; first < prompt_count && world->cancels == 0; first += 10)
        report_scores(world, 1, id, first, first + 10 < prompt_count ? 10 : prompt_count - first,
                      each);
}

/* Half of a prompt's scores would be taken for all of them. A stream has no such end. */
TEST(more_than_an_answer_holds_is_refused) {
    for (uint32_t stream = 0; stream < 2; stream++) {
        struct world *world = open_narrow();
        uint32_t client =
            ask_echo(world, stream ? PROMPT_MAX : 1200, 20,
                     stream ? ",\"max_tokens\":0,\"stream\":true" : ",\"max_tokens\":0,\"n\":2");
        struct request_id id = world->last_submit->request, other = id;
        other.low--;
        report_scores_until_cancelled(world, id, 21);
        if (stream) {
            assert_int_equal(world->cancels, 0);
            report_token(world, 1, id, 0, 21);
            report_end(world, 1, id, FINISH_LENGTH, 1);
            assert_streamed(world, client, 0, 20);
        } else {
            assert_int_equal(world->cancels, 1);
            report_computed(world, 1, id, 40);
            assert_int_equal(world->cancels, 2);
            report_end(world, 1, other, FINISH_CANCELLED, 0);
            assert_refused(world, client, 413, "request_too_large");
            /* Others find in the cache what was computed. */
            assert_true(world->clients[client].usage->is_charged);
            assert_int_equal(world->clients[client].usage->miss_tokens, 40);
            assert_int_equal(world->clients[client].usage->output_tokens, 0);
        }
        close_empty(world);
    }
}

/* What cannot fit is judged by the prompt's tokens alone: no unit is asked, and nothing is
 * charged. */
TEST(what_can_never_fit_is_refused_before_it_begins) {
    struct world *world = open_narrow();
    uint32_t client = ask_echo(world, PROMPT_MAX, 20, ",\"max_tokens\":0,\"n\":2");
    assert_null(world->last_submit);
    assert_refused(world, client, 413, "request_too_large");
    assert_non_null(strstr(world->clients[client].data, "\"param\":\"prompt\""));
    assert_false(world->clients[client].usage->is_charged);
    close_empty(world);
}

/* Of two prompts: `first`, and one of so many tokens. */
static uint32_t ask_two(struct world *world, const char *first, uint32_t count, const char *more) {
    static char body[PROMPT_MAX * 6];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"prompt\":[%s,[5", first);
    for (uint32_t i = 1; i < count; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, ",%u", 5 + i);
    snprintf(body + used, sizeof body - used, "]],\"echo\":true%s}", more);
    uint32_t client = world_post(world, COMPLETIONS, body);
    world_settle(world);
    return client;
}

TEST(one_of_several_prompts_is_named_when_it_can_never_fit) {
    struct world *world = open_narrow();
    uint32_t client = ask_two(world, "[5]", PROMPT_MAX, ",\"logprobs\":20,\"max_tokens\":4");
    assert_null(world->last_submit);
    assert_refused(world, client, 413, "request_too_large");
    assert_non_null(strstr(world->clients[client].data, "'prompt[1]': "));
    close_empty(world);
}

/* One prompt that can never be answered makes the others' answers no cheaper: the request pays for
 * what was made, and its account's tokens a minute count it. */
TEST(a_prompt_that_outgrows_its_answer_frees_no_others) {
    const struct asker one = {
        .name = "a", .key = "k", .salt = 1, .limits = {.tokens_per_minute = 10000}};
    struct world *world = open_with(1, (struct gateway_options){
                                           .outbox_bytes = 1 << 20,
                                           .accounts = make_accounts(&one, 1),
                                       });
    world->authorization = "Bearer k";
    uint32_t client = ask_two(world, "[5]", 1200, ",\"logprobs\":20,\"max_tokens\":4");
    struct request_id id = world->last_submit->request, other = id;
    assert_int_equal(world->last_submit->prompt_count, 1200);
    other.low--;
    prompt_count = 1;
    for (uint32_t i = 0; i < 4; i++)
        report_token(world, 1, other, i, 21);
    report_end(world, 1, other, FINISH_LENGTH, 4);
    prompt_count = 1200;
    report_scores_until_cancelled(world, id, 21);
    assert_int_equal(world->cancels, 1);
    report_computed(world, 1, id, 40);
    assert_refused(world, client, 413, "request_too_large");
    const struct record_usage *usage = world->clients[client].usage;
    assert_true(usage->is_charged);
    assert_int_equal(usage->made_tokens, 4);
    assert_int_equal(usage->output_tokens, 4);
    assert_int_equal(usage->miss_tokens, 1 + 40);
    client = ask(world, ""); /* of three tokens */
    report_tokens(world, 1, world->last_submit->request, 0, ids, 6);
    report_finished(world, 1, world->last_submit->request, FINISH_LENGTH, 6);
    assert_non_null(
        strstr(world->clients[client].headers, "X-RateLimit-Remaining-Tokens: 9952\r\n"));
    close_empty(world);
}

/* It is the service that failed: no answer of it is to be paid for. */
TEST(a_failure_of_a_unit_is_not_charged) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask_two(world, "[5]", 2, ",\"logprobs\":0,\"max_tokens\":1");
    struct request_id id = world->last_submit->request, other = id;
    other.low--;
    prompt_count = 1;
    report_token(world, 1, other, 0, 1);
    report_end(world, 1, other, FINISH_LENGTH, 1);
    prompt_count = 2;
    for (uint32_t tries = 0; tries < 10 && !world->clients[client].ended; tries++) {
        report_end(world, 1, world->last_submit->request, FINISH_FAILED, 0);
        world->now_ns += 60 * SECOND;
        world_settle(world);
    }
    assert_refused(world, client, 503, "engine_failed");
    const struct record_usage *usage = world->clients[client].usage;
    assert_false(usage->is_charged);
    assert_int_equal(usage->made_tokens, 1);
    assert_int_equal(usage->output_tokens, 0);
    close_empty(world);
}
