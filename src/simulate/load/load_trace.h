/* SPDX-License-Identifier: Apache-2.0
 * Request traces: the arrival times and lengths of requests. Formats:
 *
 *   Azure LLM inference traces (CSV): TIMESTAMP,ContextTokens,GeneratedTokens, the first as
 *     2023-11-16 18:15:46.6805900
 *   Mooncake (JSON Lines): {"timestamp": ms, "input_length": n, "output_length": n,
 *     "hash_ids": [one id for each 512 tokens of the prompt: equal ids, equal tokens]}
 *   any CSV with columns num_prefill_tokens and num_decode_tokens and, if it has arrival times,
 *     arrived_at in seconds
 *
 * Times are converted to seconds from the first request. They must not decrease.
 */
#pragma once

#include "base/arena.h"

#define LOAD_TRACE_BLOCK_TOKENS 512
#define LOAD_TRACE_TOKENS_MAX (1u << 20) /* limit of one prompt, and of one answer */

struct load_trace_row {
    double arrival; /* seconds from the first row */
    uint32_t prompt_tokens, output_tokens;
    size_t block_index;   /* its first block, in load_trace.blocks */
    uint32_t block_count; /* 0: the prompt shares no prefix */
};

struct load_trace {
    struct load_trace_row *rows; /* [count] */
    size_t count;
    uint64_t *blocks; /* [block_count] */
    size_t block_count;
    bool has_arrivals; /* also false if all rows arrive at once */
};

/* Arena bytes that suffice to read this text. */
size_t load_trace_bytes(struct bytes text);

/* `name` is the name of the text in messages. STATUS_INVALID names the line and the error in it.
 * The trace is stored in the arena; the text may be freed. */
enum status load_trace_read(struct arena *arena, struct bytes text, const char *name,
                            struct load_trace *trace_out, struct error *error) MUST_USE;

/* Scales a length to blocks of block_tokens instead of LOAD_TRACE_BLOCK_TOKENS. Only this scaling
 * preserves the prefixes shared by prompts of a trace. The result is 1 to
 * LOAD_TRACE_TOKENS_MAX. */
uint32_t load_trace_scale(uint32_t tokens, uint32_t block_tokens);

/* Samples one conversation in `one_in` by the seed, and shifts the arrivals so that the first row
 * arrives at 0. Requests with the same second block belong together, so the prefixes that they
 * share are kept. (The first block does not count, since in many traces all requests share it.)
 * Requests without blocks are sampled one by one. The result may be empty. */
void load_trace_sample(struct load_trace *trace, uint64_t one_in, uint64_t seed);
