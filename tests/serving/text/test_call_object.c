/* SPDX-License-Identifier: Apache-2.0
 * Protects which bytes of a call that is a JSON object are its name, its id and its arguments.
 */
#include "serving/text/call_object.h"
#include "support.h"
#include "test_case.h"

/* A letter for each byte: '.', or the member's; 'x' where the object breaks. */
static void parts(const char *text, const char *expected, bool is_arguments) {
    char found[256];
    size_t count = 0;
    struct call_object object = {.is_arguments = is_arguments};
    for (; text[count]; count++) {
        enum call_member member = CALL_MEMBER_NONE;
        if (!call_object_next(&object, text[count], &member)) {
            found[count++] = 'x';
            break;
        }
        found[count] = ".naIt"[member];
    }
    found[count] = '\0';
    assert_string_equal(found, expected);
    if (!strchr(expected, 'x')) assert_true(call_object_is_whole(&object));
}

TEST(it_reports_members_apart) {
    parts("{\"name\": \"g{\", \"arguments\": {\"name\":[1]} , \"id\":\"c\",\"type\":2}",
          ".........nnnn...............aaaaaaaaaaaa........III........t.", false);
}

TEST(it_knows_values_of_each_kind) {
    parts("{\"arguments\":12 ,\"name\":\"\"}", ".............aa.........nn.", false);
    parts("{\"parameters\":null}", "..............aaaa.", false);
    parts("{\"arguments\":-1.5}", ".............aaaa.", false);
    parts("{\"arguments\":\"\\\"}\"}", ".............aaaaa.", false);
    parts("{\"a\":{}}", "aaaaaaaa", true);
}

TEST(it_breaks_at_what_no_call_has) {
    parts("[", "x", false);
    parts("{\"nams\":1}", ".....x", false);
    parts("{\"nam\":1}", ".....x", false);
    parts("{\"name\":1}", "........x", false);
    parts("{\"arguments\":1,\"parameters\":2}", ".............a............x", false);
    parts("{\"parametersx\"", "............x", false);
    parts(" {", "x", true);
}
