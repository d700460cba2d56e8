/* SPDX-License-Identifier: Apache-2.0
 * Protects the door of the interpreter: variables, what is data in a rendering, limits, questions
 * about a program, and messages. */
#include "../agreement.h"
#include "serving/jinja/values/jinja_machine.h"

static struct error error;
static char memory[16 << 20];
static struct arena arena;

static enum status render(const char *source, const struct jinja_limits *limits,
                          const struct jinja_variable *variables, size_t count,
                          struct jinja_rendering *out) {
    const struct jinja_program *program;
    enum status status = jinja_compile(&arena, bytes_of(source), "t", &program, &error);
    if (status != STATUS_OK) return status;
    return jinja_render(program, variables, count, limits, 0, &arena, out, &error);
}

static int arena_ready(void **state) {
    arena_over(&arena, memory, sizeof memory);
    error.text[0] = '\0';
    return 0;
}

static struct jinja_variable text_variable(const char *name, const char *text,
                                           enum value_origin origin) {
    struct jinja_variable variable = {.name = bytes_of(name)};
    assert_true(value_of_text(&arena, bytes_of(text), origin, &variable.value));
    return variable;
}

TEST_AROUND(variables_are_trusted_or_data, arena_ready, NULL) {
    struct jinja_rendering got;
    const struct jinja_variable variables[] = {text_variable("bos", "<s>", VALUE_TRUSTED),
                                               text_variable("said", "<s>", VALUE_DATA)};
    assert_int_equal(render("{{ bos }}[{{ said }}]", &jinja_limits_usual, variables, 2, &got),
                     STATUS_OK);
    assert_true(bytes_equal(got.text, bytes_of("<s>[<s>]")));
    assert_int_equal(got.data_count, 1);
    assert_int_equal(got.data[0].start, 4);
    assert_int_equal(got.data[0].end, 7);
}

TEST_AROUND(the_later_variable_wins_and_hides_functions, arena_ready, NULL) {
    struct jinja_rendering got;
    const struct jinja_variable variables[] = {
        text_variable("a", "1", VALUE_DATA), text_variable("a", "2", VALUE_DATA),
        text_variable("range", "3", VALUE_DATA), text_variable("unused", "4", VALUE_DATA)};
    assert_int_equal(render("{{ a }}{{ range }}", &jinja_limits_usual, variables, 4, &got),
                     STATUS_OK);
    assert_true(bytes_equal(got.text, bytes_of("23")));
    assert_int_equal(got.data_count, 1);
}

TEST_AROUND(nothing_renders_to_nothing, arena_ready, NULL) {
    struct jinja_rendering got;
    assert_int_equal(render("", &jinja_limits_usual, NULL, 0, &got), STATUS_OK);
    assert_int_equal(got.text.count, 0);
    assert_int_equal(got.data_count, 0);
}

TEST_AROUND(generations_are_written_as_they_stand, arena_ready, NULL) {
    struct jinja_rendering got;
    assert_int_equal(render("a{% generation %}bc{% endgeneration %}d{% generation %}e"
                            "{% endgeneration %}{% set x %}{% generation %}f{% endgeneration %}"
                            "{% endset %}",
                            &jinja_limits_usual, NULL, 0, &got),
                     STATUS_OK);
    assert_true(bytes_equal(got.text, bytes_of("abcde")));
}

TEST_AROUND(each_limit_is_kept, arena_ready, NULL) {
    struct jinja_rendering got;
    struct jinja_limits limits = jinja_limits_usual;
    limits.steps = 1000;
    assert_int_equal(render("{% for i in range(1000) %}{% endfor %}", &limits, NULL, 0, &got),
                     STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "steps"));
    limits = jinja_limits_usual;
    limits.output_bytes = 1000;
    assert_int_equal(render("{{ 'a' * 1000 }}", &limits, NULL, 0, &got), STATUS_OK);
    assert_int_equal(render("{{ 'a' * 1001 }}", &limits, NULL, 0, &got), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "output"));
    limits = jinja_limits_usual;
    limits.memory_bytes = 100000;
    assert_int_equal(render("{{ ('a' * 1000000) | length }}", &limits, NULL, 0, &got),
                     STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "memory"));
}

/* Keys that fall on one place of an index of 2,048 places cost as many steps as it takes to tell
 * them apart. */
