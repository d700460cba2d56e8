/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/chat_template.h"

#include "base/check.h"
#include "base/limits.h"

/* The limits are low, because a server renders between tokens of other requests. */
static const struct jinja_limits chat_limits = {
    .steps = LIMIT_TEMPLATE_STEPS,
    .memory_bytes = (size_t)256 << 20,
    .output_bytes = (size_t)64 << 20,
};

enum status chat_template_open(struct arena *arena, struct arena *scratch, struct chat_files files,
                               struct chat_template *out, struct error *error) {
    struct chat_source source;
    struct chat_findings findings = {0};
    enum status status = chat_source_open(arena, scratch, files, &source, error);
    if (status) return status;
    if (source.usual) chat_probe(&source, scratch, &findings);
    bool prints_all = findings.prints_tools && findings.prints_calls;
    if (source.usual && files.brings_tools && !prints_all) {
        struct chat_source brought = source;
        struct chat_findings found = {0};
        status = chat_source_bring_tools(arena, findings.prints_tools, &brought, error);
        if (status == STATUS_NO_MEMORY) return status;
        if (!status && brought.builtin) chat_probe(&brought, scratch, &found);
        if (findings.prints_tools ? found.prints_calls : found.prints_tools)
            source = brought, findings = found;
    }
    *out = (struct chat_template){.present = source.usual != NULL,
                                  .thought = findings.thought,
                                  .thinks_by_default = findings.thinks_by_default,
                                  .prints_tools = findings.prints_tools,
                                  .reads_documents = findings.reads_documents,
                                  .builtin = source.builtin,
                                  .stand_in = source.stand_in,
                                  .calls = source.calls,
                                  .adds_bos = source.adds_bos,
                                  .adds_eos = source.adds_eos,
                                  .bos = source.bos,
                                  .eos = source.eos,
                                  .source = source,
                                  .facts = findings.facts};
    return STATUS_OK;
}

bool chat_template_uses(const struct chat_template *chat_template, const char *name) {
    const struct chat_source *source = &chat_template->source;
    return chat_template->present &&
           (jinja_uses(source->usual, name) || jinja_uses(source->with_tools, name));
}

/* ---- the start of the answer ---- */

static const struct bytes opening = {"<think>", 7}, closing = {"</think>", 8};

/* The ASCII characters that Python's str.strip() removes. */
static bool chat_template_is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= 0x1c && byte <= 0x1f);
}

static struct bytes without_last_blanks(struct bytes text) {
    while (text.count && chat_template_is_blank(text.data[text.count - 1]))
        text.count--;
    return text;
}

static bool chat_template_ends_with(struct bytes text, struct bytes word) {
    return text.count >= word.count &&
           !memcmp(text.data + text.count - word.count, word.data, word.count);
}

/* The position of the last `word`, or one more than the length of the text if there is none. */
static size_t last_place(struct bytes text, struct bytes word) {
    for (size_t at = text.count; at >= word.count; at--)
        if (!memcmp(text.data + at - word.count, word.data, word.count)) return at - word.count;
    return text.count + 1;
}

/* True if this prompt disables reasoning. */
static bool is_switched_off(const struct chat_template *chat_template, const struct chat_ask *ask) {
    static const char *const names[] = {"thinking", "enable_thinking"};
    bool thinks = ask->thinking == CHAT_THINKING_DEFAULT ? chat_template->thinks_by_default
                                                         : ask->thinking == CHAT_THINKING_ON;
    for (size_t i = 0; i < 2; i++)
        (void)tree_get_bool(tree_member(ask->variables, names[i]), &thinks);
    return chat_template->thought == CHAT_THOUGHT_SWITCHED && !thinks;
}

/* True if the template mentions tags of reasoning. */
static bool mentions_thoughts(const struct chat_template *chat_template) {
    const struct jinja_program *const programs[] = {chat_template->source.usual,
                                                    chat_template->source.with_tools};
    bool mentions = false;
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++)
        mentions |= jinja_mentions(programs[i], closing) || jinja_mentions(programs[i], opening);
    return mentions;
}

