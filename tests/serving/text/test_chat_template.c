/* SPDX-License-Identifier: Apache-2.0
 * Protects prompts: the goldens (rendered with Jinja from DeepSeek's templates) come out byte for
 * byte, how an answer starts is known from its prompt, an answer goes on where it ended, and nobody
 * forges a template's tokens, whatever the vocabulary.
 */
#include "chat_support.h"
#include "test_case.h"

#define BOS "<｜begin▁of▁sentence｜>"
#define EOS "<｜end▁of▁sentence｜>"

/* ---- goldens ---- */

static bool says(const struct tree *value, struct bytes text) {
    struct tree_cursor cursor = {NULL};
    struct bytes key, said;
    const struct tree *member;
    if (tree_get_string(value, &said))
        return said.count && memmem(said.data, said.count, text.data, text.count);
    for (size_t i = 0; i < tree_count(value); i++)
        if (says(tree_at(value, i), text)) return true;
    while (tree_next_member(value, &cursor, &key, &member))
        if (says(member, text)) return true;
    return false;
}

/* As a whole, or in two parts: where a template writes nothing between two contents they are
 * one. */
static bool says_parts(const struct tree *messages, struct bytes text) {
    for (size_t at = 1; at <= text.count; at++)
        if (says(messages, (struct bytes){text.data, at}) &&
            (at == text.count || says(messages, (struct bytes){text.data + at, text.count - at})))
            return true;
    return false;
}

/* Contents are apart, in order, and each is what somebody says. */
static void notes_contents(const struct tree *messages, const struct chat_rendering *rendering) {
    size_t at = 0;
    for (size_t i = 0; i < rendering->content_count; i++) {
        struct text_span span = rendering->contents[i];
        assert_true(span.start >= at && span.end > span.start);
        assert_true(span.end <= rendering->text.count);
        at = span.end;
        struct bytes said = {rendering->text.data + span.start, span.end - span.start};
        if (!says_parts(messages, said)) fail_msg("%.*s", (int)said.count, said.data);
    }
}

static struct chat_template golden(const char *file) {
    struct chat_template found;
    if (opens(test_file(file), (struct bytes){NULL, 0}, &found)) fail_msg("%s", error.text);
    assert_true(found.present);
    assert_true(bytes_equal(found.bos, bytes_of(BOS)) && bytes_equal(found.eos, bytes_of(EOS)));
    return found;
}

static bool ends_with_result(const struct tree *messages) {
    const struct tree *last = tree_at(messages, tree_count(messages) - 1);
    struct bytes role;
    return tree_get_string(tree_member(last, "role"), &role) &&
           bytes_equal(role, BYTES_LITERAL("tool"));
}

/* "text": null: there Jinja fails. */
static void renders_cases(const struct chat_template *chat_template, const struct tree *cases,
                          enum token_stream_mode stream) {
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *entry = tree_at(cases, i);
        struct chat_ask ask = {.messages = tree_member(entry, "messages")};
        struct chat_rendering rendering;
        struct bytes text;
        assert_true(tree_get_bool(tree_member(entry, "add_generation_prompt"), &ask.prompts));
        if (!tree_get_string(tree_member(entry, "text"), &text)) {
            assert_int_equal(renders(chat_template, &ask, &rendering), STATUS_INVALID);
            assert_true(error.text[0] && !strchr(error.text, '\n'));
            continue;
        }
        rendering = expect(chat_template, &ask, text);
        enum token_stream_mode expected = stream;
        if (ends_with_result(ask.messages) && stream == TOKEN_STREAM_MAY_THINK)
            expected = TOKEN_STREAM_BEHIND_TOOL;
        if (ends_with_result(ask.messages) && stream == TOKEN_STREAM_IN_CONTENT)
            expected = TOKEN_STREAM_GOES_ON;
        assert_int_equal(rendering.stream, expected);
        notes_contents(ask.messages, &rendering);
    }
}

#define GOLDENS "tests/serving/text/goldens/"

TEST(it_renders_v3s_goldens) {
    const struct tree *cases = test_tree(test_file(GOLDENS "chat_visible.json"));
    struct chat_template v3 = golden(GOLDENS "chat_v3.json");
    assert_int_equal(tree_count(cases), 34);
    assert_int_equal(v3.adds_bos, CHAT_SWITCH_ON);
    assert_int_equal(v3.thought, CHAT_THOUGHT_NEVER);
    renders_cases(&v3, cases, TOKEN_STREAM_PLAIN);
}

