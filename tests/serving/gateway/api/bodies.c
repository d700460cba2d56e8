/* SPDX-License-Identifier: Apache-2.0 */
#include "bodies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/format.h"

static char memory[16 << 20], text[4 << 20];

void bodies_open(struct bodies *bodies) {
    static const struct api_model models[] = {{{"m", 1}, CHAT_THINKING_DEFAULT},
                                              {{"quick", 5}, CHAT_THINKING_OFF}};
    *bodies = (struct bodies){.defaults = {.sampling = {.temperature = 1, .top_p = 1},
                                           .models = models,
                                           .model_count = ARRAY_COUNT(models),
                                           .thought = CHAT_THOUGHT_SWITCHED,
                                           .prints_tools = true,
                                           .reads_documents = true}};
}

bool bodies_read(struct bodies *bodies, const struct dialect *dialect, const char *body) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    bodies->error = (struct api_error){0};
    return api_request_parse(&arena, dialect, bytes_of(body), &bodies->defaults, &bodies->request,
                             &bodies->error);
}

bool bodies_chat(struct bodies *bodies, const char *members) {
    format_text(text, sizeof text, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s%s}",
                members[0] ? "," : "", members);
    return bodies_read(bodies, &chat_dialect, text);
}

bool bodies_completion(struct bodies *bodies, const char *members) {
    format_text(text, sizeof text, "{\"prompt\":\"hi\"%s%s}", members[0] ? "," : "", members);
    return bodies_read(bodies, &completion_dialect, text);
}

void bodies_refused(const struct bodies *bodies, uint32_t http_status, const char *param,
                    const char *code) {
    const struct api_error *error = &bodies->error;
    if (error->http_status != http_status || strcmp(error->param, param) != 0 || !error->code ||
        strcmp(error->code, code) != 0)
        fail_msg("%u %s %s (%s)", error->http_status, error->param, error->code ? error->code : "",
                 error->message);
}