static bool is_result(const struct tree *message) {
    struct bytes role;
    return tree_get_string(tree_member(message, "role"), &role) &&
           bytes_equal(role, BYTES_LITERAL("tool"));
}

static bool is_behind_tool(const struct chat_ask *ask) {
    return is_result(tree_at(ask->messages, tree_count(ask->messages) - 1));
}

/* The mode of the answer. A tag that ends the rendering counts only if the template wrote it. */
static enum token_stream_mode chat_template_stream_of(const struct chat_template *chat_template,
                                                      const struct chat_ask *ask,
                                                      const struct chat_rendering *rendering) {
    struct bytes tail = without_last_blanks(rendering->text);
    size_t spans = rendering->content_count;
    bool said = spans > 0 && rendering->contents[spans - 1].end >= tail.count;
    if (!said && chat_template_ends_with(tail, opening)) return TOKEN_STREAM_IN_REASONING;
    if (!mentions_thoughts(chat_template)) return TOKEN_STREAM_PLAIN;
    bool ended =
        (!said && chat_template_ends_with(tail, closing)) || is_switched_off(chat_template, ask);
    if (is_behind_tool(ask)) return ended ? TOKEN_STREAM_GOES_ON : TOKEN_STREAM_BEHIND_TOOL;
    return ended ? TOKEN_STREAM_IN_CONTENT : TOKEN_STREAM_MAY_THINK;
}

/* The mode of an answer that continues a message. Its last reasoning may be open, by a tag of the
 * answer or of the template. */
static enum token_stream_mode stream_of_rest(const struct chat_template *chat_template,
                                             const struct chat_ask *ask, struct bytes text) {
    enum token_stream_mode content =
        mentions_thoughts(chat_template) ? TOKEN_STREAM_GOES_ON : TOKEN_STREAM_PLAIN;
    struct bytes said = {"", 0};
    const struct tree *message = tree_at(ask->messages, tree_count(ask->messages) - 1);
    (void)tree_get_string(tree_member(message, "content"), &said);
    size_t opened = last_place(said, opening), closed = last_place(said, closing);
    bool opens = opened <= said.count, closes = closed <= said.count;
    if (opens || closes)
        return opens && (!closes || closed < opened) ? TOKEN_STREAM_IN_REASONING
                                                     : TOKEN_STREAM_GOES_ON;
    said = without_last_blanks(said);
    while (said.count && chat_template_is_blank(said.data[0]))
        said.data++, said.count--;
    struct bytes before = without_last_blanks(text);
    if (chat_template_ends_with(before, said)) before.count -= said.count;
    return chat_template_ends_with(without_last_blanks(before), opening) ? TOKEN_STREAM_IN_REASONING
                                                                         : content;
}

/* ---- continued answers ---- */

/* Cuts the rendering at the end of the last answer. If the template keeps the mark's blank, it
 * keeps the answer's blanks. Otherwise it would have trimmed them, too. */
static enum status chat_template_cut(struct chat_rendering *rendering, struct error *error) {
    static const struct bytes mark = {CHAT_CUT_MARK, sizeof CHAT_CUT_MARK - 1};
    struct bytes text = rendering->text;
    size_t at = last_place(text, mark), behind = at + mark.count;
    if (at > text.count)
        return error_set(error, STATUS_INVALID,
                         "the chat template leaves out the assistant's last message, which is to "
                         "be continued");
    bool keeps_blanks = behind < text.count && text.data[behind] == ' ';
    text.count = at;
    rendering->text = keeps_blanks ? text : without_last_blanks(text);
    return STATUS_OK;
}

/* The spans of the text after it was cut at both ends. */
static const struct text_span *cut_spans(const struct text_span *spans, size_t *count, size_t end,
                                         struct arena *arena) {
    struct text_span *kept = arena_take(arena, (*count + 1) * sizeof *kept);
    size_t wanted = 0;
    for (; kept && wanted < *count && spans[wanted].start < end; wanted++) {
        kept[wanted] = spans[wanted];
        if (kept[wanted].end > end) kept[wanted].end = (uint32_t)end;
    }
    *count = wanted;
    return kept;
}

/* ---- continued answers with thoughts ---- */

