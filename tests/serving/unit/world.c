/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/random.h"
#include "contract/step_plan.h"
#include "serving/unit/state.h"

struct unit_options world_options(void) {
    static const uint8_t model_id[32] = {1};
    return (struct unit_options){.requests_max = 12,
                                 .page_count = 24,
                                 .context_tokens_max = 1000,
                                 .step_rows_max = 6,
                                 .step_tokens_max = 200,
                                 .chunk_tokens_max = 128,
                                 .vocab_count = VOCAB,
                                 .model_id = model_id,
                                 .numerics_id = "test"};
}

static struct world *make_world(const struct unit_options *options, uint32_t ranks, size_t bytes,
                                struct arena *arena) {
    struct world *world = calloc(1, sizeof *world);
    uint32_t pages_each = (uint32_t)divide_up(options->context_tokens_max, KV_BLOCK_TOKENS);
    bytes += ranks * slot_pages_bytes(options->requests_max, pages_each);
    world->memory = malloc(bytes);
    world->ranks = ranks;
    world->requests_max = options->requests_max;
    world->page_count = options->page_count;
    world->reuse_generated = options->reuse_generated;
    world->step_ns = 5;
    world->stop_odds = 0.002;
    world->made_odds = 0.9;
    world->right_odds = 0.6;
    assert_true(options->page_count <= PAGES_MAX && ranks <= RANKS_MAX);
    arena_over(arena, world->memory, bytes);
    for (uint32_t rank = 0; rank < ranks; rank++)
        assert_true(slot_pages_open(&world->slots[rank], arena, options->requests_max, pages_each));
    return world;
}

struct world *world_open(const struct unit_options *options) {
    return world_open_ranks(options, 1);
}

struct world *world_open_ranks(const struct unit_options *options, uint32_t ranks) {
    struct arena arena;
    struct error error;
    struct rank_units *units;
    size_t bytes = rank_units_memory_bytes(options, ranks);
    struct world *world = make_world(options, ranks, bytes, &arena);
    assert_int_equal(rank_units_create(&arena, options, ranks, &units, &error), STATUS_OK);
    world->machine = rank_units_machine(units);
    for (uint32_t rank = 0; rank < ranks; rank++)
        world->units[rank] = rank_units_unit(units, rank);
    return world;
}

void world_close(struct world *world) {
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        free(world->plans[rank]);
    free(world->memory);
    free(world);
}

uint64_t world_chain(uint64_t chain, uint32_t token, uint32_t form) {
    uint64_t mixed = (chain ^ (token * 2 + form + 1)) * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u | 1;
}

/* The token that the invented engine chooses behind a sequence: a stop token now and then. */
static uint32_t engine_token(const struct world *world, uint64_t chain, uint64_t seed,
                             uint32_t position) {
    uint32_t token = (uint32_t)(random_uniform(chain ^ seed, 0, position) * VOCAB);
    bool stops = random_uniform(chain ^ seed, 1, position) < world->stop_odds;
    return stops ? STOP_TOKEN : token + (token == STOP_TOKEN);
}

static struct known *known_of(struct world *world, struct request_id id) {
    assert_true(id.low < world->submitted);
    return &world->known[id.low];
}

/* A unit's account of a request against what the engine saw of it: where a row began that nothing
 * before had led to, its tokens came from elsewhere. */
static void check_work(const struct known *known, const struct unit_work *work) {
    uint32_t loaded = work->device_tokens + work->host_tokens + work->disk_tokens;
    uint32_t had = loaded + work->transferred_tokens, hit = work->prompt_hit_tokens;
    assert_int_equal(hit + work->prompt_miss_tokens, known->prompt_count);
    assert_int_equal(work->computed_tokens, known->computed);
    assert_int_equal(work->recomputed_tokens, known->again);
    assert_true(had >= known->elsewhere && had + work->computed_tokens <= known->prompt_count);
    if (work->queue_ns < 0) assert_int_equal(hit, 0);
    if (work->queue_ns >= 0) assert_true(hit >= loaded && (hit == loaded || hit <= known->found));
    if (!known->reported) return;
    assert_int_equal(had, known->elsewhere);
    assert_int_equal(had + work->computed_tokens, known->prompt_count);
    assert_int_equal(hit, known->reported_work.prompt_hit_tokens);
    assert_int_equal(work->computed_tokens, known->reported_work.computed_tokens);
    assert_true(work->reloaded_tokens >= known->reported_work.reloaded_tokens);
    assert_true(work->recomputed_tokens >= known->reported_work.recomputed_tokens);
    assert_true(work->prefill_ns == known->reported_work.prefill_ns);
}

