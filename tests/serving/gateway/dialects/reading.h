/* SPDX-License-Identifier: Apache-2.0
 * Bodies of requests as a dialect reads them, in front of a model that thinks or not, as asked, and
 * knows tools: for the test of a dialect's reader.
 */
#pragma once

#include "base/check.h"
#include "serving/gateway/api/api_request.h"
#include "test_case.h"

static char reading_memory[4 << 20];
static struct arena arena;
static struct api_request parsed; /* of the last body that was taken */
static struct api_error error;    /* of the last one that was not */

static const struct api_model model = {.name = {"tiny-r1", 7}};
static struct api_defaults defaults = {
    .sampling = {.temperature = 0.6f, .top_p = 0.95f},
    .models = &model,
    .model_count = 1,
    .thought = CHAT_THOUGHT_SWITCHED,
    .prints_tools = true,
    .reads_documents = true,
};

/* False: the body is refused. `room`: bytes of memory. */
static inline bool read_within(const struct dialect *dialect, const char *body, size_t room) {
    arena_over(&arena, reading_memory, room);
    error = (struct api_error){0};
    return api_request_parse(&arena, dialect, bytes_of(body), &defaults, &parsed, &error);
}

static inline bool read_as(const struct dialect *dialect, const char *body) {
    return read_within(dialect, body, sizeof reading_memory);
}

static inline void expect(struct bytes found, const char *expected) {
    static char copy[1 << 12];
    assert_true(found.count < sizeof copy);
    memcpy(copy, found.data, found.count);
    copy[found.count] = '\0';
    assert_string_equal(copy, expected);
}

struct refusal {
    const char *body;
    uint32_t http_status;
    const char *param;
};

static inline void expect_refused(const struct dialect *dialect, const struct refusal *list,
                                  size_t count) {
    for (const struct refusal *refusal = list; refusal < list + count; refusal++) {
        if (read_as(dialect, refusal->body)) fail_msg("accepted: %s", refusal->body);
        if (error.http_status != refusal->http_status || strcmp(error.param, refusal->param) != 0)
            fail_msg("%s: %u %s: %s", refusal->body, error.http_status, error.param, error.message);
    }
}

/* With too little memory the body is refused as too large, with more it is taken. */
static inline void expect_taken_with_room(const struct dialect *dialect, const char *body) {
    bool fitted = false;
    for (size_t bytes = 64; bytes < sizeof reading_memory && !fitted; bytes += 64) {
        fitted = read_within(dialect, body, bytes);
        if (!fitted) assert_int_equal(error.http_status, 413);
    }
    assert_true(fitted);
}
