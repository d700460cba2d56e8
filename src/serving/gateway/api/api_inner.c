/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_inner.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/dialect.h"

/* ---- the table ---- */

#define CHAT (1u << DIALECT_CHAT)
#define PLAIN (1u << DIALECT_COMPLETION)
#define ANTHROPIC (1u << DIALECT_ANTHROPIC)
#define RESPONSES (1u << DIALECT_RESPONSES)
#define OLLAMA_CHAT (1u << DIALECT_OLLAMA_CHAT)
#define OLLAMA (OLLAMA_CHAT | 1u << DIALECT_OLLAMA_GENERATE)

struct inner_row {
    const char *place; /* "messages[].content[]": objects in arrays, or a single object */
    uint32_t dialects; /* bit (1 << enum dialect_number) for each */
    const char *names; /* known members, separated by spaces */
    const char *types; /* only objects of these types; NULL: all */
    bool templated;    /* the chat template gets the object unchanged */
};

/* The rows include members that change nothing: cache marks of other servers, members of earlier
 * answers, indices of a stream. */
static const struct inner_row rows[] = {
    {"messages[]", CHAT,
     .names = "role content name tool_calls tool_call_id prefix reasoning_content reasoning "
              "reasoning_details thinking_blocks annotations refusal audio function_call "
              "cache_control id",
     .templated = true},
    {"messages[].content[]", CHAT, .names = "type text annotations cache_control",
     .templated = true},
    {"messages[].tool_calls[]", CHAT, .names = "id type function custom index cache_control",
     .templated = true},
    {"messages[].tool_calls[].function", CHAT, .names = "name arguments", .templated = true},
    {"messages[].tool_calls[].custom", CHAT, .names = "name input"},
    {"chat_template_kwargs", CHAT, .names = "thinking enable_thinking reasoning_effort",
     .templated = true},
    {"thinking", CHAT, .names = "type budget_tokens display"},
    {"response_format", CHAT | PLAIN, .names = "type json_schema schema name strict description"},
    {"response_format.json_schema", CHAT | PLAIN, .names = "name schema strict description"},
    {"stream_options", CHAT | PLAIN,
     .names = "include_usage continuous_usage_stats include_obfuscation"},
    {"messages[]", ANTHROPIC, .names = "role content id type"},
    {"messages[].content[]", ANTHROPIC,
     .names = "type text thinking signature data id name input tool_use_id content is_error "
              "cache_control "
              "citations caller"},
    {"messages[].content[].content[]", ANTHROPIC,
     .names = "type text tool_name cache_control citations"},
    {"system[]", ANTHROPIC, .names = "type text cache_control citations"},
    {"tools[]", ANTHROPIC,
     .names =
         "type name description input_schema strict cache_control defer_loading input_examples "
         "eager_input_streaming"},
    {"tool_choice", ANTHROPIC, .names = "type name disable_parallel_tool_use"},
    {"thinking", ANTHROPIC, .names = "type budget_tokens display"},
    {"output_config", ANTHROPIC, .names = "effort format"},
    {"output_config.format", ANTHROPIC, .names = "type schema"},
    {"output_format", ANTHROPIC, .names = "type schema"},
    {"metadata", ANTHROPIC, .names = "user_id"},
    {"input[]", RESPONSES,
     .names =
         "type role content id status phase call_id name namespace arguments input output summary "
         "encrypted_content"},
    {"input[].content[]", RESPONSES, .names = "type text refusal annotations logprobs"},
    {"input[].output[]", RESPONSES, .names = "type text annotations logprobs"},
    {"input[].summary[]", RESPONSES, .names = "type text"},
    {"tools[]", RESPONSES, .names = "type name description parameters strict tools format",
     .types = "function custom namespace"},
    {"tools[].tools[]", RESPONSES, .names = "type name description parameters strict format"},
    {"reasoning", RESPONSES, .names = "effort summary generate_summary"},
    {"text", RESPONSES, .names = "format verbosity"},
    {"text.format", RESPONSES, .names = "type name schema strict description"},
    {"messages[]", OLLAMA_CHAT,
     .names = "role content thinking images tool_calls tool_name tool_call_id"},
    {"messages[].tool_calls[]", OLLAMA_CHAT, .names = "id type function"},
    {"messages[].tool_calls[].function", OLLAMA_CHAT, .names = "index name arguments"},
    /* the second line: where and how the model is computed, which this server decides */
    {"options", OLLAMA,
     .names = "temperature top_p top_k min_p seed stop num_predict repeat_penalty presence_penalty "
              "frequency_penalty typical_p tfs_z mirostat mirostat_tau mirostat_eta "
              "num_ctx num_batch num_gpu main_gpu low_vram f16_kv vocab_only use_mmap use_mlock "
              "num_thread numa"},
};