static void take_tokens(struct world *world, const struct record_tokens *record) {
    struct known *known = known_of(world, record->request);
    const uint32_t *tokens = tokens_chosen(record);
    assert_int_equal(record->first_output_position, known->received);
    if (known->scored) assert_int_equal(known->scored, known->prompt_count);
    assert_int_equal(known->endings, 0);
    assert_in_range(record->token_count, 1,
                    known->constraint_bytes ? STEP_ROW_TOKENS : 1 + LIMIT_DRAFTS);
    known->pairs += record->token_count == 2;
    assert_true(record->work_count || known->reported);
    if (!known->reported) known->reported_work = *tokens_work(record);
    known->reported = true;
    if (record->work_count) check_work(known, tokens_work(record));
    for (uint32_t i = 0; i < record->token_count; i++) {
        assert_int_equal(tokens[i],
                         engine_token(world, known->chain, record->request.low, known->received));
        known->tokens[known->prompt_count + known->received++] = tokens[i];
        known->chain = world_chain(known->chain, tokens[i], TOKEN_GENERATED);
    }
}

/* Not more often than once a second, only before the first token, and never the whole prompt. */
static void take_progress(struct world *world, const struct record_progress *record) {
    struct known *known = known_of(world, record->request);
    assert_false(known->reported);
    assert_int_equal(known->endings, 0);
    assert_true(record->ready_tokens > 0 && record->ready_tokens < known->prompt_count);
    assert_true(record->cached_tokens <= record->ready_tokens);
    assert_true(world->now_ns - known->progress_ns >= PROGRESS_NS);
    known->progress_ns = world->now_ns;
    known->ready = record->ready_tokens;
    known->progresses++;
}

struct token_logprob world_score(uint64_t chain, uint32_t token) {
    return (struct token_logprob){token, -(float)(world_chain(chain, token, 2) % 1000)};
}

/* Each token of the prompt once, in order, behind those before it in their form, and before any of
 * the answer. */
static void take_scores(struct world *world, const struct record_scores *record) {
    struct known *known = known_of(world, record->request);
    const struct token_logprob *scores = scores_logprobs(record);
    assert_int_equal(known->received, 0);
    assert_int_equal(record->first_position, known->scored);
    assert_int_equal(record->logprobs_each, 1);
    uint64_t chain = 0;
    for (uint32_t i = 0; i < record->first_position + record->token_count; i++) {
        const struct token_logprob *reported = &scores[i - record->first_position];
        struct token_logprob true_one = world_score(chain, known->tokens[i]);
        if (i >= record->first_position)
            assert_true(reported->token == true_one.token && reported->logprob == true_one.logprob);
        chain = world_chain(chain, known->tokens[i], TOKEN_PROMPT);
    }
    known->scored += record->token_count;
    assert_true(known->scored <= known->prompt_count);
}

static void take_finished(struct world *world, const struct record_finished *record) {
    struct known *known = known_of(world, record->request);
    known->endings++;
    known->reason = record->reason;
    assert_int_equal(known->endings, 1);
    assert_int_equal(record->output_tokens, known->received);
    assert_int_equal(record->work.drafts_made, known->drafted);
    assert_int_equal(record->work.drafts_right, known->right);
    if (known->received && !known->reserved) assert_true(record->work.queue_ns >= 0);
    if (record->reason == FINISH_REFUSED_QUEUE) assert_int_equal(record->work.queue_ns, -1);
    check_work(known, &record->work);
    known->work = record->work;
    world->hits += record->work.prompt_hit_tokens;
    if (known->stuck && !known->cancelled) assert_int_equal(record->reason, FINISH_LENGTH);
    if (record->reason == FINISH_LENGTH && !known->stuck)
        assert_int_equal(known->received, known->new_tokens_max);
    if (record->reason == FINISH_STOP_TOKEN)
        assert_int_equal(known->tokens[known->prompt_count + known->received - 1], STOP_TOKEN);
}

/* No other row may read or write a page that this one writes to. */
static void check_writes(const struct step_plan *plan, const struct step_row *row) {
    const struct page_id *pages = step_plan_pages(plan);
    for (uint32_t w = row->first_position / KV_BLOCK_TOKENS; w < row->page_count; w++)
        for (uint32_t i = 0; i < plan->row_count; i++) {
            const struct step_row *other = &step_plan_rows(plan)[i];
            for (uint32_t p = 0; p < other->page_count; p++)
                assert_true((other == row && p == w) ||
                            pages[other->page_index + p].index != pages[row->page_index + w].index);
        }
}