static enum status chat_template_no_memory(struct error *error) {
    return error_set(error, STATUS_NO_MEMORY, "no memory for rendering the conversation");
}

/* An answer with thoughts that the client received earlier and now has continued. */
struct thoughtful_rest {
    struct bytes thoughts, content;
    bool closed; /* the thoughts have ended */
    bool
        apart; /* "reasoning_content" has the thoughts. Else the content has them with their tags */
};

/* Reads the last message. `thoughts` is empty and `closed` false if it has none. */
static bool read_rest(const struct tree *message, struct arena *arena,
                      struct thoughtful_rest *out) {
    *out = (struct thoughtful_rest){.apart = true};
    if (!chat_values_text(tree_member(message, "content"), arena, &out->content)) return false;
    (void)tree_get_string(tree_member(message, "reasoning_content"), &out->thoughts);
    out->closed = out->thoughts.count > 0 && out->content.count > 0;
    struct bytes text = out->content;
    while (text.count && chat_template_is_blank(text.data[0]))
        text.data++, text.count--;
    if (out->thoughts.count || text.count < opening.count ||
        memcmp(text.data, opening.data, opening.count) != 0)
        return true;
    text.data += opening.count, text.count -= opening.count;
    const char *end = memmem(text.data, text.count, closing.data, closing.count);
    *out = (struct thoughtful_rest){.thoughts = text, .closed = end != NULL};
    if (!end) return true;
    out->thoughts.count = (size_t)(end - text.data);
    out->content.data = end + closing.count;
    out->content.count = text.count - out->thoughts.count - closing.count;
    return true;
}

/* True if lines separate the tags from the thoughts. Models write "<think>\n", unless their
 * template writes the tag without the line's end. */
static bool has_lines(const struct chat_template *chat_template) {
    static const struct bytes line = {"<think>\n", 8};
    const struct chat_source *source = &chat_template->source;
    const struct jinja_program *const programs[] = {source->usual, source->with_tools};
    bool tag = false, lines = false;
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++) {
        tag |= jinja_mentions(programs[i], opening);
        lines |= jinja_mentions(programs[i], line);
    }
    return lines || !tag;
}

static void append(struct chat_rendering *rendering, char *memory, struct bytes text,
                   struct text_span *span) {
    struct bytes *to = &rendering->text;
    if (span && text.count)
        span[rendering->content_count++] =
            (struct text_span){(uint32_t)to->count, (uint32_t)(to->count + text.count)};
    if (text.count) memcpy(memory + to->count, text.data, text.count);
    to->count += text.count;
}

/* Appends the answer to a prompt for a new turn. The tags are the template's, so they become its
 * tokens, and the answer's own text is contents. Returns false if memory is out. */
static bool append_rest(const struct chat_template *chat_template, struct arena *arena,
                        const struct thoughtful_rest *rest, struct chat_rendering *out) {
    struct bytes line = {"\n\n", rest->apart && has_lines(chat_template) ? 1 : 0}, none = {"", 0};
    struct bytes blank_line = {line.data, 2 * line.count}, thoughts = rest->thoughts;
    bool opened = chat_template_ends_with(without_last_blanks(out->text), opening);
    while (opened && thoughts.count && chat_template_is_blank(thoughts.data[0]))
        thoughts.data++, thoughts.count--;
    size_t bytes = out->text.count + thoughts.count + rest->content.count + 32;
    char *text = arena_take(arena, bytes);
    struct text_span *spans = arena_take(arena, (out->content_count + 2) * sizeof *spans);
    if (!text || !spans) return false;
    memcpy(text, out->text.data, out->text.count);
    if (out->content_count) memcpy(spans, out->contents, out->content_count * sizeof *spans);
    append(out, text, opened ? none : opening, NULL);
    append(out, text, opened ? none : line, NULL);
    append(out, text, thoughts, spans);
    append(out, text, rest->closed ? line : none, NULL);
    append(out, text, rest->closed ? closing : none, NULL);
    append(out, text, rest->closed ? blank_line : none, NULL);
    append(out, text, rest->closed ? rest->content : none, spans);
    out->text.data = text;
    out->contents = spans;
    out->stream = rest->closed ? TOKEN_STREAM_GOES_ON : TOKEN_STREAM_IN_REASONING;
    return true;
}

