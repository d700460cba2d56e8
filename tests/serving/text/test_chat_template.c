/* SPDX-License-Identifier: Apache-2.0
 * Protects prompts: the goldens (rendered with Jinja from DeepSeek's templates) come out byte for
 * byte, the R1 forms do what their templates say, templates are known in any spelling that Jinja
 * renders alike, and any other is refused.
 */
#include "serving/text/chat_template.h"
#include "support.h"

static char text_out[65536];
static struct error error;

/* ---- conversations from JSON ---- */

static struct chat_tool_call *calls_of(const struct tree *list) {
    struct chat_tool_call *calls = test_keep(calloc(tree_count(list) + 1, sizeof *calls));
    assert_non_null(calls);
    for (size_t i = 0; i < tree_count(list); i++) {
        const struct tree *function = tree_member(tree_at(list, i), "function");
        calls[i] = (struct chat_tool_call){test_string(tree_at(list, i), "type"),
                                           test_string(function, "name"),
                                           test_string(function, "arguments")};
    }
    return calls;
}

static struct chat_message *messages_of(const struct tree *list) {
    struct chat_message *messages = calloc(tree_count(list) + 1, sizeof *messages);
    assert_non_null(messages);
    for (size_t i = 0; i < tree_count(list); i++) {
        const struct tree *message = tree_at(list, i), *calls = tree_member(message, "tool_calls");
        assert_true(chat_role_from_text(test_string(message, "role"), &messages[i].role));
        messages[i].has_content =
            tree_get_string(tree_member(message, "content"), &messages[i].content);
        messages[i].tool_calls = calls_of(calls);
        messages[i].tool_call_count = tree_count(calls);
    }
    return messages;
}

/* What is left of a rendering without its contents is the rendering of messages that say nothing,
 * and what is taken out is what they say. */
static void notes_contents(const struct chat_template *chat_template, struct chat_message *messages,
                           size_t message_count, bool prompt,
                           const struct chat_rendering *rendering) {
    static char left[65536], empty[65536];
    size_t count = 0, at = 0;
    for (size_t i = 0; i < rendering->content_count; i++) {
        struct text_span span = rendering->contents[i];
        assert_true(span.start >= at && span.end > span.start && span.end <= rendering->count);
        memcpy(left + count, rendering->text + at, span.start - at);
        count += span.start - at;
        at = span.end;
        struct bytes said = {rendering->text + span.start, span.end - span.start};
        bool found = false;
        for (size_t k = 0; k < message_count && !found; k++) {
            const struct chat_message *m = &messages[k];
            found = m->content.count &&
                    memmem(m->content.data, m->content.count, said.data, said.count);
            for (size_t c = 0; c < m->tool_call_count; c++)
                found |= bytes_equal(said, m->tool_calls[c].type) ||
                         bytes_equal(said, m->tool_calls[c].name) ||
                         bytes_equal(said, m->tool_calls[c].arguments);
        }
        assert_true(found);
    }
    memcpy(left + count, rendering->text + at, rendering->count - at);
    count += rendering->count - at;
    for (size_t k = 0; k < message_count; k++) {
        messages[k].content.count = 0;
        for (size_t c = 0; c < messages[k].tool_call_count; c++)
            ((struct chat_tool_call *)(uintptr_t)messages[k].tool_calls)[c] =
                (struct chat_tool_call){0};
    }
    struct chat_rendering without = {.text = empty, .capacity = sizeof empty};
    assert_int_equal(
        chat_template_render(chat_template, messages, message_count, prompt, &without, &error),
        STATUS_OK);
    assert_int_equal(without.content_count, 0);
    assert_true(bytes_equal((struct bytes){left, count}, (struct bytes){empty, without.count}));
}