/* What penalties and masks see is the sequence as its client knows it. */
static void check_extras(const struct step_plan *plan, const struct step_row *row,
                         const struct known *known) {
    uint32_t total = known->prompt_count + known->received, count = row->history_count;
    assert_int_equal(row->output_position, known->received);
    if (!row->sample) return;
    if (sampling_needs_history(&row->sampling)) {
        uint32_t kept = total < LIMIT_HISTORY_TOKENS ? total : LIMIT_HISTORY_TOKENS;
        assert_int_equal(count, kept);
        assert_int_equal(row->history_prompt_count, kept - known->received);
        assert_memory_equal(step_plan_history(plan) + row->history_index,
                            known->tokens + total - kept, kept * sizeof(uint32_t));
    }
    bool masks = known->received < row->sampling.min_tokens;
    assert_int_equal(row->bias_count, known->bias_count + masks);
    for (uint32_t i = 0; i < known->bias_count; i++)
        assert_int_equal(step_plan_biases(plan)[row->bias_index + i].token, 40 + i);
}

/* The text of a request's constraint. */
static char constraint_byte(uint32_t number, uint32_t at) {
    return (char)('a' + (number * 7 + at) % 26);
}

/* A row that begins anew brings its constraint; one that goes on finds it where its last one left
 * it. Of the fresh constrained rows `seen` came before. */
static void check_constraint(struct world *world, const struct step_plan *plan,
                             const struct step_row *row, uint32_t *seen) {
    uint32_t number = (uint32_t)row->sampling.seed;
    const struct known *known = &world->known[number];
    struct bound *bound = &world->bound[plan->rank][row->slot];
    struct awaited *awaited = &world->awaited[plan->rank][row->slot];
    assert_int_equal(row->constrained, known->constraint_bytes > 0);
    if (row->constrained) assert_true(awaited->is_asked && awaited->is_reported);
    awaited->is_wanted = false;
    if (!row->fresh) {
        assert_int_equal(bound->number, row->constrained ? number : REQUESTS_MAX);
        if (row->constrained) assert_int_equal(bound->answer_count, known->received);
        return;
    }
    *bound = (struct bound){.number = REQUESTS_MAX};
    if (!row->constrained) return;
    const struct step_constraint *brought = &step_plan_constraints(plan)[(*seen)++];
    const uint32_t *tokens = step_plan_constraint_tokens(plan);
    *bound = (struct bound){number, known->received};
    assert_int_equal(brought->row, row - step_plan_rows(plan));
    assert_int_equal(brought->text_bytes, known->constraint_bytes);
    for (uint32_t i = 0; i < brought->text_bytes; i++)
        if (step_plan_constraint_texts(plan)[brought->text_index + i] != constraint_byte(number, i))
            fail();
    assert_int_equal(brought->answer_count, known->received);
    assert_memory_equal(tokens + brought->answer_index, known->tokens + known->prompt_count,
                        known->received * sizeof *tokens);
    assert_int_equal(brought->stop_count, 1);
    assert_int_equal(tokens[brought->stop_index], STOP_TOKEN);
}

/* It is that of the slot's request, unless that has ended since the plan was made. */
static bool is_asked_rightly(const struct world *world, uint32_t rank,
                             const struct step_constraint *asked) {
    const struct unit_request *request = &world->units[rank]->requests[asked->slot];
    return request->state == UNIT_REQUEST_FREE ||
           asked->text_bytes == world->known[request->sampling.seed].constraint_bytes;
}

/* What comes ahead of rows; returns how many. */
static uint32_t take_asked(struct world *world, const struct step_plan *plan) {
    uint32_t count = 0;
    for (; count < plan->constraint_count; count++) {
        const struct step_constraint *asked = &step_plan_constraints(plan)[count];
        if (asked->row != STEP_NO_ROW) break;
        bool asks = asked->text_bytes > 0;
        struct awaited *awaited = &world->awaited[plan->rank][asked->slot];
        if (!asks) assert_true(awaited->is_asked);
        if (asks) assert_true(is_asked_rightly(world, plan->rank, asked));
        *awaited = (struct awaited){.is_asked = asks, .is_wanted = asks};
    }
    return count;
}

