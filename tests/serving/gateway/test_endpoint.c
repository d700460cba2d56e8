/* SPDX-License-Identifier: Apache-2.0
 * Protects what may be asked for: each endpoint is found by its path, with and without /v1, and by
 * no other; what operators alone may ask is on their listener alone.
 */

#include "serving/gateway/endpoint.h"

#include "base/check.h"
#include "serving/gateway/api/dialect.h"
#include "test_case.h"

#define PATH(number, path, method, listeners, askers, name, function, dialect) path,
static const char *const paths[] = {ENDPOINTS(PATH)};

TEST(a_path_leads_to_its_endpoint) {
    struct bytes rest;
    char text[64];
    for (uint32_t i = 0; i < ENDPOINT_OTHER; i++) {
        const struct endpoint *endpoint = endpoint_find(bytes_of(paths[i]), &rest);
        assert_non_null(endpoint);
        assert_int_equal(endpoint->number, i);
        assert_int_equal(rest.count, 0);
        snprintf(text, sizeof text, "/v1%s", paths[i]);
        assert_ptr_equal(endpoint_find(bytes_of(text), &rest), endpoint);
        snprintf(text, sizeof text, "/v1%s//", paths[i]);
        assert_ptr_equal(endpoint_find(bytes_of(text), &rest), endpoint);
        assert_int_equal(rest.count, 0);
        snprintf(text, sizeof text, "%sx", paths[i]);
        assert_null(endpoint_find(bytes_of(text), &rest));
        snprintf(text, sizeof text, "/v2%s", paths[i]);
        assert_null(endpoint_find(bytes_of(text), &rest));
    }
    assert_null(endpoint_find(BYTES_LITERAL(""), &rest));
    assert_null(endpoint_find(BYTES_LITERAL("/v1/"), &rest));
}

TEST(anthropics_clients_find_theirs_behind_a_name) {
    struct bytes rest;
    const struct endpoint *endpoint = endpoint_find(BYTES_LITERAL("/v1/messages"), &rest);
    assert_int_equal(endpoint->number, ENDPOINT_MESSAGES);
    assert_ptr_equal(endpoint_find(BYTES_LITERAL("/anthropic/v1/messages"), &rest), endpoint);
    assert_ptr_equal(endpoint_find(BYTES_LITERAL("/anthropic/messages"), &rest), endpoint);
    assert_ptr_equal(endpoint_find(BYTES_LITERAL("/anthropic/v1/models"), &rest),
                     endpoint_find(BYTES_LITERAL("/v1/models"), &rest));
    assert_non_null(endpoint_find(BYTES_LITERAL("/anthropic/v1/models/org/b"), &rest));
    assert_true(bytes_equal(rest, BYTES_LITERAL("org/b")));
    assert_null(endpoint_find(BYTES_LITERAL("/anthropic/v1/chat/completions"), &rest));
    assert_null(endpoint_find(BYTES_LITERAL("/anthropic/health"), &rest));
    assert_null(endpoint_find(BYTES_LITERAL("/anthropic"), &rest));
}

TEST(a_model_s_name_stands_behind_its_path) {
    struct bytes rest;
    const struct endpoint *endpoint = endpoint_find(BYTES_LITERAL("/v1/models/a/b"), &rest);
    assert_int_equal(endpoint->number, ENDPOINT_MODELS);
    assert_true(bytes_equal(rest, BYTES_LITERAL("a/b")));
    assert_non_null(endpoint_find(BYTES_LITERAL("/models/a/b/"), &rest));
    assert_true(bytes_equal(rest, BYTES_LITERAL("a/b")));
}

TEST(what_programs_try_in_vain_has_a_cure) {
    static const char *const embeds[] = {"/v1/embeddings", "/embeddings/", "/api/embed"};
    for (size_t i = 0; i < ARRAY_COUNT(embeds); i++)
        assert_non_null(strstr(endpoint_cure(bytes_of(embeds[i])), "/v1/chat/completions"));
    assert_non_null(strstr(endpoint_cure(BYTES_LITERAL("/v1/rerank")), "ranks no documents"));
    assert_non_null(strstr(endpoint_cure(BYTES_LITERAL("/api/pull")), "neither downloads nor"));
    assert_non_null(strstr(endpoint_cure(BYTES_LITERAL("/api/pull")), "serve --model DIRECTORY"));
    static const char *const completes[] = {"/completion", "/generate", "/generate_stream/"};
    for (size_t i = 0; i < ARRAY_COUNT(completes); i++)
        assert_non_null(strstr(endpoint_cure(bytes_of(completes[i])), "/v1/completions"));
    assert_null(endpoint_cure(BYTES_LITERAL("/v1/embeddingsx")));
    assert_null(endpoint_cure(BYTES_LITERAL("/v1/images/generations")));
}

TEST(errors_have_the_words_of_the_path_or_the_client) {
    struct bytes none = BYTES_LITERAL("/none"), pull = BYTES_LITERAL("/api/pull");
    assert_null(endpoint_error_dialect(ENDPOINT_OTHER, none, false));
    assert_string_equal(endpoint_error_dialect(ENDPOINT_OTHER, none, true)->name, "anthropic");
    assert_string_equal(endpoint_error_dialect(ENDPOINT_OTHER, pull, true)->name, "ollama_chat");
    assert_string_equal(endpoint_error_dialect(ENDPOINT_CHAT, none, true)->name, "chat");
}

TEST(what_operators_alone_may_ask_is_not_public) {
    struct bytes rest;
    for (uint32_t i = 0; i < ENDPOINT_OTHER; i++) {
        const struct endpoint *endpoint = endpoint_find(bytes_of(paths[i]), &rest);
        if (endpoint->askers == ASKERS_OPERATORS)
            assert_int_equal(endpoint->listeners, ENDPOINT_ADMIN);
        assert_true(endpoint->listeners != 0);
    }
}

TEST(each_has_a_name_of_its_own_in_the_metrics) {
    for (uint32_t i = 0; i < ENDPOINT_COUNT; i++) {
        assert_true(strspn(endpoint_name(i), "abcdefghijklmnopqrstuvwxyz_") ==
                    strlen(endpoint_name(i)));
        for (uint32_t other = 0; other < i; other++)
            assert_string_not_equal(endpoint_name(i), endpoint_name(other));
    }
}
