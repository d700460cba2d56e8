/* SPDX-License-Identifier: Apache-2.0
 * Protects the gateway's paths: each answers its methods and says which they are, on the listener
 * that it belongs to and on no other, and refuses with the statuses that its clients know.
 */

#include "base/check.h"
#include "base/format.h"
#include "hands.h"
#include "test_case.h"

#define CHAT "/v1/chat/completions"

TEST(paths_answer_their_methods_only) {
    struct world *world = world_open(&(struct world_options){0});
    static const struct {
        enum http_method method;
        const char *path;
        uint32_t http_status;
    } cases[] = {
        {HTTP_GET, "/v1/models", 200},
        {HTTP_GET, "/models", 200},
        {HTTP_GET, "/health", 200},
        {HTTP_GET, "/live", 200},
        {HTTP_GET, "/metrics", 200},
        {HTTP_GET, "/v1/models/tiny-r1", 200},
        {HTTP_GET, "/models/default", 200},
        {HTTP_GET, "/v1/models/gpt-4", 404},
        {HTTP_GET, "/nothing", 404},
        {HTTP_GET, "", 404},
        {HTTP_POST, "/v1", 404},
        {HTTP_GET, "/v1/models/", 200},
        {HTTP_GET, "/v1/models/tiny-r1:latest/", 200},
        {HTTP_GET, "/health//", 200},
        {HTTP_POST, "/v1/embeddings", 404},
        {HTTP_POST, "/v1/rerank", 404},
        {HTTP_GET, CHAT, 405},
        {HTTP_OTHER, COMPLETIONS, 405},
        {HTTP_POST, "/v1/models", 405},
        {HTTP_POST, "/health", 405},
        {HTTP_POST, "/live", 405},
        {HTTP_POST, "/chat/completions", 400},
        {HTTP_POST, "/completions", 400},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = world_request(world, cases[i].method, cases[i].path, NULL, 0);
        world_settle(world);
        if (world->clients[client].http_status != cases[i].http_status)
            fail_msg("%s: %u", cases[i].path, world->clients[client].http_status);
        if (cases[i].http_status >= 400)
            assert_non_null(strstr(world->clients[client].data, "{\"error\":{\"message\":\""));
        bool posts = !strcmp(cases[i].path, CHAT) || !strcmp(cases[i].path, COMPLETIONS);
        uint32_t allow = 1u << (posts ? HTTP_POST : HTTP_GET);
        assert_int_equal(world->clients[client].allow, cases[i].http_status == 405 ? allow : 0);
    }
    assert_non_null(
        strstr(world->clients[0].data, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny-r1\""));
    assert_non_null(strstr(world->clients[0].data, "\"created\":1700000000,"));
    world_close(world);
}

TEST(ollamas_paths_are_answered_in_its_words) {
    static const char body[] = "{\"model\":\"tiny-r1:latest\"}", other[] = "{\"name\":\"llama\"}";
    static const struct {
        enum http_method method;
        const char *path, *body;
        uint32_t http_status;
        const char *text;
    } cases[] = {
        {HTTP_GET, "/api/version", NULL, 200, "{\"version\":\"0."},
        {HTTP_GET, "/api/tags", NULL, 200,
         "{\"models\":[{\"name\":\"tiny-r1\",\"model\":\"tiny-r1\""},
        {HTTP_POST, "/api/show", body, 200, "\"capabilities\":[\"completion\""},
        {HTTP_POST, "/api/show", other, 404,
         "{\"error\":\"The model 'llama' does not exist here.\"}"},
        {HTTP_POST, "/api/show", "{}", 400, "{\"error\":\"'model' is missing.\"}"},
        {HTTP_POST, "/api/show", "[]", 400, "{\"error\":\"The request body must be"},
        {HTTP_POST, "/api/pull", body, 404, "neither downloads nor changes models"},
        {HTTP_GET, "/api/chat", NULL, 405, "{\"error\":\"'/api/chat' accepts only POST.\"}"},
        {HTTP_POST, "/api/chat", body, 400, "{\"error\":\"'messages' is missing.\"}"},
        {HTTP_POST, "/api/generate", body, 400, "{\"error\":\"'prompt' is missing.\"}"},
    };
    struct world *world = world_open(&(struct world_options){0});
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const char *sent = cases[i].body;
        uint32_t client =
            world_request(world, cases[i].method, cases[i].path, sent, sent ? strlen(sent) : 0);
        world_settle(world);
        const char *said = world->clients[client].data;
        if (world->clients[client].http_status != cases[i].http_status ||
            !strstr(said, cases[i].text))
            fail_msg("%s: %u %s", cases[i].path, world->clients[client].http_status, said);
    }
    world_close(world);
}