static struct chat_rendering renders(const struct chat_template *chat_template,
                                     const struct tree *conversation, bool prompt,
                                     struct bytes expected) {
    static struct text_span contents[256];
    struct chat_rendering rendering = {.text = text_out,
                                       .capacity = sizeof text_out,
                                       .contents = contents,
                                       .content_capacity = ARRAY_COUNT(contents)};
    struct chat_message *messages = messages_of(conversation);
    assert_int_equal(chat_template_render(chat_template, messages, tree_count(conversation), prompt,
                                          &rendering, &error),
                     STATUS_OK);
    if (!bytes_equal((struct bytes){text_out, rendering.count}, expected))
        fail_msg("gives %.*s\nnot   %.*s", (int)rendering.count, text_out, (int)expected.count,
                 expected.data);
    notes_contents(chat_template, messages, tree_count(conversation), prompt, &rendering);
    free(messages);
    return rendering;
}

#define BOS "<｜begin▁of▁sentence｜>"
#define EOS "<｜end▁of▁sentence｜>"

static const struct chat_template v3 = {
    .present = true, .joins_systems = true, .bos = {BOS, sizeof BOS - 1}};

static void it_renders_the_goldens(void **state) {
    const struct tree *cases = test_tree(test_file("tests/serving/text/goldens/chat_visible.json"));
    assert_int_equal(tree_count(cases), 34);
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *entry = tree_at(cases, i);
        bool prompt = false;
        assert_true(tree_get_bool(tree_member(entry, "add_generation_prompt"), &prompt));
        struct chat_rendering rendering =
            renders(&v3, tree_member(entry, "messages"), prompt, test_string(entry, "text"));
        assert_int_equal(rendering.stream, TOKEN_STREAM_PLAIN);
    }
}

static enum token_stream_mode renders_r1(bool opens_thought, bool prompt, const char *conversation,
                                         const char *expected) {
    struct chat_template r1 = {.present = true,
                               .drops_thoughts = true,
                               .opens_thought = opens_thought,
                               .bos = bytes_of(BOS)};
    return renders(&r1, test_tree(bytes_of(conversation)), prompt, bytes_of(expected)).stream;
}

static void it_renders_r1s_turns(void **state) {
    static const char chat[] =
        "[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"<think>x</think>y</think>\\n\\nz\"},"
        "{\"role\":\"system\",\"content\":\"B\"},{\"role\":\"user\",\"content\":\"</think>\"}]";
#define CHAT BOS "B<｜User｜>q<｜Assistant｜>\n\nz" EOS "<｜User｜></think>"
    assert_int_equal(renders_r1(false, true, chat, CHAT "<｜Assistant｜>"), TOKEN_STREAM_MAY_THINK);
    assert_int_equal(renders_r1(true, true, chat, CHAT "<｜Assistant｜><think>\n"),
                     TOKEN_STREAM_IN_REASONING);
    assert_int_equal(renders_r1(true, false, chat, CHAT), TOKEN_STREAM_MAY_THINK);
    /* an answer to a tool is not searched for thoughts, and a tool's output gets no prompt */
    assert_int_equal(
        renders_r1(
            true, true,
            "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"tool\",\"content\":\"1\"},"
            "{\"role\":\"assistant\",\"content\":\"a</think>b\"},"
            "{\"role\":\"tool\",\"content\":\"2\"}]",
            BOS "<｜User｜>q<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>1<｜tool▁output▁end｜>"
                "<｜tool▁outputs▁end｜>a</think>b" EOS
                "\n<｜tool▁output▁begin｜>2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"),
        TOKEN_STREAM_MAY_THINK);
    assert_int_equal(renders_r1(true, true, "[]", BOS "<｜Assistant｜><think>\n"),
                     TOKEN_STREAM_IN_REASONING);
}

