/* SPDX-License-Identifier: Apache-2.0
 * The known templates are written down once, below, in normal form and with their alternatives; a
 * template is matched against them from front to back. The rendering that follows is these programs
 * in C, line by line.
 */
#include "serving/text/chat_template.h"

#include "base/check.h"
#include "base/tree.h"

#define TEMPLATE_BYTES_MAX ((size_t)64 << 10)

#define USER "<｜User｜>"
#define ASSISTANT "<｜Assistant｜>"
#define END_OF_SENTENCE "<｜end▁of▁sentence｜>"
#define CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define CALLS_END "<｜tool▁calls▁end｜>"
#define CALL_BEGIN "<｜tool▁call▁begin｜>"
#define CALL_END "<｜tool▁call▁end｜>"
#define SEPARATOR "<｜tool▁sep｜>"
#define OUTPUTS_BEGIN "<｜tool▁outputs▁begin｜>"
#define OUTPUTS_END "<｜tool▁outputs▁end｜>"
#define OUTPUT_BEGIN "<｜tool▁output▁begin｜>"
#define OUTPUT_END "<｜tool▁output▁end｜>"

/* ---- the known templates ---- */

/* {{ ... }} for one tool call, as the template spells it twice. */
#define CALL_PROGRAM(before)                                                                       \
    "{{'" before CALL_BEGIN "'+tool['type']+'" SEPARATOR "'+tool['function']['name']+'\\n'+"       \
    "'```json'+'\\n'+tool['function']['arguments']+'\\n'+'```'+'" CALL_END "'}}"

#define FIRST_CALL_PROGRAM CALL_PROGRAM(ASSISTANT CALLS_BEGIN)
#define LATER_CALL_PROGRAM CALL_PROGRAM("\\n'+'")

static const char start_program[] =
    "{%if not add_generation_prompt is defined%}{%set add_generation_prompt=false%}{%endif%}"
    "{%set ns=namespace(is_first=false,is_tool=false,is_output_first=true,system_prompt=''";

static const char last_system_program[] =
    ")%}{%for message in messages%}{%if message['role']=='system'%}"
    "{%set ns.system_prompt=message['content']%}{%endif%}{%endfor%}";

#define JOINED_SYSTEMS                                                                             \
    "{%for message in messages%}{%if message['role']=='system'%}"                                  \
    "{%if ns.is_first_sp%}{%set ns.system_prompt=ns.system_prompt+message['content']%}"            \
    "{%set ns.is_first_sp=false%}{%else%}"                                                         \
    "{%set ns.system_prompt=ns.system_prompt+'\\n\\n'+message['content']%}"                        \
    "{%endif%}{%endif%}{%endfor%}"

static const char joined_systems_program[] = ",is_first_sp=true)%}" JOINED_SYSTEMS;

static const char turns_program[] =
    "{{bos_token}}{{ns.system_prompt}}{%for message in messages%}"
    "{%if message['role']=='user'%}{%set ns.is_tool=false%}"
    "{{'" USER "'+message['content']}}{%endif%}"
    "{%if message['role']=='assistant'and message['content']is none%}{%set ns.is_tool=false%}"
    "{%for tool in message['tool_calls']%}"
    "{%if not ns.is_first%}" FIRST_CALL_PROGRAM "{%set ns.is_first=true%}"
    "{%else%}" LATER_CALL_PROGRAM "{{'" CALLS_END END_OF_SENTENCE "'}}{%endif%}{%endfor%}{%endif%}"
    "{%if message['role']=='assistant'and message['content']is not none%}"
    "{%if ns.is_tool%}{{'" OUTPUTS_END "'+message['content']+'" END_OF_SENTENCE "'}}"
    "{%set ns.is_tool=false%}{%else%}";

static const char verbatim_program[] =
    "{{'" ASSISTANT "'+message['content']+'" END_OF_SENTENCE "'}}";

static const char dropped_thoughts_program[] =
    "{%set content=message['content']%}{%if'</think>'in content%}"
    "{%set content=content.split('</think>')[-1]%}{%endif%}"
    "{{'" ASSISTANT "'+content+'" END_OF_SENTENCE "'}}";

