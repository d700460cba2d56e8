/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/endpoint.h"

#include <string.h>

#include "base/check.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"
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

const struct endpoint *endpoint_find(struct bytes path, struct bytes *rest_out) {
    *rest_out = BYTES_LITERAL("");
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

const struct dialect *endpoint_error_dialect(enum endpoint_number number, bool speaks_anthropic) {
    const struct dialect *dialect = endpoint_dialect(number);
    return dialect || !speaks_anthropic ? dialect : &anthropic_dialect;
}