static void it_measures_what_does_not_fit_and_refuses(void **state) {
    struct chat_message messages[2] = {
        {.role = CHAT_USER, .has_content = true, .content = BYTES_LITERAL("hello")},
        {.role = CHAT_TOOL}};
    struct chat_template none = {0};
    struct text_span content;
    struct chat_rendering rendering = {.text = text_out, .contents = &content};
    for (size_t room = 0; room < 60; room++) {
        memset(text_out, '#', 64);
        rendering.capacity = room;
        rendering.content_capacity = 1;
        enum status status = chat_template_render(&v3, messages, 1, true, &rendering, &error);
        assert_int_equal(rendering.count, strlen(BOS "<｜User｜>hello<｜Assistant｜>"));
        assert_int_equal(status, room < rendering.count ? STATUS_FULL : STATUS_OK);
        assert_int_equal(text_out[room], '#');
        rendering.content_capacity = 0;
        assert_int_equal(chat_template_render(&v3, messages, 1, true, &rendering, &error),
                         STATUS_FULL);
        assert_int_equal(rendering.content_count, 1);
    }
    assert_int_equal(chat_template_render(&v3, messages, 2, true, &rendering, &error),
                     STATUS_INVALID);
    assert_non_null(strstr(error.text, "messages[1]"));
    assert_int_equal(chat_template_render(&none, messages, 1, true, &rendering, &error),
                     STATUS_UNSUPPORTED);
}

/* ---- recognition ---- */

static struct bytes tiny_config(void) {
    return test_file("models/tiny-r1/tokenizer_config.json");
}

static enum status opens(struct bytes config, struct chat_template *out) {
    memset(&error, 0, sizeof error);
    return chat_template_open(test_arena(4096), test_arena(4 << 20), config, "c.json", out, &error);
}

/* Replaces every `from` in `text`; at least one must be there. */
static struct bytes replaced(struct bytes text, const char *from, const char *to) {
    size_t from_bytes = strlen(from), to_bytes = strlen(to), count = 0, hits = 0;
    char *out = test_keep(malloc(text.count * (to_bytes + 1) + 1));
    for (size_t i = 0; i < text.count;) {
        if (text.count - i >= from_bytes && !memcmp(text.data + i, from, from_bytes)) {
            memcpy(out + count, to, to_bytes);
            count += to_bytes;
            i += from_bytes;
            hits++;
        } else {
            out[count++] = text.data[i++];
        }
    }
    if (!hits) fail_msg("'%s' is not in the text", from);
    return (struct bytes){out, count};
}

static void it_knows_the_embedded_models(void **state) {
    struct chat_template found;
    assert_int_equal(opens(tiny_config(), &found), STATUS_OK);
    assert_true(found.present && found.drops_thoughts && found.opens_thought);
    assert_false(found.joins_systems || found.adds_bos);
    assert_true(bytes_equal(found.bos, bytes_of(BOS)));
    assert_true(bytes_equal(found.eos, bytes_of(EOS)));
}

static void it_knows_v3s_template(void **state) {
    struct chat_template found;
    struct bytes config;
    if (!test_v3_file("tokenizer_config.json", &config)) {
        print_message(
            "# DeepSeek-V3's tokenizer is not installed\n"); /* TAP's skip() reads as failure */
        return;
    }
    assert_int_equal(opens(config, &found), STATUS_OK);
    assert_true(found.present && found.joins_systems && found.adds_bos);
    assert_false(found.drops_thoughts || found.opens_thought);
    assert_true(bytes_equal(found.bos, bytes_of(BOS)));
}

/* The first R1 template leaves "<think>" to the model. */
static void it_knows_the_first_r1s_template(void **state) {
    struct chat_template found;
    assert_int_equal(opens(replaced(tiny_config(), "<think>\\\\n", ""), &found), STATUS_OK);
    assert_true(found.present && found.drops_thoughts && !found.opens_thought);
}

/* The files of goldens are tokenizer_config.json files of which we read one key more, "cases". */
static const struct released {
    const char *file;
    enum chat_form form;
    bool drops_thoughts;
    enum token_stream_mode stream;
} releases[] = {
    {"tests/serving/text/goldens/chat_v2.json", CHAT_FORM_V2, false, TOKEN_STREAM_PLAIN},
    {"tests/serving/text/goldens/chat_v3_0324.json", CHAT_FORM_V3_0324, false, TOKEN_STREAM_PLAIN},
    {"tests/serving/text/goldens/chat_r1_0528.json", CHAT_FORM_V3_0324, true,
     TOKEN_STREAM_MAY_THINK},
    {"tests/serving/text/goldens/chat_v3_1.json", CHAT_FORM_V3_1, false, TOKEN_STREAM_PLAIN},
};