static const char tools_program[] =
    "{%endif%}{%endif%}{%if message['role']=='tool'%}{%set ns.is_tool=true%}"
    "{%if ns.is_output_first%}"
    "{{'" OUTPUTS_BEGIN OUTPUT_BEGIN "'+message['content']+'" OUTPUT_END "'}}"
    "{%set ns.is_output_first=false%}{%else%}"
    "{{'\\n" OUTPUT_BEGIN "'+message['content']+'" OUTPUT_END "'}}{%endif%}{%endif%}{%endfor%}"
    "{%if ns.is_tool%}{{'" OUTPUTS_END "'}}{%endif%}"
    "{%if add_generation_prompt and not ns.is_tool%}";

static const char prompt_program[] = "{{'" ASSISTANT "'}}{%endif%}";
static const char thinking_prompt_program[] = "{{'" ASSISTANT "<think>\\n'}}{%endif%}";

/* V3-0324 and R1-0528: one program, but for what they call a message's text and that R1 drops
 * thoughts. */

#define MARKED_USER "{%set ns.is_tool=false%}{%set ns.is_first=false%}{%set ns.is_last_user=true%}"

#define CALL_TEXT                                                                                  \
    CALL_BEGIN "'+tool['type']+'" SEPARATOR "'+tool['function']['name']+'\\n'+"                    \
               "'```json'+'\\n'+tool['function']['arguments']+'\\n'+'```'+'" CALL_END "'}}"

#define PLAIN_ANSWER                                                                               \
    "{%if message['role']=='assistant'and(message['tool_calls']is not defined "                    \
    "or message['tool_calls']is none)%}"

#define MARKED_ANSWERS(content, content_is)                                                        \
    "{%if message['role']=='assistant'and message['tool_calls']is defined "                        \
    "and message['tool_calls']is not none%}{%set ns.is_last_user=false%}"                          \
    "{%if ns.is_tool%}{{'" OUTPUTS_END "'}}{%endif%}{%set ns.is_first=false%}"                     \
    "{%set ns.is_tool=false%}{%set ns.is_output_first=true%}"                                      \
    "{%for tool in message['tool_calls']%}{%if not ns.is_first%}{%if " content_is " none%}"        \
    "{{'" CALLS_BEGIN CALL_TEXT "{%else%}{{" content "+'" CALLS_BEGIN CALL_TEXT "{%endif%}"        \
    "{%set ns.is_first=true%}{%else%}{{'\\n'+'" CALL_TEXT "{%endif%}{%endfor%}"                    \
    "{{'" CALLS_END END_OF_SENTENCE "'}}{%endif%}" PLAIN_ANSWER "{%set ns.is_last_user=false%}"    \
    "{%if ns.is_tool%}"

#define MARKED_TOOLS(content)                                                                      \
    "{%if message['role']=='tool'%}{%set ns.is_last_user=false%}{%set ns.is_tool=true%}"           \
    "{%if ns.is_output_first%}{{'" OUTPUTS_BEGIN OUTPUT_BEGIN "'+" content "+'" OUTPUT_END "'}}"   \
    "{%set ns.is_output_first=false%}{%else%}"                                                     \
    "{{'\\n" OUTPUT_BEGIN "'+" content "+'" OUTPUT_END "'}}{%endif%}{%endif%}{%endfor%}"

static const char marked_start_program[] =
    ",is_first_sp=true,is_last_user=false)%}" JOINED_SYSTEMS
    "{{bos_token}}{{ns.system_prompt}}{%for message in messages%}";

/* clang-format off */
#define MESSAGE "message['content']"

static const char marked_turns_program[] =
    "{%if message['role']=='user'%}" MARKED_USER
    "{{'" USER "'+" MESSAGE "+'" ASSISTANT "'}}{%endif%}"
    MARKED_ANSWERS(MESSAGE, MESSAGE "is")
    "{{'" OUTPUTS_END "'+" MESSAGE "+'" END_OF_SENTENCE "'}}{%set ns.is_tool=false%}"
    "{%else%}{%set content=" MESSAGE "%}{{content+'" END_OF_SENTENCE "'}}{%endif%}{%endif%}"
    MARKED_TOOLS(MESSAGE);