/* What the engine makes of all that it was told is what the unit holds. */
static void check_pages(struct world *world, const struct step_plan *plan,
                        const struct step_row *row) {
    const struct unit_request *request = &world->units[plan->rank]->requests[row->slot];
    const struct page_id *pages = step_plan_pages(plan) + row->page_index;
    assert_true(row->page_count <= request->page_count);
    assert_memory_equal(pages, request->pages, row->page_count * sizeof *pages);
    for (uint32_t p = 0; p < row->page_count; p++)
        assert_true(pages[p].index < world->page_count);
}

/* The engine trusts a plan blindly, so the world looks at every row. */
static void take_plan(struct world *world, const struct step_plan *reported) {
    assert_true(reported->rank < world->ranks && !world->plans[reported->rank]);
    struct slot_pages *slots = &world->slots[reported->rank];
    size_t bytes = slot_pages_whole_bytes(slots, reported);
    struct step_plan *plan = malloc(bytes);
    assert_true(bytes > 0 && plan);
    slot_pages_expand(slots, reported, plan);
    world->plans[reported->rank] = plan;
    world->reported_pages += reported->page_count;
    world->plan_count++;
    uint32_t constraints = take_asked(world, plan);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        struct known *known = &world->known[row->sampling.seed];
        check_constraint(world, plan, row, &constraints);
        check_pages(world, plan, row);
        check_writes(plan, row);
        check_extras(plan, row, known);
        if (known->rows++ == 0) known->first_start = row->first_position;
        if (known->rows == 1) assert_int_equal(row->fresh, 1);
        if (!row->fresh) assert_int_equal(row->first_position, known->next_first);
        if (row->draft_count) {
            assert_int_equal(row->fresh, 0);
            assert_true(known->received + 2 <= known->new_tokens_max);
        }
        uint32_t end = row->first_position + row->token_count;
        if (row->form == TOKEN_PROMPT && !world->reuse_generated)
            assert_true(end == known->prompt_count || end % KV_BLOCK_TOKENS == 0);
        assert_true(end <= known->prompt_count + known->received);
        assert_int_equal(row->sample, end == known->prompt_count + known->received);
    }
}

static void take_hello(struct world *world, const struct record_unit_hello *hello) {
    assert_int_equal(hello->page_count, world->ranks * world->page_count);
    assert_int_equal(hello->requests_max, world->ranks * world->requests_max);
    world->hellos++;
    world->role = hello->role;
    memcpy(world->kv_address, hello_ranks(hello)[hello->rank_count - 1].kv_address,
           sizeof world->kv_address);
}

static void take_load(struct world *world, const struct record_unit_load *load) {
    world->load = *load;
    world->loads++;
    memcpy(world->rank_loads, load_ranks(load), load->rank_count * sizeof *world->rank_loads);
}

/* A step comes out whole, a plan for each rank, and none while another is out. All know whether any
 * of them drafts. */
static void check_step(struct world *world, uint32_t plans_before) {
    bool drafts = false;
    if (world->plan_count == plans_before) return;
    assert_int_equal(plans_before, 0);
    assert_int_equal(world->plan_count, world->ranks);
    world->steps++;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        for (uint32_t i = 0; i < world->plans[rank]->row_count; i++)
            drafts |= step_plan_rows(world->plans[rank])[i].draft_count > 0;
    for (uint32_t rank = 0; world->ranks > 1 && rank < world->ranks; rank++)
        assert_int_equal(world->plans[rank]->others_draft, drafts);
}

static void drain_once(struct world *world) {
    struct outbox *outbox = world->machine.outbox;
    uint32_t plans_before = world->plan_count;
    for (const struct record *r = NULL; (r = machine_outbox_next(outbox, r));) {
        assert_true(record_valid(r, r->bytes));
        switch (r->kind) {
        case RECORD_TOKENS:
            take_tokens(world, (const void *)r);
            break;
        case RECORD_PROGRESS:
            take_progress(world, (const void *)r);
            break;
        case RECORD_SCORES:
            take_scores(world, (const void *)r);
            break;
        case RECORD_FINISHED:
            take_finished(world, (const void *)r);
            break;
        case RECORD_RUN_STEP:
            take_plan(world, (const void *)r);
            break;
        case RECORD_UNIT_HELLO:
            take_hello(world, (const void *)r);
            break;
        case RECORD_UNIT_LOAD:
            take_load(world, (const void *)r);
            break;
        default:
            assert_non_null(world->other);
            world->other(world, r);
        }
    }
    machine_outbox_clear(outbox);
    if (world->outbox_capacity) outbox->capacity = world->outbox_capacity;
    assert_int_equal(world->load.pages_free + world->load.pages_held + world->load.pages_cached,
                     world->hellos ? world->ranks * world->page_count : 0);
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        unit_audit(world->units[rank]);
    check_step(world, plans_before);
}

