/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of tool calls: each format as its models write it, the same however the text
 * comes in pieces, and nothing lost of what breaks off or never was a call.
 */
#include "serving/text/tool_parser.h"
#include "support.h"
#include "tool_support.h"

static const struct tool_set *sets[TOOL_FORMAT_COUNT];

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"where\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"of\":{}}}}}]";

/* One call each below, as models write it; "\n" where their templates have it. */
#define V3_CALL(name, args)                                                                        \
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" name "\n```json\n" args "\n```<"                 \
    "｜tool▁call▁end｜>"
#define V31_CALL(name, args)                                                                       \
    "<｜tool▁call▁begin｜>" name "<｜tool▁sep｜>" args "<｜tool▁call▁end｜>"
#define DEEPSEEK_CALLS(calls) "<｜tool▁calls▁begin｜>" calls "<｜tool▁calls▁end｜>"
#define DSML_VALUE(key, string, value)                                                             \
    "<｜DSML｜parameter name=\"" key "\" string=\"" string "\">" value "</｜DSML｜parameter>\n"
#define DSML_CALL(name, values) "<｜DSML｜invoke name=\"" name "\">\n" values "</｜DSML｜invoke>\n"
#define DSML_CALLS(calls) "<｜DSML｜function_calls>\n" calls "</｜DSML｜function_calls>"
#define HERMES_CALL(name, args)                                                                    \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " args "}\n</tool_call>"
#define QWEN_VALUE(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define QWEN_CALL(name, values)                                                                    \
    "<tool_call>\n<function=" name ">\n" values "</function>\n</tool_call>"
#define KIMI_CALL(id, args)                                                                        \
    "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" args "<|tool_call_end|>"
#define KIMI_CALLS(calls) "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"
#define GLM_VALUE(key, value) "<arg_key>" key "</arg_key>\n<arg_value>" value "</arg_value>\n"
#define GLM_CALL(name, values) "<tool_call>" name "\n" values "</tool_call>"
#define LLAMA_CALL(name, args) "{\"name\": \"" name "\", \"parameters\": " args "}"
#define NESTED "{\"a\": {\"b\": [1, {\"c\": \"}]\\\"{\"}]}, \"d\": \"中 😀 <x>\"}"

struct golden {
    enum tool_format format;
    const char *text, *seen;
};