/* Renders an answer with thoughts to be continued as the model had it before: a prompt for a new
 * turn, and the answer. Templates leave out thoughts of earlier answers, and often of this one.
 * *done_out is false if the answer has no thoughts, or the template has no place for them. */
static enum status render_thoughtful(const struct chat_template *chat_template,
                                     const struct chat_ask *ask, struct arena *arena,
                                     struct chat_rendering *out, bool *done_out,
                                     struct error *error) {
    size_t count = tree_count(ask->messages);
    struct thoughtful_rest rest;
    struct chat_ask before = *ask;
    struct bytes role;
    *done_out = false;
    if (!read_rest(tree_at(ask->messages, count - 1), arena, &rest))
        return chat_template_no_memory(error);
    bool spoke = count > 1 &&
                 tree_get_string(tree_member(tree_at(ask->messages, count - 2), "role"), &role) &&
                 bytes_equal(role, BYTES_LITERAL("assistant"));
    if ((!rest.thoughts.count && !rest.closed) || count < 2 || spoke ||
        !mentions_thoughts(chat_template))
        return STATUS_OK;
    struct tree *messages = tree_make_array(arena);
    for (size_t i = 0; messages && i + 1 < count; i++)
        if (!tree_append(arena, messages, tree_at(ask->messages, i))) messages = NULL;
    if (!messages) return chat_template_no_memory(error);
    before.messages = messages;
    before.thinking = CHAT_THINKING_ON;
    before.continues = false;
    before.prompts = true;
    enum status status = chat_template_render(chat_template, &before, arena, out, error);
    if (status) return status;
    if (chat_template_ends_with(without_last_blanks(out->text), closing)) return STATUS_OK;
    *done_out = append_rest(chat_template, arena, &rest, out);
    return *done_out ? STATUS_OK : chat_template_no_memory(error);
}

/* ---- rendering ---- */

/* True if the template for tools renders the conversation. A built-in one also renders earlier
 * calls and results without tools: the first releases' own templates drop parts of them. */
static bool is_with_tools(const struct chat_source *source, const struct chat_ask *ask) {
    if (tree_count(ask->tools)) return true;
    if (!source->builtin) return false;
    for (size_t i = 0; i < tree_count(ask->messages); i++) {
        const struct tree *message = tree_at(ask->messages, i);
        if (is_result(message) || tree_count(tree_member(message, "tool_calls"))) return true;
    }
    return false;
}

enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_ask *ask, struct arena *arena,
                                 struct chat_rendering *out, struct error *error) {
    const struct chat_source *source = &chat_template->source;
    const struct jinja_variable *variables;
    struct jinja_rendering rendering;
    size_t count;
    if (!chat_template->present)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this model has no chat template; use /v1/completions");
    check(!ask->continues || tree_count(ask->messages) > 0);
    bool done = false;
    enum status status = STATUS_OK;
    if (ask->continues) status = render_thoughtful(chat_template, ask, arena, out, &done, error);
    if (status || done) return status;
    status = chat_values_take(source, &chat_template->facts, ask, arena, &variables, &count);
    if (status == STATUS_NO_MEMORY) return chat_template_no_memory(error);
    if (status)
        return error_set(error, status,
                         "the arguments of the calls have more parts than a request may have");
    status = jinja_render(is_with_tools(source, ask) ? source->with_tools : source->usual,
                          variables, count, &chat_limits, ask->unix_time, arena, &rendering, error);
    if (status) return status;
    struct chat_rendering found = {
        .text = rendering.text,
        .contents = rendering.data,
        .content_count = rendering.data_count,
        .steps = rendering.steps,
    };
    if (ask->continues) {
        status = chat_template_cut(&found, error);
        if (status) return status;
        found.contents = cut_spans(found.contents, &found.content_count, found.text.count, arena);
        if (!found.contents) return chat_template_no_memory(error);
        found.stream = stream_of_rest(chat_template, ask, found.text);
    } else {
        found.stream = chat_template_stream_of(chat_template, ask, &found);
    }
    *out = found;
    return STATUS_OK;
}