static const char marked_dropped_thoughts_program[] =
    "{%set content=" MESSAGE "%}"
    "{%if message['role']=='user'%}" MARKED_USER "{{'" USER "'+content+'" ASSISTANT "'}}{%endif%}"
    "{%if message['role']=='assistant'%}{%if'</think>'in content%}"
    "{%set content=content.split('</think>')[-1]%}{%endif%}{%endif%}"
    MARKED_ANSWERS("content", "content is")
    "{{'" OUTPUTS_END "'+content+'" END_OF_SENTENCE "'}}{%set ns.is_tool=false%}"
    "{%else%}{{content+'" END_OF_SENTENCE "'}}{%endif%}{%endif%}"
    MARKED_TOOLS("content");
/* clang-format on */

static const char marked_prompt_program[] =
    "{%if ns.is_tool%}{{'" OUTPUTS_END "'}}{%endif%}"
    "{%if add_generation_prompt and not ns.is_last_user and not ns.is_tool%}"
    "{{'" ASSISTANT "'}}{%endif%}";

/* V3.1: thinking is a wish of the caller's, here always absent; so is an answer's prefix. */

#define SHORT_CALL_TEXT                                                                            \
    CALL_BEGIN "'+tool['function']['name']+'" SEPARATOR                                            \
               "'+tool['function']['arguments']+'" CALL_END "'}}"

static const char closed_thought_program[] =
    "{%if not add_generation_prompt is defined%}{%set add_generation_prompt=false%}{%endif%}"
    "{%if not thinking is defined%}{%set thinking=false%}{%endif%}"
    "{%set ns=namespace(is_first=false,is_tool=false,system_prompt='',is_first_sp=true,"
    "is_last_user=false)%}" JOINED_SYSTEMS
    "{{bos_token}}{{ns.system_prompt}}{%for message in messages%}"
    "{%if message['role']=='user'%}" MARKED_USER "{{'" USER "'+message['content']}}{%endif%}"
    "{%if message['role']=='assistant'and message['tool_calls']is defined "
    "and message['tool_calls']is not none%}"
    "{%if ns.is_last_user%}{{'" ASSISTANT "</think>'}}{%endif%}{%set ns.is_last_user=false%}"
    "{%set ns.is_first=false%}{%set ns.is_tool=false%}"
    "{%for tool in message['tool_calls']%}{%if not ns.is_first%}"
    "{%if message['content']is none%}{{'" CALLS_BEGIN SHORT_CALL_TEXT
    "{%else%}{{message['content']+'" CALLS_BEGIN SHORT_CALL_TEXT "{%endif%}"
    "{%set ns.is_first=true%}{%else%}{{'" SHORT_CALL_TEXT "{%endif%}{%endfor%}"
    "{{'" CALLS_END END_OF_SENTENCE "'}}{%endif%}" PLAIN_ANSWER
    "{%if ns.is_last_user%}{{'" ASSISTANT "'}}"
    "{%if message['prefix']is defined and message['prefix']and thinking%}{{'<think>'}}"
    "{%else%}{{'</think>'}}{%endif%}{%endif%}{%set ns.is_last_user=false%}"
    "{%if ns.is_tool%}{{message['content']+'" END_OF_SENTENCE "'}}{%set ns.is_tool=false%}"
    "{%else%}{%set content=message['content']%}"
    "{%if'</think>'in content%}{%set content=content.split('</think>',1)[1]%}{%endif%}"
    "{{content+'" END_OF_SENTENCE "'}}{%endif%}{%endif%}"
    "{%if message['role']=='tool'%}{%set ns.is_last_user=false%}{%set ns.is_tool=true%}"
    "{{'" OUTPUT_BEGIN "'+message['content']+'" OUTPUT_END "'}}{%endif%}{%endfor%}"
    "{%if add_generation_prompt and ns.is_last_user and not ns.is_tool%}{{'" ASSISTANT "'}}"
    "{%if not thinking%}{{'</think>'}}{%else%}{{'<think>'}}{%endif%}{%endif%}";

/* V2. */
static const char words_program[] =
    "{%if not add_generation_prompt is defined%}{%set add_generation_prompt=false%}{%endif%}"
    "{{bos_token}}{%for message in messages%}"
    "{%if message['role']=='user'%}{{'User: '+message['content']+'\\n\\n'}}"
    "{%elif message['role']=='assistant'%}{{'Assistant: '+message['content']+eos_token}}"
    "{%elif message['role']=='system'%}{{message['content']+'\\n\\n'}}{%endif%}{%endfor%}"
    "{%if add_generation_prompt%}{{'Assistant:'}}{%endif%}";

