/* SPDX-License-Identifier: Apache-2.0
 * Protects what gateways and units read of each other: what a unit could not be, could not do or
 * could not have done is refused, and nothing is carried that may not be.
 */
#include "records.h"
#include "test_case.h"

TEST(submits_out_of_range_are_refused) {
    struct record_submit *submit = good_submit();
    submit->sampling.temperature = -1;
    assert_invalid(submit);
    submit = good_submit();
    memset(&submit->sampling.top_p, 0xFF, sizeof submit->sampling.top_p); /* NaN */
    assert_invalid(submit);
    submit = good_submit();
    submit->new_tokens_max = 0;
    assert_invalid(submit);
    submit = good_submit();
    submit->request.reserved = 1;
    assert_invalid(submit);
    submit = good_submit();
    submit_name(submit)[3] = ' '; /* it would end the name in a line of the log */
    assert_invalid(submit);
    submit = good_submit();
    submit_name(submit)[0] = '\n';
    assert_invalid(submit);
    submit = good_submit();
    submit->bias_count = LIMIT_LOGIT_BIASES + 1;
    assert_invalid(submit);
}

TEST(hellos_out_of_range_are_refused) {
    struct record_unit_hello *hello = good_hello();
    memset(hello->numerics_id, 'x', sizeof hello->numerics_id); /* no terminator */
    assert_invalid(hello);
    hello = good_hello();
    hello->page_tokens = 32;
    assert_invalid(hello);
    hello = good_hello();
    memset(hello_ranks(hello)[1].kv_address, 'x', KV_ADDRESS_BYTES);
    assert_invalid(hello);
}

TEST(an_instance_has_the_fleets_number_or_none) {
    const uint64_t name = 0xa1b2c3000007, nameless = 0xa1b2c3000000;
    uint64_t instance = record_unit_instance(&name, UINT64_MAX);
    assert_int_equal(instance >> 16, name);
    assert_int_equal(record_unit_number(instance), 7);
    assert_int_equal(record_unit_number(record_unit_instance(&name, 0)), 7);
    assert_true(record_unit_instance(&name, 1) != record_unit_instance(&name, 2));
    assert_int_equal(record_unit_number(record_unit_instance(&nameless, UINT64_MAX)), 0);
    for (uint32_t bit = 0; bit < 64; bit++)
        assert_int_equal(record_unit_number(record_unit_instance(NULL, UINT64_MAX >> bit)), 0);
    assert_int_equal(record_unit_instance(NULL, 0xa1b2c30000070001), 0xa1b2c30000070001);
}

TEST(experts_out_of_range_are_refused) {
    struct record_drain *drain = good_drain_of_rank();
    assert_true(record_valid(drain, sizeof *drain));
    drain->rank = LIMIT_RANKS;
    assert_invalid(drain);
    drain = good_drain();
    drain->back = 1; /* of the whole unit */
    assert_true(record_valid(drain, sizeof *drain));
    drain->back = 2;
    assert_invalid(drain);
    struct record_experts *experts = good_experts();
    experts->layer_balance[2] = 1;
    assert_invalid(experts);
    experts = good_experts();
    experts->layer_balance[0] = 1000001;
    assert_invalid(experts);
    experts = good_experts();
    experts->ranks = LIMIT_RANKS + 1;
    assert_invalid(experts);
    experts = good_experts();
    experts->stall_ns_max = -1;
    assert_invalid(experts);
}

TEST(what_units_say_of_requests_is_in_range) {
    struct record_tokens *tokens = good_tokens();
    tokens->token_count = 0;
    assert_invalid(tokens);
    tokens = good_tokens();
    tokens->logprobs_each = 4;
    assert_invalid(tokens);
    tokens = good_tokens();
    tokens->work_count = 2;
    assert_invalid(tokens);
    struct record_finished *finished = good_finished();
    finished->reason = FINISH_REASON_COUNT;
    assert_invalid(finished);
    tokens = good_tokens();
    tokens_work(tokens)->drafts_right = 1;
    assert_invalid(tokens);
    finished = good_finished();
    finished->work.queue_ns = -2;
    assert_invalid(finished);
    finished = good_finished();
    finished->work.rank = LIMIT_RANKS;
    assert_invalid(finished);
    finished = good_finished();
    finished->work.transfer_ns = -1;
    assert_invalid(finished);
    for (int i = 0; i < 4; i++) { /* sums of them would wrap */
        finished = good_finished();
        int64_t *times[] = {&finished->work.queue_ns, &finished->work.load_ns,
                            &finished->work.prefill_ns, &finished->work.transfer_ns};
        *times[i] = INT64_MAX;
        assert_invalid(finished);
    }
}

TEST(no_more_tokens_were_cached_than_are_ready) {
    struct record_progress *progress = good_progress();
    progress->cached_tokens = progress->ready_tokens;
    assert_true(record_valid(progress, progress->record.bytes));
    progress->cached_tokens++;
    assert_invalid(progress);
    progress = good_progress();
    progress->prefill_ns = -1;
    assert_invalid(progress);
}

