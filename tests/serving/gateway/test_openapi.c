/* SPDX-License-Identifier: Apache-2.0
 * Protects what is told about the API itself: the document is JSON, has every public path, and of
 * each dialect's fields those that do something or nothing, and none that is refused; and what it
 * refers to is there.
 */

#include "base/check.h"
#include "hands.h"
#include "serving/gateway/api/api_field.h"
#include "serving/gateway/api/dialect.h"
#include "serving/gateway/endpoint.h"
#include "test_case.h"

/* Of the path's POST or GET, parsed in a memory of its own. */
static const struct tree *read_document(struct world *world) {
    static char memory[4 << 20];
    struct arena arena;
    struct error error;
    const struct tree *root;
    uint32_t client = world_get(world, "/openapi.json");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    arena_over(&arena, memory, sizeof memory);
    struct bytes text = {world->clients[client].data, world->clients[client].count};
    if (tree_parse(&arena, text, "document", &root, &error)) fail_msg("%s", error.text);
    return root;
}

static const struct tree *find_operation(const struct tree *root, const struct endpoint *endpoint) {
    char path[128];
    bool post = endpoint->method == HTTP_POST;
    const struct tree *paths = tree_member(root, "paths");
    const char *heads[] = {"", "/v1"};
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        strcpy(path, heads[i]);
        strncat(path, endpoint->path.data, endpoint->path.count);
        const struct tree *found = tree_member(tree_member(paths, path), post ? "post" : "get");
        if (found) return found;
    }
    return NULL;
}

static const struct tree *find_properties(const struct tree *operation) {
    const struct tree *content = tree_member(tree_member(operation, "requestBody"), "content");
    return tree_member(tree_member(tree_member(content, "application/json"), "schema"),
                       "properties");
}

TEST(the_document_has_what_clients_may_ask_for) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct tree *root = read_document(world);
    const struct endpoint *endpoint;
    for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++) {
        bool is_public = endpoint->listeners & ENDPOINT_PUBLIC;
        assert_int_equal(find_operation(root, endpoint) != NULL, is_public);
    }
    close_empty(world);
}

TEST(the_document_has_the_fields_that_are_taken) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct tree *root = read_document(world);
    const struct endpoint *endpoint;
    const struct api_field *field;
    for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++) {
        if (!endpoint->dialect) continue;
        const struct tree *properties = find_properties(find_operation(root, endpoint));
        assert_non_null(properties);
        for (size_t f = 0; (field = api_field_at(f)); f++) {
            if (!(field->dialects >> endpoint->dialect->number & 1)) continue;
            bool there = tree_member(properties, field->name) != NULL;
            if (there != (field->use != API_FIELD_REFUSED)) fail_msg("%s", field->name);
        }
    }
    close_empty(world);
}

/* Every "$ref" in the value is a schema of the document; *count grows by their number. */
static void check_references(const struct tree *value, const struct tree *schemas, size_t *count) {
    static const char head[] = "#/components/schemas/";
    struct tree_cursor cursor = {0};
    struct bytes key, text;
    const struct tree *member;
    for (size_t i = 0; tree_kind(value) == TREE_ARRAY && i < tree_count(value); i++)
        check_references(tree_at(value, i), schemas, count);
    while (tree_kind(value) == TREE_OBJECT && tree_next_member(value, &cursor, &key, &member)) {
        check_references(member, schemas, count);
        if (!bytes_equal(key, BYTES_LITERAL("$ref")) || !tree_get_string(member, &text)) continue;
        char name[128] = {0};
        assert_true(text.count > strlen(head) && text.count < sizeof name);
        assert_memory_equal(text.data, head, strlen(head));
        memcpy(name, text.data + strlen(head), text.count - strlen(head));
        if (!tree_member(schemas, name)) fail_msg("%s", name);
        (*count)++;
    }
}

TEST(what_the_document_refers_to_is_there) {
    struct world *world = open_with(1, (struct gateway_options){0});
    const struct tree *root = read_document(world);
    size_t count = 0;
    check_references(root, tree_member(tree_member(root, "components"), "schemas"), &count);
    assert_true(count > 100);
    close_empty(world);
}

TEST(the_version_is_reported) {
    struct world *world = open_with(1, (struct gateway_options){0});
    uint32_t client = world_get(world, "/version");
    world_settle(world);
    struct bytes version;
    assert_true(tree_get_string(tree_member(read_body(world, client), "version"), &version));
    assert_true(version.count > 0);
    close_empty(world);
}