TEST_AROUND(keys_chosen_to_collide_reach_the_limit_of_steps, arena_ready, NULL) {
    static char names[1000][16];
    static struct value_pair pairs[1000];
    struct jinja_limits limits = jinja_limits_usual;
    struct jinja_variable variable = {.name = BYTES_LITERAL("d")};
    struct jinja_rendering got;
    unsigned number = 0;
    for (size_t i = 0; i < 1000; i++) {
        struct bytes name = {names[i], 0};
        do
            name.count = (size_t)snprintf(names[i], sizeof names[i], "k%u", number++);
        while (value_compare_text_hash(name.data, name.count) & 2047);
        assert_true(value_of_text(&arena, name, VALUE_DATA, &pairs[i].key));
        pairs[i].value = value_none();
    }
    assert_true(value_of_pairs(&arena, pairs, 1000, &variable.value));
    limits.steps = 20000;
    assert_int_equal(render("{{ d.x }}", &limits, &variable, 1, &got), STATUS_TOO_LARGE);
    assert_true(value_of_pairs(&arena, pairs, 1000, &variable.value));
    assert_int_equal(render("{{ d.x }}", &jinja_limits_usual, &variable, 1, &got), STATUS_OK);
}

TEST_AROUND(nesting_has_its_limits, arena_ready, NULL) {
    static char source[200000];
    struct jinja_rendering got;
    const char *const deep[] = {"(", "[", "not ", "-", "x.a|f(", "{% if t %}"};
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        size_t at = (size_t)snprintf(source, sizeof source, "%s", i == 5 ? "" : "{{ ");
        for (int k = 0; k < 10000; k++)
            at += (size_t)snprintf(source + at, sizeof source - at, "%s", deep[i]);
        enum status status = render(source, &jinja_limits_usual, NULL, 0, &got);
        assert_true(status == STATUS_TOO_LARGE || status == STATUS_INVALID);
        arena_ready(NULL);
    }
    assert_int_equal(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &jinja_limits_usual,
                            NULL, 0, &got),
                     STATUS_TOO_LARGE);
    assert_int_equal(render("{% set ns = namespace(a=[]) %}{% for i in range(5000) %}"
                            "{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
                            &jinja_limits_usual, NULL, 0, &got),
                     STATUS_TOO_LARGE);
}

TEST_AROUND(growing_text_takes_little_memory, arena_ready, NULL) {
    struct jinja_rendering got;
    struct jinja_limits limits = jinja_limits_usual;
    limits.memory_bytes = (size_t)8 << 20;
    assert_int_equal(render("{% set ns = namespace(a='') %}{% for i in range(5000) %}"
                            "{% set ns.a = ns.a + 'a message of some length, ' %}{% endfor %}"
                            "{{ ns.a | length }}",
                            &limits, NULL, 0, &got),
                     STATUS_OK);
    assert_true(bytes_equal(got.text, bytes_of("130000")));
}

