/* SPDX-License-Identifier: Apache-2.0
 * Protects what `fathom template` prints: the prompt of a request's body in each API, for any name
 * of the model, and the gateway's own words where it refuses. tests/web compares it with a server.
 */
#include "serving/gateway/chat_prompt.h"

#include "../text/chat_support.h"
#include "test_case.h"

static const char source_text[] =
    "{{ '</think>' }}{% for t in tools or [] %}<{{ t.function.name }}>{% endfor %}"
    "{% for m in messages %}[{{ m.role }} {{ m.content }}]{% endfor %}"
    "{% if add_generation_prompt %}{{ 'thinks' if thinking else 'answers' }}{% endif %}";

static enum status prompt_of(enum chat_prompt_api api, const char *body,
                             struct chat_rendering *out) {
    struct chat_template chat_template = opened(source_text);
    struct chat_prompt_source source = {.chat_template = &chat_template, .api = api};
    memset(&error, 0, sizeof error);
    return chat_prompt_of_body(&source, bytes_of(body), test_arena(1 << 20), out, &error);
}

static void expect_prompt(enum chat_prompt_api api, const char *body, const char *text) {
    struct chat_rendering found;
    if (prompt_of(api, body, &found)) fail_msg("%s", error.text);
    if (!bytes_equal(found.text, bytes_of(text)))
        fail_msg("gives %.*s", (int)found.text.count, found.text.data);
}

TEST(each_api_makes_its_prompt) {
    expect_prompt(CHAT_PROMPT_CHAT,
                  "{\"model\":\"any\",\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],"
                  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
                  "</think><f>[system d][user a]answers");
    expect_prompt(CHAT_PROMPT_MESSAGES,
                  "{\"model\":\"any\",\"max_tokens\":9,\"system\":\"s\",\"messages\":[{\"role\":"
                  "\"user\",\"content\":\"a\"}],\"tools\":[{\"name\":\"f\",\"input_schema\":{"
                  "\"type\":\"object\"}}]}",
                  "</think><f>[system s][user a]answers");
    expect_prompt(CHAT_PROMPT_RESPONSES,
                  "{\"model\":\"any\",\"instructions\":\"s\",\"input\":\"a\"}",
                  "</think>[system s][user a]answers");
    expect_prompt(CHAT_PROMPT_OLLAMA,
                  "{\"model\":\"any\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                  "</think>[user a]answers");
}

TEST(deepseek_s_names_switch_thinking) {
    expect_prompt(CHAT_PROMPT_CHAT,
                  "{\"model\":\"deepseek-reasoner\",\"messages\":[{\"role\":\"user\",\"content\":"
                  "\"a\"}]}",
                  "</think>[user a]thinks");
    expect_prompt(CHAT_PROMPT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                  "</think>[user a]answers");
}

static void expect_refusal(const char *body, const char *says) {
    struct chat_rendering found;
    assert_int_equal(prompt_of(CHAT_PROMPT_CHAT, body, &found), STATUS_INVALID);
    if (!strstr(error.text, says)) fail_msg("%s", error.text);
}

TEST(refusals_are_the_gateway_s) {
    expect_refusal("{", "JSON");
    expect_refusal("{\"messages\":7}", "messages");
    expect_refusal("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":{}}", "tools");
}
