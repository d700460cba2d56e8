/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/scenario_edit.h"

#include "base/check.h"
#include "test_case.h"

static char memory[1 << 18];
static struct arena arena;
static struct error error;

static const struct tree *parsed(const char *text) {
    const struct tree *tree = NULL;
    assert_int_equal(tree_parse(&arena, bytes_of(text), "text", &tree, &error), STATUS_OK);
    return tree;
}

static int begin(void **state) {
    (void)state;
    arena_over(&arena, memory, sizeof memory);
    return 0;
}

static const char *set(const char *text, const char *setting) {
    const struct tree *tree = parsed(text), *now;
    if (scenario_edit_set(&arena, tree, setting, &now, &error)) return error.text;
    assert_string_equal(tree_text(&arena, tree).data, text); /* the old one is as it was */
    return tree_text(&arena, now).data;
}

TEST_AROUND(a_setting_changes_one_value, begin, NULL) {
    assert_string_equal(set("{\"a\":{\"b\":[1,{\"c\":2}]},\"d\":3}", "a.b[1].c=true"),
                        "{\"a\":{\"b\":[1,{\"c\":true}]},\"d\":3}");
    assert_string_equal(set("{\"a\":{}}", "a.new=some text"), "{\"a\":{\"new\":\"some text\"}}");
    assert_string_equal(set("{\"a\":{\"value\":1,\"source\":\"x\"}}", "a=2"),
                        "{\"a\":{\"value\":2,\"source\":\"--set\"}}");
}

TEST_AROUND(paths_that_lead_nowhere_are_refused, begin, NULL) {
    static const char *const settings[] = {"a.b[2]=1", "a.b.c=1", "x.y=1", "a..b=1", "=1", "a"};
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++) {
        const char *text = set("{\"a\":{\"b\":[1,2]}}", settings[i]);
        if (!strstr(text, "--set")) fail_msg("%s gives %s", settings[i], text);
    }
}

static enum status find(void *context, struct arena *of, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *why) {
    (void)context;
    if (!bytes_equal(name, BYTES_LITERAL("fast")))
        return error_set(why, STATUS_NOT_FOUND, "no %s", key);
    return tree_parse(of, BYTES_LITERAL("{\"speed\":{\"value\":9,\"source\":\"s\"}}"), "fast",
                      tree_out, why);
}

/* Names of hardware are set first, so that a setting reaches into what the last name stands for. */
TEST_AROUND(settings_reach_into_what_names_stand_for, begin, NULL) {
    static const char *const settings[] = {"hardware.speed=4", "hardware=fast"};
    struct scenario_library library = {NULL, find};
    const struct tree *now = NULL;
    const struct tree *tree =
        parsed("{\"hardware\":\"slow\",\"fleet\":{\"units\":[{\"hardware\":\"fast\"}]}}");
    enum status status = scenario_edit_prepare(&arena, tree, settings, 2, &library, &now, &error);
    if (status) fail_msg("%s", error.text);
    assert_string_equal(tree_text(&arena, now).data,
                        "{\"hardware\":{\"speed\":{\"value\":4,\"source\":\"--set\"}},\"fleet\":{"
                        "\"units\":[{\"hardware\":{\"speed\":{\"value\":9,\"source\":\"s\"}}}]}}");
    assert_int_equal(scenario_edit_prepare(&arena, tree, NULL, 0, &library, &now, &error),
                     STATUS_NOT_FOUND);
}
