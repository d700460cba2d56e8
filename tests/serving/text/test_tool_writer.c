/* SPDX-License-Identifier: Apache-2.0
 * Protects what binds calls: in each format the form is what the model's template shows, with its
 * tokens as tokens, and whatever fulfils it is read back by the parser as calls of the tools that
 * may be called, with arguments that they take.
 */
#include "serving/text/tool_writer.h"

#include "support.h"
#include "tool_support.h"

/* ---- tokenizers ---- */

#define MARKS_MAX 12
static const char *const marks[TOOL_FORMAT_COUNT][MARKS_MAX] = {
    [TOOL_FORMAT_DEEPSEEK_V3] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                 "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V31] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                  "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V32] = {"｜DSML｜"},
    [TOOL_FORMAT_HERMES] = {"<tool_call>", "</tool_call>"},
    [TOOL_FORMAT_KIMI] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                          "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                          "<|tool_calls_section_end|>"},
    [TOOL_FORMAT_GLM] = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                         "</arg_value>"},
    [TOOL_FORMAT_MISTRAL] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
};

/* One for each format, whose marks are added tokens. */
static struct tokenizer *tokenizers[TOOL_FORMAT_COUNT];

static void open_tokenizers(void) {
    for (size_t f = 0; f < TOOL_FORMAT_COUNT; f++) {
        static char added[4096];
        size_t count = 0;
        for (unsigned i = 0; i < MARKS_MAX && marks[f][i]; i++)
            count += (size_t)snprintf(added + count, sizeof added - count,
                                      "%s{\"id\":%u,\"content\":\"%s\",\"special\":true}",
                                      i ? "," : "", 300 + i, marks[f][i]);
        added[count] = 0;
        tokenizers[f] = test_tokenizer(test_json((struct test_parts){.added = added}), "t.json");
    }
}

/* ---- goldens ---- */

#define TOOL(name, members)                                                                        \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" members "}}"
#define CITY ",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}"