#define PASSAGES_MAX 6

static const struct passage {
    const char *text;  /* this, or */
    const char *other; /* this, if not NULL, which sets the flag at `offset` */
    size_t offset;     /* in struct chat_template */
} known[CHAT_FORM_COUNT][PASSAGES_MAX] = {
    [CHAT_FORM_V3] =
        {
            {start_program, NULL, 0},
            {last_system_program, joined_systems_program,
             offsetof(struct chat_template, joins_systems)},
            {turns_program, NULL, 0},
            {verbatim_program, dropped_thoughts_program,
             offsetof(struct chat_template, drops_thoughts)},
            {tools_program, NULL, 0},
            {prompt_program, thinking_prompt_program,
             offsetof(struct chat_template, opens_thought)},
        },
    [CHAT_FORM_V3_0324] =
        {
            {start_program, NULL, 0},
            {marked_start_program, NULL, 0},
            {marked_turns_program, marked_dropped_thoughts_program,
             offsetof(struct chat_template, drops_thoughts)},
            {marked_prompt_program, NULL, 0},
        },
    [CHAT_FORM_V3_1] = {{closed_thought_program, NULL, 0}},
    [CHAT_FORM_V2] = {{words_program, NULL, 0}},
};

/* ---- the normal form ---- */

/* Jinja's own rules, with trim_blocks and lstrip_blocks on, as transformers sets them. */
struct normalizer {
    struct bytes source;
    size_t at;
    char *out; /* room for twice the source: a newline inside a string becomes \n */
    size_t count;
    bool after_block; /* the last tag was {% %}: it takes a newline that follows with it */
    bool after_dash;  /* the last tag ended with -%} or -}}: it takes all white space */
};

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Place of the next tag's opening brace, or the source's end. */
static size_t next_tag(const struct normalizer *n) {
    for (size_t i = n->at; i + 1 < n->source.count; i++)
        if (n->source.data[i] == '{' &&
            (n->source.data[i + 1] == '%' || n->source.data[i + 1] == '{'))
            return i;
    return n->source.count;
}

/* The text before the tag at `tag`, less what the tags on both sides take with them. */
static void copy_text(struct normalizer *n, size_t tag) {
    const char *data = n->source.data;
    size_t start = n->at, end = tag;
    bool last = tag == n->source.count;
    bool block = !last && data[tag + 1] == '%';
    char control = !last && tag + 2 < n->source.count ? data[tag + 2] : ' ';
    if (last && end > start && data[end - 1] == '\n') end--; /* the template's last newline */
    if (control == '-') {
        while (end > start && is_space(data[end - 1]))
            end--;
    } else if (block && control != '+') { /* blanks between the line's start and the block */
        size_t line = end;
        while (line > start && (data[line - 1] == ' ' || data[line - 1] == '\t'))
            line--;
        if (line == 0 || data[line - 1] == '\n') end = line;
    }
    if (n->after_dash) {
        while (start < end && is_space(data[start]))
            start++;
    } else if (n->after_block && start < end && data[start] == '\n') {
        start++;
    }
    memcpy(n->out + n->count, data + start, end - start);
    n->count += end - start;
}

/* A string literal, always in single quotes, newlines written as \n. */
static void copy_string(struct normalizer *n) {
    const char *data = n->source.data;
    char quote = data[n->at++];
    n->out[n->count++] = '\'';
    while (n->at < n->source.count && data[n->at] != quote) {
        char c = data[n->at++];
        if (c == '\n') {
            n->out[n->count++] = '\\';
            n->out[n->count++] = 'n';
            continue;
        }
        n->out[n->count++] = c;
        if (c == '\\' && n->at < n->source.count) n->out[n->count++] = data[n->at++];
    }
    n->out[n->count++] = '\'';
    n->at++;
}

