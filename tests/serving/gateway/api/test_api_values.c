/* SPDX-License-Identifier: Apache-2.0
 * Protects values that are read by functions of their own: names of models and of users, -1 where
 * other servers say it, suffixes.
 */
#include "serving/gateway/api/api_values.h"

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "test_case.h"

static struct bodies bodies;

TEST(the_model_has_several_names) {
    bodies_open(&bodies);
    assert_true(bodies_completion(&bodies, "\"model\":\"m\""));
    assert_true(bodies_completion(&bodies, "\"model\":\"quick\""));
    assert_true(bodies_completion(&bodies, "\"model\":\"default\""));
    assert_false(bodies_completion(&bodies, "\"model\":\"other\""));
    bodies_refused(&bodies, 404, "model", "model_not_found");
    assert_non_null(strstr(bodies.error.message, "'m' is served"));
}

TEST(a_user_id_is_of_plain_letters) {
    static char members[600];
    static const char *const bad[] = {"\"user_id\":\"a b\"", "\"user_id\":\"\u00fc\"",
                                      "\"user_id\":\"a.b\""};
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"user_id\":\"Ab-_9\""));
    assert_true(bytes_equal(bodies.request.user_id, BYTES_LITERAL("Ab-_9")));
    assert_true(bodies_chat(&bodies, "\"user_id\":\"\""));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(bodies_chat(&bodies, bad[i]));
        bodies_refused(&bodies, 400, "user_id", "invalid_value");
    }
    for (int count = 512; count <= 513; count++) {
        format_text(members, sizeof members, "\"user_id\":\"%0*d\"", count, 7);
        assert_int_equal(bodies_chat(&bodies, members), count == 512);
    }
    assert_false(bodies_chat(&bodies, "\"user_id\":5"));
    bodies_refused(&bodies, 400, "user_id", "invalid_type");
}

TEST(top_k_is_off_with_0_and_with_minus_1) {
    bodies_open(&bodies);
    bodies.defaults.sampling.top_k = 9;
    assert_true(bodies_chat(&bodies, "\"top_k\":-1"));
    assert_int_equal(bodies.request.sampling.top_k, 0);
    assert_true(bodies_chat(&bodies, "\"top_k\":0"));
    assert_int_equal(bodies.request.sampling.top_k, 0);
    assert_true(bodies_chat(&bodies, "\"top_k\":40"));
    assert_int_equal(bodies.request.sampling.top_k, 40);
    assert_true(bodies_chat(&bodies, ""));
    assert_int_equal(bodies.request.sampling.top_k, 9);
    assert_false(bodies_chat(&bodies, "\"top_k\":-2"));
    assert_non_null(strstr(bodies.error.message, "between -1 and "));
}

TEST(a_seed_is_any_of_64_bits) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"seed\":18446744073709551611"));
    assert_true(bodies.request.sampling.seed == 18446744073709551611u);
    assert_true(bodies_chat(&bodies, "\"seed\":-5"));
    assert_true(bodies.request.sampling.seed == 18446744073709551611u);
    assert_true(bodies_chat(&bodies, "\"seed\":-9223372036854775808"));
    assert_true(bodies.request.sampling.seed == (uint64_t)1 << 63);
    assert_false(bodies_chat(&bodies, "\"seed\":18446744073709551616"));
    bodies_refused(&bodies, 422, "seed", "out_of_range");
    assert_non_null(strstr(bodies.error.message, "18446744073709551616"));
    assert_false(bodies_chat(&bodies, "\"seed\":-9223372036854775809"));
    bodies_refused(&bodies, 422, "seed", "out_of_range");
    assert_false(bodies_chat(&bodies, "\"seed\":1.5"));
    bodies_refused(&bodies, 400, "seed", "invalid_type");
}

TEST(a_number_beyond_64_bits_is_refused_by_its_field) {
    static const char *const bad[][2] = {
        {"\"temperature\":1e400", "temperature"},
        {"\"temperature\":-1e400", "temperature"},
        {"\"top_p\":18446744073709551616", "top_p"},
        {"\"top_k\":18446744073709551616", "top_k"},
        {"\"max_tokens\":1000000000000000000000000000000", "max_tokens"},
        {"\"max_tokens\":1e400", "max_tokens"},
        {"\"n\":9223372036854775808", "n"},
        {"\"logit_bias\":{\"5\":1e999}", "logit_bias"},
        {"\"logit_bias\":{\"18446744073709551616\":1}", "logit_bias"},
        {"\"stop_token_ids\":[1,18446744073709551616]", "stop_token_ids"},
    };
    bodies_open(&bodies);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        if (bodies_chat(&bodies, bad[i][0])) fail_msg("%s is taken", bad[i][0]);
        bodies_refused(&bodies, 422, bad[i][1], "out_of_range");
    }
    assert_false(bodies_read(&bodies, &completion_dialect, "{\"prompt\":[1,9223372036854775808]}"));
    bodies_refused(&bodies, 422, "prompt", "out_of_range");
}

TEST(what_nobody_reads_may_have_any_number) {
    bodies_open(&bodies);
    assert_true(bodies_chat(&bodies, "\"metadata\":{\"a\":18446744073709551616,\"b\":-1E+400}"));
    assert_true(bodies_chat(&bodies, "\"temperature\":-0,\"top_p\":1E0"));
}

TEST(a_suffix_goes_with_texts_alone) {
    bodies_open(&bodies);
    assert_true(bodies_completion(&bodies, "\"suffix\":\"end\""));
    assert_true(bytes_equal(bodies.request.suffix, BYTES_LITERAL("end")));
    assert_true(bodies_completion(&bodies, "\"suffix\":\"\",\"echo\":true"));
    assert_false(bodies_completion(&bodies, "\"suffix\":\"end\",\"echo\":true"));
    bodies_refused(&bodies, 400, "suffix", "unsupported_parameter");
    assert_false(bodies_read(&bodies, &completion_dialect, "{\"prompt\":[5],\"suffix\":\"end\"}"));
    bodies_refused(&bodies, 400, "suffix", "unsupported_parameter");
}