/* The files of goldens are tokenizer_config.json files of which we read one key more, "cases". */
TEST(it_renders_the_other_releases_goldens) {
    static const struct {
        const char *file;
        enum chat_thought thought;
        enum token_stream_mode stream;
    } releases[] = {
        {GOLDENS "chat_v2.json", CHAT_THOUGHT_NEVER, TOKEN_STREAM_PLAIN},
        {GOLDENS "chat_v3_0324.json", CHAT_THOUGHT_NEVER, TOKEN_STREAM_PLAIN},
        {GOLDENS "chat_r1_0528.json", CHAT_THOUGHT_ALWAYS, TOKEN_STREAM_MAY_THINK},
        {GOLDENS "chat_v3_1.json", CHAT_THOUGHT_SWITCHED, TOKEN_STREAM_IN_CONTENT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(releases); i++) {
        struct chat_template found = golden(releases[i].file);
        const struct tree *cases = tree_member(test_tree(test_file(releases[i].file)), "cases");
        assert_int_equal(tree_count(cases), 54);
        assert_int_equal(found.thought, releases[i].thought);
        assert_false(found.prints_tools);
        renders_cases(&found, cases, releases[i].stream);
    }
}

static void renders_r1(const char *config, bool prompt, const char *messages, const char *expected,
                       enum token_stream_mode stream) {
    struct chat_template r1 = golden(config);
    struct chat_ask ask = {.messages = test_tree(bytes_of(messages)), .prompts = prompt};
    struct chat_rendering rendering = expect(&r1, &ask, bytes_of(expected));
    assert_int_equal(rendering.stream, stream);
    notes_contents(ask.messages, &rendering);
}

#define R1 "tests/serving/text/goldens/chat_r1.json"

TEST(it_renders_r1s_turns) {
    static const char chat[] =
        "[{\"role\":\"system\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"<think>x</think>y</think>\\n\\nz\"},"
        "{\"role\":\"system\",\"content\":\"B\"},{\"role\":\"user\",\"content\":\"</think>\"}]";
#define CHAT BOS "B<｜User｜>q<｜Assistant｜>\n\nz" EOS "<｜User｜></think>"
    renders_r1(R1, true, chat, CHAT "<｜Assistant｜><think>\n", TOKEN_STREAM_IN_REASONING);
    renders_r1(R1, false, chat, CHAT, TOKEN_STREAM_MAY_THINK);
    /* an answer to a tool is not searched for thoughts, and a tool's output gets no prompt */
    renders_r1(R1, true,
               "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"tool\",\"content\":\"1\"},"
               "{\"role\":\"assistant\",\"content\":\"a</think>b\"},"
               "{\"role\":\"tool\",\"content\":\"2\"}]",
               BOS
               "<｜User｜>q<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>1<｜tool▁output▁end｜>"
               "<｜tool▁outputs▁end｜>a</think>b" EOS
               "\n<｜tool▁output▁begin｜>2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
               TOKEN_STREAM_BEHIND_TOOL);
    renders_r1(R1, true, "[]", BOS "<｜Assistant｜><think>\n", TOKEN_STREAM_IN_REASONING);
}

/* ---- how an answer starts ---- */

static const char switched[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking is defined and not "
    "enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}";

#define HELLO "{\"messages\":[{\"role\":\"user\",\"content\":\"<think>\"}]"

TEST(thinking_is_asked_for_and_reported) {
    struct chat_template found = opened(switched);
    assert_int_equal(found.thought, CHAT_THOUGHT_SWITCHED);
    assert_true(found.thinks_by_default);
    struct chat_ask ask = asked(HELLO "}");
    assert_int_equal(expect(&found, &ask, bytes_of("[user]<think>[assistant]")).stream,
                     TOKEN_STREAM_MAY_THINK);
    ask.thinking = CHAT_THINKING_OFF;
    static const char off[] = "[user]<think>[assistant]<think>\n\n</think>\n\n";
    assert_int_equal(expect(&found, &ask, bytes_of(off)).stream, TOKEN_STREAM_IN_CONTENT);
    ask = asked(HELLO ",\"variables\":{\"enable_thinking\":false}}");
    ask.thinking = CHAT_THINKING_ON; /* the client's own variable wins */
    assert_int_equal(expect(&found, &ask, bytes_of(off)).stream, TOKEN_STREAM_IN_CONTENT);
    ask = asked(HELLO "}");
    ask.prompts = false; /* a tag that a user says opens nothing */
    assert_int_equal(expect(&found, &ask, bytes_of("[user]<think>")).stream,
                     TOKEN_STREAM_MAY_THINK);
}

TEST(v31_thinks_when_it_is_asked_to) {
    struct chat_template v31 = golden(GOLDENS "chat_v3_1.json");
    struct chat_ask ask = asked("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}");
    assert_false(v31.thinks_by_default);
    ask.thinking = CHAT_THINKING_ON;
    assert_int_equal(expect(&v31, &ask, bytes_of(BOS "<｜User｜>q<｜Assistant｜><think>")).stream,
                     TOKEN_STREAM_IN_REASONING);
    ask.thinking = CHAT_THINKING_OFF;
    assert_int_equal(expect(&v31, &ask, bytes_of(BOS "<｜User｜>q<｜Assistant｜></think>")).stream,
                     TOKEN_STREAM_IN_CONTENT);
}

/* ---- an answer that goes on ---- */

static void goes_on(const char *source, const char *said, const char *expected,
                    enum token_stream_mode stream) {
    char request[512];
    snprintf(request, sizeof request,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
             "\"content\":\"%s\",\"prefix\":true}],\"variables\":{\"thinking\":true}}",
             said);
    struct chat_template found = opened(source);
    struct chat_ask ask = asked(request);
    ask.continues = true;
    struct chat_rendering rendering = expect(&found, &ask, bytes_of(expected));
    assert_int_equal(rendering.stream, stream);
    notes_contents(ask.messages, &rendering);
}

TEST(an_answer_goes_on_where_it_ended) {
    static const char plain[] =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
                      trims[] = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}."
                                "{% endfor %}",
                      opens_thought[] =
                          "{% for m in messages %}{% if m.role == 'assistant' and m.prefix and "
                          "thinking %}<think>\n{% endif %}{{ m.content }}|{% endfor %}",
                      thinks[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
                                 "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}";
    goes_on(plain, "Once ", "[user]q</s>[assistant]Once ", TOKEN_STREAM_PLAIN);
    goes_on(plain, "", "[user]q</s>[assistant]", TOKEN_STREAM_PLAIN);
    goes_on(trims, "Once ", "[user]q.[assistant]Once", TOKEN_STREAM_PLAIN);
    goes_on(plain, "<think>a</think><think>b", "[user]q</s>[assistant]<think>a</think><think>b",
            TOKEN_STREAM_IN_REASONING);
    goes_on(plain, "<think>a</think>b", "[user]q</s>[assistant]<think>a</think>b",
            TOKEN_STREAM_GOES_ON);
    goes_on(opens_thought, "hm", "q|<think>\nhm", TOKEN_STREAM_IN_REASONING);
    goes_on(opens_thought, "", "q|<think>\n", TOKEN_STREAM_IN_REASONING);
    goes_on(opens_thought, "hm</think>so", "q|<think>\nhm</think>so", TOKEN_STREAM_GOES_ON);
    goes_on(thinks, "Well,", "[user]q[assistant]Well,", TOKEN_STREAM_GOES_ON);
    goes_on(thinks, "", "[user]q[assistant]", TOKEN_STREAM_GOES_ON);
    goes_on(thinks, "<think>\\nhm", "[user]q[assistant]<think>\nhm", TOKEN_STREAM_IN_REASONING);
    goes_on(thinks, "<think>\\nhm\\n</think>\\n\\nso </think>",
            "[user]q[assistant]<think>\nhm\n</think>\n\nso </think>", TOKEN_STREAM_GOES_ON);

    struct chat_template mute = opened("{% for m in messages if m.role == 'user' %}"
                                       "{{ m.content }}{% endfor %}");
    struct chat_ask ask = asked("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}");
    struct chat_rendering rendering;
    ask.continues = true;
    assert_int_equal(renders(&mute, &ask, &rendering), STATUS_INVALID);
    assert_non_null(strstr(error.text, "leaves out the assistant's last message"));
}

/* ---- forgery ---- */

/* Templates in the manner of five families of models, and what their vocabularies add. */
static const struct family {
    const char *source;
    const char *added[12];
} families[] = {
    {"{{ bos_token }}{% for m in messages %}{% if m.tool_calls %}<｜Assistant｜>"
     "{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>"
     "{{ c.function.arguments }}<｜tool▁call▁end｜>{% endfor %}{% elif m.role == 'tool' %}"
     "<｜tool▁output▁begin｜>{{ m.content }}<｜tool▁output▁end｜>{% elif m.role == 'user' %}"
     "<｜User｜>{{ m.content }}{% else %}{{ m.content.split('</think>')[-1] }}{{ eos_token }}"
     "{% endif %}{% endfor %}{{ tools | tojson if tools }}<｜Assistant｜><think>\n",
     {"<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜tool▁call▁begin｜>",
      "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
      "<s>", "</s>"}},
    {"{% for m in messages %}<|im_start|>{{ m.role + '\\n' + (m.content or '') | trim }}"
     "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
     "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>\n"
     "{% endfor %}{% for t in tools or [] %}{{ t | tojson(indent=2) | upper }}{% endfor %}"
     "<|im_start|>assistant\n",
     {"<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<|endoftext|>", "<think>",
      "</think>"}},
    {"{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>"
     "\n\n{% if m.tool_calls is defined %}<|python_tag|>{% for c in m.tool_calls %}"
     "{{ '{\"name\": \"%s\", \"parameters\": ' % c.function.name }}{{ c.function.arguments }}}"
     "{% endfor %}{% else %}{{ m['content'] | replace('\\r', '') }}{% endif %}<|eot_id|>"
     "{% endfor %}{{ (tools or []) | string }}<|start_header_id|>assistant<|end_header_id|>",
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>",
      "<s>", "</s>"}},
    {"[gMASK]<sop>{% for m in messages %}<|{{ 'observation' if m.role == 'tool' else m.role }}|>"
     "\n{{ m.content if m.content else '' }}{% for c in m.tool_calls or [] %}<tool_call>"
     "{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}"
     "</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}"
     "</tool_call>{% endfor %}{% endfor %}{% for t in tools or [] %}{{ t.function.name }}:"
     "{{ t.function.description }}{% endfor %}<|assistant|>",
     {"[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>",
      "<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>"}},
    {"{% set ns = namespace(text='') %}{% for m in messages %}{% set ns.text = ns.text ~ "
     "'<|im_' ~ m.role ~ '|>' ~ m.role ~ '<|im_middle|>' ~ (m.content or '') %}"
     "{% for c in m.tool_calls or [] %}{% set ns.text = ns.text ~ '<|tool_call_begin|>' ~ c.id ~ "
     "'<|tool_call_argument_begin|>' ~ c.function.arguments ~ '<|tool_call_end|>' %}{% endfor %}"
     "{% set ns.text = ns.text ~ '<|im_end|>' %}{% endfor %}{{ ns.text }}"
     "{% for t in tools or [] %}{{ t }}{% endfor %}<|im_assistant|>assistant<|im_middle|>",
     {"<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|im_end|>",
      "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"}},
};

/* A request in which everybody says `said`, which needs no escape in JSON. */
static struct chat_ask forged(const char *said) {
    static char request[8192];
    static const char form[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"@\"},{\"role\":\"assistant\","
        "\"content\":\"@\"},{\"role\":\"user\",\"content\":\"@\"},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"@\",\"type\":\"function\",\"function\":"
        "{\"name\":\"@\",\"arguments\":\"{\\\"@\\\": \\\"@\\\"}\"}}]},{\"role\":\"tool\","
        "\"name\":\"@\",\"tool_call_id\":\"@\",\"content\":\"@\"},{\"role\":\"user\","
        "\"content\":\"@\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"@\","
        "\"description\":\"@\",\"parameters\":{\"type\":\"object\",\"properties\":{\"@\":"
        "{\"type\":\"string\",\"description\":\"@\"}}}}}]}";
    size_t count = 0;
    for (const char *at = form; *at; at++) {
        size_t bytes = *at == '@' ? strlen(said) : 1;
        assert_true(count + bytes < sizeof request);
        memcpy(request + count, *at == '@' ? said : at, bytes);
        count += bytes;
    }
    request[count] = 0;
    return asked(request);
}

static size_t count_added(const struct tokenizer *tokenizer, const struct chat_template *found,
                          const struct chat_ask *ask) {
    static uint32_t ids[1 << 16];
    static struct tokenizer_scratch *scratch;
    struct chat_rendering rendering;
    size_t id_count = 0, count = 0;
    if (!scratch) scratch = test_scratch();
    if (renders(found, ask, &rendering)) fail_msg("%s", error.text);
    struct plain_text plain = {rendering.contents, rendering.content_count};
    assert_int_equal(tokenizer_encode(tokenizer, scratch, rendering.text, plain, ids,
                                      ARRAY_COUNT(ids), &id_count),
                     STATUS_OK);
    for (size_t i = 0; i < id_count; i++)
        count += tokenizer_token_is_added(tokenizer, ids[i]);
    return count;
}

static struct tokenizer *tokenizer_with(const char *const *added) {
    static char list[8192];
    size_t count = 0;
    for (unsigned i = 0; added[i]; i++)
        count += (size_t)snprintf(list + count, sizeof list - count,
                                  "%s{\"id\":%u,\"content\":\"%s\",\"special\":true,"
                                  "\"normalized\":false}",
                                  i ? "," : "", 300 + i, added[i]);
    return test_tokenizer(test_json((struct test_parts){.added = list}), "tokenizer");
}

/* Half a token, and the whole of one: neither alone nor beside the template's text. */
TEST(nobody_forges_a_token) {
    for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
        const struct family *family = &families[f];
        struct tokenizer *tokenizer = tokenizer_with(family->added);
        struct chat_template found = opened(family->source);
        struct chat_ask ask = forged("word");
        size_t own = count_added(tokenizer, &found, &ask);
        assert_true(own >= 8);
        for (size_t i = 0; i < ARRAY_COUNT(families); i++)
            for (const char *const *token = families[i].added; *token; token++) {
                char half[64];
                ask = forged(*token);
                assert_int_equal(count_added(tokenizer, &found, &ask), own);
                snprintf(half, sizeof half, "%s", *token);
                half[strlen(half) - 1] = 0;
                ask = forged(half);
                assert_int_equal(count_added(tokenizer, &found, &ask), own);
                ask = forged(*token + 1);
                assert_int_equal(count_added(tokenizer, &found, &ask), own);
            }
        tokenizer_close(tokenizer);
    }
}

/* ---- refusals ---- */

TEST(what_cannot_be_rendered_is_reported) {
    struct chat_template none = {0};
    struct chat_rendering rendering;
    struct chat_ask ask = asked("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}");
    assert_int_equal(renders(&none, &ask, &rendering), STATUS_UNSUPPORTED);
    struct chat_template strict = opened("{{ raise_exception('no ' ~ messages[0].role) }}");
    assert_int_equal(renders(&strict, &ask, &rendering), STATUS_INVALID);
    assert_non_null(strstr(error.text, "no user"));
    struct chat_template found = opened("{{ messages[0].content }}");
    struct arena small;
    char memory[256];
    arena_over(&small, memory, sizeof memory);
    assert_int_equal(chat_template_render(&found, &ask, &small, &rendering, &error),
                     STATUS_NO_MEMORY);
}

/* ---- long conversations ---- */

TEST(the_longest_conversation_takes_a_part_of_the_steps) {
    static const char *const files[] = {GOLDENS "chat_v3.json", GOLDENS "chat_v3_0324.json",
                                        GOLDENS "chat_r1_0528.json", GOLDENS "chat_v3_1.json"};
    struct chat_ask ask = long_conversation(12000);
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        struct chat_template found = golden(files[i]);
        struct chat_rendering rendering;
        if (renders(&found, &ask, &rendering)) fail_msg("%s: %s", files[i], error.text);
        if (rendering.steps > LIMIT_TEMPLATE_STEPS / 2)
            fail_msg("%s takes %llu steps", files[i], (unsigned long long)rendering.steps);
    }
}

/* A template that reads all messages for each message is refused, but not before a conversation has
 * a few hundred messages. */
TEST(a_template_that_takes_too_many_steps_is_stopped) {
    struct chat_template nested = opened("{% for m in messages %}{% for k in messages %}"
                                         "{% if k.content == 'z' %}z{% endif %}{% endfor %}"
                                         "{{ m.content }}{% endfor %}");
    struct chat_rendering rendering;
    struct chat_ask ask = long_conversation(700);
    if (renders(&nested, &ask, &rendering)) fail_msg("%s", error.text);
    ask = long_conversation(12000);
    assert_int_equal(renders(&nested, &ask, &rendering), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "needs more steps"));
}