TEST(scores_are_of_tokens_that_are_there) {
    for (uint32_t i = 0; i < 6; i++) {
        struct record_scores *scores = good_scores();
        struct token_logprob *logprobs = scores_logprobs(scores);
        if (i == 0) scores->first_position = 0; /* it has none */
        if (i == 1) scores->token_count = 0;
        if (i == 2) scores->logprobs_each = 0;
        if (i == 3) scores->logprobs_each = 2;
        if (i == 4) scores->reserved = 1;
        if (i == 5) logprobs[7].logprob = 1;
        assert_invalid(scores);
    }
    struct record_scores *many =
        records_make(RECORD_SCORES, &(struct record_scores){.token_count = SCORES_TOKENS_MAX + 1,
                                                            .logprobs_each = 1});
    many->first_position = many->logprobs_each = 1;
    many->token_count = SCORES_TOKENS_MAX + 1;
    assert_invalid(many);
}

/* A rank is drained or dead, and who is dead does not come back. */
TEST(a_dead_rank_is_one_rank) {
    struct record_drain *drain = good_drain_of_rank();
    drain->back = 0;
    drain->dead = 1;
    assert_true(record_valid(drain, drain->record.bytes));
    drain->back = 1;
    assert_invalid(drain);
    drain->back = drain->one_rank = drain->rank = 0;
    assert_invalid(drain);
}

TEST(tasks_have_what_they_need) {
    struct record_submit *submit = good_submit();
    submit->task = SUBMIT_TASK_COUNT;
    assert_invalid(submit);
    submit = good_submit();
    submit->route.grant[0] = 1; /* of nobody */
    assert_invalid(submit);
    submit = good_submit();
    submit->task = SUBMIT_RESERVE; /* an answer that has begun is not reserved for */
    assert_invalid(submit);
    submit->resumed_count = 0;
    submit->task = SUBMIT_PREFILL; /* an answer that leaves must know where to */
    submit->prompt_count = 5;
    assert_invalid(submit);
    strcpy(submit->route.address, "there:1");
    assert_true(record_valid(submit, submit->record.bytes));
    submit->first_block = 1; /* behind the whole prompt */
    assert_invalid(submit);
    submit->first_block = 0;
    submit->route.address[KV_ADDRESS_BYTES - 1] = 'x';
    assert_invalid(submit);
}

TEST(reports_of_storage_are_in_range) {
    struct record_unit_load *report = good_load();
    report->kv_storage = KV_STORAGE_COUNT;
    assert_invalid(report);
    report = good_load();
    load_ranks(report)[0].kv_storage = KV_STORAGE_COUNT;
    assert_invalid(report);
    report = good_load();
    report->draining = 2;
    assert_invalid(report);
}

TEST(what_units_cannot_mean_is_refused) {
    struct record_submit *submit = good_submit();
    submit->resumed_count = 3; /* all there may be: nothing would be left to choose */
    assert_invalid(submit);
    submit = good_submit();
    submit->resumed_count = UINT32_MAX - 1; /* with the prompt it would wrap */
    submit->new_tokens_max = UINT32_MAX;
    assert_invalid(submit);
    struct record_unit_load *load = good_load();
    load->rank_count = LIMIT_RANKS + 1;
    assert_invalid(load);
    load = good_load();
    load->last_step_ns = -1;
    assert_invalid(load);
    load = good_load();
    load->last_step_ns = INT64_MAX;
    assert_invalid(load);
    struct record_unit_link *joined = good_joined();
    joined->reserved = 1;
    assert_invalid(joined);
    struct record_unit_hello *hello = good_hello();
    hello->role = UNIT_ROLE_COUNT;
    assert_invalid(hello);
    hello = good_hello();
    hello->rank_count = 0;
    assert_invalid(hello);
    hello = good_hello();
    hello_ranks(hello)[1].page_count++; /* more than the unit claims to have */
    assert_invalid(hello);
}

/* Units and gateways may only say what is theirs to say, and nothing is carried twice. */
TEST(what_may_not_be_carried_is_refused) {
    for (size_t i = 0; i < good_records_count; i++)
        for (uint32_t to = 0; to < 2; to++) {
            struct record *inner = good_records[i](), *record;
            uint16_t kind = inner->kind;
            bool from_unit = kind == RECORD_UNIT_HELLO || kind == RECORD_TOKENS ||
                             kind == RECORD_SCORES || kind == RECORD_FINISHED ||
                             kind == RECORD_PROGRESS || kind == RECORD_UNIT_LOAD ||
                             kind == RECORD_RESERVED || kind == RECORD_EXPERTS;
            bool to_unit = kind == RECORD_SUBMIT || kind == RECORD_CANCEL ||
                           kind == RECORD_CONTINUE || kind == RECORD_DRAIN || kind == RECORD_ROLE;
            record = records_carry(to ? RECORD_TO_UNIT : RECORD_FROM_UNIT, inner);
            assert_int_equal(record_valid(record, record->bytes), to ? to_unit : from_unit);
        }
    struct record_envelope *envelope = good_to_unit();
    envelope->inner_bytes -= 8;
    assert_invalid(envelope);
    envelope = good_to_unit();
    ((struct record_submit *)envelope_inner(envelope))->new_tokens_max = 0;
    assert_invalid(envelope);
    envelope = good_from_unit();
    envelope_inner(envelope)->bytes += 8; /* it claims what lies behind */
    assert_invalid(envelope);
}

TEST(each_end_has_a_name_of_its_own) {
    assert_string_equal(record_unit_finish_reason_name(FINISH_STOP_TOKEN), "stop_token");
    for (uint32_t i = 0; i < FINISH_REASON_COUNT; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(record_unit_finish_reason_name(i),
                                    record_unit_finish_reason_name(j));
}
