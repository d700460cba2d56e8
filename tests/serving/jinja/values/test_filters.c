/* SPDX-License-Identifier: Apache-2.0
 * Protects the filters of numbers and of any value. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ u|d }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|d }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ l|d|list }}", "[3, 1, 2]"},
    {"{{ u|default }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|default }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ l|default|list }}", "[3, 1, 2]"},
    {"{{ u|default('q') }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|default('q') }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|default('q',true) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|default('q',true) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|default(boolean=true) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|default(boolean=true) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|default(default_value=3) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|default(default_value=3) }}", " Hello World\tfoo-bar  baz\n"},
    {"{{ u|d(none,true) }}", "héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ."},
    {"{{ s|d(none,true) }}", " Hello World\tfoo-bar  baz\n"},
};

TEST(values_have_defaults) {
    AGREES(rows_0);
}

static const struct agreement rows_3[] = {
    {"{{ u|tojson }}", "\"héllo Wörld ǅ ß ﬁ ΑΣ ΣΑΣ.\""},
    {"{{ s|tojson }}", "\" Hello World\\tfoo-bar  baz\\n\""},
    {"{{ nope|tojson }}", NULL},
    {"{{ objs|tojson(indent=2) }}", "[\n  {\n    \"n\": \"b\",\n    \"v\": 2,\n    \"k\": {\n      \"z\": [\n        1\n      ]\n    }\n  },\n  {\n    \"n\": \"A\",\n    \"v\": 1,\n    \"k\": {\n      \"z\": [\n        2\n      ]\n    }\n  },\n  {\n    \"n\": \"a\",\n    \"v\": 3,\n    \"k\": {\n      \"z\": [\n        0\n      ]\n    }\n  },\n  {\n    \"v\": 0\n  }\n]"},
    {"{{ nums|tojson(indent=2) }}", "[\n  3,\n  1.5,\n  true,\n  -2,\n  0\n]"},
    {"{{ nope|tojson(indent=2) }}", NULL},
    {"{{ objs|tojson(indent=0) }}", "[\n{\n\"n\": \"b\",\n\"v\": 2,\n\"k\": {\n\"z\": [\n1\n]\n}\n},\n{\n\"n\": \"A\",\n\"v\": 1,\n\"k\": {\n\"z\": [\n2\n]\n}\n},\n{\n\"n\": \"a\",\n\"v\": 3,\n\"k\": {\n\"z\": [\n0\n]\n}\n},\n{\n\"v\": 0\n}\n]"},
    {"{{ nums|tojson(indent=0) }}", "[\n3,\n1.5,\ntrue,\n-2,\n0\n]"},
    {"{{ nope|tojson(indent=0) }}", NULL},
    {"{{ objs|tojson(indent='--') }}", "[\n--{\n----\"n\": \"b\",\n----\"v\": 2,\n----\"k\": {\n------\"z\": [\n--------1\n------]\n----}\n--},\n--{\n----\"n\": \"A\",\n----\"v\": 1,\n----\"k\": {\n------\"z\": [\n--------2\n------]\n----}\n--},\n--{\n----\"n\": \"a\",\n----\"v\": 3,\n----\"k\": {\n------\"z\": [\n--------0\n------]\n----}\n--},\n--{\n----\"v\": 0\n--}\n]"},
    {"{{ nums|tojson(indent='--') }}", "[\n--3,\n--1.5,\n--true,\n---2,\n--0\n]"},
    {"{{ nope|tojson(indent='--') }}", NULL},
    {"{{ objs|tojson(true) }}", "[{\"n\": \"b\", \"v\": 2, \"k\": {\"z\": [1]}}, {\"n\": \"A\", \"v\": 1, \"k\": {\"z\": [2]}}, {\"n\": \"a\", \"v\": 3, \"k\": {\"z\": [0]}}, {\"v\": 0}]"},
    {"{{ nums|tojson(true) }}", "[3, 1.5, true, -2, 0]"},
    {"{{ nope|tojson(true) }}", NULL},
    {"{{ objs|tojson(ensure_ascii=true) }}", "[{\"n\": \"b\", \"v\": 2, \"k\": {\"z\": [1]}}, {\"n\": \"A\", \"v\": 1, \"k\": {\"z\": [2]}}, {\"n\": \"a\", \"v\": 3, \"k\": {\"z\": [0]}}, {\"v\": 0}]"},
    {"{{ nums|tojson(ensure_ascii=true) }}", "[3, 1.5, true, -2, 0]"},
    {"{{ nope|tojson(ensure_ascii=true) }}", NULL},
    {"{{ objs|tojson(sort_keys=true) }}", "[{\"k\": {\"z\": [1]}, \"n\": \"b\", \"v\": 2}, {\"k\": {\"z\": [2]}, \"n\": \"A\", \"v\": 1}, {\"k\": {\"z\": [0]}, \"n\": \"a\", \"v\": 3}, {\"v\": 0}]"},
    {"{{ nums|tojson(sort_keys=true) }}", "[3, 1.5, true, -2, 0]"},
    {"{{ nope|tojson(sort_keys=true) }}", NULL},
    {"{{ nums|tojson(none,4) }}", "[\n    3,\n    1.5,\n    true,\n    -2,\n    0\n]"},
    {"{{ words|tojson(none,4) }}", "[\n    \"b\",\n    \"A\",\n    \"c\",\n    \"B\",\n    \"a\",\n    \"Á\"\n]"},
    {"{{ nope|tojson(none,4) }}", NULL},
    {"{{ objs|tojson(indent=-1) }}", "[\n{\n\"n\": \"b\",\n\"v\": 2,\n\"k\": {\n\"z\": [\n1\n]\n}\n},\n{\n\"n\": \"A\",\n\"v\": 1,\n\"k\": {\n\"z\": [\n2\n]\n}\n},\n{\n\"n\": \"a\",\n\"v\": 3,\n\"k\": {\n\"z\": [\n0\n]\n}\n},\n{\n\"v\": 0\n}\n]"},
    {"{{ nums|tojson(indent=-1) }}", "[\n3,\n1.5,\ntrue,\n-2,\n0\n]"},
    {"{{ nope|tojson(indent=-1) }}", NULL},
    {"{{ objs|tojson(indent=true) }}", "[\n {\n  \"n\": \"b\",\n  \"v\": 2,\n  \"k\": {\n   \"z\": [\n    1\n   ]\n  }\n },\n {\n  \"n\": \"A\",\n  \"v\": 1,\n  \"k\": {\n   \"z\": [\n    2\n   ]\n  }\n },\n {\n  \"n\": \"a\",\n  \"v\": 3,\n  \"k\": {\n   \"z\": [\n    0\n   ]\n  }\n },\n {\n  \"v\": 0\n }\n]"},
    {"{{ nums|tojson(indent=true) }}", "[\n 3,\n 1.5,\n true,\n -2,\n 0\n]"},
    {"{{ nope|tojson(indent=true) }}", NULL},
    {"{{ objs|tojson(separators=',') }}", NULL},
};

TEST(json_is_written_as_transformers_writes_it) {
    AGREES(rows_3);
}

static const struct agreement rows_4[] = {
    {"{{ 1|nofilter }}", NULL},
    {"{{ 1|default(1,2,3) }}", NULL},
    {"{{ 1|default(value=2) }}", NULL},
    {"{{ 1|default(default_value=1, boolean=false) }}", "1"},
    {"{{ 1|default(1, default_value=2) }}", NULL},
};

TEST(unknown_filters_are_refused) {
    AGREES(rows_4);
}

TEST(filters_for_web_pages_are_refused_by_name) {
    static const char *const names[] = {"urlize",   "striptags",      "wordwrap",
                                        "xmlattr",  "filesizeformat", "pprint"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct jinja_rendering out;
        struct error error;
        char source[64], needle[64];
        snprintf(source, sizeof source, "{{ 'a'|%s }}", names[i]);
        snprintf(needle, sizeof needle, "the filter '%s' is unknown or not supported", names[i]);
        assert_int_equal(agreement_render(source, &out, &error), STATUS_INVALID);
        if (!strstr(error.text, needle)) fail_msg("%s: %s", names[i], error.text);
    }
}

/* clang-format on */