/* A form in short: 'text', token, /regex/, {"schema"}, (a | b), (a)1+ for a repetition. */
static const struct golden {
    struct tool_wish wish;
    bool without_tokens;
    const char *tools, *form;
} goldens[] = {
    {{.format = TOOL_FORMAT_DEEPSEEK_V3, .single = true},
     false,
     "[" TOOL("get", CITY) "]",
     "<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> 'function' <｜tool▁sep｜> 'get' "
     "'\n```json\n' {\"type\":\"object\"} '\n```' <｜tool▁call▁end｜> <｜tool▁calls▁end｜>"},
    {{.format = TOOL_FORMAT_DEEPSEEK_V31, .holds_all = true},
     false,
     "[" TOOL("get", CITY) "," TOOL("put", "") "]",
     "<｜tool▁calls▁begin｜> (<｜tool▁call▁begin｜> ('get' <｜tool▁sep｜> "
     "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
     "\"additionalProperties\":false} | 'put' <｜tool▁sep｜> "
     "{\"type\":\"object\",\"additionalProperties\":false}) <｜tool▁call▁end｜> ('\n')0-1)1+ "
     "<｜tool▁calls▁end｜>"},
    {{.format = TOOL_FORMAT_DEEPSEEK_V31, .single = true, .from_mark = true, .in_order = true},
     false,
     "[" TOOL("get", ",\"strict\":true" CITY) "]",
     "<｜tool▁call▁begin｜> 'get' <｜tool▁sep｜> in order {\"type\":\"object\",\"properties\":{"
     "\"city\":{\"type\":\"string\"}}} <｜tool▁call▁end｜> <｜tool▁calls▁end｜>"},
    {{.format = TOOL_FORMAT_DEEPSEEK_V32, .single = true, .from_mark = true},
     false,
     "[" TOOL("get", CITY) "]",
     "｜DSML｜ ('function_calls>' | 'tool_calls>') '\n' '<' ｜DSML｜ 'invoke name=\"' 'get' "
     "'\">\n' ('<' ｜DSML｜ 'parameter name=\"' 'city' '\" string=\"true\">' /[\\s\\S]*/ '</' "
     "｜DSML｜ 'parameter>\n')0-1 ('\n')0-1 '</' ｜DSML｜ 'invoke>' '</' ｜DSML｜ "
     "('function_calls>' | "
     "'tool_calls>')"},
    {{.format = TOOL_FORMAT_HERMES, .single = true},
     false,
     "[" TOOL("get", "") "]",
     "<tool_call> '\n' '{\"name\": \"' 'get' '\", \"arguments\": ' {\"type\":\"object\","
     "\"additionalProperties\":false} '}' '\n' </tool_call>"},
    {{.format = TOOL_FORMAT_KIMI, .single = true},
     true,
     "[" TOOL("get", "") "]",
     "'<|tool_calls_section_begin|>' '<|tool_call_begin|>' 'functions.' 'get' "
     "/:(0|[1-9][0-9]{0,3})/ '<|tool_call_argument_begin|>' {\"type\":\"object\","
     "\"additionalProperties\":false} '<|tool_call_end|>' '<|tool_calls_section_end|>'"},
    {{.format = TOOL_FORMAT_GLM, .single = true, .holds_all = true},
     false,
     "[" TOOL("get", ",\"parameters\":{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{"
                     "\"type\":\"string\",\"enum\":[\"x\",\"y\"]}},\"required\":[\"b\"]}") "]",
     "<tool_call> 'get' ('\n')0-1 (<arg_key> 'a' </arg_key> ('\n')0-1 <arg_value> "
     "{\"type\":\"integer\"} </arg_value> ('\n')0-1)0-1 <arg_key> 'b' </arg_key> ('\n')0-1 "
     "<arg_value> ('x' | 'y') </arg_value> ('\n')0-1 </tool_call>"},
    {{.format = TOOL_FORMAT_LLAMA},
     false,
     "[" TOOL("get", "") "]",
     "'{\"name\": \"' 'get' '\", \"parameters\": ' {\"type\":\"object\","
     "\"additionalProperties\":false} '}' ('; ' '{\"name\": \"' 'get' '\", \"parameters\": ' "
     "{\"type\":\"object\",\"additionalProperties\":false} '}')0+"},
    {{.format = TOOL_FORMAT_MISTRAL, .single = true},
     false,
     "[" TOOL("get", "") "]",
     "[TOOL_CALLS] 'get' ([CALL_ID] /[a-zA-Z0-9]{9}/)0-1 [ARGS] {\"type\":\"object\","
     "\"additionalProperties\":false}"},
    {{.format = TOOL_FORMAT_MISTRAL, .single = true},
     true,
     "[" TOOL("get", "") "]",
     "'[TOOL_CALLS]' '[' '{\"name\": \"' 'get' '\", \"arguments\": ' {\"type\":\"object\","
     "\"additionalProperties\":false} '}' ']'"},
};

static void print(struct json_writer *writer, const struct tree *form);

static void print_list(struct json_writer *writer, const struct tree *list, const char *between) {
    for (size_t i = 0; i < tree_count(list); i++) {
        if (i) json_writer_text(writer, between);
        print(writer, tree_at(list, i));
    }
}

static void print_between(struct json_writer *writer, const char *before, const struct tree *value,
                          const char *behind) {
    struct bytes text = {"", 0};
    json_writer_text(writer, before);
    if (tree_get_string(value, &text))
        json_writer_bytes(writer, text);
    else
        print_list(writer, value, " | ");
    json_writer_text(writer, behind);
}

static void print_repeat(struct json_writer *writer, const struct tree *form) {
    int64_t least = 0, most = 0;
    check(tree_get_integer(tree_member(form, "least"), &least));
    json_writer_text(writer, "(");
    print(writer, tree_member(form, "repeat"));
    json_writer_text(writer, ")");
    json_writer_integer(writer, least);
    if (tree_get_integer(tree_member(form, "most"), &most)) {
        json_writer_text(writer, "-");
        json_writer_integer(writer, most);
    } else {
        json_writer_text(writer, "+");
    }
}

