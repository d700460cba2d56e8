/* SPDX-License-Identifier: Apache-2.0
 * The probes contain words that no template has. Whether and how they appear in the rendering
 * answers the question.
 */
#include "serving/text/chat_probe.h"

#include "base/check.h"

struct probing {
    const struct chat_source *source;
    struct arena *scratch;
};

/* Renders a conversation. `data` is NULL if the template rejects it. Earlier results stay valid
 * until the scratch is cleared. */
static struct bytes rendered(struct probing *probe, const char *request,
                             const struct chat_facts *facts, enum chat_thinking thinking) {
    static const struct bytes nothing = {NULL, 0};
    const struct tree *root;
    const struct jinja_variable *variables;
    struct jinja_rendering out;
    struct error ignored;
    size_t count;
    if (tree_parse(probe->scratch, bytes_of(request), "probe", &root, &ignored)) return nothing;
    struct chat_ask ask = {.messages = tree_member(root, "messages"),
                           .tools = tree_member(root, "tools"),
                           .thinking = thinking,
                           .prompts = true};
    const struct jinja_program *program =
        ask.tools ? probe->source->with_tools : probe->source->usual;
    if (chat_values_take(probe->source, facts, &ask, probe->scratch, &variables, &count) ||
        jinja_render(program, variables, count, &jinja_limits_usual, 0, probe->scratch, &out,
                     &ignored))
        return nothing;
    return out.text;
}

static bool chat_probe_has(struct bytes text, const char *word) {
    return bytes_contain(text, bytes_of(word));
}

#define USER_SAYS(content) "{\"role\":\"user\",\"content\":" content "}"
#define USER_SPEAKS USER_SAYS("\"Hello\"")
#define ASSISTANT_SPEAKS "{\"role\":\"assistant\",\"content\":\"Yes\"}"

/* ---- calls ---- */

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"fathom_tool\",\"description\":\"Looks\","    \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"fathom_place\":{\"type\":\"string\","   \
    "\"description\":\"What\"}},\"required\":[\"fathom_place\"]}}}]"

#define ASSISTANT_CALLS                                                                            \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call00001\","              \
    "\"type\":\"function\",\"function\":{\"name\":\"fathom_call\",\"arguments\":"                  \
    "\"{\\\"fathom_key\\\": \\\"fathom_value\\\"}\"}}]}"

#define TOOL_SAYS(content)                                                                         \
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"name\":\"fathom_call\","                  \
    "\"content\":" content "}"

#define CALLS(result)                                                                              \
    "{\"messages\":[" USER_SPEAKS "," ASSISTANT_CALLS                                              \
    "," TOOL_SAYS(result) "," ASSISTANT_SPEAKS "," USER_SPEAKS "],\"tools\":" TOOLS "}"

/* True if the text is Python's text of null, and not a word of the template. */
static bool shows_null(const struct probing *probe, struct bytes text) {
    return chat_probe_has(text, "None") &&
           !jinja_mentions(probe->source->with_tools, BYTES_LITERAL("None"));
}

/* True if the rendering has the call, with its arguments as JSON or in the template's own format:
 * neither JSON text inside JSON nor Python's text of an object. (Kimi's has an id and no name.) */
static bool shows_call(const struct probing *probe, struct bytes text) {
    return chat_probe_has(text, "fathom_value") && !chat_probe_has(text, "\\\"fathom_key") &&
           !chat_probe_has(text, "'fathom_key'") && !shows_null(probe, text);
}

/* Detects the form of calls. Arguments stay texts if the template supports that, to keep the
 * model's exact text. For a template that shows no calls, the supported forms are tested, and the
 * result is false. */
static bool probe_calls(struct probing *probe, struct chat_facts *facts) {
    static const struct {
        bool shows, objects;
        enum chat_silence silence;
    } ways[] = {
        {true, false, CHAT_SILENCE_NULL},  {true, false, CHAT_SILENCE_EMPTY},
        {true, true, CHAT_SILENCE_NULL},   {true, true, CHAT_SILENCE_EMPTY},
        {false, false, CHAT_SILENCE_NULL}, {false, false, CHAT_SILENCE_EMPTY},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        struct chat_facts tried = *facts;
        tried.wants_objects = ways[i].objects;
        tried.silence = ways[i].silence;
        arena_clear(probe->scratch);
        struct bytes text = rendered(probe, CALLS("\"Fine\""), &tried, CHAT_THINKING_DEFAULT);
        if (ways[i].shows ? !shows_call(probe, text) : !text.data || shows_null(probe, text))
            continue;
        *facts = tried;
        return ways[i].shows;
    }
    return false;
}

