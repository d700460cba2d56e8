/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/openai_fields.h"

/* Reads one name of the length. -1 means no limit, as in llama.cpp, and leaves *out unchanged. */
static bool read_one_length(struct api_reader *reader, const char *name, uint32_t least,
                            uint32_t *out) {
    int64_t number;
    if (tree_get_integer(tree_member(reader->root, name), &number) && number == -1) return true;
    return api_reader_integer(reader, reader->root, name, least, INT32_MAX, out);
}

/* Reads the length of the answer. Zero tokens are allowed only if the request is about the prompt
 * itself. */
static bool openai_fields_read_length(struct api_reader *reader, struct api_request *out) {
    uint32_t absent = UINT32_MAX, length = absent, long_name = absent;
    uint32_t least = out->sampling.flags & SAMPLING_SCORES ? 0 : 1;
    if (!read_one_length(reader, "max_tokens", least, &length) ||
        !read_one_length(reader, "max_completion_tokens", least, &long_name))
        return false;
    if (long_name != absent) length = long_name; /* the newer name has priority */
    if (length == absent) return true;
    out->new_tokens_max = length;
    out->prompt_only = length == 0;
    if (out->sampling.min_tokens <= length) return true;
    return api_error_set(reader->error, 422, "min_tokens", "out_of_range",
                         "'min_tokens' is %u, more than the %u tokens of the answer.",
                         out->sampling.min_tokens, length);
}

static bool read_best_of(struct api_reader *reader, struct api_request *out) {
    uint32_t best_of = 0;
    if (!api_reader_integer(reader, reader->root, "best_of", 1, INT32_MAX, &best_of)) return false;
    return best_of == 0 || best_of == out->choice_count ||
           api_reader_unsupported(reader, "best_of", "must equal 'n': all answers are returned.");
}

bool openai_fields_read(struct api_reader *reader, struct api_request *out) {
    return openai_fields_read_length(reader, out) && read_best_of(reader, out);
}
