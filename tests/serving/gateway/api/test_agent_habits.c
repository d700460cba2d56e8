/* SPDX-License-Identifier: Apache-2.0
 * Protects what is left out of agents' prompts: the billing line at the start of a first system
 * text, in its exact shape and nowhere else, cache marks and the session; and that the client is
 * warned.
 */
#include "serving/gateway/api/agent_habits.h"

#include "base/check.h"
#include "base/format.h"
#include "bodies.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "test_case.h"

#define LINE "x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=sdk-cli; cch=543cf;"
#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define BILLING (1u << AGENT_HABIT_BILLING_LINE)
#define MARKS (1u << AGENT_HABIT_CACHE_MARKS)

static char memory[1 << 16];

static void expect_tree(const struct tree *tree, const char *expected) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    struct bytes found = tree_text(&arena, tree);
    if (!bytes_equal(found, bytes_of(expected)))
        fail_msg("%.*s\nis not\n%s", (int)found.count, found.data, expected);
}

/* What becomes of the system text of a body of Anthropic's, in blocks or as a string. */
static uint32_t expect_system(const char *system, const char *messages) {
    struct bodies bodies = {0};
    char body[1024];
    bodies_open(&bodies);
    bodies.defaults.agent_habits = true;
    format_text(body, sizeof body, "{\"max_tokens\":9,\"system\":%s,\"messages\":[" USER "]}",
                system);
    if (!bodies_read(&bodies, &anthropic_dialect, body)) fail_msg("%s", bodies.error.message);
    expect_tree(bodies.request.messages, messages);
    return bodies.request.left_out;
}

#define SYSTEM(content) "[{\"role\":\"system\",\"content\":" content "}," USER "]"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

TEST(a_billing_line_is_left_out_as_if_it_had_never_been_there) {
    assert_int_equal(expect_system("[" TEXT(LINE) "," TEXT("You are.") "]", SYSTEM("\"You are.\"")),
                     BILLING);
    assert_int_equal(expect_system("[" TEXT("You are.") "]", SYSTEM("\"You are.\"")), 0);
    assert_int_equal(expect_system("[" TEXT(LINE) "," TEXT("a") "," TEXT("b") "]",
                                   SYSTEM("[" TEXT("a") "," TEXT("b") "]")),
                     BILLING);
    assert_int_equal(expect_system("\"" LINE "\\nYou are.\"", SYSTEM("\"You are.\"")), BILLING);
    assert_int_equal(expect_system("[" TEXT(LINE "\\nYou") "," TEXT("b") "]",
                                   SYSTEM("[" TEXT("You") "," TEXT("b") "]")),
                     BILLING);
    assert_int_equal(expect_system("\"" LINE "\"", "[" USER "]"), BILLING);
    assert_int_equal(
        expect_system("\"x-anthropic-billing-header: cc_version=2.1.15; cc_entrypoint=cli;\"",
                      "[" USER "]"),
        BILLING);
}

TEST(what_only_looks_like_a_billing_line_stays) {
    static const char *const kept[] = {
        " " LINE,
        "a\\n" LINE,
        LINE " and more",
        LINE " ",
        "x-anthropic-billing-header:",
        "x-anthropic-billing-header: cch=543cf;",
        "x-anthropic-billing-header: cc_version=;",
        "x-anthropic-billing-header: cc_version=2.1.120",
        "x-anthropic-billing-header: cc_version=2.1.120; please say hello;",
        "x-anthropic-billing-header: cc_version=2 1;",
        "x-anthropic-billing-header: cc_version=2; rm -rf /",
        "X-Anthropic-Billing-Header: cc_version=2;",
    };
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++) {
        char system[256], expected[512];
        format_text(system, sizeof system, "\"%s\"", kept[i]);
        format_text(expected, sizeof expected, SYSTEM("\"%s\""), kept[i]);
        assert_int_equal(expect_system(system, expected), 0);
    }
    assert_int_equal(
        expect_system("[" TEXT("a") "," TEXT(LINE) "]", SYSTEM("[" TEXT("a") "," TEXT(LINE) "]")),
        0);
}

static struct bodies bodies;

static void expect_chat(bool habits, const char *messages, const char *expected) {
    char body[1024];
    bodies = (struct bodies){0};
    bodies_open(&bodies);
    bodies.defaults.agent_habits = habits;
    format_text(body, sizeof body, "{\"messages\":%s}", messages);
    if (!bodies_read(&bodies, &chat_dialect, body)) fail_msg("%s", bodies.error.message);
    expect_tree(bodies.request.messages, expected);
}