static void it_knows_and_renders_the_other_releases(void **state) {
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct bytes config = test_file(releases[i].file);
        struct chat_template found;
        assert_int_equal(opens(config, &found), STATUS_OK);
        assert_true(found.present);
        assert_int_equal(found.form, releases[i].form);
        assert_int_equal(found.drops_thoughts, releases[i].drops_thoughts);
        assert_false(found.opens_thought);
        const struct tree *cases = tree_member(test_tree(config), "cases");
        assert_int_equal(tree_count(cases), 54);
        for (size_t k = 0; k < tree_count(cases); k++) {
            const struct tree *entry = tree_at(cases, k);
            const struct tree *conversation = tree_member(entry, "messages");
            bool prompt = false;
            struct bytes text;
            assert_true(tree_get_bool(tree_member(entry, "add_generation_prompt"), &prompt));
            if (tree_get_string(tree_member(entry, "text"), &text)) {
                struct chat_rendering rendering = renders(&found, conversation, prompt, text);
                assert_int_equal(rendering.stream, releases[i].stream);
                continue;
            }
            /* an answer of null: here Jinja fails */
            struct chat_message *messages = messages_of(conversation);
            struct chat_rendering rendering = {.text = text_out, .capacity = sizeof text_out};
            assert_int_equal(chat_template_render(&found, messages, tree_count(conversation),
                                                  prompt, &rendering, &error),
                             STATUS_INVALID);
            assert_non_null(strstr(error.text, "messages[1] has no content"));
            free(messages);
        }
    }
}

/* No half of one release fits the other half of another, and each is matched to its end. */
static void it_refuses_changed_releases(void **state) {
    static const char *const changes[][2] = {
        {"add_generation_prompt = false", "add_generation_prompt = true"},
        {"{{ bos_token }}", "{{ bos_token }} "},
        {"message['role'] == 'user'", "message['role'] == 'User'"},
        {"\",\n \"cases\"", "x\",\n \"cases\""},
        {"{% endif %}\",\n \"cases\"", "\",\n \"cases\""},
    };
    static const char *const pieces[][2] = {
        {"'<｜User｜>' + content", "'<｜User｜>' + message['content']"},
        {"{%- if content is none", "{%- if message['content'] is none"},
        {"split('</think>')[-1]", "split('</think>', 1)[1]"},
        {"is_first_sp=true, is_last_user=false", "is_first_sp=true"},
        {"not thinking", "thinking"},
        {"', 1)[1]", "')[-1]"},
        {"eos_token }}", "'' }}"},
        {"not ns.is_last_user and", ""},
        {"'<｜Assistant｜></think>'", "'<｜Assistant｜><think>'"},
        {"ns.is_output_first = true", "ns.is_output_first = false"},
    };
    struct chat_template found;
    size_t changed = 0;
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct bytes config = test_file(releases[i].file);
        for (size_t k = 0; k < ARRAY_COUNT(changes); k++)
            if (opens(replaced(config, changes[k][0], changes[k][1]), &found) != STATUS_UNSUPPORTED)
                fail_msg("%s, change %zu", releases[i].file, k);
        for (size_t k = 0; k < ARRAY_COUNT(pieces); k++) {
            if (!memmem(config.data, config.count, pieces[k][0], strlen(pieces[k][0]))) continue;
            if (opens(replaced(config, pieces[k][0], pieces[k][1]), &found) != STATUS_UNSUPPORTED)
                fail_msg("%s, piece %zu", releases[i].file, k);
            assert_non_null(strstr(error.text, "c.json: chat_template"));
            assert_null(strchr(error.text, '\n'));
            changed++;
        }
    }
    assert_int_equal(changed, 14);
}

/* Other spellings that Jinja renders alike. */
static void it_knows_other_spellings(void **state) {
    static const char *const spellings[][2] = {
        {"'\\\\n'", "'\\n'"},
        {"{{bos_token}}", "{{ bos_token }}"},
        {"{%- endif %}", "{% endif %}"},
        {"'role'", "\\\"role\\\""},
        {"== 'user'", "==\\n  'user'"},
        {"{%- endfor %}", "\\n   {%- endfor %}"},
        {"{% endif %}", "{% endif %}\\n"},
        {"{%- else %}", "  {%- else -%}  "},
    };
    struct chat_template found;
    struct bytes config = tiny_config();
    for (size_t i = 0; i < ARRAY_COUNT(spellings); i++) {
        if (opens(replaced(config, spellings[i][0], spellings[i][1]), &found) || !found.present)
            fail_msg("spelling %zu: %s", i, error.text);
    }
}

