/* SPDX-License-Identifier: Apache-2.0
 * Receipts and the account behind them: hit + miss = prompt and device + host + disk + computed =
 * prompt, for every answer, whichever units had it, failed it, were lost or came late; whose hits
 * count is settled with the first token. Nobody who does not ask is told more than before.
 */

#include "base/random.h"
#include "base/tree.h"
#include "hands.h"
#include "test_case.h"

static const struct tree *parse(const char *text) {
    static char memory[1 << 20];
    static struct arena arena;
    const struct tree *root = NULL;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    if (!text) fail_msg("no receipt");
    if (tree_parse(&arena, (struct bytes){text, strlen(text)}, "receipt", &root, &error))
        fail_msg("%s in %s", error.text, text);
    return root;
}

/* A number by its path, as "prompt.hit". */
static double number(const struct tree *tree, const char *path) {
    char key[64];
    double value;
    const char *rest = path, *dot;
    for (; (dot = strchr(rest, '.')); rest = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - rest), rest);
        tree = tree_member(tree, key);
    }
    if (!tree || !tree_get_number(tree_member(tree, rest), &value)) fail_msg("no %s", path);
    return value;
}

static void assert_text(const struct tree *tree, const char *key, const char *expected) {
    struct bytes text;
    assert_true(tree_get_string(tree_member(tree, key), &text));
    if (!bytes_equal(text, bytes_of(expected))) fail_msg("%.*s", (int)text.count, text.data);
}

static void assert_sums(const struct tree *receipt) {
    double prompt = number(receipt, "prompt.tokens"), ttft = number(receipt, "ms.ttft");
    double total = number(receipt, "ms.total");
    assert_true(number(receipt, "prompt.hit") + number(receipt, "prompt.miss") == prompt);
    assert_true(number(receipt, "prompt.device") + number(receipt, "prompt.host") +
                    number(receipt, "prompt.disk") + number(receipt, "prompt.computed") ==
                prompt);
    assert_float_equal(number(receipt, "ms.queue") + number(receipt, "ms.load") +
                           number(receipt, "ms.prefill"),
                       ttft, 0.0021);
    assert_float_equal(ttft + number(receipt, "ms.transfer") + number(receipt, "ms.decode"), total,
                       0.0021);
}

/* Of the prompt's three tokens the first `hit` were in a tier, one each, but for the last of them,
 * which was computed all the same. */
static struct unit_work work_of(uint32_t hit) {
    return (struct unit_work){.prompt_hit_tokens = hit,
                              .prompt_miss_tokens = 3 - hit,
                              .device_tokens = hit > 1,
                              .disk_tokens = hit > 2,
                              .computed_tokens = 3 - (hit > 1) - (hit > 2),
                              .queue_ns = 2000000,
                              .prefill_ns = 3000000};
}

/* `work` NULL: it is as it was told. */
static void report_work(struct world *world, uint32_t unit, struct request_id id, uint32_t first,
                        uint32_t count, const struct unit_work *work) {
    struct record_tokens *record = make(
        RECORD_TOKENS, &(struct record_tokens){.token_count = count, .work_count = work != NULL});
    record->request = id;
    record->first_output_position = first;
    if (work) *tokens_work(record) = *work;
    memcpy(tokens_chosen(record), ids + first, count * sizeof *ids);
    report(world, unit, record);
}

static void report_end(struct world *world, uint32_t unit, struct request_id id,
                       enum finish_reason reason, const struct unit_work *work) {
    struct record_finished *record = make(RECORD_FINISHED, NULL);
    record->request = id;
    record->reason = reason;
    record->output_tokens = 6;
    record->work = *work;
    report(world, unit, record);
}