/* A step without rows goes by at once, and the next one comes. */
void world_drain(struct world *world) {
    drain_once(world);
    while (world->plan_count == world->ranks && world->plans[0]->awaits) {
        if (world->shows_empty_steps) return;
        world->empty_steps++;
        world_complete(world, false);
        drain_once(world);
        world_step(world);
        drain_once(world);
    }
}

static enum status send(struct world *world, const void *record) {
    assert_true(record_valid(record, ((const struct record *)record)->bytes));
    return world->machine.receive(world->machine.self, record, world->now_ns);
}

void world_send(struct world *world, const void *record) {
    if (send(world, record) == STATUS_OK) return;
    world->fulls++;
    drain_once(world); /* an empty outbox takes anything */
    assert_int_equal(send(world, record), STATUS_OK);
}

static _Alignas(8) char record_memory[1 << 20];
static struct outbox records = {.memory = record_memory, .capacity = sizeof record_memory};

void *world_make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

uint32_t world_submit_head(struct world *world, const struct record_submit *head,
                           const uint32_t *tokens) {
    uint32_t prompt_count = head->prompt_count, token_count = prompt_count + head->resumed_count;
    struct record_submit fixed = *head;
    uint32_t number = world->submitted++;
    check(number < REQUESTS_MAX && token_count <= TOKENS_MAX);
    fixed.request.low = fixed.sampling.seed = number;
    fixed.stop_token_count = 1;
    if (!fixed.constraint_bytes) fixed.constraint_bytes = world->constraint_bytes;
    struct record_submit *record = world_make(RECORD_SUBMIT, &fixed);
    struct known *known = &world->known[number];
    *known = (struct known){.prompt_count = prompt_count,
                            .progress_ns = world->now_ns,
                            .bias_count = head->bias_count,
                            .constraint_bytes = fixed.constraint_bytes,
                            .scored = head->sampling.flags & SAMPLING_SCORES ? 1 : 0,
                            .reserved = head->task == SUBMIT_RESERVE,
                            .received = head->resumed_count,
                            .resumed_count = head->resumed_count,
                            .new_tokens_max = head->new_tokens_max};
    memcpy(known->tokens, tokens, token_count * sizeof *tokens);
    memcpy(submit_tokens(record), tokens, token_count * sizeof *tokens);
    *submit_stop_tokens(record) = STOP_TOKEN;
    struct token_bias *biases = submit_biases(record);
    for (uint32_t i = 0; i < head->bias_count; i++)
        biases[i] = (struct token_bias){40 + i, (float)i};
    for (uint32_t i = 0; i < fixed.constraint_bytes; i++)
        submit_constraint(record)[i] = constraint_byte(number, i);
    if (!world->reuse_generated)
        for (uint32_t i = 0; i < token_count; i++)
            known->chain = world_chain(known->chain, tokens[i],
                                       i < prompt_count ? TOKEN_PROMPT : TOKEN_GENERATED);
    world_send(world, record);
    return number;
}

/* Request number n is named n and has seed n. */
uint32_t world_submit_tokens(struct world *world, const uint32_t *tokens, uint32_t prompt_count,
                             uint32_t new_tokens_max, int32_t priority) {
    struct record_submit head = {
        .prompt_count = prompt_count, .new_tokens_max = new_tokens_max, .priority = priority};
    return world_submit_head(world, &head, tokens);
}

uint32_t world_submit_resumed(struct world *world, const struct sampling *sampling,
                              const uint32_t *tokens, uint32_t prompt_count, uint32_t resumed_count,
                              uint32_t new_tokens_max) {
    struct record_submit head = {.sampling = *sampling,
                                 .prompt_count = prompt_count,
                                 .resumed_count = resumed_count,
                                 .new_tokens_max = new_tokens_max};
    return world_submit_head(world, &head, tokens);
}

/* A prompt like no other, unless it is of a family: those begin alike. */
uint32_t world_submit_family(struct world *world, uint32_t family, uint32_t prompt_count,
                             uint32_t new_tokens_max) {
    uint32_t tokens[TOKENS_MAX];
    for (uint32_t i = 0; i < prompt_count; i++)
        tokens[i] = (family && i < family * 100 ? family + 3 * i : world->submitted + i) % VOCAB;
    return world_submit_tokens(world, tokens, prompt_count, new_tokens_max, 0);
}