/* Whatever could change the text. */
static void it_refuses_other_templates(void **state) {
    static const char *const changes[][2] = {
        {"<｜User｜>", "<|User|>"},
        {"{{bos_token}}", ""},
        {"{{bos_token}}", "{{bos_token}} "},
        {"{{bos_token}}", "{{bos_token}}\\n"},
        {"{% endif %}{{'<｜Ass", "{% endif %} {{'<｜Ass"}, /* blanks before {{ }} stay */
        {"[-1]", "[0]"},
        {"and not ns.is_tool", ""},
        {"is_first=false", "is_first=true"},
        {"not ns.is_tool", "notns.is_tool"},
        {"'</think>' in", "' </think>' in"},
        {"{{'<｜tool▁outputs▁end｜>'}}", "{#{{'<｜tool▁outputs▁end｜>'}}#}"},
        {"<think>\\\\n", "<think>\\\\n\\\\n"},
        {"{% if not add_generation_prompt", "x{% if not add_generation_prompt"},
        {"%}\"\n}", "%}{{'x'}}\"\n}"},
        {"%}\"\n}", "\"\n}"},
    };
    struct chat_template found;
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        found.present = true;
        enum status status = opens(replaced(tiny_config(), changes[i][0], changes[i][1]), &found);
        if (status != STATUS_UNSUPPORTED) fail_msg("change %zu: status %d", i, status);
        assert_non_null(strstr(error.text, "c.json: chat_template"));
        assert_null(strchr(error.text, '\n'));
    }
}

static void it_reads_the_rest_of_the_file(void **state) {
    struct chat_template found;
    assert_int_equal(opens(BYTES_LITERAL("{}"), &found), STATUS_OK);
    assert_false(found.present || found.adds_bos);
    assert_int_equal(found.bos.count, 0);
    assert_int_equal(opens(BYTES_LITERAL("{\"bos_token\":\"<s>\",\"eos_token\":null,"
                                         "\"add_bos_token\":true,\"chat_template\":null}"),
                           &found),
                     STATUS_OK);
    assert_true(bytes_equal(found.bos, BYTES_LITERAL("<s>")) && found.adds_bos && !found.present);
    assert_int_equal(opens(BYTES_LITERAL("{\"bos_token\":7}"), &found), STATUS_INVALID);
    assert_int_equal(opens(BYTES_LITERAL("{\"chat_template\":\"\"}"), &found), STATUS_UNSUPPORTED);
    assert_int_equal(opens(BYTES_LITERAL("{\"chat_template\":\"{{ 'x\"}"), &found),
                     STATUS_UNSUPPORTED);
    struct bytes named = replaced(tiny_config(), "\"chat_template\": ",
                                  "\"chat_template\": [{\"name\":\"tool_use\",\"template\":\"x\"},"
                                  "{\"name\":\"default\",\"template\":");
    assert_int_equal(opens(replaced(named, "%}\"\n}", "%}\"}]}"), &found), STATUS_OK);
    assert_true(found.present);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_renders_the_goldens),
        cmocka_unit_test(it_renders_r1s_turns),
        cmocka_unit_test(it_measures_what_does_not_fit_and_refuses),
        cmocka_unit_test(it_knows_the_embedded_models),
        cmocka_unit_test(it_knows_v3s_template),
        cmocka_unit_test(it_knows_the_first_r1s_template),
        cmocka_unit_test(it_knows_and_renders_the_other_releases),
        cmocka_unit_test(it_refuses_changed_releases),
        cmocka_unit_test(it_knows_other_spellings),
        cmocka_unit_test(it_refuses_other_templates),
        cmocka_unit_test(it_reads_the_rest_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
