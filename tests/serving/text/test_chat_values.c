/* SPDX-License-Identifier: Apache-2.0
 * Protects the shape in which a conversation reaches its template: what the template takes decides,
 * and what needs no change stays as it was sent.
 */
#include "chat_support.h"
#include "test_case.h"

/* The variables, as a template prints them that prints them all. */
static void expect_messages(const struct chat_facts *facts, const struct chat_ask *ask,
                            const char *expected) {
    struct chat_template found = opened("{{ messages | tojson }}");
    const struct jinja_variable *variables;
    size_t count;
    struct jinja_rendering out;
    struct arena *arena = chat_scratch();
    assert_int_equal(chat_values_take(&found.source, facts, ask, arena, &variables, &count),
                     STATUS_OK);
    if (jinja_render(found.source.usual, variables, count, &jinja_limits_usual, 0, arena, &out,
                     &error))
        fail_msg("%s", error.text);
    if (!bytes_equal(out.text, bytes_of(expected)))
        fail_msg("gives %.*s\nnot   %s", (int)out.text.count, out.text.data, expected);
}

static void expect_request(struct chat_facts facts, const char *messages, const char *expected) {
    char request[1024];
    snprintf(request, sizeof request, "{\"messages\":%s}", messages);
    struct chat_ask ask = asked(request);
    expect_messages(&facts, &ask, expected);
}

TEST(what_needs_no_change_stays) {
    expect_request((struct chat_facts){0},
                   "[{\"name\":\"x\",\"role\":\"user\",\"content\":\"q\",\"extra\":{\"a\":[1.5]}}]",
                   "[{\"name\": \"x\", \"role\": \"user\", \"content\": \"q\", \"extra\": "
                   "{\"a\": [1.5]}}]");
}

TEST(members_that_are_null_are_left_out_but_for_the_content) {
    expect_request((struct chat_facts){0},
                   "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":null,\"name\":null},"
                   "{\"role\":\"assistant\",\"tool_calls\":[]}]",
                   "[{\"role\": \"assistant\", \"content\": null}, "
                   "{\"role\": \"assistant\", \"content\": null}]");
}

TEST(a_developer_is_a_system_where_the_template_knows_none) {
    static const char sent[] = "[{\"role\":\"developer\",\"content\":\"a\"}]";
    expect_request((struct chat_facts){0}, sent, "[{\"role\": \"system\", \"content\": \"a\"}]");
    expect_request((struct chat_facts){.knows_developer = true}, sent,
                   "[{\"role\": \"developer\", \"content\": \"a\"}]");
}

