/* SPDX-License-Identifier: Apache-2.0 */
#include "command/eplb_load.h"

#include "test_case.h"

static struct bytes text_of(const char *text) {
    return (struct bytes){text, strlen(text)};
}

/* Whatever the unit, the ratios are the text's, exactly where they are whole. */
TEST(loads_keep_their_ratios) {
    struct eplb_load load;
    struct error error;
    const char *text = "[[1, 2, 0, 3], [0, 0, 0, 0], [1e300, 5e299, 1e-300, 0.25e300]]";
    assert_int_equal(eplb_load_parse(text_of(text), "loads", &load, &error), STATUS_OK);
    assert_int_equal(load.layers, 3);
    assert_int_equal(load.experts, 4);
    assert_true(load.loads[1] == 2 * load.loads[0] && load.loads[3] == 3 * load.loads[0]);
    assert_true(load.loads[0] > 0 && load.loads[2] == 0);
    assert_true(load.loads[4] == 0 && load.loads[7] == 0);
    assert_true(load.loads[8] == 2 * load.loads[9] && load.loads[10] == 0);
    free(load.loads);
}

TEST(wrong_loads_are_named) {
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "not valid JSON"},
        {"[[1, NaN]]", "not valid JSON"},
        {"[[1, 1e999]]", "expert 1: expected a load, a number, found a number beyond 64 bits"},
        {"{}", "found an object"},
        {"[]", "expected an array of 1 to 256 layers"},
        {"[[]]", "expected 1 to 1024 experts"},
        {"[1, 2]", "layer 0: expected an array of one number for each expert"},
        {"[[1, 2], [3]]", "layer 1 has 1 experts, layer 0 has 2"},
        {"[[1, 2], [3, -4]]", "layer 1, expert 1: expected a load of at least 0, found -4"},
        {"[[1, \"2\"]]", "layer 0, expert 1: expected a load, a number, found a string"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct eplb_load load;
        struct error error = {""};
        assert_int_equal(eplb_load_parse(text_of(wrong[i].text), "f", &load, &error),
                         STATUS_INVALID);
        if (!strstr(error.text, wrong[i].why))
            fail_msg("'%s' says not '%s'", error.text, wrong[i].why);
    }
}

TEST(placements_are_read_back) {
    struct eplb_placement placement;
    struct error error;
    const char *text = "{\"slot_to_expert\": [[0, 1, 1], [1, 0, 0]], \"balance\": [1, 1]}";
    assert_int_equal(eplb_load_parse_placement(text_of(text), "f", &placement, &error), STATUS_OK);
    assert_int_equal(placement.layers, 2);
    assert_int_equal(placement.slots, 3);
    assert_int_equal(placement.slot_to_expert[3], 1);
    free(placement.slot_to_expert);
    static const char *const wrong[] = {
        "[]", "{\"slot_to_expert\": [[0, 1], [0]]}", "{\"slot_to_expert\": [[0, 1.0]]}",
        "{\"slot_to_expert\": [[0, 1024]]}", "{\"slot_to_expert\": 3}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(eplb_load_parse_placement(text_of(wrong[i]), "f", &placement, &error),
                         STATUS_INVALID);
}