TEST_AROUND(memory_may_be_out_anywhere, arena_ready, NULL) {
    static const char source[] = "{% for i in range(30) %}{{ [i, 'a' ~ i, {'b': i}] | tojson }}"
                                 "{% endfor %}";
    struct jinja_rendering got;
    for (size_t bytes = 64; bytes < 400000; bytes += 7777) {
        arena_over(&arena, memory, bytes);
        enum status status = render(source, &jinja_limits_usual, NULL, 0, &got);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
}

TEST_AROUND(a_program_knows_its_words, arena_ready, NULL) {
    const struct jinja_program *program;
    assert_int_equal(jinja_compile(&arena,
                                   bytes_of("x <think>{% set a = b.c['d e'] %}{{ f(g=1)|upper }}"),
                                   "t", &program, &error),
                     STATUS_OK);
    const char *const words[] = {"a", "b", "c", "d e", "f", "g", "upper"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_true(jinja_uses(program, words[i]));
    assert_false(jinja_uses(program, "d"));
    assert_false(jinja_uses(program, "x"));
    assert_true(jinja_mentions(program, bytes_of("<think>")));
    assert_true(jinja_mentions(program, bytes_of("d e")));
    assert_false(jinja_mentions(program, bytes_of("</think>")));
}

TEST_AROUND(messages_name_template_and_line, arena_ready, NULL) {
    struct jinja_rendering got;
    assert_int_equal(render("a\n{% if x %}", &jinja_limits_usual, NULL, 0, &got), STATUS_INVALID);
    assert_non_null(strstr(error.text, "t:2: "));
    assert_int_equal(render("a\n\n{{ x.y }}", &jinja_limits_usual, NULL, 0, &got), STATUS_INVALID);
    assert_string_equal(error.text, "t:3: 'x' is undefined");
    assert_int_equal(render("{{ raise_exception('no\nway') }}", &jinja_limits_usual, NULL, 0, &got),
                     STATUS_INVALID);
    assert_string_equal(error.text, "t:1: no way");
}

TEST_AROUND(what_is_no_utf8_is_refused, arena_ready, NULL) {
    struct jinja_rendering got;
    assert_int_equal(render("a\xff", &jinja_limits_usual, NULL, 0, &got), STATUS_INVALID);
    assert_non_null(strstr(error.text, "UTF-8"));
}

/* What Jinja has and no published chat template uses. */
static const char *const unsupported[] = {"{% include 'a' %}",
                                          "{% import 'a' as b %}",
                                          "{% from 'a' import b %}",
                                          "{% extends 'a' %}",
                                          "{% block a %}{% endblock %}",
                                          "{% autoescape false %}{% endautoescape %}",
                                          "{% print 1 %}",
                                          "{% for a in [1] recursive %}{% endfor %}",
                                          "{{ self.a }}",
                                          "{% macro m() %}{{ varargs }}{% endmacro %}",
                                          "{% macro m() %}{{ kwargs }}{% endmacro %}",
                                          "{{ dict(**{'a': 1}) }}",
                                          "{{ 2 ** 3 }}",
                                          "{{ [1] * 2 }}",
                                          "{{ [1] < [2] }}",
                                          "{{ [1][0, 1] }}",
                                          "{{ 0x1F }}",
                                          "{{ '\\101' }}",
                                          "{{ é }}",
                                          "{{ cycler(1) }}",
                                          "{{ joiner() }}",
                                          "{{ lipsum() }}",
                                          "{{ dict([(1, 2)]) }}",
                                          "{{ {}.items() }}",
                                          "{{ range(3) }}",
                                          "{{ strftime_now('%U') }}",
                                          "{{ 'a'|center }}",
                                          "{{ 'a'|truncate }}",
                                          "{{ 'a'|urlencode }}",
                                          "{{ 'a'|urlize }}",
                                          "{{ 'a'|wordcount }}",
                                          "{{ 'a'|forceescape }}",
                                          "{{ 'a'|pprint }}",
                                          "{{ [1]|random }}",
                                          "{{ d|attr('a') }}",
                                          "{{ 'a'|int(0, 16) }}",
                                          "{{ 12.3|round }}",
                                          "{{ 1|abs }}",
                                          "{{ '1'|float }}",
                                          "{{ [1]|sum }}",
                                          "{{ [1]|slice(1) }}",
                                          "{{ []|groupby('a') }}",
                                          "{{ {}|dictsort(by='value') }}",
                                          "{{ '<'|e }}",
                                          "{{ '<'|escape }}",
                                          "{{ 1 / 2 }}",
                                          "{{ 1 * 2 // 2 }}",
                                          "{{ 1.5 + 1 }}",
                                          "{{ {1.5: 2} }}",
                                          "{% with a = 1 %}{% endwith %}",
                                          "{% for a in [1] %}{{ loop.cycle(1) }}{% endfor %}",
                                          "{% for a in [1] %}{{ loop.changed(1) }}{% endfor %}",
                                          "{{ 'a' is lower }}",
                                          "{{ 'a' is sameas 'a' }}",
                                          "{{ 'a'.isdigit() }}",
                                          "{{ 'a'.partition('b') }}",
                                          "{{ 'a'.index('a') }}",
                                          "{{ 'a'.count('a') }}",
                                          "{{ [1].index(1) }}",
                                          "{{ [1].copy() }}",
                                          "{{ {}.copy() }}",
                                          "{{ {}[1:] }}",
                                          "{{ range(2).index(1) }}",
                                          "{{ [{'a': 1}]|sort(attribute='a,b') }}",
                                          "{{ [1]|batch(2) }}",
                                          "{{ 'a' is escaped }}",
                                          "{{ 'a'.center(3) }}",
                                          "{{ 'a'.zfill(3) }}",
                                          "{{ 'a'.casefold() }}",
                                          "{{ 'a'.isascii() }}",
                                          "{{ 'a'.rsplit() }}",
                                          "{{ 'a'.replace('', 'b') }}",
                                          "{{ '{:>3}'.format(1) }}",
                                          "{{ '%5d' % 1 }}",
                                          "{{ 9223372036854775807 + 1 }}"};

TEST_AROUND(forms_of_no_chat_template_are_refused_by_name, arena_ready, NULL) {
    struct jinja_rendering got;
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++) {
        enum status status = render(unsupported[i], &jinja_limits_usual, NULL, 0, &got);
        if (status != STATUS_INVALID || !strstr(error.text, "not supported"))
            fail_msg("%s: %s", unsupported[i], status == STATUS_OK ? "is rendered" : error.text);
    }
}
