/* SPDX-License-Identifier: Apache-2.0
 * Protects that earlier thoughts reach the template under every name that servers give them.
 */
#include "serving/gateway/dialects/chat_thoughts.h"

#include "reading.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "test_case.h"

static const char *thoughts_of(const char *members) {
    static char body[1024];
    (void)snprintf(body, sizeof body,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
                   "\"content\":\"a\"%s},{\"role\":\"user\",\"content\":\"r\"}]}",
                   members);
    if (!read_as(&chat_dialect, body)) return error.param;
    assert_int_equal(tree_count(parsed.messages), 3);
    struct bytes text = {"none", 4};
    (void)tree_get_string(tree_member(tree_at(parsed.messages, 1), "reasoning_content"), &text);
    return text.data;
}

TEST(every_name_of_thoughts_is_taken) {
    assert_string_equal(thoughts_of(""), "none");
    assert_string_equal(thoughts_of(",\"reasoning_content\":\"hm\""), "hm");
    assert_string_equal(thoughts_of(",\"reasoning\":\"hm\""), "hm");
    assert_string_equal(thoughts_of(",\"reasoning\":null"), "none");
    assert_string_equal(thoughts_of(",\"reasoning\":\"x\",\"reasoning_content\":\"hm\""), "hm");
    assert_string_equal(
        thoughts_of(",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"hm\","
                    "\"signature\":null},{\"type\":\"reasoning.encrypted\",\"data\":\"x\"},"
                    "{\"type\":\"reasoning.summary\",\"summary\":\"so\"}]"),
        "hm\nso");
    assert_string_equal(thoughts_of(",\"thinking_blocks\":[{\"type\":\"thinking\",\"thinking\":"
                                    "\"hm\",\"signature\":\"s\"}]"),
                        "hm");
}

TEST(what_is_no_thought_is_refused_by_its_place) {
    assert_string_equal(thoughts_of(",\"reasoning\":7"), "messages[1].reasoning");
    assert_string_equal(thoughts_of(",\"reasoning_details\":{}"), "messages[1].reasoning_details");
}
