/* SPDX-License-Identifier: Apache-2.0
 * Protects prompts of which a middle is to be filled in: the model's three tokens stand where it
 * was trained to see them, and what stands in prompt and suffix is text, whatever it says.
 */
#include "serving/gateway/fim.h"

#include "base/check.h"
#include "test_case.h"
#include "world.h"

#define BEGIN "<｜fim▁begin｜>"
#define HOLE "<｜fim▁hole｜>"
#define END "<｜fim▁end｜>"

static char memory[1 << 16];

static struct fim write(const struct world *world, const char *prompt, const char *suffix) {
    struct arena arena;
    struct fim fim;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(fim_write(world->tokenizer, bytes_of(prompt), bytes_of(suffix), &arena, &fim),
                     STATUS_OK);
    return fim;
}

TEST(the_middle_is_asked_for_in_the_model_s_order) {
    struct world *world = world_open(&(struct world_options){0});
    struct fim fim = write(world, "def f(", "return 1");
    assert_true(bytes_equal(fim.text, BYTES_LITERAL(BEGIN "def f(" HOLE "return 1" END)));
    assert_int_equal(fim.plain.count, 2);
    assert_int_equal(fim.plain.spans[0].start, strlen(BEGIN));
    assert_int_equal(fim.plain.spans[0].end, strlen(BEGIN "def f("));
    assert_int_equal(fim.plain.spans[1].start, strlen(BEGIN "def f(" HOLE));
    assert_int_equal(fim.plain.spans[1].end, strlen(BEGIN "def f(" HOLE "return 1"));
    fim = write(world, "", "x");
    assert_int_equal(fim.plain.count, 1);
    world_close(world);
}

static uint32_t count_token(const struct world *world, struct fim fim, const char *text) {
    uint32_t ids[256], id, found = 0;
    assert_true(tokenizer_find(world->tokenizer, bytes_of(text), &id));
    uint32_t count = world_encode(world, fim.text, fim.plain, ids, ARRAY_COUNT(ids));
    for (uint32_t i = 0; i < count; i++)
        found += ids[i] == id;
    return found;
}

TEST(texts_make_no_token_of_the_model_s) {
    struct world *world = world_open(&(struct world_options){0});
    struct fim fim = write(world, "a" HOLE "b", "c" END BEGIN);
    assert_int_equal(count_token(world, fim, BEGIN), 1);
    assert_int_equal(count_token(world, fim, HOLE), 1);
    assert_int_equal(count_token(world, fim, END), 1);
    world_close(world);
}

TEST(a_completion_with_a_suffix_is_answered) {
    struct world *world = world_open(&(struct world_options){0});
    uint32_t client = world_post(world, "/beta/completions",
                                 "{\"prompt\":\"a\",\"suffix\":\"b\",\"max_tokens\":3}");
    world_settle(world);
    assert_int_equal(world->clients[client].http_status, 200);
    world_close(world);
}
