/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_request.h"

#include "base/number.h"
#include "base/tree_extent.h"
#include "serving/gateway/api/agent_habits.h"
#include "serving/gateway/api/api_body.h"
#include "serving/gateway/api/dialect.h"

/* Limits the JSON values of a body, because parsing takes time for each. */
static bool check_extent(const struct dialect *dialect, struct bytes body, uint64_t tokens_max,
                         struct api_error *error) {
    struct tree_extent most = {{[TREE_PART_DEPTH] = LIMIT_BODY_DEPTH,
                                [TREE_PART_KEYS] = LIMIT_BODY_KEYS,
                                [TREE_PART_INTEGERS] = LIMIT_BODY_INTEGERS,
                                [TREE_PART_VALUES] = LIMIT_BODY_VALUES}},
                       found;
    if (!tokens_max) tokens_max = LIMIT_CONTEXT;
    if (!dialect->chats) most.counts[TREE_PART_INTEGERS] += max_u64(tokens_max, LIMIT_PROMPTS_IDS);
    enum tree_part part = tree_extent_measure(body, &most, &found);
    if (part == TREE_PART_COUNT) return true;
    if (part == TREE_PART_INTEGERS && !dialect->chats)
        return api_error_set(
            error, 400, dialect->prompt_field, "context_length_exceeded",
            "The request body has more than %zu integers; a prompt of token ids "
            "can have no more than this server's maximum context length, %llu. Shorten the prompt, "
            "or send fewer "
            "prompts at once.",
            most.counts[part], (unsigned long long)tokens_max);
    return api_error_set(error, 413, NULL, "request_too_large",
                         "The request body has more than %zu %s; that is the limit. Send a "
                         "smaller one.",
                         most.counts[part], tree_extent_part_name(part));
}

bool api_request_open(struct api_reader *reader, struct bytes body) {
    struct error reason;
    if (!check_extent(reader->dialect, body, reader->defaults->tokens_max, reader->error))
        return false;
    enum status status = tree_parse(reader->arena, body, "request body", &reader->root, &reason);
    if (status == STATUS_NO_MEMORY) return api_reader_no_memory(reader);
    if (status) return api_error_set(reader->error, 400, NULL, "invalid_json", "%s", reason.text);
    if (tree_kind(reader->root) == TREE_OBJECT) return true;
    return api_error_set(reader->error, 400, NULL, "invalid_type",
                         "The request body must be a JSON object, found %s.",
                         tree_name(reader->root));
}

bool api_request_parse(struct arena *arena, const struct dialect *dialect, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error) {
    struct api_reader reader = {
        .arena = arena, .dialect = dialect, .defaults = defaults, .error = error};
    struct api_request request = {.dialect = dialect,
                                  .sampling = defaults->sampling,
                                  .prompt_count = 1,
                                  .choice_count = 1,
                                  .opens_turn = true,
                                  .special_tokens = true};
    if (!api_request_open(&reader, body) || !api_body_read(&reader, &request) ||
        !dialect->read(&reader, &request) ||
        (defaults->agent_habits && !agent_habits_apply(&reader, &request)))
        return false;
    *out = request;
    return true;
}
