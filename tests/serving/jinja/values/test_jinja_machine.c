/* SPDX-License-Identifier: Apache-2.0
 * Protects the ground of the interpreter: memory within its limit, text that is built with the
 * origin of each byte, and the first failure alone being told. */

#include "serving/jinja/values/jinja_machine.h"
#include "test_case.h"

static char memory[8 << 20];
static struct arena arena;
static struct error error;

static struct jinja_machine fresh(size_t memory_bytes, uint64_t steps) {
    arena_over(&arena, memory, sizeof memory);
    return (struct jinja_machine){.arena = &arena,
                                  .memory_left = memory_bytes,
                                  .steps_left = steps,
                                  .error = &error,
                                  .name = "t",
                                  .line = 7,
                                  .output_bytes_max = 1000};
}

TEST(memory_ends_at_its_limit) {
    struct jinja_machine machine = fresh(100000, 1000);
    size_t got = 0;
    while (machine_take(&machine, 1000))
        got += 1000;
    assert_in_range(got, 90000, 100000);
    assert_int_equal(machine.status, STATUS_TOO_LARGE);
    machine = fresh((size_t)1 << 30, 1000);
    assert_null(machine_take(&machine, (size_t)64 << 20));
    assert_int_equal(machine.status, STATUS_NO_MEMORY);
    machine = fresh((size_t)1 << 30, 1000);
    assert_null(machine_take(&machine, SIZE_MAX - 3));
}

TEST(the_first_failure_is_reported) {
    struct jinja_machine machine = fresh(100000, 1000);
    assert_false(machine_fail(&machine, "first %d\n", 1));
    assert_false(machine_fail(&machine, "second"));
    assert_false(machine_exceed(&machine, "third"));
    assert_string_equal(error.text, "t:7: first 1 ");
    assert_int_equal(machine.status, STATUS_INVALID);
}

TEST(steps_and_depth_run_out) {
    struct jinja_machine machine = fresh(100000, 1000);
    assert_true(machine_spend(&machine, 999));
    assert_true(machine_spend(&machine, 1));
    assert_false(machine_spend(&machine, 1));
    machine = fresh(100000, 1000);
    for (int i = 0; i < MACHINE_DEPTH_MAX; i++)
        assert_true(jinja_machine_enter(&machine));
    assert_false(jinja_machine_enter(&machine));
    assert_int_equal(machine.status, STATUS_TOO_LARGE);
}

TEST(built_text_knows_its_origins) {
    struct jinja_machine machine = fresh(1000000, 100000);
    struct text_builder builder;
    struct value value, part;
    text_builder_open(&builder, &machine);
    assert_true(text_builder_add(&builder, "ab", 2, VALUE_DATA));
    assert_null(builder.marks);
    assert_true(text_builder_add(&builder, "\xC3\xA9", 2, VALUE_TRUSTED));
    for (int i = 0; i < 100; i++)
        assert_true(text_builder_add(&builder, "xyz", 3, i % 2 ? VALUE_DATA : VALUE_TRUSTED));
    assert_true(text_builder_finish(&builder, false, &value));
    assert_int_equal(value.text->count, 304);
    assert_int_equal(value.text->length, 303);
    assert_int_equal(value.text->marks[1], VALUE_DATA);
    assert_int_equal(value.text->marks[2], VALUE_TRUSTED);
    assert_int_equal(value.text->marks[3], VALUE_TRUSTED);
    assert_int_equal(value.text->marks[4], VALUE_TRUSTED);
    assert_int_equal(value.text->marks[7], VALUE_DATA);
    assert_true(value_make_part(&machine, value.text, 1, 3, &part));
    assert_int_equal(part.text->length, 2);
    text_builder_open(&builder, &machine);
    assert_true(text_builder_add_text(&builder, part.text));
    assert_true(text_builder_finish(&builder, true, &value));
    assert_int_equal(value.text->marks[0], VALUE_DATA);
    assert_int_equal(value.text->marks[1], VALUE_TRUSTED);
    assert_true(value.text->markup);
}

TEST(output_has_its_limit) {
    struct jinja_machine machine = fresh(1000000, 100000);
    struct text_builder builder;
    char text[1001] = {0};
    text_builder_open(&builder, &machine);
    builder.is_output = true;
    assert_true(text_builder_add(&builder, text, 1000, VALUE_DATA));
    assert_false(text_builder_add(&builder, text, 1, VALUE_DATA));
    assert_int_equal(machine.status, STATUS_TOO_LARGE);
}
