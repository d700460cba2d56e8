/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scenario/prices.h"

#include <math.h>

#include "test_case.h"

static char memory[1 << 16];
static struct error error;

static enum status read_text(const char *text, struct prices *prices) {
    struct arena arena;
    const struct tree *tree;
    struct tree_place place = {.file = "file", .path = "prices", .error = &error};
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(tree_parse(&arena, bytes_of(text), "text", &tree, &error), STATUS_OK);
    return prices_read(&place, tree, prices);
}

static const char list[] = "{\"currency\":\"USD\",\"node_hour\":16,\"input_hit\":0.14,"
                           "\"input_miss\":0.55,\"output\":2.19,\"periods\":[{\"from_hour\":16.5,"
                           "\"to_hour\":0.5,\"output\":0.55}]}";

/* 342e9 hits, 266e9 misses and 168e9 answers' tokens: DeepSeek's theoretical income of a day. */
TEST(a_published_day_has_its_published_income) {
    struct prices prices;
    assert_int_equal(read_text(list, &prices), STATUS_OK);
    double income = prices_income(&prices.calendar.tokens, 342e9, 266e9, 168e9);
    assert_true(fabs(income / 562027 - 1) < 0.002);
}

TEST(a_period_may_go_over_midnight) {
    struct prices prices;
    assert_int_equal(read_text(list, &prices), STATUS_OK);
    static const double off[] = {16.5, 23, 24, 0.2, 24.2}, peak[] = {0.5, 12, 16.4, 40};
    for (int i = 0; i < 5; i++) {
        assert_true(prices_at(&prices.calendar, off[i]).output == 0.55);
        assert_true(prices_at(&prices.calendar, off[i]).input_hit ==
                    0.14); /* what it does not say */
    }
    for (int i = 0; i < 4; i++)
        assert_true(prices_at(&prices.calendar, peak[i]).output == 2.19);
}

TEST(a_missing_price_is_named) {
    struct prices prices;
    assert_int_equal(read_text("{\"currency\":\"USD\",\"node_hour\":1}", &prices), STATUS_INVALID);
    assert_non_null(strstr(error.text, "prices: the key input_hit is missing"));
}

/* DeepSeek's two names: the list of the file is one's, and the other has a calendar of its own. */
TEST(a_model_has_a_calendar_of_its_own) {
    static const char text[] =
        "{\"currency\":\"USD\",\"node_hour\":16,\"input_hit\":0.14,\"input_miss\":0.55,"
        "\"output\":2.19,\"periods\":[{\"from_hour\":16.5,\"to_hour\":0.5,\"output\":0.55}],"
        "\"models\":[{\"name\":\"chat\",\"input_hit\":0.07,\"input_miss\":0.27,\"output\":1.1,"
        "\"periods\":[{\"from_hour\":20,\"to_hour\":21,\"input_hit\":0.035}]},"
        "{\"name\":\"flat\",\"input_hit\":1,\"input_miss\":2,\"output\":3}]}";
    struct prices prices;
    assert_int_equal(read_text(text, &prices), STATUS_OK);
    const struct prices_calendar *chat = prices_of_model(&prices, BYTES_LITERAL("chat"));
    assert_true(prices_at(chat, 17).input_hit == 0.07);
    assert_true(prices_at(chat, 20.5).input_hit == 0.035);
    assert_true(prices_at(chat, 20.5).output == 1.1); /* what its period does not say */
    assert_true(prices_at(prices_of_model(&prices, BYTES_LITERAL("flat")), 17).output == 3);
    static const char *const others[] = {"chatter", "cha", "", "reasoner"};
    for (int i = 0; i < 4; i++)
        assert_true(prices_at(prices_of_model(&prices, bytes_of(others[i])), 17).output == 0.55);
}

static void assert_models_refused(const char *models, const char *words) {
    char text[4096];
    struct prices prices;
    snprintf(text, sizeof text,
             "{\"currency\":\"USD\",\"node_hour\":1,\"input_hit\":1,\"input_miss\":1,"
             "\"output\":1,\"models\":%s}",
             models);
    assert_int_equal(read_text(text, &prices), STATUS_INVALID);
    if (!strstr(error.text, words)) fail_msg("%s", error.text);
}

TEST(models_that_make_no_sense_are_named) {
#define LIST "\"input_hit\":1,\"input_miss\":1,\"output\":1}"
    char many[4096] = "[";
    assert_models_refused("{}", "prices.models: expected an array, found an object");
    assert_models_refused("[{" LIST "]", "the key name is missing");
    assert_models_refused("[{\"name\":\"\"," LIST "]", "prices.models[0].name: expected a name");
    assert_models_refused("[{\"name\":\"a\"," LIST ",{\"name\":\"a\"," LIST "]",
                          "prices.models[1].name: 'a' has prices already");
    assert_models_refused("[{\"name\":\"a\",\"outputs\":1," LIST "]", "outputs");
    assert_models_refused("[{\"name\":\"a\",\"input_hit\":1}]", "the key input_miss is missing");
    for (int i = 0; i <= PRICES_MODELS_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s{\"name\":\"m%d\"," LIST,
                 i ? "," : "", i);
    assert_models_refused(strcat(many, "]"), "prices.models: at most 16");
#undef LIST
}