static void print(struct json_writer *writer, const struct tree *form) {
    static const struct {
        const char *key, *before, *behind;
    } kinds[] = {{"text", "'", "'"}, {"token", "", ""}, {"regex", "/", "/"}, {"any", "(", ")"}};
    struct bytes text;
    if (tree_get_string(form, &text)) print_between(writer, "'", form, "'"); /* of a choice */
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (tree_member(form, kinds[i].key))
            print_between(writer, kinds[i].before, tree_member(form, kinds[i].key),
                          kinds[i].behind);
    if (tree_member(form, "choice")) print_between(writer, "(", tree_member(form, "choice"), ")");
    if (tree_member(form, "sequence")) print_list(writer, tree_member(form, "sequence"), " ");
    if (tree_member(form, "repeat")) print_repeat(writer, form);
    if (tree_member(form, "in_order")) json_writer_text(writer, "in order ");
    if (tree_member(form, "schema")) tree_write(writer, tree_member(form, "schema"));
}

static const struct tree *write(struct arena *arena, struct tool_wish wish, const char *tools) {
    const struct tree *form;
    struct error error;
    assert_int_equal(tree_parse(arena, bytes_of(tools), "tools", &wish.tools, &error), STATUS_OK);
    form = tool_writer_form(arena, &wish);
    assert_non_null(form);
    return form;
}

TEST(each_format_is_written_as_its_template_shows) {
    for (size_t i = 0; i < ARRAY_COUNT(goldens); i++) {
        static char text[4096];
        struct json_writer writer = {.out = text, .room = sizeof text};
        struct tool_wish wish = goldens[i].wish;
        if (!goldens[i].without_tokens) wish.tokenizer = tokenizers[wish.format];
        print(&writer, write(test_arena(1 << 20), wish, goldens[i].tools));
        if (!bytes_equal((struct bytes){text, writer.count}, bytes_of(goldens[i].form)))
            fail_msg("%zu: %.*s", i, (int)writer.count, text);
    }
}

/* ---- texts drawn from forms ---- */

struct drawing {
    uint64_t random;
    char text[SEEN_BYTES_MAX];
    size_t count;
    char calls[SEEN_BYTES_MAX]; /* «name(arguments)» of each, as the parser should see them */
    size_t calls_count;
    bool pairs;       /* arguments are pairs */
    bool has_pair;    /* of the call under way */
    const char *name; /* of the pair under way */
};

static uint64_t below(struct drawing *drawing, uint64_t count) {
    return test_random(&drawing->random) % count;
}

static void put(struct drawing *drawing, struct bytes text) {
    check(drawing->count + text.count < sizeof drawing->text);
    memcpy(drawing->text + drawing->count, text.data, text.count);
    drawing->count += text.count;
}

static void report(struct drawing *drawing, struct bytes text) {
    check(drawing->calls_count + text.count < sizeof drawing->calls);
    memcpy(drawing->calls + drawing->calls_count, text.data, text.count);
    drawing->calls_count += text.count;
}

/* The schemas below, by what they say first. */
static const char *draw_json(struct drawing *drawing, const struct tree *schema) {
    static const char *const objects[] = {"{}", "{\"a\": [1, {\"b\": \"}]<x>\\\"\"}]}",
                                          "{\"city\":\"中\\n\"}"};
    struct bytes type = {"", 0};
    if (tree_member(schema, "additionalProperties")) return "{}";
    (void)tree_get_string(tree_member(schema, "type"), &type);
    if (bytes_equal(type, BYTES_LITERAL("integer"))) return below(drawing, 2) ? "-12" : "0";
    if (bytes_equal(type, BYTES_LITERAL("object")) && tree_member(schema, "required"))
        return "{\"city\": \"Bonn\", \"days\": 3}";
    if (bytes_equal(type, BYTES_LITERAL("object"))) return objects[below(drawing, 3)];
    return below(drawing, 2) ? "[null, true]" : "\"a\\n<b>\"";
}

static struct bytes draw_regex(struct drawing *drawing, struct bytes pattern) {
    if (bytes_equal(pattern, BYTES_LITERAL(":(0|[1-9][0-9]{0,3})")))
        return below(drawing, 2) ? BYTES_LITERAL(":0") : BYTES_LITERAL(":12");
    if (bytes_equal(pattern, BYTES_LITERAL("[a-zA-Z0-9]{9}"))) return BYTES_LITERAL("aB3dE6gH9");
    check(pattern.data[0] == '[' || pattern.data[0] == '(');
    static const char *const plain[] = {"", "two words\nand \"more\"", "</a", "<<b></c>\\",
                                        "{\"a\":1}"};
    if (pattern.data[0] == '(') return bytes_of(below(drawing, 2) ? "a<b\n" : "");
    return bytes_of(plain[below(drawing, ARRAY_COUNT(plain))]);
}

