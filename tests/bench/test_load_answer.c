/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_answer.h"

#include "base/check.h"
#include "test_case.h"

static char scratch[1 << 16];

static struct load_answer read_good(const char *text) {
    struct load_answer answer;
    struct error error = {""};
    if (load_answer_read(bytes_of(text), scratch, sizeof scratch, &answer, &error))
        fail_msg("%s", error.text);
    return answer;
}

/* Events as the servers send them: ours, vLLM's, llama-server's. */
TEST(events_of_all_servers_are_understood) {
    static const struct {
        const char *text;
        bool has_tokens, finished;
        uint32_t token_ids;
    } cases[] = {
        {"{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
         "\"finish_reason\":null}]}",
         false, false, 0},
        {"{\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}", true, false, 0},
        {"{\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm\"}}]}", true, false, 0},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}", false, true, 0},
        {"{\"choices\":[{\"text\":\"\",\"token_ids\":[4,5],\"finish_reason\":null}]}", true, false,
         2},
        {"{\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}", true, false, 0},
        {"{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}", false, true, 0},
        {"{\"choices\":[]}", false, false, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct load_answer answer = read_good(cases[i].text);
        assert_int_equal(answer.has_tokens, cases[i].has_tokens);
        assert_int_equal(answer.finished, cases[i].finished);
        assert_int_equal(answer.token_ids, cases[i].token_ids);
        assert_false(answer.failed || answer.done || answer.has_usage);
    }
    struct load_answer usage = read_good(
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"x\":null,"
        "\"prompt_tokens_details\":{\"cached_tokens\":5}}}");
    assert_true(usage.has_usage);
    assert_int_equal(usage.prompt_tokens, 9);
    assert_int_equal(usage.output_tokens, 3);
    assert_int_equal(usage.cached_tokens, 5);
    /* As DeepSeek's own API says it. */
    assert_int_equal(read_good("{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                               "\"completion_tokens\":3,\"prompt_cache_hit_tokens\":4}}")
                         .cached_tokens,
                     4);
    assert_true(read_good("[DONE]").done);
}

TEST(errors_are_reported_apart) {
    struct load_answer answer = read_good("{\"error\":{\"message\":\"out\\nof luck\"}}");
    assert_true(answer.failed);
    assert_string_equal(answer.message, "out of luck");
    assert_true(read_good("{\"error\":\"no\"}").failed);
    assert_false(read_good("{\"error\":null,\"choices\":[]}").failed);
    static const char *const bad[] = {"", "[]", "7", "{\"a\":", "{\"a\":1} x", "\xff"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct error error = {""};
        assert_int_not_equal(
            load_answer_read(bytes_of(bad[i]), scratch, sizeof scratch, &answer, &error),
            STATUS_OK);
        assert_true(error.text[0] != 0);
    }
    char message[8];
    assert_true(load_answer_error(BYTES_LITERAL("{\"detail\":\"f\xC3\xBCr s\xC3\xBC\xC3\x9F\"}"),
                                  scratch, sizeof scratch, message, sizeof message));
    assert_string_equal(message, "f\xC3\xBCr s"); /* never half a character */
    assert_false(load_answer_error(BYTES_LITERAL("<html>"), scratch, sizeof scratch, message,
                                   sizeof message));
}

TEST(the_first_model_is_found) {
    char id[16];
    struct error error = {""};
    struct bytes list = BYTES_LITERAL("{\"data\":[{\"id\":\"tiny-r1\"},{\"id\":\"b\"}]}");
    assert_int_equal(load_answer_model(list, scratch, sizeof scratch, id, sizeof id, &error),
                     STATUS_OK);
    assert_string_equal(id, "tiny-r1");
    assert_int_equal(load_answer_model(BYTES_LITERAL("{\"data\":[]}"), scratch, sizeof scratch, id,
                                       sizeof id, &error),
                     STATUS_INVALID);
}
