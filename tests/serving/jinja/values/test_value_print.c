/* SPDX-License-Identifier: Apache-2.0
 * Protects what {{ }} and tojson print. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows[] = {
    {"{{ ['a', \"it's\", 'q\"', 'both\\'\"', 'tab\\t', 'nl\\n', 'cr\\r', 'é', '\\x7f', '\\x00', '\\u200b', '\\u2028', '😀', '\\xa0', '\\xad', '\\\\', '\\ue000', '\\U000e0001'] }}", "['a', \"it's\", 'q\"', 'both\\'\"', 'tab\\t', 'nl\\n', 'cr\\r', 'é', '\\x7f', '\\x00', '\\u200b', '\\u2028', '😀', '\\xa0', '\\xad', '\\\\', '\\ue000', '\\U000e0001']"},
    {"{{ l|tojson }}{{ d|tojson }}{{ u|tojson }}{{ m|tojson }}{{ x|tojson }}{{ n|tojson }}{{ t|tojson }}{{ (1, 2)|tojson }}", "[3, 1, 2]{\"b\": 1, \"A\": [1, 2], \"c\": null}\"héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.\"[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yo\", \"tool\": {\"a\": [5, 6]}}, {\"role\": \"User\", \"content\": \"\"}]3.7nulltrue[1, 2]"},
    {"{{ d|tojson(indent=2) }}{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ [[], {}, [1]]|tojson(indent=1) }}{{ d|tojson(indent='--') }}{{ d|tojson(indent=0) }}", "{\n  \"b\": 1,\n  \"A\": [\n    1,\n    2\n  ],\n  \"c\": null\n}[]{}[\n [],\n {},\n [\n  1\n ]\n]{\n--\"b\": 1,\n--\"A\": [\n----1,\n----2\n--],\n--\"c\": null\n}{\n\"b\": 1,\n\"A\": [\n1,\n2\n],\n\"c\": null\n}"},
    {"{{ d|tojson(sort_keys=true) }}{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(separators=(',', ':'), indent=1) }}{{ u|tojson(ensure_ascii=true) }}{{ '😀'|tojson(ensure_ascii=true) }}", "{\"A\": [1, 2], \"b\": 1, \"c\": null}{\"b\":1,\"A\":[1,2],\"c\":null}{\n \"b\":1,\n \"A\":[\n  1,\n  2\n ],\n \"c\":null\n}\"h\\u00e9llo W\\u00f6rld \\u01c5 \\u00df \\ufb01 \\u0391\\u03a3 \\u03a3\\u0391\\u03a3.\"\"\\ud83d\\ude00\""},
    {"{{ '\"\\\\/\\b\\f\\n\\r\\t\\x01\\x1f\\x7f\\u2028<>&\\'' | tojson }}", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\177\342\200\250<>&'\""},
    {"{{ {(1, 2): 3}|tojson }}", NULL},
    {"{{ [q]|tojson }}", NULL},
    {"{{ namespace()|tojson }}", NULL},
    {"{{ range(3)|tojson }}", NULL},
    {"{{ d.keys()|tojson }}", NULL},
    {"{{ {'a': 1, 2: 3}|tojson(sort_keys=true) }}", NULL},
    {"{{ x ~ n ~ t ~ l ~ d }}{{ x|string ~ l|string }}", "3.7NoneTrue[3, 1, 2]{'b': 1, 'A': [1, 2], 'c': None}3.7[3, 1, 2]"},
    {"{{ 2.50 }}{{ 100.0 }}{{ 1e22 }}{{ 1e21 }}{{ 123456.789e3 }}{{ 4.35 }}{{ 0.3 }}{{ 2.675 }}{{ 9007199254740993.0 }}", "2.5100.01e+221e+21123456789.04.350.32.6759007199254740992.0"},
};

/* clang-format on */

TEST(values_print_as_in_python) {
    AGREES(rows);
}

TEST(printed_data_stays_data) {
    agreement_origins("{{ d.b }}{{ n }}{{ u[0] }}", "1None«h»");
    agreement_origins("<{{ m[0] | tojson }}>", "<«{\"role\": \"user\", \"content\": \"Hi\"}»>");
    agreement_origins("{{ [u[0]] }}|{{ e }}|{{ '<s>' }}", "«['h']»||<s>");
}