static void draw(struct drawing *drawing, const struct tree *form);

static void report_value(struct drawing *drawing, struct bytes value, bool string) {
    struct json_writer writer = {.out = drawing->calls + drawing->calls_count,
                                 .room = sizeof drawing->calls - drawing->calls_count};
    if (string)
        json_writer_string(&writer, value);
    else
        json_writer_bytes(&writer, value);
    check(json_writer_fits(&writer));
    drawing->calls_count += writer.count;
}

/* A sequence of the writer's that begins with a name and ends with arguments, or is a pair. */
static void draw_sequence(struct drawing *drawing, const struct tree *list) {
    size_t count = tree_count(list);
    struct bytes first = {"", 0}, second = {"", 0};
    (void)tree_get_string(tree_member(tree_at(list, 0), "text"), &first);
    (void)tree_get_string(tree_member(tree_at(list, 1), "text"), &second);
    bool named = count > 1 && first.count > 1 && first.data[0] == 't' && first.data[1] == '-';
    if (named) {
        drawing->has_pair = false;
        report(drawing, BYTES_LITERAL("«"));
        report(drawing, first);
        report(drawing, BYTES_LITERAL("("));
    }
    for (size_t i = 0; i < count; i++)
        draw(drawing, tree_at(list, i));
    if (!named) return;
    if (drawing->pairs) report(drawing, bytes_of(drawing->has_pair ? "}" : "{}"));
    report(drawing, BYTES_LITERAL(")»"));
}

static void draw_repeat(struct drawing *drawing, const struct tree *form) {
    int64_t least = 0, most;
    check(tree_get_integer(tree_member(form, "least"), &least));
    if (!tree_get_integer(tree_member(form, "most"), &most)) most = least + 2;
    for (int64_t i = 0, n = least + (int64_t)below(drawing, (uint64_t)(most - least) + 1); i < n;
         i++)
        draw(drawing, tree_member(form, "repeat"));
}

/* The text of a parameter's name begins with "p-". */
static void draw_text(struct drawing *drawing, struct bytes text) {
    put(drawing, text);
    if (text.count < 2 || text.data[0] != 'p' || text.data[1] != '-') return;
    report(drawing, bytes_of(drawing->has_pair ? "," : "{"));
    report_value(drawing, text, true);
    report(drawing, BYTES_LITERAL(":"));
    drawing->has_pair = true;
}

static void draw(struct drawing *drawing, const struct tree *form) {
    struct tree_cursor cursor = {0};
    struct bytes key, text;
    const struct tree *value, *list;
    check(tree_next_member(form, &cursor, &key, &value));
    list = value;
    if (bytes_equal(key, BYTES_LITERAL("sequence"))) draw_sequence(drawing, list);
    if (bytes_equal(key, BYTES_LITERAL("any")))
        draw(drawing, tree_at(list, below(drawing, tree_count(list))));
    if (bytes_equal(key, BYTES_LITERAL("repeat"))) draw_repeat(drawing, form);
    if (bytes_equal(key, BYTES_LITERAL("text")) && tree_get_string(value, &text))
        draw_text(drawing, text);
    if (bytes_equal(key, BYTES_LITERAL("token")) && tree_get_string(value, &text))
        put(drawing, text);
    if (bytes_equal(key, BYTES_LITERAL("choice")) &&
        tree_get_string(tree_at(list, below(drawing, tree_count(list))), &text)) {
        put(drawing, text);
        if (drawing->pairs && text.data[text.count - 1] != '>') report_value(drawing, text, true);
    }
    if (bytes_equal(key, BYTES_LITERAL("regex")) && tree_get_string(value, &text)) {
        bool value_of_pair = drawing->pairs;
        text = draw_regex(drawing, text);
        put(drawing, text);
        if (value_of_pair) report_value(drawing, text, true);
    }
    if (!bytes_equal(key, BYTES_LITERAL("schema"))) return;
    text = bytes_of(draw_json(drawing, value));
    put(drawing, text);
    report(drawing, text);
}

/* A sink that tells calls and nothing else, but for content, of which there is none. */
struct read_back {
    char calls[SEEN_BYTES_MAX];
    size_t count;
    bool in_call, content;
};