/* ---- objects of a row ---- */

#define SEEN_MAX 16 /* names of a row that are remembered; further ones may be repeated */

struct inner_search {
    const struct api_reader *reader;
    const struct inner_row *row;
    struct bytes seen[SEEN_MAX];
    size_t seen_count;
    api_inner_sink *sink;
    void *context;
    bool full; /* the sink takes no more */
};

static bool is_of_type(const struct inner_row *row, const struct tree *object) {
    return !row->types || api_reader_is_one_of(tree_member(object, "type"), row->types);
}

static bool api_inner_is_known(const struct inner_search *search, struct bytes name) {
    const struct chat_template *chat_template = search->reader->defaults->chat_template;
    if (api_reader_has_word(search->row->names, name)) return true;
    return search->row->templated && chat_template && chat_template_uses(chat_template, name.data);
}

static bool is_seen(struct inner_search *search, struct bytes name) {
    for (size_t i = 0; i < search->seen_count; i++)
        if (bytes_equal(search->seen[i], name)) return true;
    if (search->seen_count < SEEN_MAX) search->seen[search->seen_count++] = name;
    return false;
}

static void api_inner_look_at(struct inner_search *search, const struct tree *object,
                              const char *place) {
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *value;
    if (tree_kind(object) != TREE_OBJECT || !is_of_type(search->row, object)) return;
    while (!search->full && tree_next_member(object, &cursor, &name, &value))
        if (!tree_is_null(value) && !api_inner_is_known(search, name) && !is_seen(search, name))
            search->full = !search->sink(search->context, place, name);
}

/* Follows the remaining path `rest` of the row's place from `value`, which is at `place`. */
static void api_inner_follow(struct inner_search *search, const struct tree *value,
                             const char *rest, const char *place) {
    size_t count = strcspn(rest, "[.");
    char name[32], here[96];
    if (!*rest) {
        api_inner_look_at(search, value, place);
        return;
    }
    format_text(name, sizeof name, "%.*s", (int)count, rest);
    const struct tree *member = api_reader_given(value, name);
    const char *between = *place ? "." : "";
    bool list = rest[count] == '[';
    rest += count + (list ? 2 : 0);
    rest += *rest == '.';
    size_t items = list ? tree_count(member) : member != NULL;
    for (size_t i = 0; i < items && !search->full; i++) {
        if (list)
            format_text(here, sizeof here, "%s%s%s[%zu]", place, between, name, i);
        else
            format_text(here, sizeof here, "%s%s%s", place, between, name);
        api_inner_follow(search, list ? tree_at(member, i) : member, rest, here);
    }
}

void api_inner_find_unknown(const struct api_reader *reader, api_inner_sink *sink, void *context) {
    bool full = false;
    for (size_t i = 0; i < ARRAY_COUNT(rows) && !full; i++) {
        if (!(rows[i].dialects >> reader->dialect->number & 1)) continue;
        struct inner_search search = {
            .reader = reader, .row = &rows[i], .sink = sink, .context = context};
        api_inner_follow(&search, reader->root, rows[i].place, "");
        full = search.full;
    }
}