uint32_t world_submit(struct world *world, uint32_t prompt_count, uint32_t new_tokens_max) {
    return world_submit_family(world, 0, prompt_count, new_tokens_max);
}

/* The next turn of a talk: an earlier prompt, what was answered so far, and some more. */
uint32_t world_submit_turn(struct world *world, uint32_t earlier, uint32_t more,
                           uint32_t new_tokens_max) {
    uint32_t tokens[TOKENS_MAX];
    const struct known *known = &world->known[earlier];
    uint32_t count = known->prompt_count + known->received;
    if (count + more > TOKENS_MAX - 60) more = 1;
    memcpy(tokens, known->tokens, count * sizeof *tokens);
    for (uint32_t i = 0; i < more; i++)
        tokens[count + i] = (world->submitted * 5 + i) % VOCAB;
    return world_submit_tokens(world, tokens, count + more, new_tokens_max, 0);
}

void world_cancel(struct world *world, uint32_t number) {
    struct record_cancel *record = world_make(RECORD_CANCEL, NULL);
    record->request.low = number;
    world->known[number].cancelled = true;
    world_send(world, record);
}

void world_step(struct world *world) {
    world->machine.step(world->machine.self, world->now_ns);
}

static struct kv_row *kv_at(struct world *world, const struct step_plan *plan,
                            const struct step_row *row, uint32_t position) {
    struct page_id page = step_plan_pages(plan)[row->page_index + position / KV_BLOCK_TOKENS];
    return &world->kv_of[plan->rank][page.index][position % KV_BLOCK_TOKENS];
}

/* All that a row's attention would read must stand in its pages, as one sequence; its own tokens
 * join. Returns the chain of the last. */
static uint64_t compute_row(struct world *world, const struct step_plan *plan,
                            const struct step_row *row) {
    const struct known *known = &world->known[row->sampling.seed];
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    uint64_t chain = 0;
    for (uint32_t position = 0; position < row->first_position + row->token_count; position++) {
        struct kv_row *kv = kv_at(world, plan, row, position);
        if (position >= row->first_position)
            *kv = (struct kv_row){
                .chain = world_chain(chain, tokens[position - row->first_position], row->form),
                .token = tokens[position - row->first_position],
                .form = row->form};
        assert_true(kv->token == known->tokens[position]);
        assert_true(kv->chain == world_chain(chain, kv->token, kv->form));
        if (position >= known->prompt_count) assert_int_equal(kv->form, TOKEN_GENERATED);
        if (position < known->prompt_count && !world->reuse_generated)
            assert_int_equal(kv->form, TOKEN_PROMPT);
        chain = kv->chain;
    }
    return chain;
}

/* A step that fails may have written anything to the pages that it was to write to. */
static void spoil_row(struct world *world, const struct step_plan *plan,
                      const struct step_row *row) {
    for (uint32_t i = 0; i < row->token_count + row->draft_count; i++)
        kv_at(world, plan, row, row->first_position + i)->chain = 0;
}

static bool draw(struct world *world, double odds) {
    return odds > 0 && random_uniform(1, 1, world->draws++) < odds;
}

/* Guesses the token behind the row's, and computes it too: at times it is right. `chain` is that of
 * the row's last token. */
static void draft_row(struct world *world, const struct step_plan *plan, const struct step_row *row,
                      uint64_t chain, struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    if (!row->draft_count || random_uniform(1, 0, world->draws++) >= world->made_odds) return;
    bool right = draw(world, world->right_odds);
    uint32_t draft = right ? out->tokens[0] : (out->tokens[0] + 1) % VOCAB;
    chain = world_chain(chain, draft, TOKEN_GENERATED);
    *kv_at(world, plan, row, row->first_position + 1) =
        (struct kv_row){.chain = chain, .token = draft, .form = TOKEN_GENERATED};
    out->draft_count = 1;
    known->drafted++;
    if (!right) return;
    out->tokens[out->token_count++] =
        engine_token(world, chain, row->sampling.seed, row->output_position + 1);
    known->right++;
    known->next_first++;
}

/* Behind the tokens chosen, those that nothing else could be; `chain` is that of the row's last
 * token. */