static void read_back_add(struct read_back *back, struct bytes text) {
    check(back->count + text.count < sizeof back->calls);
    memcpy(back->calls + back->count, text.data, text.count);
    back->count += text.count;
}

static void read_back_take(void *context, enum token_stream_part part, struct bytes text) {
    struct read_back *back = context;
    if (part == TOKEN_STREAM_CONTENT) back->content = true;
    if (part == TOKEN_STREAM_CALL) {
        if (back->in_call) read_back_add(back, BYTES_LITERAL(")»"));
        read_back_add(back, BYTES_LITERAL("«"));
        back->in_call = true;
    }
    if (part == TOKEN_STREAM_CALL || part == TOKEN_STREAM_ARGUMENTS) read_back_add(back, text);
    if (part == TOKEN_STREAM_CALL) read_back_add(back, BYTES_LITERAL("("));
}

#define PLACE                                                                                      \
    ",\"parameters\":{\"type\":\"object\",\"properties\":{\"p-city\":{\"type\":\"string\"},"       \
    "\"p-days\":{\"type\":\"integer\"}},\"required\":[\"p-city\",\"p-days\"]}"
#define MANY                                                                                       \
    ",\"parameters\":{\"properties\":{\"p-mode\":{\"type\":\"string\",\"enum\":[\"on\",\"off\"]}," \
    "\"p-free\":{},\"p-note\":{\"type\":[\"string\",\"null\"],\"description\":\"d\"}}}"

static const char *const all_tools[] = {
    TOOL("t-none", ""),
    TOOL("t-place", PLACE),
    TOOL("t-strict", PLACE ",\"strict\":true"),
    TOOL("t-many", MANY),
    TOOL("t-any", ",\"parameters\":{}"),
};

/* A set of at least one of the tools, each at most once. */
static void draw_tools(struct drawing *drawing, char *out, size_t room) {
    size_t count = 1;
    uint64_t chosen = 1 + below(drawing, (1u << ARRAY_COUNT(all_tools)) - 1);
    out[0] = '[';
    for (size_t i = 0; i < ARRAY_COUNT(all_tools); i++)
        if (chosen >> i & 1)
            count += (size_t)snprintf(out + count, room - count, "%s%s", count > 1 ? "," : "",
                                      all_tools[i]);
    snprintf(out + count, room - count, "]");
}

static void check_read_back(struct drawing *drawing, const struct tool_set *set) {
    static struct tool_parser parser;
    static struct read_back back;
    back.count = 0;
    back.in_call = back.content = false;
    tool_parser_open(&parser, set);
    tool_parser_push(&parser, (struct bytes){drawing->text, drawing->count}, read_back_take, &back);
    tool_parser_finish(&parser, read_back_take, &back);
    if (back.in_call) read_back_add(&back, BYTES_LITERAL(")»"));
    if (back.content || !bytes_equal((struct bytes){back.calls, back.count},
                                     (struct bytes){drawing->calls, drawing->calls_count}))
        fail_msg("format %d\n%.*s\nis read as\n%.*s\nand not as\n%.*s", (int)set->format,
                 (int)drawing->count, drawing->text, (int)back.count, back.calls,
                 (int)drawing->calls_count, drawing->calls);
}

TEST(what_fulfils_a_form_is_read_back_as_its_calls) {
    static struct drawing drawing;
    static char tools[4096], memory[1 << 20];
    drawing.random = 7;
    for (int round = 0; round < 4000; round++) {
        struct arena arena;
        struct error error;
        const struct tool_set *set;
        struct tool_wish wish = {.format = (enum tool_format)(round % TOOL_FORMAT_COUNT),
                                 .single = below(&drawing, 2),
                                 .holds_all = below(&drawing, 2),
                                 .in_order = below(&drawing, 2),
                                 .from_mark = below(&drawing, 2)};
        if (below(&drawing, 2)) wish.tokenizer = tokenizers[wish.format];
        arena_over(&arena, memory, sizeof memory);
        draw_tools(&drawing, tools, sizeof tools);
        const struct tree *form = write(&arena, wish, tools), *list = NULL;
        assert_int_equal(tree_parse(&arena, bytes_of(tools), "tools", &list, &error), STATUS_OK);
        assert_int_equal(tool_format_set_open(&arena, wish.format, list, &set, &error), STATUS_OK);
        drawing.count = drawing.calls_count = 0;
        if (wish.format == TOOL_FORMAT_DEEPSEEK_V32 && wish.from_mark)
            put(&drawing, BYTES_LITERAL("<")); /* stands in front of its mark */
        drawing.pairs = wish.format == TOOL_FORMAT_DEEPSEEK_V32 || wish.format == TOOL_FORMAT_GLM;
        draw(&drawing, form);
        check_read_back(&drawing, set);
    }
}