/* One tag, without its white space and its white space control. False: it does not end. */
static bool copy_tag(struct normalizer *n) {
    const char *data = n->source.data;
    bool block = data[n->at + 1] == '%', blank = false;
    char close = block ? '%' : '}';
    memcpy(n->out + n->count, data + n->at, 2);
    n->count += 2;
    n->at += 2;
    if (n->at < n->source.count && (data[n->at] == '-' || data[n->at] == '+')) n->at++;
    while (n->at + 1 < n->source.count) {
        char c = data[n->at];
        n->after_dash = c == '-' && n->at + 2 < n->source.count && data[n->at + 1] == close &&
                        data[n->at + 2] == '}';
        if (n->after_dash || (c == close && data[n->at + 1] == '}')) {
            n->at += n->after_dash ? 3 : 2;
            n->out[n->count++] = close;
            n->out[n->count++] = '}';
            n->after_block = block;
            return true;
        }
        if (blank && is_word(c) && is_word(n->out[n->count - 1])) n->out[n->count++] = ' ';
        blank = is_space(c);
        if (c == '\'' || c == '"') {
            copy_string(n);
        } else {
            if (!blank) n->out[n->count++] = c;
            n->at++;
        }
    }
    return false;
}

/* Room: every byte of the source makes at most two. False: no template that we could know. */
static bool normalize(struct arena *scratch, struct bytes source, struct bytes *out) {
    struct normalizer n = {.source = source};
    n.out = source.count <= TEMPLATE_BYTES_MAX ? arena_take(scratch, 2 * source.count + 16) : NULL;
    if (!n.out) return false;
    while (n.at < source.count) {
        size_t tag = next_tag(&n);
        copy_text(&n, tag);
        n.at = tag;
        if (tag < source.count && !copy_tag(&n)) return false;
    }
    *out = (struct bytes){n.out, n.count};
    return true;
}

/* Takes `text` from the front of `rest`. */
static bool take(struct bytes *rest, const char *text) {
    struct bytes prefix = bytes_of(text);
    if (!bytes_start_with(*rest, prefix)) return false;
    *rest = (struct bytes){rest->data + prefix.count, rest->count - prefix.count};
    return true;
}

/* Matches `source` with one form; `rest_out` is what does not. */
static bool is_of_form(struct bytes source, enum chat_form form, struct chat_template *found,
                       struct bytes *rest_out) {
    const struct passage *passages = known[form];
    bool fits = true;
    found->form = form;
    found->present = true;
    for (size_t i = 0; i < PASSAGES_MAX && passages[i].text && fits; i++) {
        bool other = passages[i].other && take(&source, passages[i].other);
        if (other) memcpy((char *)found + passages[i].offset, &other, sizeof other);
        fits = other || take(&source, passages[i].text);
    }
    *rest_out = source;
    return fits && source.count == 0;
}

static enum status recognize(struct arena *scratch, struct bytes source, const char *name,
                             struct chat_template *out, struct error *error) {
    struct bytes program = {"", 0}, rest = {"", 0};
    bool readable = normalize(scratch, source, &program);
    for (int form = 0; form < CHAT_FORM_COUNT && readable; form++) {
        struct chat_template found = *out;
        struct bytes left;
        if (is_of_form(program, (enum chat_form)form, &found, &left)) {
            *out = found;
            return STATUS_OK;
        }
        if (form == 0 || left.count < rest.count) rest = left; /* the form it is closest to */
    }
    int shown = (int)(rest.count < 60 ? rest.count : 60);
    for (int i = 0; i < shown; i++)
        if ((uint8_t)rest.data[i] < ' ') shown = i; /* the message is one line */
    while (shown > 0 && ((uint8_t)rest.data[shown - 1] & 0x80))
        shown--; /* of whole characters */
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: chat_template is none of DeepSeek's that are known here: it "
                     "departs from them near '%.*s'; without chat_template the model serves plain "
                     "prompts (/v1/completions)",
                     name, shown, rest.data);
}

/* ---- tokenizer_config.json ---- */

/* A token is given as text or as an object with its content; null or absent: none. */
static enum status read_token(struct arena *arena, const struct tree *root, const char *key,
                              const char *name, struct bytes *out, struct error *error) {
    const struct tree *value = tree_member(root, key);
    struct bytes text = {"", 0};
    if (!tree_get_string(value, &text) && !tree_get_string(tree_member(value, "content"), &text) &&
        value && !tree_is_null(value))
        return error_set(error, STATUS_INVALID, "%s: %s is %s, expected a string or an object",
                         name, key, tree_kind_name(tree_kind(value)));
    *out = arena_copy(arena, text);
    return out->data ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "%s: no memory", name);
}

