/* SPDX-License-Identifier: Apache-2.0
 * Protects the ears of simulated clients: who is told the undisturbed answer has nothing to say
 * against it, and a name, an index, an id or arguments that are wrong, or too few, are a breach.
 */
#include "simulate/clients/fleet_chats.h"

#include "base/check.h"
#include "simulate/engine/fleet_token_oracle.h"
#include "test_case.h"

#define CALL(index, name)                                                                          \
    "{\"tool_calls\":[{\"index\":" index ",\"id\":\"x" index "\",\"function\":{\"name\":\"" name   \
    "\",\"arguments\":\"\"}}]}"
#define MORE(index, text)                                                                          \
    "{\"tool_calls\":[{\"index\":" index ",\"function\":{\"arguments\":\"" text "\"}}]}"

/* Nothing is wrong when the deltas have come, and the end. */
static bool is_fine(const char *const *deltas, size_t count) {
    static struct fleet_speech speech = {.content = "So",
                                         .content_bytes = 2,
                                         .calls = "\1\2look\3{}\1\2seek\3{}",
                                         .calls_bytes = 18,
                                         .call_count = 2};
    static char memory[1 << 16];
    struct fleet_clients clients = {0};
    struct fleet_client client = {.chats = true, .stream = true, .choice_count = 1};
    struct fleet_choice *choice = &client.choices[0];
    choice->speech = &speech;
    for (size_t i = 0; i < count; i++) {
        struct arena arena;
        struct error error;
        const struct tree *delta;
        arena_over(&arena, memory, sizeof memory);
        assert_int_equal(tree_parse(&arena, bytes_of(deltas[i]), "delta", &delta, &error), 0);
        fleet_chats_take(&clients, &client, choice, delta);
    }
    fleet_chats_end(&clients, &client, choice);
    return clients.breach[0] == 0;
}

TEST(only_the_undisturbed_answer_is_fine) {
    const char *deltas[] = {"{\"content\":\"S\"}", "{\"content\":\"o\"}", CALL("0", "look"),
                            MORE("0", "{"),        MORE("0", "}"),        CALL("1", "seek"),
                            MORE("1", "{}")};
    static const struct {
        size_t place;
        const char *wrong;
    } rows[] = {
        {0, "{\"content\":\"s\"}"},
        {1, "{}"},
        {2, CALL("1", "look")},
        {2, CALL("0", "seek")},
        {3, MORE("1", "{")},
        {3, CALL("0", "look")},
        {4, "{}"},
        {5, CALL("0", "seek")},
        {6, "{}"},
        {6, MORE("1", "{}}")},
    };
    assert_true(is_fine(deltas, ARRAY_COUNT(deltas)));
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *right = deltas[rows[i].place];
        deltas[rows[i].place] = rows[i].wrong;
        if (is_fine(deltas, ARRAY_COUNT(deltas))) fail_msg("row %zu is fine", i);
        deltas[rows[i].place] = right;
    }
}
