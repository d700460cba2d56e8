/* SPDX-License-Identifier: Apache-2.0
 * Protects who asks for a constrained answer: what cannot be held is refused in words that name the
 * keyword; a verdict is that of the very text, and one that was given lately costs nothing.
 */
#include "host/process/constraint_validator.h"

#include "base/format.h"
#include "host/process/model_text.h"

#include "test_case.h"

static struct model_text tiny;

static int open_tokenizer(void **state) {
    char path[512];
    struct error error;
    const char *source = getenv("FATHOM_SOURCE");
    format_text(path, sizeof path, "%s/models/tiny-r1", source ? source : ".");
    if (model_text_open_tokenizer(path, &tiny, &error)) fail_msg("%s", error.text);
    return 0;
}

static int close_tokenizer(void **state) {
    model_text_close(&tiny);
    return 0;
}

static struct constraint_validator *open_verify(void) {
    struct constraint_validator *verify;
    struct error error;
    assert_int_equal(constraint_validator_open(tiny.tokenizer, &verify, &error), STATUS_OK);
    return verify;
}

enum { REMEMBERED = 512 };

static uint64_t client; /* that asks */

static enum constraint_verdict ask(struct constraint_validator *verify, const char *text,
                                   const char *words) {
    struct error error = {"unset"};
    enum constraint_verdict verdict =
        constraint_validator_ask(verify, client, bytes_of(text), &error);
    if (!strstr(error.text, words)) fail_msg("%s: '%s'", text, error.text);
    if ((verdict == CONSTRAINT_HOLDS) != (error.text[0] == '\0'))
        fail_msg("%s: %d, '%s'", text, (int)verdict, error.text);
    return verdict;
}

TEST(a_refusal_says_what_cannot_be_held) {
    struct constraint_validator *verify = open_verify();
    assert_int_equal(ask(verify, "{\"form\":{\"schema\":{\"type\":\"object\"}}}", ""),
                     CONSTRAINT_HOLDS);
    assert_int_equal(ask(verify, "{\"form\":{\"schema\":{\"type\":\"number of\"}}}", "type"),
                     CONSTRAINT_INVALID);
    assert_int_equal(
        ask(verify, "{\"form\":{\"schema\":{\"$ref\":\"http://a.example/b\"}}}", "$ref"),
        CONSTRAINT_UNSUPPORTED);
    assert_int_equal(ask(verify, "{\"form\":{\"schema\":{\"pattern\":\"a{9999999}\"}}}", "pattern"),
                     CONSTRAINT_TOO_LARGE);
    assert_int_equal(ask(verify, "no JSON", "constraint"), CONSTRAINT_INVALID);
    constraint_validator_close(verify);
}

TEST(tokens_are_those_of_the_model) {
    struct constraint_validator *verify = open_verify();
    assert_int_equal(ask(verify, "{\"behind\":\"</think>\",\"form\":{\"schema\":true}}", ""),
                     CONSTRAINT_HOLDS);
    assert_int_not_equal(
        ask(verify, "{\"behind\":\"</thought>\",\"form\":{\"schema\":true}}", "</thought>"),
        CONSTRAINT_HOLDS);
    constraint_validator_close(verify);
}

TEST(a_verdict_is_remembered_for_its_text_alone) {
    struct constraint_validator *verify = open_verify();
    const char *good = "{\"form\":{\"schema\":{\"type\":\"object\"}}}";
    const char *bad = "{\"form\":{\"schema\":{\"type\":\"objekt\"}}}";
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ask(verify, good, ""), CONSTRAINT_HOLDS);
        assert_int_equal(ask(verify, bad, "type"), CONSTRAINT_INVALID);
    }
    assert_int_equal(constraint_validator_compiled(verify), 2);
    for (uint32_t i = 0; i < REMEMBERED - 1;
         i++) { /* the one that is asked for now and then stays */
        char text[64];
        format_text(text, sizeof text, "{\"form\":{\"schema\":{\"const\":%u}}}", i);
        assert_int_equal(ask(verify, text, ""), CONSTRAINT_HOLDS);
        assert_int_equal(ask(verify, good, ""), CONSTRAINT_HOLDS);
    }
    assert_int_equal(constraint_validator_compiled(verify), 2 + REMEMBERED - 1);
    assert_int_equal(ask(verify, bad, "type"), CONSTRAINT_INVALID);
    assert_int_equal(constraint_validator_compiled(verify), 2 + REMEMBERED);
    constraint_validator_close(verify);
}

/* However many others another client asks for meanwhile. */
TEST(a_client_forgets_its_own_first) {
    static const char *const kept[] = {"{\"form\":{\"schema\":{\"type\":\"object\"}}}",
                                       "{\"form\":{\"schema\":{\"type\":\"array\"}}}"};
    struct constraint_validator *verify = open_verify();
    client = 1;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ask(verify, kept[i], ""), CONSTRAINT_HOLDS);
    client = 2;
    for (uint32_t i = 0; i < 2 * REMEMBERED; i++) {
        char text[64];
        format_text(text, sizeof text, "{\"form\":{\"schema\":{\"const\":%u}}}", i);
        assert_int_equal(ask(verify, text, ""), CONSTRAINT_HOLDS);
    }
    client = 1;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ask(verify, kept[i], ""), CONSTRAINT_HOLDS);
    assert_int_equal(constraint_validator_compiled(verify), 2 + 2 * REMEMBERED);
    constraint_validator_close(verify);
}

TEST_GROUP(open_tokenizer, close_tokenizer)
