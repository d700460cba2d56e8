/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/endpoint.h"

#include <string.h>

#include "base/check.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "serving/gateway/dialects/responses_dialect.h"

static const struct endpoint endpoints[] = {
#define ENDPOINT_ROW(number, path, method, listeners, askers, name, function, dialect)             \
    {ENDPOINT_##number, {path, sizeof(path) - 1}, method, listeners, askers, dialect},
    ENDPOINTS(ENDPOINT_ROW)
#undef ENDPOINT_ROW
};

/* Strips `part` from the start of a path, if the path begins with it and more follows. */
static bool endpoint_strip(struct bytes *path, const char *part) {
    size_t count = strlen(part);
    if (!bytes_start_with(*path, bytes_of(part)) || path->count == count ||
        path->data[count] != '/')
        return false;
    *path = (struct bytes){path->data + count, path->count - count};
    return true;
}

static const struct endpoint *find(struct bytes path, struct bytes *rest_out) {
    for (size_t i = 0; i < ARRAY_COUNT(endpoints); i++)
        if (bytes_equal(path, endpoints[i].path)) return &endpoints[i];
    struct bytes models = BYTES_LITERAL("/models/");
    if (!bytes_start_with(path, models) || path.count == models.count) return NULL;
    *rest_out = (struct bytes){path.data + models.count, path.count - models.count};
    return &endpoints[ENDPOINT_MODELS];
}

/* A path means the same with slashes at its end. */
static struct bytes endpoint_trimmed(struct bytes path) {
    while (path.count > 1 && path.data[path.count - 1] == '/')
        path.count--;
    return path;
}

const struct endpoint *endpoint_find(struct bytes path, struct bytes *rest_out) {
    *rest_out = BYTES_LITERAL("");
    path = endpoint_trimmed(path);
    bool anthropic = endpoint_strip(&path, "/anthropic");
    if (!endpoint_strip(&path, "/v1") && !anthropic) (void)endpoint_strip(&path, "/beta");
    const struct endpoint *found = find(path, rest_out);
    bool speaks = found && (found->number == ENDPOINT_MODELS ||
                            (found->dialect && found->dialect->number == DIALECT_ANTHROPIC));
    return anthropic && !speaks ? NULL : found;
}

const struct endpoint *endpoint_at(uint32_t index) {
    return index < ARRAY_COUNT(endpoints) ? &endpoints[index] : NULL;
}

const char *endpoint_name(enum endpoint_number number) {
    static const char *const names[ENDPOINT_COUNT] = {
#define ENDPOINT_NAME(number, path, method, listeners, askers, name, function, dialect)            \
    [ENDPOINT_##number] = name,
        ENDPOINTS(ENDPOINT_NAME)
#undef ENDPOINT_NAME
            [ENDPOINT_OTHER] = "other",
    };
    check(number < ENDPOINT_COUNT);
    return names[number];
}

const struct dialect *endpoint_dialect(enum endpoint_number number) {
    return number < ENDPOINT_OTHER ? endpoints[number].dialect : NULL;
}

const struct dialect *endpoint_error_dialect(enum endpoint_number number, struct bytes path,
                                             bool speaks_anthropic) {
    const struct dialect *dialect = endpoint_dialect(number);
    if (dialect) return dialect;
    if (bytes_start_with(path, BYTES_LITERAL("/api/"))) return &ollama_chat_dialect;
    return speaks_anthropic ? &anthropic_dialect : NULL;
}

/* ---- paths of other servers ---- */

#define NO_VECTORS                                                                                 \
    "Fathom serves a model that writes text and computes no embeddings. Run a server for an "      \
    "embedding model next to it, and use Fathom for /v1/chat/completions."
#define NO_RANKS                                                                                   \
    "Fathom serves a model that writes text and ranks no documents. Run a server for a reranking " \
    "model next to it, and use Fathom for /v1/chat/completions."
#define NO_PULL                                                                                    \
    "Fathom serves the one checkpoint that it was started with and neither downloads nor changes " \
    "models. Start it with another directory (fathom serve --model DIRECTORY); GET /api/tags "     \
    "lists what it serves."

#define NO_COMPLETION                                                                              \
    "Fathom has no such path of llama.cpp, SGLang or TGI. Use /v1/completions: 'prompt' is the "   \
    "text or token ids, 'max_tokens' the most tokens ('n_predict', 'max_new_tokens'), and "        \
    "'stream': true streams. /v1/chat/completions takes messages."

const char *endpoint_cure(struct bytes path) {
    static const struct {
        const char *path, *cure;
    } known[] = {
        {"/embeddings", NO_VECTORS},
        {"/api/embed", NO_VECTORS},
        {"/api/embeddings", NO_VECTORS},
        {"/rerank", NO_RANKS},
        {"/score", NO_RANKS},
        {"/api/pull", NO_PULL},
        {"/api/push", NO_PULL},
        {"/api/create", NO_PULL},
        {"/api/copy", NO_PULL},
        {"/api/delete", NO_PULL},
        {"/completion", NO_COMPLETION},
        {"/generate", NO_COMPLETION},
        {"/generate_stream", NO_COMPLETION},
    };
    path = endpoint_trimmed(path);
    (void)endpoint_strip(&path, "/v1");
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        if (bytes_equal(path, bytes_of(known[i].path))) return known[i].cure;
    return NULL;
}
