/* SPDX-License-Identifier: Apache-2.0
 * The known family is written down once, below, in normal form and with its alternatives; a
 * template is matched against it from front to back. The rendering that follows is that program in
 * C, line by line.
 */
#include "text/chat_template.h"

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

/* --- the family --- */

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

static const char joined_systems_program[] =
    ",is_first_sp=true)%}{%for message in messages%}{%if message['role']=='system'%}"
    "{%if ns.is_first_sp%}{%set ns.system_prompt=ns.system_prompt+message['content']%}"
    "{%set ns.is_first_sp=false%}{%else%}"
    "{%set ns.system_prompt=ns.system_prompt+'\\n\\n'+message['content']%}"
    "{%endif%}{%endif%}{%endfor%}";

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

static const struct passage {
    const char *text;  /* this, or */
    const char *other; /* this, if not NULL, which sets the flag at `offset` */
    size_t offset;     /* in struct chat_template */
} family[] = {
    {start_program, NULL, 0},
    {last_system_program, joined_systems_program, offsetof(struct chat_template, joins_systems)},
    {turns_program, NULL, 0},
    {verbatim_program, dropped_thoughts_program, offsetof(struct chat_template, drops_thoughts)},
    {tools_program, NULL, 0},
    {prompt_program, thinking_prompt_program, offsetof(struct chat_template, opens_thought)},
};

/* --- the normal form --- */

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

static enum status recognize(struct arena *scratch, struct bytes source, const char *name,
                             struct chat_template *out, struct error *error) {
    struct bytes rest = {"", 0};
    bool known = normalize(scratch, source, &rest);
    for (size_t i = 0; i < ARRAY_COUNT(family) && known; i++) {
        bool other = family[i].other && take(&rest, family[i].other);
        if (other) memcpy((char *)out + family[i].offset, &other, sizeof other);
        known = other || take(&rest, family[i].text);
    }
    if (known && rest.count == 0) {
        out->present = true;
        return STATUS_OK;
    }
    int shown = (int)(rest.count < 60 ? rest.count : 60);
    for (int i = 0; i < shown; i++)
        if ((uint8_t)rest.data[i] < ' ') shown = i; /* the message is one line */
    while (shown > 0 && ((uint8_t)rest.data[shown - 1] & 0x80))
        shown--; /* of whole characters */
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: chat_template is none of DeepSeek-V3's and R1's that are known here: it "
                     "departs from them near '%.*s'; without chat_template the model serves plain "
                     "prompts (/v1/completions)",
                     name, shown, rest.data);
}

/* --- tokenizer_config.json --- */

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

/* --- rendering --- */

struct rendering {
    const struct chat_template *chat_template;
    char *text;
    size_t capacity, count;
    /* the template's namespace: set along the way, as it does, quirks included */
    bool is_first, is_tool, is_output_later;
};

static void put(struct rendering *r, struct bytes text) {
    if (r->count <= r->capacity && text.count <= r->capacity - r->count && text.count > 0)
        memcpy(r->text + r->count, text.data, text.count);
    r->count += text.count;
}

static void put_text(struct rendering *r, const char *text) {
    put(r, bytes_of(text));
}

static void put_systems(struct rendering *r, const struct chat_message *messages, size_t count) {
    size_t last = count;
    for (size_t i = 0; i < count; i++) {
        if (messages[i].role != CHAT_SYSTEM) continue;
        if (r->chat_template->joins_systems) {
            if (last < count) put_text(r, "\n\n");
            put(r, messages[i].content);
        }
        last = i;
    }
    if (!r->chat_template->joins_systems && last < count) put(r, messages[last].content);
}

static void put_call(struct rendering *r, const struct chat_tool_call *call) {
    put_text(r, r->is_first ? "\n" CALL_BEGIN : ASSISTANT CALLS_BEGIN CALL_BEGIN);
    put(r, call->type);
    put_text(r, SEPARATOR);
    put(r, call->name);
    put_text(r, "\n```json\n");
    put(r, call->arguments);
    put_text(r, "\n```" CALL_END);
    if (r->is_first) put_text(r, CALLS_END END_OF_SENTENCE);
    r->is_first = true;
}

/* What follows the last "</think>", or all of it. */
static struct bytes without_thoughts(struct bytes content) {
    static const struct bytes tag = {"</think>", 8};
    for (size_t at = content.count; at >= tag.count; at--)
        if (!memcmp(content.data + at - tag.count, tag.data, tag.count))
            return (struct bytes){content.data + at, content.count - at};
    return content;
}

static void put_assistant(struct rendering *r, const struct chat_message *message) {
    bool answers_tool = r->is_tool;
    r->is_tool = false;
    if (!message->has_content) {
        for (size_t i = 0; i < message->tool_call_count; i++)
            put_call(r, &message->tool_calls[i]);
        return;
    }
    bool drop = r->chat_template->drops_thoughts && !answers_tool;
    put_text(r, answers_tool ? OUTPUTS_END : ASSISTANT);
    put(r, drop ? without_thoughts(message->content) : message->content);
    put_text(r, END_OF_SENTENCE);
}

static void put_message(struct rendering *r, const struct chat_message *message) {
    switch (message->role) {
    case CHAT_USER:
        r->is_tool = false;
        put_text(r, USER);
        put(r, message->content);
        break;
    case CHAT_ASSISTANT:
        put_assistant(r, message);
        break;
    case CHAT_TOOL:
        r->is_tool = true;
        put_text(r, r->is_output_later ? "\n" OUTPUT_BEGIN : OUTPUTS_BEGIN OUTPUT_BEGIN);
        put(r, message->content);
        put_text(r, OUTPUT_END);
        r->is_output_later = true;
        break;
    case CHAT_SYSTEM: /* stands at the front already */
    case CHAT_ROLE_COUNT:
        break;
    }
}

enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_message *messages, size_t message_count,
                                 bool add_generation_prompt, char *text, size_t capacity,
                                 struct chat_rendering *out, struct error *error) {
    if (!chat_template->present)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this model has no chat template; use /v1/completions");
    for (size_t i = 0; i < message_count; i++)
        if (!messages[i].has_content && messages[i].role != CHAT_ASSISTANT)
            return error_set(error, STATUS_INVALID, "messages[%zu] has no content", i);
    struct rendering r = {.chat_template = chat_template, .text = text, .capacity = capacity};
    put(&r, chat_template->bos);
    put_systems(&r, messages, message_count);
    for (size_t i = 0; i < message_count; i++)
        put_message(&r, &messages[i]);
    bool opens_thought = false;
    if (r.is_tool) {
        put_text(&r, OUTPUTS_END);
    } else if (add_generation_prompt) {
        opens_thought = chat_template->opens_thought;
        put_text(&r, opens_thought ? ASSISTANT "<think>\n" : ASSISTANT);
    }
    bool thinks = chat_template->drops_thoughts || chat_template->opens_thought;
    out->count = r.count;
    out->stream = opens_thought ? TOKEN_STREAM_IN_REASONING
                  : thinks      ? TOKEN_STREAM_MAY_THINK
                                : TOKEN_STREAM_PLAIN;
    return r.count <= capacity ? STATUS_OK : STATUS_FULL;
}