TEST(any_name_is_answered_under_that_name) {
    struct world *world =
        world_open(&(struct world_options){.gateway = {.model_names = "tiny-r1,*"}});
    static const struct {
        const char *body, *model;
    } cases[] = {
        {"{\"model\":\"gpt-4o\",\"prompt\":[5],\"max_tokens\":1}", "\"model\":\"gpt-4o\""},
        {"{\"model\":\"a \\\"b\",\"prompt\":[5],\"max_tokens\":1}", "\"model\":\"a \\\"b\""},
        {"{\"model\":\"deepseek-chat\",\"prompt\":[5],\"max_tokens\":1}",
         "\"model\":\"deepseek-chat\""},
        {"{\"prompt\":[5],\"max_tokens\":1}", "\"model\":\"tiny-r1\""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = world_post(world, COMPLETIONS, cases[i].body);
        world_settle(world);
        assert_int_equal(world->clients[client].http_status, 200);
        if (!strstr(world->clients[client].data, cases[i].model))
            fail_msg("%s", world->clients[client].data);
    }
    uint32_t client = world_get(world, "/v1/models/gpt-4o");
    world_settle(world);
    assert_non_null(strstr(world->clients[client].data, "\"id\":\"gpt-4o\""));
    world_close(world);
}

/* Clients escape a name in a path as they like: it is decoded once, and leads nowhere else. */
TEST(a_model_s_name_in_a_path_is_decoded_once) {
    static const struct {
        const char *path;
        uint32_t http_status;
        const char *text;
    } cases[] = {
        {"/v1/models/lab/tiny:1", 200, "\"id\":\"lab/tiny:1\""},
        {"/v1/models/lab%2Ftiny%3A1", 200, "\"id\":\"lab/tiny:1\""},
        {"/models/lab%2ftiny:1", 200, "\"id\":\"lab/tiny:1\""},
        {"/anthropic/v1/models/lab%2Ftiny%3a1", 200, "\"id\":\"lab/tiny:1\""},
        {"/v1/models/lab%20tiny", 200, "\"id\":\"lab tiny\""},
        {"/v1/models/100%25", 200, "\"id\":\"100%\""},
        {"/v1/models/lab+tiny", 404, "'lab+tiny'"},
        {"/v1/models/lab%252Ftiny:1", 404, "'lab%2Ftiny:1'"},
        {"/v1/models/%2e%2e%2fhealth", 404, "'../health'"},
        {"/v1/models/../health", 404, "'../health'"},
        {"/v1/models/%FF", 404, "'\xEF\xBF\xBD'"},
        {"/v1%2Fmodels", 404, "'/v1%2Fmodels'"},
    };
    struct world *world =
        world_open(&(struct world_options){.gateway = {.model_names = "lab/tiny:1,lab tiny,100%"}});
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = world_get(world, cases[i].path);
        world_settle(world);
        const char *said = world->clients[client].data;
        if (world->clients[client].http_status != cases[i].http_status ||
            !strstr(said, cases[i].text))
            fail_msg("%s: %u %s", cases[i].path, world->clients[client].http_status, said);
    }
    world_close(world);
}

/* Web pages and clients of the API reach the public listener, so nothing of the operator's is
 * there; and the API is not on his. */