TEST(tools_that_may_not_be_called_are_not_written) {
    static const bool named[] = {false, true, false};
    struct arena *arena = test_arena(1 << 20);
    struct bytes text = tree_text(
        arena, write(arena, (struct tool_wish){.format = TOOL_FORMAT_HERMES, .named = named},
                     "[" TOOL("one", "") "," TOOL("two", "") "," TOOL("three", "") "]"));
    assert_false(bytes_contain(text, BYTES_LITERAL("one")));
    assert_true(bytes_contain(text, BYTES_LITERAL("two")));
    assert_false(bytes_contain(text, BYTES_LITERAL("three")));
}

TEST(arguments_are_objects_whatever_their_schema_allows) {
    struct arena *arena = test_arena(1 << 20);
    struct bytes text = tree_text(
        arena,
        write(arena,
              (struct tool_wish){.format = TOOL_FORMAT_LLAMA, .holds_all = true, .single = true},
              "[" TOOL("f", ",\"parameters\":{\"minProperties\":1,\"type\":[\"object\","
                            "\"null\"]}") "]"));
    assert_true(bytes_contain(
        text, BYTES_LITERAL("{\"schema\":{\"type\":\"object\",\"minProperties\":1}}")));
}

TEST(a_forced_call_has_only_the_properties_that_its_schema_lists) {
#define CLOSED ",\"additionalProperties\":false}"
#define A "\"properties\":{\"a\":{\"type\":\"integer\"}}"
#define REF "{\"$ref\":\"#/$defs/A\"}"
    static const struct {
        const char *parameters, *enforced;
    } cases[] = {
        {"{\"type\":\"object\"," A ",\"required\":[\"a\"]}",
         "{\"type\":\"object\"," A ",\"required\":[\"a\"]" CLOSED},
        {"{\"type\":\"object\",\"properties\":{}}",
         "{\"type\":\"object\",\"properties\":{}" CLOSED},
        {"{\"type\":\"object\",\"properties\":{\"l\":{\"items\":{" A "}},\"o\":{\"anyOf\":[{" A
         "},{\"type\":\"null\"}]}}}",
         "{\"type\":\"object\",\"properties\":{\"l\":{\"items\":{" A CLOSED
         "},\"o\":{\"anyOf\":[{" A CLOSED ",{\"type\":\"null\"}]}}" CLOSED},
        {"{\"type\":\"object\",\"properties\":{\"l\":{\"items\":" REF "}},\"$defs\":{\"A\":{" A
         "}}}",
         "{\"type\":\"object\",\"properties\":{\"l\":{\"items\":" REF
         "}},\"$defs\":{\"A\":{" A CLOSED "}" CLOSED},
        {"{\"type\":\"object\",\"$ref\":\"#/definitions/A\",\"definitions\":{\"A\":{" A "}}}",
         "{\"type\":\"object\",\"$ref\":\"#/definitions/A\",\"definitions\":{\"A\":{" A "}}}"},
        {"{\"type\":\"object\",\"properties\":{\"o\":{\"allOf\":[" REF ",{}]}},\"$defs\":{\"A\":{" A
         "}}}",
         "{\"type\":\"object\",\"properties\":{\"o\":{\"allOf\":[" REF ",{}]}},\"$defs\":{\"A\":{" A
         "}}" CLOSED},
        {"{\"type\":\"object\",\"properties\":{\"o\":{\"$ref\":\"#/$defs/"
         "A\",\"required\":[\"b\"]}},\"$defs\":{\"A\":{" A "}}}",
         "{\"type\":\"object\",\"properties\":{\"o\":{\"$ref\":\"#/$defs/"
         "A\",\"required\":[\"b\"]}},\"$defs\":{\"A\":{" A "}}" CLOSED},
        /* these say more, and would accept nothing or less than they mean */
        {"{\"type\":\"object\"}", "{\"type\":\"object\"}"},
        {"{\"type\":\"object\"," A ",\"additionalProperties\":true}",
         "{\"type\":\"object\"," A ",\"additionalProperties\":true}"},
        {"{\"type\":\"object\"," A ",\"required\":[\"b\"]}",
         "{\"type\":\"object\"," A ",\"required\":[\"b\"]}"},
        {"{\"type\":\"object\"," A ",\"minProperties\":2}",
         "{\"type\":\"object\"," A ",\"minProperties\":2}"},
        {"{\"type\":\"object\",\"allOf\":[{" A "},{\"required\":[\"b\"]}]}",
         "{\"type\":\"object\",\"allOf\":[{" A "},{\"required\":[\"b\"]}]}"},
        {"{\"type\":\"object\"," A ",\"anyOf\":[{\"required\":[\"b\"]}]}",
         "{\"type\":\"object\"," A ",\"anyOf\":[{\"required\":[\"b\"]}]}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (int strict = 0; strict < 2; strict++) {
            char tools[512], enforced[512];
            struct arena *arena = test_arena(1 << 20);
            struct tool_wish wish = {
                .format = TOOL_FORMAT_LLAMA, .holds_all = true, .single = true};
            snprintf(tools, sizeof tools,
                     "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":%s,"
                     "\"parameters\":%s}}]",
                     strict ? "true" : "false", cases[i].parameters);
            snprintf(enforced, sizeof enforced, "{\"schema\":%s}",
                     strict ? cases[i].parameters : cases[i].enforced);
            struct bytes text = tree_text(arena, write(arena, wish, tools));
            if (!bytes_contain(text, bytes_of(enforced)))
                fail_msg("%s: %.*s", enforced, (int)text.count, text.data);
        }
#undef REF
#undef A
#undef CLOSED
}

TEST(objects_in_a_pair_have_only_the_properties_that_their_schema_lists) {
    struct arena *arena = test_arena(1 << 20);
    struct bytes text = tree_text(
        arena,
        write(
            arena, (struct tool_wish){.format = TOOL_FORMAT_GLM, .holds_all = true, .single = true},
            "[" TOOL("f",
                     ",\"parameters\":{\"properties\":{\"a\":{\"properties\":{\"b\":{}}}}}") "]"));
    assert_true(bytes_contain(text, BYTES_LITERAL("{\"schema\":{\"properties\":{\"b\":{}},"
                                                  "\"additionalProperties\":false}}")));
}

static bool holds(enum tool_format format, const char *tool) {
    return tool_writer_holds(format, test_tree(bytes_of(tool)));
}

TEST(pairs_hold_what_they_can) {
    static const char *const harder[] = {
        TOOL("f", ",\"parameters\":{\"anyOf\":[{}]}"),
        TOOL("f", ",\"parameters\":{\"required\":[\"a\"]}"),
        TOOL("f", ",\"parameters\":{\"properties\":{\"a b\":{}}}"),
        TOOL("f",
             ",\"parameters\":{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"b\"}}}"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(all_tools); i++)
        for (int f = 0; f < TOOL_FORMAT_COUNT; f++)
            assert_true(holds((enum tool_format)f, all_tools[i]));
    for (size_t i = 0; i < ARRAY_COUNT(harder); i++) {
        assert_false(holds(TOOL_FORMAT_DEEPSEEK_V32, harder[i]));
        assert_false(holds(TOOL_FORMAT_GLM, harder[i]));
        assert_true(holds(TOOL_FORMAT_DEEPSEEK_V31, harder[i]));
    }
}

TEST(references_of_a_pair_lead_to_definitions_beside_it) {
    struct arena *arena = test_arena(1 << 20);
    struct bytes text = tree_text(
        arena,
        write(arena,
              (struct tool_wish){.format = TOOL_FORMAT_GLM, .holds_all = true, .single = true},
              "[" TOOL("f", ",\"parameters\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/A\"}"
                            "},\"$defs\":{\"A\":{\"type\":\"null\"}}}") "]"));
    assert_true(bytes_contain(
        text, BYTES_LITERAL("{\"schema\":{\"$defs\":{\"A\":{\"type\":\"null\"}},\"allOf\":[{"
                            "\"$ref\":\"#/$defs/A\"}]}}")));
}

TEST(definitions_of_a_pair_have_only_the_properties_that_they_list) {
    struct arena *arena = test_arena(1 << 20);
    struct bytes text = tree_text(
        arena,
        write(arena,
              (struct tool_wish){.format = TOOL_FORMAT_GLM, .holds_all = true, .single = true},
              "[" TOOL("f", ",\"parameters\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/A\"}},"
                            "\"$defs\":{\"A\":{\"properties\":{\"b\":{}}}}}") "]"));
    assert_true(bytes_contain(
        text, BYTES_LITERAL("{\"schema\":{\"$defs\":{\"A\":{\"properties\":{\"b\":{}},"
                            "\"additionalProperties\":false}},\"allOf\":[{")));
}

/* The text of a form for one tool in pairs. */
static size_t pairs_bytes(unsigned properties, unsigned definitions) {
    static char tools[1 << 19];
    size_t count = (size_t)snprintf(tools, sizeof tools,
                                    "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                    "\"parameters\":{\"$defs\":{\"A\":{}");
    for (unsigned i = 0; i < definitions; i++)
        count += (size_t)snprintf(tools + count, sizeof tools - count,
                                  ",\"d%u\":{\"properties\":{\"a\":{},\"b\":{}}}", i);
    count += (size_t)snprintf(tools + count, sizeof tools - count, "},\"properties\":{\"a\":{}");
    for (unsigned i = 0; i < properties; i++)
        count += (size_t)snprintf(tools + count, sizeof tools - count,
                                  ",\"p%u\":{\"type\":\"integer\"}", i);
    count += (size_t)snprintf(tools + count, sizeof tools - count, "}}}}]");
    assert_true(count < sizeof tools);
    struct tool_wish wish = {.format = TOOL_FORMAT_GLM, .holds_all = true, .single = true};
    struct json_writer writer = {0};
    tree_write(&writer, write(test_arena((size_t)64 << 20), wish, tools));
    return writer.count;
}

/* Each pair repeats the definitions. What is refused as too large is not written to its end. */
TEST(a_form_of_pairs_ends_once_it_is_too_large) {
    static const struct { unsigned properties, definitions; } cases[] = {{8000, 0}, {300, 500}};
    assert_true(pairs_bytes(20, 20) < LIMIT_CONSTRAINT_BYTES);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t bytes = pairs_bytes(cases[i].properties, cases[i].definitions);
        assert_in_range(bytes, LIMIT_CONSTRAINT_BYTES + 1, 2 * LIMIT_CONSTRAINT_BYTES);
    }
}

TEST(a_mark_in_free_text_is_an_added_token) {
    struct bytes mark;
    for (int f = 0; f < TOOL_FORMAT_COUNT; f++) {
        assert_false(tool_writer_mark((enum tool_format)f, NULL, &mark));
        bool found = tool_writer_mark((enum tool_format)f, tokenizers[f], &mark);
        assert_int_equal(found, f != TOOL_FORMAT_LLAMA);
    }
    assert_true(
        tool_writer_mark(TOOL_FORMAT_DEEPSEEK_V3, tokenizers[TOOL_FORMAT_DEEPSEEK_V3], &mark));
    assert_true(bytes_equal(mark, BYTES_LITERAL("<｜tool▁call▁begin｜>")));
    assert_false(tool_writer_mark(TOOL_FORMAT_KIMI, tokenizers[TOOL_FORMAT_HERMES], &mark));
}

TEST(a_small_arena_writes_nothing) {
    static char memory[1 << 16];
    const struct tree *tools = test_tree(BYTES_LITERAL("[" TOOL("get", CITY) "]")), *form = NULL;
    size_t bytes = 0;
    for (; !form; bytes += 64) {
        struct arena arena;
        assert_true(bytes < sizeof memory);
        arena_over(&arena, memory, bytes);
        form = tool_writer_form(
            &arena, &(struct tool_wish){.format = TOOL_FORMAT_DEEPSEEK_V3, .tools = tools});
    }
    assert_true(bytes > 512);
}

static int open_group(void **state) {
    (void)state;
    open_tokenizers();
    return 0;
}

TEST_GROUP(open_group, NULL)