/* A template is given as text, or as a list of named ones, of which "default" is meant. */
static bool find_template(const struct tree *root, struct bytes *out) {
    const struct tree *value = tree_member(root, "chat_template");
    if (tree_get_string(value, out)) return true;
    for (size_t i = 0; i < tree_count(value); i++) {
        struct bytes label = {"", 0};
        const struct tree *entry = tree_at(value, i);
        if (tree_get_string(tree_member(entry, "name"), &label) &&
            bytes_equal(label, BYTES_LITERAL("default")))
            return tree_get_string(tree_member(entry, "template"), out);
    }
    return false;
}

enum status chat_template_open(struct arena *arena, struct arena *scratch, struct bytes config_json,
                               const char *name, struct chat_template *out, struct error *error) {
    const struct tree *root = NULL;
    struct chat_template found = {0};
    struct bytes source;
    enum status status = tree_parse(scratch, config_json, name, &root, error);
    if (!status) status = read_token(arena, root, "bos_token", name, &found.bos, error);
    if (!status) status = read_token(arena, root, "eos_token", name, &found.eos, error);
    if (!status && find_template(root, &source))
        status = recognize(scratch, source, name, &found, error);
    if (status) return status;
    (void)tree_get_bool(tree_member(root, "add_bos_token"), &found.adds_bos);
    *out = found;
    return STATUS_OK;
}

bool chat_role_from_text(struct bytes text, enum chat_role *out) {
    static const char *const names[CHAT_ROLE_COUNT] = {"system", "user", "assistant", "tool"};
    for (int role = 0; role < CHAT_ROLE_COUNT; role++) {
        if (!bytes_equal(text, bytes_of(names[role]))) continue;
        *out = (enum chat_role)role;
        return true;
    }
    return false;
}

/* ---- rendering ---- */

struct rendering {
    const struct chat_template *chat_template;
    struct chat_rendering *out;
    /* the template's namespace: set along the way, as it does, quirks included */
    bool is_first, is_tool, is_output_later, is_last_user;
};

/* Text of the template's own. */
static void put_own(struct rendering *r, struct bytes text) {
    struct chat_rendering *out = r->out;
    if (out->count <= out->capacity && text.count <= out->capacity - out->count && text.count > 0)
        memcpy(out->text + out->count, text.data, text.count);
    out->count += text.count;
}

static void put_text(struct rendering *r, const char *text) {
    put_own(r, bytes_of(text));
}

/* Text of a message. */
static void put(struct rendering *r, struct bytes text) {
    struct chat_rendering *out = r->out;
    size_t start = out->count;
    put_own(r, text);
    if (text.count == 0) return;
    if (out->contents && out->content_count < out->content_capacity)
        out->contents[out->content_count] =
            (struct text_span){(uint32_t)start, (uint32_t)out->count};
    out->content_count++;
}

static void put_systems(struct rendering *r, const struct chat_message *messages, size_t count) {
    bool joins = r->chat_template->joins_systems || r->chat_template->form != CHAT_FORM_V3;
    size_t last = count;
    for (size_t i = 0; i < count; i++) {
        if (messages[i].role != CHAT_SYSTEM) continue;
        if (joins) {
            if (last < count) put_text(r, "\n\n");
            put(r, messages[i].content);
        }
        last = i;
    }
    if (!joins && last < count) put(r, messages[last].content);
}

static void put_call_text(struct rendering *r, const struct chat_tool_call *call) {
    put_text(r, CALL_BEGIN);
    put(r, call->type);
    put_text(r, SEPARATOR);
    put(r, call->name);
    put_text(r, "\n```json\n");
    put(r, call->arguments);
    put_text(r, "\n```" CALL_END);
}

static const struct bytes think_tag = {"</think>", 8};

/* What follows the last "</think>", or all of it. */
static struct bytes without_thoughts(struct bytes content) {
    for (size_t at = content.count; at >= think_tag.count; at--)
        if (!memcmp(content.data + at - think_tag.count, think_tag.data, think_tag.count))
            return (struct bytes){content.data + at, content.count - at};
    return content;
}

/* What follows the first "</think>", or all of it. */
static struct bytes without_first_thought(struct bytes content) {
    for (size_t at = 0; content.count - at >= think_tag.count; at++)
        if (!memcmp(content.data + at, think_tag.data, think_tag.count))
            return (struct bytes){content.data + at + think_tag.count,
                                  content.count - at - think_tag.count};
    return content;
}