TEST(each_listener_has_its_paths) {
    static const struct {
        enum http_method method;
        const char *path;
    } elsewhere[] = {
        {HTTP_GET, "/metrics"},           {HTTP_GET, "/debug/fleet"},
        {HTTP_POST, "/debug/fleet"},      {HTTP_POST, "/debug/fleet/drain"},
        {HTTP_POST, "/debug/fleet/role"}, {HTTP_POST, CHAT},
        {HTTP_POST, COMPLETIONS},         {HTTP_GET, "/v1/models"},
        {HTTP_GET, "/v1/models/tiny-r1"},
    };
    struct world *world = world_open(&(struct world_options){0});
    world->swapped = true;
    for (size_t i = 0; i < ARRAY_COUNT(elsewhere); i++) {
        uint32_t client =
            world_request(world, elsewhere[i].method, elsewhere[i].path, "{\"unit\":1}", 10);
        world_settle(world);
        assert_int_equal(world->clients[client].http_status, 404);
        assert_non_null(strstr(world->clients[client].data, "\"code\":\"not_found\""));
    }
    assert_non_null(strstr(world->clients[0].data, "--admin-port"));
    static const char *const on_both[] = {"/health", "/live"};
    for (size_t i = 0; i < ARRAY_COUNT(on_both); i++) {
        uint32_t client = world_get(world, on_both[i]);
        world_settle(world);
        assert_int_equal(world->clients[client].http_status, 200);
    }
    world->swapped = false;
    uint32_t client = world_get(world, "/debug/fleet");
    world_settle(world);
    assert_non_null(strstr(world->clients[client].data, "\"state\":\"serving\"")); /* undrained */
    world_close(world);
}

TEST(who_speaks_anthropics_words_is_answered_in_them) {
    static const char model[] =
        "{\"type\":\"model\",\"id\":\"tiny-r1\",\"display_name\":\"tiny-r1\","
        "\"created_at\":\"1970-01-01T00:00:00Z\"";
    static const struct {
        enum http_method method;
        const char *path;
        uint32_t http_status;
        const char *text;
    } cases[] = {
        {HTTP_GET, "/v1/models", 200, "\"has_more\":false,\"first_id\":\"tiny-r1\",\"last_id\":\""},
        {HTTP_GET, "/anthropic/v1/models", 200, model},
        {HTTP_GET, "/v1/models/tiny-r1", 200, model},
        {HTTP_GET, "/v1/models/claude", 404, "\"not_found_error\""},
        {HTTP_GET, "/v1/messages/batches", 404, "\"not_found_error\""},
        {HTTP_POST, "/anthropic/v1/complete", 404, "\"not_found_error\""},
        {HTTP_GET, "/v1/messages", 405, "\"invalid_request_error\""},
        {HTTP_POST, CHAT, 400, "\"param\":null"}, /* a path keeps the words it has */
    };
    struct world *world = world_open(&(struct world_options){0});
    world->speaks_anthropic = true;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint32_t client = world_request(world, cases[i].method, cases[i].path, NULL, 0);
        world_settle(world);
        const char *said = world->clients[client].data;
        if (world->clients[client].http_status != cases[i].http_status ||
            !strstr(said, cases[i].text))
            fail_msg("%s: %u %s", cases[i].path, world->clients[client].http_status, said);
        bool theirs = !strncmp(said, "{\"type\":\"error\",\"error\":{", 25);
        assert_true(theirs == (cases[i].http_status >= 400 && cases[i].path[4] != 'c'));
    }
    world_close(world);
}

TEST(a_value_out_of_range_has_the_status_that_clients_of_the_path_know) {
    static const struct {
        const char *path, *asked;
        uint32_t http_status;
    } cases[] = {
        {CHAT, "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]", 422},
        {COMPLETIONS, "\"prompt\":\"a\"", 422},
        {"/v1/messages", "\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
         400},
        {"/v1/responses", "\"input\":\"a\"", 400},
    };
    struct world *world = world_open(&(struct world_options){0});
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[256];
        format_text(body, sizeof body, "{\"model\":\"default\",\"temperature\":2.5,%s}",
                    cases[i].asked);
        uint32_t client = world_post(world, cases[i].path, body);
        world_settle(world);
        if (world->clients[client].http_status != cases[i].http_status)
            fail_msg("%s: %u", cases[i].path, world->clients[client].http_status);
        assert_non_null(strstr(world->clients[client].data, "'temperature' is 2.5"));
    }
    world_close(world);
}