TEST(a_receipt_says_what_an_answer_took) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = ask(world, ",\"return_receipt\":true");
    struct request_id id = world->last_submit->request;
    struct unit_work work = work_of(3);
    world->now_ns += 10000000;
    report_work(world, 1, id, 0, 1, &work);
    world->now_ns += 20000000;
    work.drafts_made = 3, work.drafts_right = 2, work.preemptions = 1, work.recomputed_tokens = 4;
    work.reloaded_tokens = 5;
    report_work(world, 1, id, 1, 3, &work);
    report_work(world, 1, id, 4, 2, NULL);
    report_end(world, 1, id, FINISH_LENGTH, &work);
    const struct tree *receipt = parse(world->clients[client].receipt);
    assert_sums(receipt);
    assert_text(receipt, "finish_reason", "length");
    static const struct {
        const char *path;
        double value;
    } expected[] = {
        {"prompt.hit", 3},
        {"prompt.device", 1},
        {"prompt.disk", 1},
        {"prompt.computed", 1},
        {"transferred", 0},
        {"recomputed", 4},
        {"reloaded", 5},
        {"output", 6},
        {"drafts.made", 3},
        {"drafts.right", 2},
        {"restarts.preemptions", 1},
        {"restarts.units", 0},
        {"ms.ttft", 10},
        {"ms.prefill", 3},
        {"ms.queue", 7},
        {"ms.decode", 20},
        {"ms.total", 30},
        {"index", 0},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (number(receipt, expected[i].path) != expected[i].value)
            fail_msg("%s", expected[i].path);
    const struct tree *ran = tree_member(receipt, "ran");
    assert_int_equal(tree_count(ran), 1);
    assert_int_equal((int)number(tree_at(ran, 0), "unit"), 1);
    assert_text(tree_at(ran, 0), "role", "both");
    close_empty(world);
}

TEST(nobody_is_reported_who_does_not_ask) {
    for (uint32_t stream = 0; stream < 2; stream++) {
        struct world *world = open_with(1, (struct gateway_options){0});
        uint32_t client = ask(world, stream ? ",\"stream\":true" : "");
        struct unit_work work = work_of(0);
        report_work(world, 1, world->last_submit->request, 0, 6, &work);
        report_end(world, 1, world->last_submit->request, FINISH_LENGTH, &work);
        assert_true(world->clients[client].ended);
        assert_null(world->clients[client].receipt);
        assert_null(strstr(world->clients[client].data, "receipt"));
        close_empty(world);
    }
}