/* ---- parts ---- */

#define TWO_PARTS                                                                                  \
    "[{\"type\":\"text\",\"text\":\"fathom_one\"},{\"type\":\"text\",\"text\":\"fathom_two\"}]"

/* The probes of each role: the content as a text, and as two parts. */
static const char *const part_probes[CHAT_SPEAKER_COUNT][2] = {
#define SYSTEM(content)                                                                            \
    "{\"messages\":[{\"role\":\"system\",\"content\":" content "}," USER_SPEAKS "]}"
#define USER(content) "{\"messages\":[" USER_SAYS(content) "]}"
#define ASSISTANT(content)                                                                         \
    "{\"messages\":[" USER_SPEAKS ",{\"role\":\"assistant\",\"content\":" content "}," USER_SPEAKS \
    "]}"
#define ONE_TEXT "\"fathom_one fathom_two\""
    [CHAT_SPEAKER_SYSTEM] = {SYSTEM(ONE_TEXT), SYSTEM(TWO_PARTS)},
    [CHAT_SPEAKER_USER] = {USER(ONE_TEXT), USER(TWO_PARTS)},
    [CHAT_SPEAKER_ASSISTANT] = {ASSISTANT(ONE_TEXT), ASSISTANT(TWO_PARTS)},
    [CHAT_SPEAKER_TOOL] = {CALLS(ONE_TEXT), CALLS(TWO_PARTS)},
};

static bool shows_words(struct bytes text) {
    return chat_probe_has(text, "fathom_one") && chat_probe_has(text, "fathom_two") &&
           !chat_probe_has(text, "'text'") && !chat_probe_has(text, "\"text\"");
}

static void probe_parts(struct probing *probe, enum chat_speaker speaker,
                        struct chat_facts *facts) {
    bool takes[2];
    struct chat_facts tried = *facts;
    for (int parts = 0; parts < 2; parts++) {
        tried.parts[speaker] = parts ? CHAT_PARTS_TAKEN : CHAT_PARTS_JOINED;
        arena_clear(probe->scratch);
        takes[parts] = shows_words(
            rendered(probe, part_probes[speaker][parts], &tried, CHAT_THINKING_DEFAULT));
    }
    facts->parts[speaker] = !takes[1]  ? CHAT_PARTS_JOINED
                            : takes[0] ? CHAT_PARTS_TAKEN
                                       : CHAT_PARTS_ONLY;
}

/* ---- turns ---- */

#define SAYS(role, content) "{\"role\":\"" role "\",\"content\":\"" content "\"}"
#define MESSAGES(messages) "{\"messages\":[" messages "]}"

#define ONE_CALL(id, value)                                                                        \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"fathom_tool\","             \
    "\"arguments\":\"{\\\"fathom_place\\\": \\\"" value "\\\"}\"}}"

/* True if the template writes the words with these facts. `first` may be NULL. */
static bool chat_probe_takes(struct probing *probe, const char *request,
                             const struct chat_facts *facts, const char *first,
                             const char *second) {
    arena_clear(probe->scratch);
    struct bytes text = rendered(probe, request, facts, CHAT_THINKING_DEFAULT);
    return (!first || chat_probe_has(text, first)) && chat_probe_has(text, second);
}

/* A conversion of turns is enabled if the template rejects the original, or drops a word of it, and
 * supports the converted form. */
static void probe_turn(struct probing *probe, const char *request, struct chat_facts *facts,
                       bool *changes) {
    for (int tried = 0; tried < 2; tried++) {
        *changes = tried;
        if (chat_probe_takes(probe, request, facts, "fathom_one", "fathom_two")) return;
    }
    *changes = false;
}

/* True if the template supports system messages with these facts. A later one may replace the first
 * (R1): the template then supports both. A dropped message is not supported. */
static bool takes_systems(struct probing *probe, const struct chat_facts *facts) {
    static const char *const requests[] = {
        MESSAGES(SAYS("system", "fathom_one") "," SAYS("system", "fathom_two") "," USER_SPEAKS),
        MESSAGES(SAYS("system", "fathom_one") "," USER_SPEAKS "," ASSISTANT_SPEAKS
                                              "," SAYS("system", "fathom_two") "," USER_SPEAKS),
    };
    const char *first = facts->turns.systems == CHAT_SYSTEMS_ANYWHERE ? NULL : "fathom_one";
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++)
        if (!chat_probe_takes(probe, requests[i], facts, first, "fathom_two")) return false;
    return true;
}