TEST(parts_are_joined_or_made) {
    static const char sent[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"user\",\"content\":\"c\"},"
        "{\"role\":\"tool\",\"content\":[]}]",
                      kept[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
                               "\"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}, ";
    char expected[512];
    expect_request((struct chat_facts){0}, sent,
                   "[{\"role\": \"user\", \"content\": \"ab\"}, {\"role\": \"user\", \"content\": "
                   "\"c\"}, {\"role\": \"tool\", \"content\": \"\"}]");
    snprintf(expected, sizeof expected,
             "%s{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"tool\", \"content\": \"\"}]",
             kept);
    expect_request((struct chat_facts){.parts[CHAT_SPEAKER_USER] = CHAT_PARTS_TAKEN}, sent,
                   expected);
    snprintf(expected, sizeof expected,
             "%s{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"c\"}]}, "
             "{\"role\": \"tool\", \"content\": \"\"}]",
             kept);
    expect_request((struct chat_facts){.parts[CHAT_SPEAKER_USER] = CHAT_PARTS_ONLY}, sent,
                   expected);
}

#define CALL(type, arguments)                                                                      \
    "\"tool_calls\":[{\"id\":\"1\"," type "\"function\":{\"name\":\"f\"" arguments "}}]"

TEST(arguments_become_objects_where_they_must) {
    static const char sent[] = "[{\"role\":\"assistant\",\"content\":\"x\"," CALL(
        "\"type\":\"function\",", ",\"arguments\":\"{\\\"a\\\": [1, 2.0]}\"") "}]";
#define PRINTED(arguments)                                                                         \
    "[{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{\"id\": \"1\", \"type\": "   \
    "\"function\", \"function\": {\"name\": \"f\", \"arguments\": " arguments "}}]}]"
    expect_request((struct chat_facts){0}, sent, PRINTED("\"{\\\"a\\\": [1, 2.0]}\""));
    expect_request((struct chat_facts){.wants_objects = true}, sent, PRINTED("{\"a\": [1, 2.0]}"));
    /* what is no object is one all the same: a template that wants one may refuse
     * the whole conversation for a text */
    expect_request((struct chat_facts){.wants_objects = true},
                   "[{\"role\":\"assistant\",\"content\":\"x\"," CALL(
                       "\"type\":\"function\",", ",\"arguments\":\"{oops\"") "}]",
                   PRINTED("{\"INVALID_JSON\": \"{oops\"}"));
    expect_request((struct chat_facts){.wants_objects = true},
                   "[{\"role\":\"assistant\",\"content\":\"x\"," CALL("\"type\":\"function\",",
                                                                      ",\"arguments\":\"\"") "}]",
                   PRINTED("{}"));
    expect_request((struct chat_facts){0},
                   "[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"id\":\"1\","
                   "\"function\":{\"name\":\"f\"}}]}]",
                   "[{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{\"id\": "
                   "\"1\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}, \"type\": "
                   "\"function\"}]}]");
}

/* What a model wrote comes back as it wrote it, whatever 64 bits hold and however often a key
 * comes. */
TEST(numbers_and_keys_of_arguments_arrive_as_they_were) {
#define NUMBERS "18446744073709551616, -0, 1E5, 1.50, 1e400, 1000000000000000000000000000000"
    expect_request((struct chat_facts){.wants_objects = true},
                   "[{\"role\":\"assistant\",\"content\":\"x\"," CALL(
                       "\"type\":\"function\",",
                       ",\"arguments\":\"{\\\"a\\\": [" NUMBERS "], \\\"a\\\": 2}\"") "}]",
                   PRINTED("{\"a\": [" NUMBERS "], \"a\": 2}"));
    expect_request((struct chat_facts){.wants_objects = true},
                   "[{\"role\":\"assistant\",\"content\":\"x\"," CALL(
                       "\"type\":\"function\",", ",\"arguments\":{\"a\":[" NUMBERS "]}") "}]",
                   PRINTED("{\"a\": [" NUMBERS "]}"));
}

/* Bodies are refused before they are parsed when they have too many parts; what lies in a text of
 * theirs is held to the same, all calls together. */
TEST(arguments_have_no_more_parts_than_a_body) {
    static char request[400000];
    const struct chat_facts takes_texts = {0}, takes_objects = {.wants_objects = true};
    const struct chat_source source = {0};
    const struct jinja_variable *variables;
    size_t at = 0, count;
#define PUT(...) at += (size_t)snprintf(request + at, sizeof request - at, __VA_ARGS__)
    PUT("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int call = 0; call < 2; call++) {
        PUT("%s{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1", call ? "," : "");
        for (int i = 0; i < LIMIT_BODY_INTEGERS / 2; i++)
            PUT(",1");
        PUT("]}\"}}");
    }
    PUT("]}]}");
#undef PUT
    const struct chat_ask ask = asked(request);
    assert_int_equal(
        chat_values_take(&source, &takes_texts, &ask, chat_scratch(), &variables, &count),
        STATUS_OK);
    assert_int_equal(
        chat_values_take(&source, &takes_objects, &ask, chat_scratch(), &variables, &count),
        STATUS_TOO_LARGE);
}

TEST(silence_beside_calls_is_what_the_template_bears) {
    static const char empty[] = "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[1]}]",
                      null[] = "[{\"role\":\"assistant\",\"tool_calls\":[1],\"content\":null}]";
    struct chat_facts facts = {.silence = CHAT_SILENCE_NULL};
    expect_request(facts, empty,
                   "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [1]}]");
    facts.silence = CHAT_SILENCE_EMPTY;
    expect_request(facts, null,
                   "[{\"role\": \"assistant\", \"tool_calls\": [1], \"content\": \"\"}]");
    facts.silence = CHAT_SILENCE_AS_SENT;
    expect_request(facts, null,
                   "[{\"role\": \"assistant\", \"tool_calls\": [1], \"content\": null}]");
}

TEST(the_other_variables_are_those_of_transformers) {
    struct chat_template found =
        opened("{{ tools }} {{ documents | tojson }} {{ add_generation_prompt }} {{ thinking }} "
               "{{ enable_thinking }} {{ reasoning_effort }} {{ bos_token }} {{ own }}");
    struct chat_ask ask = asked("{\"messages\":[]}");
    (void)expect(&found, &ask, bytes_of("None null True    <s> "));
    ask = asked("{\"messages\":[],\"tools\":[],\"documents\":[{\"a\":1}],"
                "\"variables\":{\"own\":[null],\"thinking\":\"x\",\"bos_token\":\"y\"}}");
    ask.thinking = CHAT_THINKING_OFF;
    ask.effort = BYTES_LITERAL("high");
    ask.prompts = false;
    (void)expect(&found, &ask, bytes_of("None [{\"a\": 1}] False x False high y [None]"));
}