/* The receipt is the last event but [DONE], without choices, behind the usage. */
TEST(a_stream_ends_with_it) {
    struct world *world = open_with(1, (struct gateway_options){0});
    world->wants_receipts = true;
    uint32_t client = ask(world, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    struct unit_work work = work_of(2);
    report_work(world, 1, world->last_submit->request, 0, 6, &work);
    report_end(world, 1, world->last_submit->request, FINISH_LENGTH, &work);
    char *data = world->clients[client].data, *at = strstr(data, ",\"receipt\":");
    assert_non_null(at);
    char *done = strstr(at, "\n\ndata: [DONE]\n\n");
    assert_non_null(done);
    assert_int_equal(strlen(done), strlen("\n\ndata: [DONE]\n\n"));
    *done = '\0';
    char *start = at;
    while (strncmp(start, "data: ", 6) != 0)
        start--;
    assert_non_null(strstr(data, "\"prompt_cache_hit_tokens\":2"));
    assert_true(strstr(data, "\"prompt_cache_hit_tokens\":2") < start);
    const struct tree *chunk = parse(start + 6);
    assert_int_equal(tree_count(tree_member(chunk, "choices")), 0);
    assert_true(tree_is_null(tree_member(chunk, "usage")));
    assert_sums(tree_member(chunk, "receipt"));
    close_empty(world);
}

TEST(every_choice_has_its_own) {
    struct world *world = open_with(1, (struct gateway_options){0});
    world->wants_receipts = true;
    uint32_t client = ask(world, ",\"n\":2");
    struct request_id id = world->last_submit->request;
    for (uint32_t i = 0; i < 2; i++, id.low--) {
        struct unit_work work = work_of(2 * i);
        report_work(world, 1, id, 0, 6, &work);
        report_end(world, 1, id, FINISH_LENGTH, &work);
    }
    const struct tree *receipts = parse(world->clients[client].receipt);
    assert_int_equal(tree_count(receipts), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_sums(tree_at(receipts, i));
        assert_int_equal((int)number(tree_at(receipts, i), "index"), i);
        assert_int_equal((int)number(tree_at(receipts, i), "prompt.hit"), i ? 0 : 2);
    }
    assert_int_equal(
        (int)number(tree_member(read_body(world, client), "usage"), "prompt_cache_hit_tokens"),
        2); /* the prompt counts once, as the first answer found it */
    close_empty(world);
}

/* Moved in mid-answer: the first unit's hits stay, the second's work was done again. Moved before:
 * the second's are the first. */
TEST(whose_hits_count) {
    for (uint32_t reported = 0; reported < 4; reported += 3) {
        struct world *world = open_with(2, (struct gateway_options){0});
        uint32_t client = ask(world, ",\"return_receipt\":true"), unit = world->last_unit.value;
        struct unit_work first = work_of(3), second = work_of(0);
        if (reported) report_work(world, unit, world->last_submit->request, 0, reported, &first);
        lose(world, unit);
        second.recomputed_tokens = reported ? reported - 1 : 0;
        second.rank = 1;
        report_work(world, 3 - unit, world->last_submit->request, reported, 6 - reported, &second);
        report_end(world, 3 - unit, world->last_submit->request, FINISH_LENGTH, &second);
        const struct tree *receipt = parse(world->clients[client].receipt);
        assert_sums(receipt);
        assert_int_equal((int)number(receipt, "prompt.hit"), reported ? 3 : 0);
        assert_int_equal((int)number(receipt, "recomputed"), reported ? 3 + 2 : 0);
        assert_int_equal((int)number(receipt, "restarts.units"), 1);
        assert_int_equal(tree_count(tree_member(receipt, "ran")), reported ? 2 : 1);
        assert_int_equal(
            (int)number(tree_member(read_body(world, client), "usage"), "prompt_cache_hit_tokens"),
            reported ? 3 : 0);
        close_empty(world);
    }
}

/* ---- any way ---- */

struct job { /* what a unit was asked to do last */
    bool asked, reserved, reported_first;
    enum submit_task task;
    struct request_id id;
    struct unit_work work;
};

struct script {
    struct world *world;
    struct job jobs[4]; /* [1..3]: units for prompts, for answers, for both */
    uint64_t seed, draws;
    uint32_t submits, said, client, hit;
    bool gone[4];
};

static uint32_t draw(struct script *script, uint32_t bound) {
    return (uint32_t)(random_uniform(script->seed, 1, (uint32_t)script->draws++) * bound);
}

static void note_submit(struct script *script) {
    struct world *world = script->world;
    if (world->submits == script->submits) return;
    script->submits = world->submits;
    const struct record_submit *submit = world->last_submit;
    for (uint32_t unit = 1; unit <= 3; unit++) /* of attempts before */
        if (script->jobs[unit].id.attempt != submit->request.attempt)
            script->jobs[unit].asked = false;
    struct job *job = &script->jobs[world->last_unit.value];
    *job = (struct job){.asked = true, .task = submit->task, .id = submit->request};
    job->work = work_of(draw(script, 4));
    if (submit->task == SUBMIT_RESERVE) {
        job->work = work_of(0);
        job->work.computed_tokens = 0, job->work.transferred_tokens = 3;
    }
}

static void speak(struct script *script, uint32_t unit) {
    struct job *job = &script->jobs[unit];
    struct world *world = script->world;
    bool first = script->said == 0;
    if (job->task == SUBMIT_RESERVE && !job->reserved) {
        struct record_reserved *record = make(RECORD_RESERVED, NULL);
        record->request = job->id;
        job->reserved = true;
        report(world, unit, record);
        return;
    }
    if (job->task == SUBMIT_RESERVE && first) return;
    if (job->task == SUBMIT_PREFILL && job->reported_first) {
        job->asked = false;
        report_end(world, unit, job->id, FINISH_HANDED_OVER, &job->work);
        return;
    }
    if (first) script->hit = job->work.prompt_hit_tokens;
    uint32_t count = job->task == SUBMIT_PREFILL ? 1 : 1 + draw(script, 3), left = 6 - script->said;
    if (count > left) count = left;
    if (count) report_work(world, unit, job->id, script->said, count, &job->work);
    job->reported_first = true;
    script->said += count;
    if (script->said < 6) return;
    job->asked = false;
    report_end(world, unit, job->id, FINISH_LENGTH, &job->work);
}

static void disturb(struct script *script, uint32_t unit) {
    struct world *world = script->world;
    struct job *job = &script->jobs[unit];
    if (script->gone[unit]) {
        static const enum unit_role roles[] = {UNIT_BOTH, UNIT_PREFILL, UNIT_DECODE, UNIT_BOTH};
        script->gone[unit] = false;
        join_as(world, unit, roles[unit]);
    } else if (job->asked && draw(script, 2)) {
        job->asked = false;
        report_end(world, unit, job->id, FINISH_FAILED, &job->work);
    } else {
        job->asked = false;
        script->gone[unit] = true;
        lose(world, unit);
    }
}

static uint32_t play(uint64_t seed) {
    struct script script = {.seed = seed, .world = open_empty((struct gateway_options){0})};
    struct world *world = script.world;
    join_as(world, 1, UNIT_PREFILL);
    join_as(world, 2, UNIT_DECODE);
    join_as(world, 3, UNIT_BOTH);
    world->wants_receipts = true;
    script.client = ask(world, "");
    uint32_t disturbances = draw(&script, 4);
    for (uint32_t turn = 0; turn < 400 && !world->clients[script.client].ended; turn++) {
        uint32_t unit = 1 + draw(&script, 3);
        note_submit(&script);
        if (disturbances && draw(&script, 4) == 0) {
            disturbances--;
            disturb(&script, unit);
        } else if (script.gone[unit] && turn > 50) {
            disturb(&script, unit);
        } else if (script.jobs[unit].asked) {
            speak(&script, unit);
        }
        world->now_ns += 300000000;
        world_settle(world);
    }
    assert_true(world->clients[script.client].ended);
    uint32_t restarts = 0;
    if (world->clients[script.client].http_status == 200) {
        const struct tree *receipt = parse(world->clients[script.client].receipt);
        assert_sums(receipt);
        assert_int_equal((int)number(receipt, "prompt.hit"), script.hit);
        assert_int_equal((int)number(receipt, "output"), 6);
        restarts = (uint32_t)number(receipt, "restarts.units");
        const struct tree *usage = tree_member(read_body(world, script.client), "usage");
        assert_int_equal((int)number(usage, "prompt_cache_hit_tokens"), script.hit);
        assert_int_equal((int)number(usage, "prompt_cache_miss_tokens"), 3 - script.hit);
    }
    for (uint32_t unit = 1; unit <= 3; unit++) /* the last words of those who were not needed */
        if (script.jobs[unit].asked && !script.gone[unit])
            report_end(world, unit, script.jobs[unit].id, FINISH_CANCELLED,
                       &script.jobs[unit].work);
    close_empty(world);
    return restarts;
}

TEST(sums_hold_whatever_happens) {
    uint32_t restarts = 0;
    for (uint64_t seed = 1; seed <= 400; seed++)
        restarts += play(seed);
    assert_true(restarts > 100);
}

TEST(accounts_that_cannot_be_true_are_not_believed) {
    for (uint32_t lie = 0; lie < 3; lie++) {
        struct world *world = open_with(2, (struct gateway_options){0});
        uint32_t client = ask(world, ""), unit = world->last_unit.value;
        struct unit_work work = work_of(0);
        if (lie == 0) work.prompt_hit_tokens = 1;
        if (lie == 1) work.host_tokens = 1;
        if (lie == 2) work.computed_tokens = UINT32_MAX;
        report_work(world, unit, world->last_submit->request, 0, 1, &work);
        assert_int_equal(world->last_unit.value, 3 - unit);
        work = work_of(0);
        report_work(world, 3 - unit, world->last_submit->request, 0, 6, &work);
        report_end(world, 3 - unit, world->last_submit->request, FINISH_LENGTH, &work);
        assert_int_equal(world->clients[client].http_status, 200);
        close_empty(world);
    }
}