static void force_row(struct world *world, const struct step_row *row, uint64_t chain,
                      struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    if (!row->constrained || row->sampling.flags & SAMPLING_LOGPROBS) return;
    for (uint32_t i = 0; i < out->token_count; i++)
        chain = world_chain(chain, out->tokens[i], TOKEN_GENERATED);
    while (out->forced_count < LIMIT_FORCED && draw(world, world->forced_odds)) {
        uint32_t token =
            engine_token(world, chain, row->sampling.seed, row->output_position + out->token_count);
        out->tokens[out->token_count++] = token;
        out->forced_count++;
        known->forced++;
        chain = world_chain(chain, token, TOKEN_GENERATED);
    }
}

static uint32_t overlap(uint32_t from, uint32_t end, uint32_t low, uint32_t high) {
    if (from < low) from = low;
    if (end > high) end = high;
    return end > from ? end - from : 0;
}

void world_note_rows(struct world *world, uint32_t number, uint32_t token_count) {
    struct known *known = &world->known[number];
    known->elsewhere += overlap(known->peak, token_count, 0, known->prompt_count);
    if (token_count > known->peak) known->peak = token_count;
}

/* The row's tokens and its right drafts are computed. The last of the tokens that came along had
 * been chosen elsewhere, but not computed. */
static void note_row(struct world *world, const struct step_row *row, uint32_t right) {
    struct known *known = &world->known[row->sampling.seed];
    uint32_t from = row->first_position, end = from + row->token_count + right;
    uint32_t prompt = known->prompt_count, resumed_end = prompt + known->resumed_count;
    world_note_rows(world, (uint32_t)row->sampling.seed, from);
    known->computed += overlap(known->peak, end, 0, prompt);
    known->again += overlap(from, end, 0, known->peak);
    if (known->resumed_count) known->again += overlap(known->peak, end, prompt, resumed_end - 1);
    if (end > known->peak) known->peak = end;
}

/* As an engine does, layer by layer: returns when all rows' loads are over. */
static void await_loads(struct world *world, const struct step_plan *plan) {
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (!row->loads) continue;
        assert_int_equal(row->draft_count, 0);
        world->waited_rows++;
        if (world->await) world->await(world, (uint32_t)row->sampling.seed);
    }
}

/* The engine takes what the row's load came to; true if all of it came. */
static bool take_load_end(struct world *world, const struct step_row *row,
                          struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    if (!known->load_over) return false;
    known->load_over = false;
    out->load_ended = 1;
    out->load_end = known->load_end;
    return known->load_end.blocks == known->load_asked;
}

/* A row that waited in vain for its load has computed with whatever lay in its pages. */
static void lose_row(struct world *world, const struct step_plan *plan, const struct step_row *row,
                     struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    spoil_row(world, plan, row);
    out->lost = 1;
    known->next_first = row->first_position;
    if (known->rows == 1 && row->loads) known->rows = 0; /* its first row is still to come */
    world->lost_rows++;
}

/* Of the tokens that the row asks about, and of those it chose. */
static void score_row(struct world *world, const struct step_plan *plan, const struct step_row *row,
                      struct step_result *result, struct step_result_row *out) {
    const uint32_t *tokens = step_plan_tokens(plan) + row->token_index;
    if (!(row->sampling.flags & SAMPLING_LOGPROBS)) return;
    out->logprobs_each = 1;
    out->scored_count = row->scored_count;
    out->score_index = result->logprob_count;
    for (uint32_t i = 0; i < row->scored_count; i++) {
        uint32_t position = row->first_position + step_scored_first(row) + i;
        step_result_logprobs(result)[result->logprob_count++] = world_score(
            kv_at(world, plan, row, position)->chain, step_scored_token(row, tokens, i));
    }
    out->logprob_index = result->logprob_count;
    for (uint32_t i = 0; i < out->token_count; i++)
        step_result_logprobs(result)[result->logprob_count++].token = out->tokens[i];
}

static uint32_t count_scores(const struct step_plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        count += step_plan_rows(plan)[i].scored_count + 1 + LIMIT_DRAFTS;
    return count;
}

/* What the row's tokens lead to. */
static void choose_tokens(struct world *world, const struct step_plan *plan,
                          const struct step_row *row, uint64_t chain, struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    if (row->output_position == 0 && !known->chain) known->chain = chain;
    assert_true(chain == known->chain); /* as if never interrupted */
    if (row->constrained && draw(world, world->stuck_odds)) {
        out->stuck = known->stuck = true;
        return;
    }
    out->token_count = 1;
    out->tokens[0] = engine_token(world, chain, row->sampling.seed, row->output_position);
    draft_row(world, plan, row, chain, out);
    force_row(world, row, chain, out);
    if (row->constrained) world->bound[plan->rank][row->slot].answer_count += out->token_count;
}