static void probe_turns(struct probing *probe, struct chat_facts *facts) {
    struct chat_turns *turns = &facts->turns;
    probe_turn(probe, MESSAGES(SAYS("user", "fathom_one") "," SAYS("user", "fathom_two")), facts,
               &turns->joins_users);
    probe_turn(probe,
               MESSAGES(USER_SPEAKS "," SAYS("assistant", "fathom_one") "," SAYS(
                   "assistant", "fathom_two") "," USER_SPEAKS),
               facts, &turns->joins_assistants);
    probe_turn(probe,
               "{\"messages\":[" USER_SPEAKS "," ASSISTANT_CALLS
               "," TOOL_SAYS("\"fathom_one\"") "," SAYS("user", "fathom_two") "],\"tools\":" TOOLS
                                                                              "}",
               facts, &turns->joins_result);
    probe_turn(probe,
               "{\"messages\":[" USER_SPEAKS
               ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" ONE_CALL(
                   "call00001",
                   "fathom_one") "," ONE_CALL("call00002",
                                              "fathom_two") "]},"
                                                            "{\"role\":\"tool\",\"tool_call_id\":"
                                                            "\"call00001\",\"content\":\"Fine\"},"
                                                            "{\"role\":\"tool\",\"tool_call_id\":"
                                                            "\"call00002\",\"content\":\"Fine\"}"
                                                            "," ASSISTANT_SPEAKS "," USER_SPEAKS
                                                            "],\"tools\":" TOOLS "}",
               facts, &turns->splits_calls);
    for (turns->systems = CHAT_SYSTEMS_ANYWHERE; turns->systems <= CHAT_SYSTEMS_NOWHERE;
         turns->systems++)
        if (takes_systems(probe, facts)) return;
    turns->systems = CHAT_SYSTEMS_ANYWHERE; /* no conversion helps */
}

/* ---- thinking, tools ---- */

static void probe_thought(struct probing *probe, struct chat_findings *out) {
    static const char request[] = "{\"messages\":[" USER_SPEAKS "]}";
    const struct jinja_program *program = probe->source->usual;
    arena_clear(probe->scratch);
    struct bytes off = rendered(probe, request, &out->facts, CHAT_THINKING_OFF);
    struct bytes on = rendered(probe, request, &out->facts, CHAT_THINKING_ON);
    struct bytes usual = rendered(probe, request, &out->facts, CHAT_THINKING_DEFAULT);
    bool tags = jinja_mentions(program, BYTES_LITERAL("</think>")) ||
                jinja_mentions(program, BYTES_LITERAL("<think>"));
    out->thought = tags ? CHAT_THOUGHT_ALWAYS : CHAT_THOUGHT_NEVER;
    out->thinks_by_default = tags;
    if (!on.data || !off.data || bytes_equal(on, off)) return;
    out->thought = CHAT_THOUGHT_SWITCHED;
    out->thinks_by_default = !bytes_equal(usual, off);
}

void chat_probe(const struct chat_source *source, struct arena *scratch,
                struct chat_findings *out) {
    struct probing probe = {source, scratch};
    *out = (struct chat_findings){0};
    struct chat_facts *facts = &out->facts;
    facts->knows_developer = jinja_uses(source->usual, "developer");
    out->reads_documents = jinja_uses(source->usual, "documents");
    probe_parts(&probe, CHAT_SPEAKER_USER, facts);
    probe_parts(&probe, CHAT_SPEAKER_ASSISTANT, facts);
    out->prints_calls = probe_calls(&probe, facts);
    probe_parts(&probe, CHAT_SPEAKER_SYSTEM, facts);
    probe_parts(&probe, CHAT_SPEAKER_TOOL, facts);
    probe_turns(&probe, facts);
    probe_thought(&probe, out);
    arena_clear(scratch);
    out->prints_tools =
        chat_probe_has(rendered(&probe, "{\"messages\":[" USER_SPEAKS "],\"tools\":" TOOLS "}",
                                facts, CHAT_THINKING_DEFAULT),
                       "fathom_tool");
}
