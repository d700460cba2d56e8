/* SPDX-License-Identifier: Apache-2.0
 * Protects what probing finds, on small templates in the manner of those that models ship: whether
 * arguments are texts or objects, contents texts or parts, what silence is, and who switches
 * thinking.
 */
#include "chat_support.h"
#include "test_case.h"

static struct chat_facts facts_of(const char *source) {
    return opened(source).facts;
}

#define MESSAGES "{% for m in messages %}"
#define CALLS "{% for c in m.tool_calls or [] %}{{ c.function.name }}"
#define END "{% endfor %}"

TEST(arguments_stay_texts_where_the_template_takes_them) {
    static const struct {
        const char *source;
        bool objects;
    } cases[] = {
        {MESSAGES CALLS "{{ c.function.arguments }}" END END, false},
        {MESSAGES CALLS "{{ 'x' + c.function.arguments }}" END END, false},
        {MESSAGES CALLS "{{ c.function.arguments | tojson }}" END END, true},
        {MESSAGES CALLS "{% for k, v in c.function.arguments.items() %}{{ k }}{{ v }}" END END END,
         true},
        {MESSAGES CALLS "{% if c.function.arguments is mapping %}{{ c.function.arguments | tojson "
                        "}}{% else %}{{ c.function.arguments }}{% endif %}" END END,
         false},
        {MESSAGES CALLS "{% if c.function.arguments is not mapping %}{{ raise_exception('no') }}"
                        "{% endif %}{{ c.function.arguments | tojson }}" END END,
         true},
        {MESSAGES "{{ m.content }}" END, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        if (facts_of(cases[i].source).wants_objects != cases[i].objects) fail_msg("case %zu", i);
}

TEST(silence_is_null_unless_the_template_wants_a_text) {
    static const struct {
        const char *source;
        enum chat_silence silence;
    } cases[] = {
        {MESSAGES "{% if m.content is none %}" CALLS "{{ c.function.arguments }}" END
                  "{% else %}{{ m.content }}{% endif %}" END,
         CHAT_SILENCE_NULL},
        {MESSAGES "{{ m.content + '' }}" CALLS "{{ c.function.arguments }}" END END,
         CHAT_SILENCE_EMPTY},
        {MESSAGES "{{ m.content }}" CALLS "{{ c.function.arguments }}" END END,
         CHAT_SILENCE_EMPTY}, /* not "None" */
        {MESSAGES "{{ 'x' + m.content }}" END, CHAT_SILENCE_EMPTY},
        {"{{ raise_exception('never') }}", CHAT_SILENCE_AS_SENT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        if (facts_of(cases[i].source).silence != cases[i].silence) fail_msg("case %zu", i);
}

TEST(parts_are_found_for_each_speaker) {
    struct chat_facts facts = facts_of(
        MESSAGES "{% if m.role == 'user' %}{% if m.content is string %}{{ m.content }}{% else %}"
                 "{% for p in m.content %}{{ p.text }}" END "{% endif %}"
                 "{% elif m.role == 'system' %}{% for p in m.content %}{{ p['text'] }}" END
                 "{% else %}{{ m.content }}{% endif %}" CALLS "{{ c.function.arguments }}" END END);
    assert_int_equal(facts.parts[CHAT_SPEAKER_USER], CHAT_PARTS_TAKEN);
    assert_int_equal(facts.parts[CHAT_SPEAKER_SYSTEM], CHAT_PARTS_ONLY);
    assert_int_equal(facts.parts[CHAT_SPEAKER_ASSISTANT], CHAT_PARTS_JOINED);
    assert_int_equal(facts.parts[CHAT_SPEAKER_TOOL], CHAT_PARTS_JOINED);
    facts = facts_of(MESSAGES "{{ m.content[0].text }}" END); /* the first part alone */
    assert_int_equal(facts.parts[CHAT_SPEAKER_USER], CHAT_PARTS_JOINED);
}

#define SAY "<{{ m.role }}>{{ m.content or '' }}" CALLS "{{ c.function.arguments }}" END

TEST(turns_that_a_template_refuses_or_loses_are_found) {
    static const struct {
        const char *source;
        struct chat_turns turns;
    } cases[] = {
        {MESSAGES SAY END, {.systems = CHAT_SYSTEMS_ANYWHERE}},
        {MESSAGES "{% if m.role == 'system' and not loop.first %}{{ raise_exception('front') }}"
                  "{% endif %}" SAY END,
         {.systems = CHAT_SYSTEMS_IN_FRONT}},
        {MESSAGES "{% if m.role != 'system' or loop.first %}" SAY "{% endif %}" END,
         {.systems = CHAT_SYSTEMS_IN_FRONT}}, /* others were lost */
        {MESSAGES "{% if m.role == 'system' %}{{ raise_exception('none') }}{% endif %}" SAY END,
         {.systems = CHAT_SYSTEMS_NOWHERE}},
        {MESSAGES "{% if not loop.first and m.role == loop.previtem.role and m.role != 'tool' %}"
                  "{{ raise_exception('alternate') }}{% endif %}" SAY END,
         {.systems = CHAT_SYSTEMS_IN_FRONT, .joins_users = true, .joins_assistants = true}},
        {MESSAGES "{% if m.role == 'user' and not loop.first and loop.previtem.role == 'tool' %}"
                  "{{ raise_exception('answer first') }}{% endif %}" SAY END,
         {.joins_result = true}},
        {MESSAGES
         "{% if (m.tool_calls or []) | length > 1 %}{{ raise_exception('one') }}{% endif %}" SAY
             END,
         {.splits_calls = true}},
        {"{{ raise_exception('never') }}", {.systems = CHAT_SYSTEMS_ANYWHERE}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct chat_turns found = facts_of(cases[i].source).turns, *turns = &found;
        if (turns->systems != cases[i].turns.systems ||
            turns->joins_users != cases[i].turns.joins_users ||
            turns->joins_assistants != cases[i].turns.joins_assistants ||
            turns->joins_result != cases[i].turns.joins_result ||
            turns->splits_calls != cases[i].turns.splits_calls)
            fail_msg("case %zu: %d %d %d %d %d", i, turns->systems, turns->joins_users,
                     turns->joins_assistants, turns->joins_result, turns->splits_calls);
    }
}

TEST(roles_thoughts_and_tools_are_found) {
    static const struct {
        const char *source;
        bool developer, prints_tools, thinks;
        enum chat_thought thought;
    } cases[] = {
        {MESSAGES "{{ m.content }}" END, false, false, false, CHAT_THOUGHT_NEVER},
        {"{% if messages[0].role in ['system', 'developer'] %}{% endif %}{{ tools }}", true, true,
         false, CHAT_THOUGHT_NEVER},
        {MESSAGES "{{ m.content.split('</think>')[-1] }}" END, false, false, true,
         CHAT_THOUGHT_ALWAYS},
        {"{{ '<think>' if thinking else '</think>' }}", false, false, false, CHAT_THOUGHT_SWITCHED},
        {"{% if enable_thinking is not false %}<think>{% endif %}", false, false, true,
         CHAT_THOUGHT_SWITCHED},
        {"{% if thinking %}Think aloud.{% endif %}{% if tools %}{{ tools[0].function.name }}"
         "{% endif %}",
         false, true, false, CHAT_THOUGHT_SWITCHED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct chat_template found = opened(cases[i].source);
        if (found.facts.knows_developer != cases[i].developer ||
            found.prints_tools != cases[i].prints_tools ||
            found.thinks_by_default != cases[i].thinks || found.thought != cases[i].thought)
            fail_msg("case %zu", i);
    }
}

TEST(a_place_for_documents_is_found) {
    assert_false(opened(MESSAGES "{{ m.content }}" END).reads_documents);
    assert_true(opened("{% for d in documents %}{{ d.text }}{% endfor %}").reads_documents);
}
