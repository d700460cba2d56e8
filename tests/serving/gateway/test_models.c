/* SPDX-License-Identifier: Apache-2.0
 * Protects the names of the model: those it is served under, in their order, DeepSeek's two where
 * the chat template can do what they say, and what no name may be.
 */
#include "serving/gateway/models.h"

#include "base/check.h"
#include "test_case.h"

static struct models models;
static struct error error;

static void open_names(const char *names, enum chat_thought thought) {
    assert_int_equal(models_open(&models, bytes_of(names), thought, &error), STATUS_OK);
}

static void assert_names(const char *const *names, size_t count) {
    assert_int_equal(models.count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(bytes_equal(models.names[i].name, bytes_of(names[i])));
}

TEST(names_are_split_by_commas) {
    static const char *const expected[] = {"a", "org/b", "deepseek-chat"};
    open_names("a,org/b", CHAT_THOUGHT_NEVER);
    assert_names(expected, ARRAY_COUNT(expected));
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("default")), &models.names[0]);
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("org/b")), &models.names[1]);
    assert_null(models_find(&models, BYTES_LITERAL("b")));
    assert_null(models_find(&models, BYTES_LITERAL("")));
}

TEST(a_star_stands_for_any_name) {
    static const char *const expected[] = {"a", "deepseek-chat"};
    open_names("*,a", CHAT_THOUGHT_NEVER);
    assert_names(expected, ARRAY_COUNT(expected));
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("gpt-4o")), &models.names[0]);
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("deepseek-chat")), &models.names[1]);
    assert_null(models_find(&models, BYTES_LITERAL("")));
    assert_null(models_find(&models, BYTES_LITERAL("\xff")));
}

TEST(a_tag_of_ollamas_names_the_same_model) {
    open_names("a,b:1", CHAT_THOUGHT_NEVER);
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("a:latest")), &models.names[0]);
    assert_ptr_equal(models_find(&models, BYTES_LITERAL("b:1")), &models.names[1]);
    assert_null(models_find(&models, BYTES_LITERAL("b")));
    assert_null(models_find(&models, BYTES_LITERAL(":latest")));
}

TEST(deepseek_s_names_say_whether_to_think) {
    static const char *const switched[] = {"a", "deepseek-chat", "deepseek-reasoner"};
    static const char *const always[] = {"a", "deepseek-reasoner"};
    open_names("a", CHAT_THOUGHT_SWITCHED);
    assert_names(switched, ARRAY_COUNT(switched));
    assert_int_equal(models.names[0].thinking, CHAT_THINKING_DEFAULT);
    assert_int_equal(models.names[1].thinking, CHAT_THINKING_OFF);
    assert_int_equal(models.names[2].thinking, CHAT_THINKING_ON);
    open_names("a", CHAT_THOUGHT_ALWAYS);
    assert_names(always, ARRAY_COUNT(always));
    assert_int_equal(models.names[1].thinking, CHAT_THINKING_DEFAULT);
}

TEST(all_names_stand_in_one_list_in_their_order) {
    static char list[MODELS_LIST_BYTES];
    open_names("a,org/b", CHAT_THOUGHT_SWITCHED);
    models_list(&models, list);
    assert_string_equal(list, "a,org/b,deepseek-chat,deepseek-reasoner");
    open_names("a", models_thought(NULL));
    models_list(&models, list);
    assert_string_equal(list, "a,deepseek-chat");
}

TEST(a_served_name_is_no_alias) {
    static const char *const expected[] = {"deepseek-reasoner", "deepseek-chat"};
    open_names("deepseek-reasoner", CHAT_THOUGHT_SWITCHED);
    assert_names(expected, ARRAY_COUNT(expected));
    assert_int_equal(models.names[0].thinking, CHAT_THINKING_DEFAULT);
}

TEST(names_that_will_not_do_are_refused) {
    char longest[MODELS_NAME_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    const char *const bad[] = {"",     "a,",    ",a", "a,,b",  "a,a",
                               "\xff", longest, "*",  "a,*,*", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        if (models_open(&models, bytes_of(bad[i]), CHAT_THOUGHT_NEVER, &error) != STATUS_INVALID)
            fail_msg("%s", bad[i]);
    longest[MODELS_NAME_BYTES_MAX] = 0;
    open_names(longest, CHAT_THOUGHT_NEVER);
}