static void put_tool(struct rendering *r, const struct chat_message *message) {
    r->is_tool = true;
    put_text(r, r->is_output_later ? "\n" OUTPUT_BEGIN : OUTPUTS_BEGIN OUTPUT_BEGIN);
    put(r, message->content);
    put_text(r, OUTPUT_END);
    r->is_output_later = true;
}

/* ---- rendering: V3, R1 ---- */

static void v3_put_call(struct rendering *r, const struct chat_tool_call *call) {
    put_text(r, r->is_first ? "\n" : ASSISTANT CALLS_BEGIN);
    put_call_text(r, call);
    if (r->is_first) put_text(r, CALLS_END END_OF_SENTENCE);
    r->is_first = true;
}

static void v3_put_assistant(struct rendering *r, const struct chat_message *message) {
    bool answers_tool = r->is_tool;
    r->is_tool = false;
    if (!message->has_content) {
        for (size_t i = 0; i < message->tool_call_count; i++)
            v3_put_call(r, &message->tool_calls[i]);
        return;
    }
    bool drop = r->chat_template->drops_thoughts && !answers_tool;
    put_text(r, answers_tool ? OUTPUTS_END : ASSISTANT);
    put(r, drop ? without_thoughts(message->content) : message->content);
    put_text(r, END_OF_SENTENCE);
}

static void v3_put_message(struct rendering *r, const struct chat_message *message) {
    switch (message->role) {
    case CHAT_USER:
        r->is_tool = false;
        put_text(r, USER);
        put(r, message->content);
        break;
    case CHAT_ASSISTANT:
        v3_put_assistant(r, message);
        break;
    case CHAT_TOOL:
        put_tool(r, message);
        break;
    case CHAT_SYSTEM: /* stands at the front already */
    case CHAT_ROLE_COUNT:
        break;
    }
}

static bool v3_put_prompt(struct rendering *r, bool wanted) {
    bool opens_thought = false;
    if (r->is_tool) {
        put_text(r, OUTPUTS_END);
    } else if (wanted) {
        opens_thought = r->chat_template->opens_thought;
        put_text(r, opens_thought ? ASSISTANT "<think>\n" : ASSISTANT);
    }
    return opens_thought;
}

/* ---- rendering: V3-0324, R1-0528 ---- */

static void marked_put_assistant(struct rendering *r, const struct chat_message *message) {
    if (r->is_tool) put_text(r, OUTPUTS_END);
    r->is_tool = r->is_last_user = false;
    put(r,
        r->chat_template->drops_thoughts ? without_thoughts(message->content) : message->content);
    if (message->tool_call_count > 0) {
        r->is_output_later = false;
        for (size_t i = 0; i < message->tool_call_count; i++) {
            put_text(r, i == 0 ? CALLS_BEGIN : "\n");
            put_call_text(r, &message->tool_calls[i]);
        }
        put_text(r, CALLS_END);
    }
    put_text(r, END_OF_SENTENCE);
}

static void marked_put_message(struct rendering *r, const struct chat_message *message) {
    switch (message->role) {
    case CHAT_USER:
        r->is_tool = false;
        r->is_last_user = true;
        put_text(r, USER);
        put(r, message->content);
        put_text(r, ASSISTANT);
        break;
    case CHAT_ASSISTANT:
        marked_put_assistant(r, message);
        break;
    case CHAT_TOOL:
        r->is_last_user = false;
        put_tool(r, message);
        break;
    case CHAT_SYSTEM:
    case CHAT_ROLE_COUNT:
        break;
    }
}

static bool marked_put_prompt(struct rendering *r, bool wanted) {
    if (r->is_tool)
        put_text(r, OUTPUTS_END);
    else if (wanted && !r->is_last_user)
        put_text(r, ASSISTANT);
    return false;
}

/* ---- rendering: V3.1 ---- */

