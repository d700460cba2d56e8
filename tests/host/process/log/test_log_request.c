/* SPDX-License-Identifier: Apache-2.0
 * Protects the access line: it tells what a request came to and who asked, by the name that the
 * client gave it; what was not there is left out; and a flood of refusals is counted.
 */
#include "host/process/log/log_request.h"

#include "base/check.h"
#include "contract/machine.h"
#include "contract/record_unit.h"

#include "../../heard.h"
#include "test_case.h"

static int begin(void **state) {
    (void)state;
    received_begin("info");
    return 0;
}

static int end(void **state) {
    (void)state;
    received_end();
    return 0;
}

/* Of one record in memory that the next call uses again. */
static const struct record_usage *make(struct record_usage fixed, const char *name, const char *end,
                                       const struct usage_stay *stays) {
    _Alignas(8) static char memory[4096];
    struct outbox box = {.memory = memory, .capacity = sizeof memory};
    fixed.request = (struct request_id){.high = 0x0123456789abcdef, .low = 0x5a};
    fixed.path_bytes = (uint32_t)strlen("/v1/chat/completions");
    fixed.name_bytes = (uint32_t)strlen(name);
    fixed.model_bytes = (uint32_t)strlen("tiny");
    fixed.end_bytes = (uint32_t)strlen(end);
    memcpy(fixed.account, "acme", 4);
    struct record_usage *entry = machine_outbox_put(&box, RECORD_USAGE, &fixed);
    check(entry);
    memcpy(entry_path(entry), "/v1/chat/completions", entry->path_bytes);
    memcpy(entry_name(entry), name, entry->name_bytes);
    memcpy(entry_model(entry), "tiny", 4);
    memcpy(entry_end(entry), end, entry->end_bytes);
    if (stays) memcpy(usage_stays(entry), stays, entry->stay_count * sizeof *stays);
    return entry;
}

TEST_AROUND(an_answer_is_reported_with_all_that_it_came_to, begin, end) {
    const struct usage_stay stays[] = {{.unit = 2, .role = UNIT_PREFILL},
                                       {.unit = 5, .rank = 3, .role = UNIT_DECODE}};
    struct record_usage fixed = {.http_status = 200,
                                 .hit_tokens = 64,
                                 .miss_tokens = 12,
                                 .output_tokens = 30,
                                 .queue_ns = 1500000,
                                 .ttft_ns = 25000000,
                                 .tpot_ns = 4321000,
                                 .total_ns = 160000000,
                                 .stay_count = 2};
    log_request_ended(make(fixed, "mine-1", "stop", stays));
    assert_string_equal(
        received_news(),
        "info access  ended request=0123456789abcdef000000000000005a x_request_id=mine-1 "
        "account=acme model=tiny path=/v1/chat/completions status=200 end=stop hit=64 miss=12 "
        "output=30 queue_ms=1.5 ttft_ms=25.0 tpot_ms=4.32 total_ms=160.0 unit=5 rank=3 "
        "stays=2:0,5:3\n");
}

TEST_AROUND(what_was_not_there_is_left_out, begin, end) {
    struct record_usage fixed = {
        .http_status = 499, .queue_ns = -1, .ttft_ns = -1, .tpot_ns = -1, .total_ns = 2000000};
    memset(fixed.account, 0, sizeof fixed.account);
    log_request_ended(make(fixed, "", "client_gone", NULL));
    assert_string_equal(received_news(),
                        "info access  ended request=0123456789abcdef000000000000005a account=acme "
                        "model=tiny path=/v1/chat/completions status=499 end=client_gone hit=0 "
                        "miss=0 output=0 total_ms=2.0\n");
}

TEST_AROUND(a_request_without_a_name_of_its_clients_has_one_name, begin, end) {
    struct record_usage fixed = {.http_status = 200};
    log_request_ended(make(fixed, "0123456789abcdef000000000000005a", "stop", NULL));
    assert_non_null(strstr(received_news(), "request=0123456789abcdef000000000000005a account="));
}

TEST_AROUND(failures_of_the_service_are_warnings, begin, end) {
    struct record_usage fixed = {
        .http_status = 503, .queue_ns = -1, .ttft_ns = -1, .tpot_ns = -1, .total_ns = 0};
    log_request_ended(make(fixed, "a", "no_unit", NULL));
    assert_non_null(strstr(received_news(), "warning access  refused request="));
}

TEST_AROUND(a_refusal_says_beyond_which_limit_it_was, begin, end) {
    struct record_usage fixed = {.http_status = 429,
                                 .limit = USAGE_LIMIT_TOKENS_PER_MINUTE,
                                 .peer = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
    log_request_ended(make(fixed, "a", "rate_limit_exceeded", NULL));
    assert_non_null(strstr(received_news(),
                           " status=429 end=rate_limit_exceeded limit=tokens_per_minute "
                           "total_ms=0.0\n")); /* its account is known */
}

TEST_AROUND(who_has_no_key_is_known_by_his_address, begin, end) {
    struct record_usage fixed = {.http_status = 401,
                                 .peer = {[10] = 0xff, [11] = 0xff, 203, 0, 113, 9}};
    log_request_ended(make(fixed, "a", "invalid_api_key", NULL));
    assert_non_null(strstr(received_news(), " end=invalid_api_key peer=203.0.113.9 total_ms="));
    memset(fixed.peer, 0, sizeof fixed.peer);
    memcpy(fixed.peer, (uint8_t[]){0x20, 0x01, 0x0d, 0xb8}, 4);
    fixed.peer[15] = 7;
    log_request_ended(make(fixed, "a", "invalid_api_key", NULL));
    assert_non_null(strstr(received_news(), " peer=2001:db8::7 "));
    memset(fixed.peer, 0, sizeof fixed.peer);
    log_request_ended(make(fixed, "b", "invalid_api_key", NULL));
    assert_null(strstr(strstr(received_news(), "x_request_id=b"), "peer="));
}

TEST_AROUND(refusals_in_floods_are_counted_and_answers_never, begin, end) {
    struct record_usage refused = {
        .http_status = 429, .queue_ns = -1, .ttft_ns = -1, .tpot_ns = -1, .total_ns = 1};
    struct record_usage answered = refused;
    answered.http_status = 200;
    uint32_t lines[2] = {0};
    for (int i = 0; i < 1000; i++) {
        log_request_ended(make(refused, "a", "rate_limit", NULL));
        log_request_ended(make(answered, "a", "stop", NULL));
    }
    for (const char *at = received_news(); (at = strstr(at, "access  ")); at++)
        lines[strncmp(at, "access  ended", 13) == 0]++;
    assert_true(lines[0] >= 10 && lines[0] < 100);
    assert_int_equal(lines[1], 1000);
    log_finish();
    char expected[100];
    snprintf(expected, sizeof expected, "access  refused account=acme status=429 more=%u\n",
             1000 - lines[0]);
    assert_non_null(strstr(received_news(), expected));
}
