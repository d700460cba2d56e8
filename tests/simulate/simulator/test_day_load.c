/* SPDX-License-Identifier: Apache-2.0
 * The day's load: its means are the published ones, of what arrives as of what stands.
 */
#include <math.h>

#include "base/limits.h"
#include "simulate/simulator/day_load.h"
#include "test_case.h"

static const struct day_moments published = {.in_out = 3.62,
                                             .hit_share = 0.5625,
                                             .kv_mean = 4989,
                                             .prompt_cv = 1.2,
                                             .answer_cv = 1.0,
                                             .first_share = 0.3,
                                             .prompt_max = 65536,
                                             .answer_max = 16384};

static void assert_near(double value, double wanted, double share) {
    if (fabs(value / wanted - 1) > share) fail_msg("%g instead of %g", value, wanted);
}

static struct day_load steady(uint32_t standing, double seconds) {
    struct day_load load = {.rate = 200,
                            .standing_count = standing,
                            .begin_ns = 1000000000,
                            .end_ns = 1000000000 + (int64_t)(seconds * 1e9),
                            .seed = 7};
    assert_true(day_load_solve(&published, &load.lengths));
    return load;
}

TEST(arrivals_have_the_published_means) {
    struct day_load load = steady(0, 100);
    struct simulator_source source = day_load_source(&load);
    struct simulator_request request;
    double count = 0, prompt = 0, answer = 0, hits = 0, kv = 0;
    while (source.next(source.self, &request)) {
        count++;
        prompt += request.prompt_tokens;
        answer += request.answer_tokens;
        hits += request.stored_tokens;
        kv += (double)request.answer_tokens * (request.prompt_tokens + request.answer_tokens / 2.0);
        assert_true(request.stored_tokens < request.prompt_tokens);
        assert_int_equal(request.stored_tokens % KV_BLOCK_TOKENS, 0);
        assert_int_equal(request.standing, 0);
    }
    assert_near(count, 20000, 0.03);
    assert_near(prompt / answer, 3.62, 0.01);
    assert_near(hits / prompt, 0.5625, 0.002);
    assert_near(kv / answer, 4989, 0.03); /* their mean square hangs on a few long answers */
}

TEST(arrivals_come_in_order_between_begin_and_end) {
    struct day_load load = steady(0, 3);
    load.waiting_count = 50;
    struct simulator_source source = day_load_source(&load);
    struct simulator_request request;
    int64_t last_ns = load.begin_ns;
    uint32_t at_once = 0;
    while (source.next(source.self, &request)) {
        assert_true(request.arrival_ns >= last_ns && request.arrival_ns < load.end_ns);
        at_once += request.arrival_ns == load.begin_ns;
        last_ns = request.arrival_ns;
    }
    assert_int_equal(at_once, 50);
}

/* In a steady fleet each token that comes next reads as many KV rows as the published mean, and
 * what is left of the answers takes as long as their mean square says. */
TEST(standing_requests_are_those_of_a_steady_fleet) {
    struct day_load load = steady(20000, 0);
    struct simulator_source source = day_load_source(&load);
    struct simulator_request request;
    double count = 0, context = 0, left = 0;
    while (source.next(source.self, &request)) {
        assert_int_equal(request.standing, 1);
        assert_int_equal(request.arrival_ns, 0);
        assert_true(request.answer_tokens >= 1);
        count++;
        context += request.prompt_tokens;
        left += request.answer_tokens;
    }
    assert_int_equal(count, 20000);
    assert_near(context / count, 4989, 0.01);
    double cv = published.answer_cv, mean = load.lengths.answer_mean;
    assert_near(left / count, mean * (1 + cv * cv) / 2, 0.05);
}

TEST(means_that_contradict_each_other_are_refused) {
    struct day_moments moments = published;
    struct day_lengths lengths;
    moments.hit_share = 0.8; /* more than those that do not begin a conversation have */
    assert_false(day_load_solve(&moments, &lengths));
    moments = published;
    moments.prompt_max = 1000;
    assert_false(day_load_solve(&moments, &lengths));
}