static void v31_put_assistant(struct rendering *r, const struct chat_message *message) {
    bool drop = message->tool_call_count == 0 && !r->is_tool;
    if (r->is_last_user) put_text(r, ASSISTANT "</think>");
    r->is_tool = r->is_last_user = false;
    put(r, drop ? without_first_thought(message->content) : message->content);
    for (size_t i = 0; i < message->tool_call_count; i++) {
        put_text(r, i == 0 ? CALLS_BEGIN CALL_BEGIN : CALL_BEGIN);
        put(r, message->tool_calls[i].name);
        put_text(r, SEPARATOR);
        put(r, message->tool_calls[i].arguments);
        put_text(r, CALL_END);
    }
    put_text(r, message->tool_call_count > 0 ? CALLS_END END_OF_SENTENCE : END_OF_SENTENCE);
}

static void v31_put_message(struct rendering *r, const struct chat_message *message) {
    switch (message->role) {
    case CHAT_USER:
        r->is_tool = false;
        r->is_last_user = true;
        put_text(r, USER);
        put(r, message->content);
        break;
    case CHAT_ASSISTANT:
        v31_put_assistant(r, message);
        break;
    case CHAT_TOOL:
        r->is_last_user = false;
        r->is_tool = true;
        put_text(r, OUTPUT_BEGIN);
        put(r, message->content);
        put_text(r, OUTPUT_END);
        break;
    case CHAT_SYSTEM:
    case CHAT_ROLE_COUNT:
        break;
    }
}

static bool v31_put_prompt(struct rendering *r, bool wanted) {
    if (wanted && r->is_last_user) put_text(r, ASSISTANT "</think>");
    return false;
}

/* ---- rendering: V2 ---- */

static void v2_put_message(struct rendering *r, const struct chat_message *message) {
    if (message->role == CHAT_TOOL) return; /* the template knows none */
    put_text(r, message->role == CHAT_USER        ? "User: "
                : message->role == CHAT_ASSISTANT ? "Assistant: "
                                                  : "");
    put(r, message->content);
    if (message->role == CHAT_ASSISTANT)
        put_own(r, r->chat_template->eos);
    else
        put_text(r, "\n\n");
}

static bool v2_put_prompt(struct rendering *r, bool wanted) {
    if (wanted) put_text(r, "Assistant:");
    return false;
}

/* ---- rendering: all ---- */

static const struct form {
    void (*put_message)(struct rendering *r, const struct chat_message *message);
    bool (*put_prompt)(struct rendering *r, bool wanted); /* true: it opened the reasoning */
    bool systems_first;                                   /* they stand in front of all else */
} forms[CHAT_FORM_COUNT] = {
    [CHAT_FORM_V3] = {v3_put_message, v3_put_prompt, true},
    [CHAT_FORM_V3_0324] = {marked_put_message, marked_put_prompt, true},
    [CHAT_FORM_V3_1] = {v31_put_message, v31_put_prompt, true},
    [CHAT_FORM_V2] = {v2_put_message, v2_put_prompt, false},
};

/* Where the templates themselves fail: they add the content, null, to a text. */
static bool lacks_content(const struct chat_template *chat_template,
                          const struct chat_message *message) {
    if (message->has_content) return false;
    return message->role != CHAT_ASSISTANT ||
           (chat_template->form != CHAT_FORM_V3 && message->tool_call_count == 0);
}

enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_message *messages, size_t message_count,
                                 bool add_generation_prompt, struct chat_rendering *rendering,
                                 struct error *error) {
    if (!chat_template->present)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this model has no chat template; use /v1/completions");
    for (size_t i = 0; i < message_count; i++)
        if (lacks_content(chat_template, &messages[i]))
            return error_set(error, STATUS_INVALID, "messages[%zu] has no content", i);
    const struct form *form = &forms[chat_template->form];
    struct rendering r = {.chat_template = chat_template, .out = rendering};
    rendering->count = rendering->content_count = 0;
    put_own(&r, chat_template->bos);
    if (form->systems_first) put_systems(&r, messages, message_count);
    for (size_t i = 0; i < message_count; i++)
        form->put_message(&r, &messages[i]);
    bool opens_thought = form->put_prompt(&r, add_generation_prompt);
    bool thinks = chat_template->drops_thoughts || chat_template->opens_thought;
    rendering->stream = opens_thought ? TOKEN_STREAM_IN_REASONING
                        : thinks      ? TOKEN_STREAM_MAY_THINK
                                      : TOKEN_STREAM_PLAIN;
    bool fits = !rendering->contents || rendering->content_count <= rendering->content_capacity;
    return rendering->count <= rendering->capacity && fits ? STATUS_OK : STATUS_FULL;
}