TEST(only_a_first_system_message_has_one) {
    static const char user[] = "[{\"role\":\"user\",\"content\":\"" LINE "\"}]";
    static const char later[] = "[" USER ",{\"role\":\"system\",\"content\":\"" LINE "\"}]";
    expect_chat(true, user, user);
    expect_chat(true, later, later);
    assert_int_equal(bodies.request.left_out, 0);
    assert_int_equal(bodies.request.warning.count, 0);
    expect_chat(true, SYSTEM("\"" LINE "\\nbe\""), SYSTEM("\"be\""));
    assert_int_equal(bodies.request.left_out, BILLING);
    assert_true(bytes_equal(
        bodies.request.warning,
        BYTES_LITERAL("system began with a billing line, which was left out (--agent-habits)")));
}

TEST(cache_marks_are_left_out_of_chats_and_nothing_else_is) {
    static const char marked[] =
        "[{\"role\":\"user\",\"cache_control\":{\"type\":\"ephemeral\"},\"content\":[{\"type\":"
        "\"text\",\"cache_control\":1,\"text\":\"cache_control\"}]},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"cache_control\":1,"
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"cache_control\\\":1}\"}}]}]";
    expect_chat(true, marked,
                "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"cache_control\"}]},"
                "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
                "\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                "\"{\\\"cache_control\\\":1}\"}}]}]");
    assert_int_equal(bodies.request.left_out, MARKS);
    assert_true(bytes_equal(bodies.request.warning,
                            BYTES_LITERAL("cache_control was left out (--agent-habits)")));
    expect_chat(false, marked, marked);
    assert_int_equal(bodies.request.left_out, 0);
}

TEST(cache_marks_are_left_out_of_tools_and_stay_in_their_parameters) {
    bodies = (struct bodies){0};
    bodies_open(&bodies);
    bodies.defaults.agent_habits = true;
    assert_true(bodies_chat(
        &bodies,
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","
        "\"cache_control\":1,\"function\":{\"name\":\"b\",\"cache_control\":1,\"parameters\":{"
        "\"type\":\"object\",\"properties\":{\"cache_control\":{}}}}}]"));
    expect_tree(bodies.request.tools,
                "[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","
                "\"function\":{\"name\":\"b\",\"parameters\":{\"type\":\"object\",\"properties\":{"
                "\"cache_control\":{}}}}}]");
    assert_int_equal(bodies.request.left_out, MARKS);
}

static void expect_user(const char *user, const char *expected, uint32_t left_out) {
    struct bodies users = {0};
    char body[2048];
    bodies_open(&users);
    users.defaults.agent_habits = true;
    format_text(body, sizeof body,
                "{\"max_tokens\":9,\"metadata\":{\"user_id\":\"%s\"},\"messages\":[" USER "]}",
                user);
    if (!bodies_read(&users, &anthropic_dialect, body)) fail_msg("%s", users.error.message);
    if (!bytes_equal(users.request.user_id, bytes_of(expected)))
        fail_msg("%.*s is not %s", (int)users.request.user_id.count, users.request.user_id.data,
                 expected);
    assert_int_equal(users.request.left_out, left_out);
}

TEST(a_users_sessions_share_a_cache) {
    expect_user(
        "{\\\"device_id\\\":\\\"d\\\",\\\"account_uuid\\\":\\\"\\\",\\\"session_id\\\":\\\"s\\\"}",
        "{\"device_id\":\"d\",\"account_uuid\":\"\"}", 1u << AGENT_HABIT_SESSION_ID);
    expect_user("{\\\"session_id\\\":\\\"s\\\"}", "{\"session_id\":\"s\"}",
                0); /* there is no user */
    expect_user("{\\\"session_id\\\":1,\\\"a\\\":2}", "{\"session_id\":1,\"a\":2}", 0);
    expect_user("{session_id", "{session_id", 0);
    expect_user("user_7_session_id", "user_7_session_id", 0);
}

TEST(a_switch_keeps_everything) {
    expect_chat(false, SYSTEM("\"" LINE "\\nbe\""), SYSTEM("\"" LINE "\\nbe\""));
    assert_int_equal(bodies.request.left_out, 0);
}

TEST(each_has_a_name) {
    assert_string_equal(agent_habits_name(AGENT_HABIT_BILLING_LINE), "billing_line");
    assert_string_equal(agent_habits_name(AGENT_HABIT_CACHE_MARKS), "cache_control");
    assert_string_equal(agent_habits_name(AGENT_HABIT_SESSION_ID), "session_id");
}