static const struct golden goldens[] = {
    /* DeepSeek V3 and R1 */
    {TOOL_FORMAT_DEEPSEEK_V3, DEEPSEEK_CALLS(V3_CALL("get", "{\"city\": \"Bonn\"}")),
     "«get({\"city\": \"Bonn\"})»"},
    {TOOL_FORMAT_DEEPSEEK_V3,
     "Let me look.\n\n" DEEPSEEK_CALLS(V3_CALL("get", NESTED) "\n" V3_CALL("put", "{}")) "\nDone.",
     "Let me look.«get(" NESTED ")»«put({})»Done."},
    {TOOL_FORMAT_DEEPSEEK_V3,
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n{\"a\":`1`}<｜tool▁call▁end｜> x",
     "«get({\"a\":`1`})»x"},
    {TOOL_FORMAT_DEEPSEEK_V3, DEEPSEEK_CALLS(V3_CALL("get", "")), "«get({})»"},
    {TOOL_FORMAT_DEEPSEEK_V3,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```",
     "«get({})»"},
    {TOOL_FORMAT_DEEPSEEK_V3, "<｜tool▁calls▁begin｜> the mark", "<｜tool▁calls▁begin｜> the mark"},
    /* V3.1 */
    {TOOL_FORMAT_DEEPSEEK_V31, DEEPSEEK_CALLS(V31_CALL("get", "{\"city\": \"Bonn\"}")),
     "«get({\"city\": \"Bonn\"})»"},
    {TOOL_FORMAT_DEEPSEEK_V31,
     "I say:\n" DEEPSEEK_CALLS(V31_CALL("get", NESTED) V31_CALL("no-tool", "")
                                   V31_CALL("get", "no JSON, but \"told\"")),
     "I say:«get(" NESTED ")»«no-tool({})»«get(no JSON, but \"told\")»"},
    {TOOL_FORMAT_DEEPSEEK_V31,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{\"x\":1}"
     "<｜tool▁call▁begin｜>b<｜tool▁sep｜>{\"y\": 2}\n<｜tool▁calls▁end｜>",
     "«a({\"x\":1})»«b({\"y\": 2})»"},
    {TOOL_FORMAT_DEEPSEEK_V31, "<｜tool▁call▁begin｜>two words<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
     "<｜tool▁call▁begin｜>two words<｜tool▁sep｜>{}<｜tool▁call▁end｜>"},
    {TOOL_FORMAT_DEEPSEEK_V31, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": \"Bo",
     "«get({\"city\": \"Bo)»"},
    /* V3.2 */
    {TOOL_FORMAT_DEEPSEEK_V32,
     "Sure.\n\n" DSML_CALLS(DSML_CALL("get", DSML_VALUE("city", "true", "Bonn \"am\"\nRhein\\ 中")
                                                 DSML_VALUE("days", "false", "3"))),
     "Sure.«get({\"city\":\"Bonn \\\"am\\\"\\nRhein\\\\ 中\",\"days\":3})»"},
    {TOOL_FORMAT_DEEPSEEK_V32,
     DSML_CALLS(DSML_CALL("get", DSML_VALUE("o", "false", NESTED) DSML_VALUE("l", "false", "[1, 2")
                                     DSML_VALUE("s", "true", "")) DSML_CALL("put", "")) " and more",
     "«get({\"o\":" NESTED ",\"l\":\"[1, 2\",\"s\":\"\"})»«put({})»and more"},
    {TOOL_FORMAT_DEEPSEEK_V32,
     "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get\"><｜DSML｜parameter name=\"city\">12"
     "</｜DSML｜parameter><｜DSML｜parameter name=\"days\">12</｜DSML｜parameter></｜DSML｜invoke>"
     "</｜DSML｜tool_calls>",
     "«get({\"city\":\"12\",\"days\":12})»"},
    {TOOL_FORMAT_DEEPSEEK_V32, DSML_CALL("get", DSML_VALUE("city", "true", "\nBonn\n")),
     "«get({\"city\":\"\\nBonn\\n\"})»"},
    {TOOL_FORMAT_DEEPSEEK_V32, "<｜DSML｜invoke name=\"get\">oops", "«get()»oops"},
    {TOOL_FORMAT_DEEPSEEK_V32,
     "Two.\n\n" DSML_CALLS("<｜DSML｜invoke name=\"put\">\n\n</｜DSML｜invoke>\n" DSML_CALL(
         "get", DSML_VALUE("of", "false", "null") DSML_VALUE("city", "true", "</｜ <｜DSM"))),
     "Two.«put({})»«get({\"of\":null,\"city\":\"</｜ <｜DSM\"})»"},
    /* Hermes, Qwen */
    {TOOL_FORMAT_HERMES, HERMES_CALL("get", "{\"city\": \"Bonn\"}"), "«get({\"city\": \"Bonn\"})»"},
    {TOOL_FORMAT_HERMES, "So:\n" HERMES_CALL("get", NESTED) "\n" HERMES_CALL("put", "{}") "\nWell.",
     "So:«get(" NESTED ")»«put({})»Well."},
    {TOOL_FORMAT_HERMES,
     "<tool_call>{\"type\": \"function\", \"id\": \"c1\", \"name\":\"get\"}</tool_call>",
     "«c1#get({})»"},
    {TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"get\", \"arguments\": \"{\\\"a\\\": 1}\"}",
     "«get(\"{\\\"a\\\": 1}\")»"},
    {TOOL_FORMAT_HERMES, "<tool_call>{\"name\":\"get\",\"arguments\":12}</tool_call>]",
     "«get(12)»]"},
    {TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"get\", \"argument\": {}}</tool_call>",
     "«get()», \"argument\": {}}</tool_call>"},
    {TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1]}</tool_call>",
     "«get({\"a\": 1)»]}</tool_call>"},
    {TOOL_FORMAT_HERMES, HERMES_CALL("get", "{}") "</tool_call>", "«get({})»</tool_call>"},
    {TOOL_FORMAT_HERMES, "<tool_call> is a tag, </tool_call> too", NULL},
    {TOOL_FORMAT_HERMES,
     "Hm\n" QWEN_CALL("get", QWEN_VALUE("city", "Bonn\n\n<b>") QWEN_VALUE("days", "[3]")
                                 QWEN_VALUE("of", "a \"b\"")) "\n" QWEN_CALL("put", ""),
     "Hm«get({\"city\":\"Bonn\\n\\n<b>\",\"days\":[3],\"of\":\"a \\\"b\\\"\"})»«put({})»"},
    {TOOL_FORMAT_HERMES, "<function=get><parameter=where>null</parameter></function> x",
     "«get({\"where\":\"null\"})»x"},
    /* Kimi */
    {TOOL_FORMAT_KIMI, "Yes." KIMI_CALLS(KIMI_CALL("functions.get:0", "{\"city\": \"Bonn\"}")),
     "Yes.«functions.get:0#get({\"city\": \"Bonn\"})»"},
    {TOOL_FORMAT_KIMI,
     KIMI_CALLS(KIMI_CALL("functions.get:0", NESTED) KIMI_CALL(" functions.put:12 ", "")
                    KIMI_CALL("odd", "{}")),
     "«functions.get:0#get(" NESTED ")»«functions.put:12#put({})»«odd#odd({})»"},
    {TOOL_FORMAT_KIMI,
     "So.\n" KIMI_CALLS("\n" KIMI_CALL("functions.get_2:7", "{\"a\": \"<|tool_\"}") "\n") " Done.",
     "So.«functions.get_2:7#get_2({\"a\": \"<|tool_\"})»Done."},
    {TOOL_FORMAT_KIMI, "<|tool_call_begin|>functions.:0<|tool_call_argument_begin|>{}", NULL},
    /* GLM */
    {TOOL_FORMAT_GLM, "Now\n" GLM_CALL("get", GLM_VALUE("city", "12") GLM_VALUE("days", "12")),
     "Now«get({\"city\":\"12\",\"days\":12})»"},
    {TOOL_FORMAT_GLM,
     GLM_CALL("get",
              GLM_VALUE("of", NESTED) GLM_VALUE("x y", "plain\ttext, 中")) "\n" GLM_CALL("put", ""),
     "«get({\"of\":" NESTED ",\"x y\":\"plain\\ttext, 中\"})»«put({})»"},
    {TOOL_FORMAT_GLM,
     "<tool_call>get<arg_key>of</arg_key><arg_value>truely</arg_value></tool_call>. ",
     "«get({\"of\":\"truely\"})». "},
    {TOOL_FORMAT_GLM,
     "Now<tool_call>get<arg_key>city</arg_key><arg_value> 中\n</arg_value><arg_key>days</arg_key>"
     "<arg_value>{\"a\": [3]}</arg_value></tool_call><tool_call>put</tool_call>",
     "Now«get({\"city\":\" 中\\n\",\"days\":{\"a\": [3]}})»«put({})»"},
    {TOOL_FORMAT_GLM, "<tool_call>get\n<arg_key>of</arg_key>\n<arg_value>[1, 2",
     "«get({\"of\":[1, 2)»"},
    {TOOL_FORMAT_GLM, "<tool_call>hello there", NULL},
    /* Llama */
    {TOOL_FORMAT_LLAMA, LLAMA_CALL("get", "{\"city\": \"Bonn\"}"), "«get({\"city\": \"Bonn\"})»"},
    {TOOL_FORMAT_LLAMA, "\n" LLAMA_CALL("get", NESTED) "; " LLAMA_CALL("put", "{}") ";",
     "«get(" NESTED ")»«put({})»;"},
    {TOOL_FORMAT_LLAMA, "Text\n<|python_tag|>" LLAMA_CALL("get", "{}"), "Text«get({})»"},
    {TOOL_FORMAT_LLAMA,
     "{\"type\": \"function\", \"name\": \"get\", \"parameters\": {\"a\": null}}",
     "«get({\"a\": null})»"},
    {TOOL_FORMAT_LLAMA, "{\"name\": \"Bob\", \"age\": 3}", NULL},
    {TOOL_FORMAT_LLAMA, "{\"name\": \"Bob\"}", NULL},
    {TOOL_FORMAT_LLAMA, "As in {\"name\": \"get\", \"parameters\": {}}", NULL},
    {TOOL_FORMAT_LLAMA, "<|python_tag|>print(1)", NULL},
    /* Mistral */
    {TOOL_FORMAT_MISTRAL,
     "[TOOL_CALLS] [{\"name\": \"get\", \"arguments\": " NESTED "}, {\"name\": \"put\", "
     "\"arguments\": {}, \"id\": \"abc\"}] x]",
     "«get(" NESTED ")»«put({})»x]"},
    {TOOL_FORMAT_MISTRAL, "Hm.[TOOL_CALLS]get[ARGS]{\"city\": \"Bonn\"}[TOOL_CALLS]put[ARGS]{}",
     "Hm.«get({\"city\": \"Bonn\"})»«put({})»"},
    {TOOL_FORMAT_MISTRAL, "[TOOL_CALLS]get[CALL_ID]a1B2[ARGS] {}\n[TOOL_CALLS]put{\"x\": [\"]\"]}",
     "«a1B2#get({})»«put({\"x\": [\"]\"]})»"},
    {TOOL_FORMAT_MISTRAL, "[TOOL_CALLS] none, see [1]", NULL},
};

/* ---- pushing ---- */

/* Pushes the text in pieces of `step` characters, or random ones if it is 0. */
static void run(enum tool_format format, struct bytes text, size_t step, uint64_t *random,
                struct tool_seen *seen) {
    static struct tool_parser parser;
    tool_parser_open(&parser, sets[format]);
    seen_open(seen);
    for (size_t at = 0; at < text.count;) {
        size_t end = at;
        for (size_t left = step ? step : 1 + test_random(random) % 12; left > 0; left--) {
            size_t bytes = 0;
            if (end == text.count) break;
            check(utf8_next((struct bytes){text.data + end, text.count - end}, &bytes) ==
                  UTF8_WHOLE);
            end += bytes;
        }
        tool_parser_push(&parser, (struct bytes){text.data + at, end - at}, seen_take, seen);
        at = end;
    }
    tool_parser_finish(&parser, seen_take, seen);
    assert_int_equal(parser.held_count, 0);
    seen_end_call(seen);
}

static struct tool_seen whole, pieces;

static void agrees(enum tool_format format, struct bytes text) {
    if (strcmp(whole.text, pieces.text))
        fail_msg("format %d: '%.*s' is '%s' as a whole, in pieces '%s'", format, (int)text.count,
                 text.data, whole.text, pieces.text);
}

static void loses_nothing(enum tool_format format, struct bytes text) {
    if (!tool_nothing_lost(format, text, &whole))
        fail_msg("format %d: of '%.*s' something is lost in '%s'", format, (int)text.count,
                 text.data, whole.text);
}

static void shows(enum tool_format format, const char *text, const char *expected) {
    run(format, bytes_of(text), SIZE_MAX, NULL, &whole);
    if (strcmp(whole.text, expected))
        fail_msg("format %d: '%s' shows '%s', not '%s'", format, text, whole.text, expected);
}

/* ---- cases ---- */

TEST(it_reads_what_models_write) {
    for (size_t i = 0; i < ARRAY_COUNT(goldens); i++)
        shows(goldens[i].format, goldens[i].text,
              goldens[i].seen ? goldens[i].seen : goldens[i].text);
}

TEST(it_reads_the_same_however_the_text_is_split) {
    uint64_t random = 3;
    for (size_t i = 0; i < ARRAY_COUNT(goldens); i++) {
        struct bytes text = bytes_of(goldens[i].text);
        enum tool_format format = goldens[i].format;
        run(format, text, SIZE_MAX, NULL, &whole);
        for (size_t split = 0; split < text.count; split++) {
            if (((unsigned char)text.data[split] & 0xC0) == 0x80) continue;
            static struct tool_parser parser;
            tool_parser_open(&parser, sets[format]);
            seen_open(&pieces);
            tool_parser_push(&parser, (struct bytes){text.data, split}, seen_take, &pieces);
            tool_parser_push(&parser, (struct bytes){text.data + split, text.count - split},
                             seen_take, &pieces);
            tool_parser_finish(&parser, seen_take, &pieces);
            seen_end_call(&pieces);
            agrees(format, text);
        }
        for (size_t step = 1; step < 8; step++) {
            run(format, text, step, NULL, &pieces);
            agrees(format, text);
        }
        for (int round = 0; round < 100; round++) {
            run(format, text, 0, &random, &pieces);
            agrees(format, text);
        }
    }
}

TEST(it_takes_members_in_either_order) {
    shows(TOOL_FORMAT_HERMES, "<tool_call>{\"arguments\":{\"a\":1} , \"name\":\"get\"}</tool_call>",
          "«get({\"a\":1})»");
    shows(TOOL_FORMAT_LLAMA, "{\"parameters\":12, \"name\":\"get\"}", "«get(12)»");
}

/* Every start of a call, and every call that lacks a character. */
TEST(it_loses_nothing_of_what_is_broken) {
    for (size_t i = 0; i < ARRAY_COUNT(goldens); i++) {
        static char broken[LAW_BYTES_MAX];
        struct bytes text = bytes_of(goldens[i].text);
        enum tool_format format = goldens[i].format;
        for (size_t at = 0; at < text.count;) {
            size_t bytes = 0;
            check(utf8_next((struct bytes){text.data + at, text.count - at}, &bytes) == UTF8_WHOLE);
            memcpy(broken, text.data, at);
            memcpy(broken + at, text.data + at + bytes, text.count - at - bytes);
            size_t counts[] = {at, text.count - bytes};
            for (size_t k = 0; k < ARRAY_COUNT(counts); k++) {
                struct bytes part = {broken, counts[k]};
                run(format, part, SIZE_MAX, NULL, &whole);
                loses_nothing(format, part);
                run(format, part, 1, NULL, &pieces);
                agrees(format, part);
            }
            at += bytes;
        }
    }
}

/* Names, keys, values, and text of every kind; and the marks of the format. */
static size_t random_output(enum tool_format format, uint64_t *random, char *out) {
    static const char *const parts[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        ":",
                                        ",",
                                        ";",
                                        "\n",
                                        "\n\n",
                                        " ",
                                        "get",
                                        "put",
                                        "city",
                                        "of",
                                        "12",
                                        "-1.5e",
                                        "true",
                                        "nul",
                                        "\"a\"",
                                        "\\",
                                        "\\n",
                                        "\\u00e4",
                                        "中",
                                        "😀",
                                        "text ",
                                        "{\"a\":1}",
                                        "{\"b\": [",
                                        "\"x\": {}",
                                        "\x01",
                                        "<",
                                        "`",
                                        "=",
                                        ">",
                                        "functions",
                                        "functions.get:3",
                                        "{\"name\": \"get\", ",
                                        "{\"name\":\"get\"}",
                                        "\"arguments\": ",
                                        "\"name\": \"put\"",
                                        "\"parameters\": {",
                                        "\"id\": \"c1\", ",
                                        "<arg",
                                        "<para",
                                        "</",
                                        "```",
                                        "name=\""};
    size_t count = 0, syntax = 0;
    while (syntax < TOOL_SYNTAX_MAX && tool_syntax[format][syntax])
        syntax++;
    for (size_t left = test_random(random) % 40; left > 0; left--) {
        struct bytes part = bytes_of(parts[test_random(random) % ARRAY_COUNT(parts)]);
        if (test_random(random) % 2)
            part = bytes_of(tool_syntax[format][test_random(random) % syntax]);
        memcpy(out + count, part.data, part.count);
        count += part.count;
    }
    return count;
}

/* A golden of the format with random characters taken out, put in, or repeated. */
static size_t mangled_golden(enum tool_format format, uint64_t *random, char *out) {
    const struct golden *golden;
    do
        golden = &goldens[test_random(random) % ARRAY_COUNT(goldens)];
    while (golden->format != format);
    struct bytes text = bytes_of(golden->text);
    size_t count = 0;
    for (size_t at = 0; at < text.count;) {
        size_t bytes = 0;
        check(utf8_next((struct bytes){text.data + at, text.count - at}, &bytes) == UTF8_WHOLE);
        uint64_t chance = test_random(random) % 200;
        for (int times = chance == 0 ? 0 : chance == 1 ? 2 : 1; times > 0; times--) {
            memcpy(out + count, text.data + at, bytes);
            count += bytes;
        }
        if (chance == 2) out[count++] = (char)(' ' + test_random(random) % 95);
        at += bytes;
    }
    return count;
}

TEST(it_survives_whatever_a_model_writes) {
    uint64_t random = 17;
    size_t called = 0;
    for (int format = 0; format < TOOL_FORMAT_COUNT; format++)
        for (int round = 0; round < 10000; round++) {
            static char out[LAW_BYTES_MAX];
            size_t count = round % 2 ? random_output((enum tool_format)format, &random, out)
                                     : mangled_golden((enum tool_format)format, &random, out);
            struct bytes text = {out, count};
            run((enum tool_format)format, text, SIZE_MAX, NULL, &whole);
            called += whole.calls > 0;
            loses_nothing((enum tool_format)format, text);
            run((enum tool_format)format, text, 1, NULL, &pieces);
            agrees((enum tool_format)format, text);
            run((enum tool_format)format, text, 0, &random, &pieces);
            agrees((enum tool_format)format, text);
        }
    assert_true(called > 20000);
}

/* The shortest start of the text with which a client sees `expected`; what comes before is a start
 * of it. */
static void shows_by(enum tool_format format, const char *start, const char *rest,
                     const char *expected) {
    static struct tool_parser parser;
    struct bytes text = bytes_of(start);
    tool_parser_open(&parser, sets[format]);
    seen_open(&whole);
    tool_parser_push(&parser, (struct bytes){text.data, text.count - 1}, seen_take, &whole);
    assert_string_not_equal(whole.text, expected);
    tool_parser_push(&parser, (struct bytes){text.data + text.count - 1, 1}, seen_take, &whole);
    assert_string_equal(whole.text, expected);
    tool_parser_push(&parser, bytes_of(rest), seen_take, &whole);
    assert_true(bytes_start_with((struct bytes){whole.text, whole.count}, bytes_of(expected)));
}

TEST(it_puts_out_a_call_as_it_comes) {
    shows_by(TOOL_FORMAT_DEEPSEEK_V31, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>", "{", "«get(");
    shows_by(TOOL_FORMAT_DEEPSEEK_V31, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"a\": \"b", " c",
             "«get({\"a\": \"b");
    shows_by(TOOL_FORMAT_DEEPSEEK_V32,
             "<｜DSML｜invoke name=\"get\"><｜DSML｜parameter name=\"a\" string=\"true\">one",
             " two", "«get({\"a\":\"one");
    shows_by(TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"get\"", ", ", "«get(");
    shows_by(TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 12", "}",
             "«get({\"a\": 12");
    shows_by(TOOL_FORMAT_HERMES, "<function=get>\n<parameter=city>\nBonn", "\n",
             "«get({\"city\":\"Bonn");
    shows_by(TOOL_FORMAT_GLM, "<tool_call>get\n<arg_key>days</arg_key><arg_value>12</arg_value>",
             "</tool_call>", "«get({\"days\":12");
    shows_by(TOOL_FORMAT_GLM, "<tool_call>get\n<arg_key>of</arg_key><arg_value>x", "y",
             "«get({\"of\":\"x");
    shows_by(TOOL_FORMAT_LLAMA, "{\"name\": \"get\", \"parameters\": {", "}}", "«get({");
    shows_by(TOOL_FORMAT_MISTRAL, "[TOOL_CALLS][{\"name\": \"get\"", "}", "«get(");
    shows_by(TOOL_FORMAT_HERMES, "<tool_calm", "er", "<tool_calm");
}

static size_t add_many(char *text, size_t count, char byte, size_t times) {
    memset(text + count, byte, times);
    return count + times;
}

static size_t add_text(char *text, size_t count, const char *more) {
    strcpy(text + count, more);
    return count + strlen(more);
}

TEST(it_takes_names_up_to_their_bound) {
    for (size_t extra = 0; extra < 2; extra++)
        for (int format = 0; format < 2; format++) {
            static char text[TOOL_HELD_MAX];
            size_t count = add_text(text, 0, format ? "<tool_call>{\"name\":\"" : "<function=");
            count = add_many(text, count, 'n', TOOL_NAME_BYTES_MAX + extra);
            count = add_text(text, count, format ? "\"}" : "></function>");
            run(TOOL_FORMAT_HERMES, (struct bytes){text, count}, 1, NULL, &whole);
            assert_int_equal(whole.calls, 1 - extra);
            loses_nothing(TOOL_FORMAT_HERMES, (struct bytes){text, count});
        }
}

TEST(it_keeps_more_newlines_than_belong_to_a_call) {
    shows(TOOL_FORMAT_HERMES, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n<function=get></function>\n\n",
          "\n\n«get({})»");
    shows(TOOL_FORMAT_HERMES, "\n\n\n", "\n\n\n");
}

/* Beginnings, values and spaces longer than what can be held back. */
TEST(it_gives_up_what_it_cannot_hold) {
    static char text[LAW_BYTES_MAX];
    static const struct {
        enum tool_format format;
        const char *start;
        char byte;
        const char *end;
        size_t calls;
    } long_ones[] = {
        {TOOL_FORMAT_HERMES, "<tool_call>", ' ', "{\"name\":\"get\"}</tool_call>", 0},
        {TOOL_FORMAT_HERMES, "<tool_call>{\"name\":\"get\"", ' ', "}", 1},
        {TOOL_FORMAT_HERMES, "<tool_call>{\"id\":\"", 'x', "<tool_call>{\"name\":\"get\"}", 1},
        {TOOL_FORMAT_LLAMA, "{\"name\":\"get\",", ' ', "\"parameters\":{}}", 0},
        {TOOL_FORMAT_DEEPSEEK_V31, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>a", ' ',
         "<｜tool▁call▁end｜>", 1},
        {TOOL_FORMAT_GLM, "<tool_call>get<arg_key>of</arg_key><arg_value>", '1',
         "</arg_value></tool_call>", 1},
        {TOOL_FORMAT_GLM, "<tool_call>get<arg_key>of</arg_key><arg_value>[", ' ', "</arg_value>",
         1},
        {TOOL_FORMAT_GLM, "<tool_call>get<arg_key>", 'k', "</arg_key><arg_value>", 1},
        {TOOL_FORMAT_HERMES, "<function=get>", '\n', "</function>", 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(long_ones); i++)
        for (size_t times = TOOL_HELD_MAX - 80; times < TOOL_HELD_MAX + 80; times += 3) {
            size_t count = add_text(text, 0, long_ones[i].start);
            count = add_many(text, count, long_ones[i].byte, times);
            count = add_text(text, count, long_ones[i].end);
            struct bytes all = {text, count};
            run(long_ones[i].format, all, SIZE_MAX, NULL, &whole);
            if (times >= TOOL_HELD_MAX || long_ones[i].calls)
                assert_int_equal(whole.calls, long_ones[i].calls);
            loses_nothing(long_ones[i].format, all);
            run(long_ones[i].format, all, 1, NULL, &pieces);
            agrees(long_ones[i].format, all);
            run(long_ones[i].format, all, 7, NULL, &pieces);
            agrees(long_ones[i].format, all);
        }
}

/* A value's control bytes are what grows most. */
TEST(it_grows_no_more_than_it_says) {
    static char text[LAW_BYTES_MAX];
    size_t count = add_text(text, 0, "<function=get><parameter=city>");
    count = add_many(text, count, '\x01', 1000);
    run(TOOL_FORMAT_HERMES, (struct bytes){text, count}, 1, NULL, &whole);
    assert_true(whole.piece_bytes > 6000 && whole.piece_bytes <= TOOL_GROWTH_MAX * count);
}

static int open_group(void **state) {
    (void)state;
    const struct tree *tools = test_tree(bytes_of(tools_json));
    for (int format = 0; format < TOOL_FORMAT_COUNT; format++)
        check(!tool_format_set_open(test_arena(4096), (enum tool_format)format, tools,
                                    &sets[format], NULL));
    return 0;
}

TEST_GROUP(open_group, NULL)