/* All but the choice is done. Whole blocks stay, unless they are on their way to another unit or
 * scores are to be told. */
static void be_late(struct world *world, const struct step_plan *plan, const struct step_row *row,
                    struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    uint32_t end = row->first_position + row->token_count;
    uint32_t whole = (end - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    bool pushes = world->units[plan->rank]->requests[row->slot].pushes;
    bool keeps = row->scored_count == 0 && !pushes && whole > row->first_position;
    known->late++;
    known->next_first = keeps ? whole : row->first_position;
    note_row(world, row, 0);
    out->lost = out->late = 1;
    world->awaited[plan->rank][row->slot].is_wanted = true;
    world->awaited[plan->rank][row->slot].is_reported = false;
}

static void report_ready(struct world *world, const struct step_plan *plan,
                         struct step_result *result) {
    result->constraint_count = plan->constraint_count;
    for (uint32_t slot = 0; slot < world->requests_max; slot++) {
        struct awaited *awaited = &world->awaited[plan->rank][slot];
        if (!awaited->is_wanted || (!awaited->is_reported && draw(world, world->unready_odds)))
            continue;
        awaited->is_reported = true;
        step_result_ready(result)[result->ready_count++] = slot;
    }
}

static void run_row(struct world *world, const struct step_plan *plan, const struct step_row *row,
                    struct step_result *result, struct step_result_row *out) {
    struct known *known = &world->known[row->sampling.seed];
    bool late = row->constrained && row->sample && draw(world, world->late_odds);
    out->slot = row->slot;
    if (world->breaks) {
        lose_row(world, plan, row, out);
        return;
    }
    if (row->loads && (!take_load_end(world, row, out) || late)) {
        lose_row(world, plan, row, out);
        return;
    }
    uint64_t chain = compute_row(world, plan, row);
    if (late) {
        be_late(world, plan, row, out);
        return;
    }
    uint32_t right = known->right;
    known->next_first = row->first_position + row->token_count;
    if (row->sample) choose_tokens(world, plan, row, chain, out);
    note_row(world, row, known->right - right);
    score_row(world, plan, row, result, out);
}

static void complete_plan(struct world *world, uint32_t rank, bool failed) {
    struct step_plan *plan = world->plans[rank];
    check(plan);
    world->plans[rank] = NULL;
    world->plan_count--;
    uint32_t row_count = failed ? 0 : plan->row_count;
    if (!failed) await_loads(world, plan);
    struct step_result *result = world_make(
        RECORD_STEP_DONE, &(struct step_result){
                              .step = plan->step,
                              .compute_ns = world->step_ns + world->token_ns * plan->token_count,
                              .row_count = row_count,
                              .failed = failed,
                              .logprob_count = row_count ? count_scores(plan) : 0,
                              .ready_count = world->requests_max,
                              .rank = rank,
                          });
    result->logprob_count = result->ready_count = 0; /* count up again as they are told */
    struct step_result_row *rows = step_result_rows(result);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(plan)[i];
        if (failed) {
            spoil_row(world, plan, row);
            continue;
        }
        run_row(world, plan, row, result, &rows[i]);
    }
    if (!failed && !world->breaks) report_ready(world, plan, result);
    record_set_head(result, RECORD_STEP_DONE);
    world_send(world, result);
    free(plan);
}

void world_complete(struct world *world, bool failed) {
    world->breaks = !failed && draw(world, world->break_odds);
    world->broken_steps += world->breaks;
    uint32_t first = (uint32_t)(random_uniform(5, 0, world->steps) * world->ranks);
    for (uint32_t turn = 0; turn < world->ranks; turn++)
        complete_plan(world, (first + turn) % world->ranks, failed && turn == 0);
}

void world_run(struct world *world) {
    for (int turn = 0; turn < 100000; turn++) {
        world_drain(world);
        if (world->plan_count)
            world_complete(world, false);
        else if (world->machine.next_wake_ns(world->machine.self) == MACHINE_NEVER)
            return;
        world_drain(world);
        world_step(world);
    }
    fail();
}

void world_assert_empty(struct world *world) {
    world_drain(world);
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        assert_int_equal(unit_request_count(world->units[rank]), 0);
    assert_int_equal(world->load.pages_held, 0);
    assert_int_equal(world->load.requests_waiting + world->load.requests_running, 0);
    for (uint32_t i = 0; i < world->submitted; i++)
        assert_int_equal(world->known[i].endings, 1);
}
