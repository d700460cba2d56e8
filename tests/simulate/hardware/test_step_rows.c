/* SPDX-License-Identifier: Apache-2.0
 * Protects steps between measured ones: rows that follow the formula come out exactly, and steps
 * between them, mixed ones and those of uneven ranks, too.
 */

#include "test_case.h"

#include <math.h>

#include "base/format.h"
#include "hardware_of.h"
#include "simulate/hardware/step_rows.h"

static char text[1 << 16];
static size_t used;
static struct step_rows rows;

/* A machine that the formula describes. */
static double machine_us(const struct step_load *f) {
    double tokens = f->prompt_tokens + f->answer_tokens;
    double g = tokens < 8 ? 30 * tokens : 240 + 12 * (tokens - 8);
    return 700 + g + 3 * f->answer_rows + 0.01 * f->attended + 0.004 * f->cached +
           0.02 * f->context;
}

static void begin(void) {
    used = format_text(text, sizeof text,
                       "model: tiny-r1\nweight_bytes: 1\npage_count: 2\ncolumns: [ranks, busy, "
                       "prompt_tokens, attended, cached, answer_rows, answer_tokens, context, us]\n"
                       "rows:\n");
}

static void add(uint32_t ranks, uint32_t busy, const struct step_load *f, double us) {
    used += format_text(text + used, sizeof text - used,
                        "- [%u, %u, %.0f, %.0f, %.0f, %.0f, %.0f, %.0f, %.3f]\n", ranks, busy,
                        f->prompt_tokens, f->attended, f->cached, f->answer_rows, f->answer_tokens,
                        f->context, us);
}

static struct step_load answers(double count, double context) {
    return (struct step_load){
        .answer_rows = count, .answer_tokens = count, .context = count * context};
}

static struct step_load chunk(double tokens, double before) {
    return (struct step_load){.prompt_tokens = tokens,
                              .attended = tokens * before + tokens * (tokens + 1) / 2,
                              .cached = before};
}

static void add_machine(uint32_t ranks) {
    static const double counts[] = {1, 2, 4, 8, 16, 32}, chunks[] = {16, 64, 256, 1024};
    for (int i = 0; i < 6; i++)
        for (double context = 64; context <= 1024; context *= 4) {
            const struct step_load f = answers(counts[i], context);
            add(ranks, ranks, &f, machine_us(&f));
        }
    for (int i = 0; i < 4; i++)
        for (double before = 0; before <= 1024; before += 512) {
            const struct step_load f = chunk(chunks[i], before);
            add(ranks, ranks, &f, machine_us(&f));
        }
}

static enum status read_rows(void) {
    const struct tree_place place = {.file = "f", .path = "steps", .error = &error};
    return step_rows_read(&tree_arena, &place, tree_of(text), &rows);
}

static void is_timed(const struct step_load *load) {
    double us = step_rows_fit_us(step_rows_of(&rows, 1), load), real = machine_us(load);
    if (fabs(us / real - 1) > 0.005) fail_msg("%g us, expected %g", us, real);
}

TEST_AROUND(steps_at_and_between_rows_take_what_they_take, begin_tree, NULL) {
    begin();
    add_machine(1);
    assert_int_equal(read_rows(), STATUS_OK);
    assert_true(step_rows_of(&rows, 1)->error_max < 0.005);
    for (double count = 1; count <= 40; count++) {
        const struct step_load f = answers(count, 300);
        is_timed(&f);
    }
    for (double tokens = 16; tokens < 1400; tokens *= 1.3) {
        const struct step_load f = chunk(floor(tokens), 200);
        is_timed(&f);
    }
}

TEST_AROUND(mixed_steps_share_their_tokens, begin_tree, NULL) {
    begin();
    add_machine(1);
    assert_int_equal(read_rows(), STATUS_OK);
    struct step_load mixed = chunk(256, 128);
    mixed.answer_rows = mixed.answer_tokens = 16;
    mixed.context = 16 * 500;
    is_timed(&mixed);
}

TEST_AROUND(uneven_ranks_take_part_of_the_mean, begin_tree, NULL) {
    begin();
    add_machine(2);
    const struct step_load full = answers(16, 256), half = answers(8, 256);
    add(2, 1, &full, 0.7 * machine_us(&full) + 0.3 * machine_us(&half));
    assert_int_equal(read_rows(), STATUS_OK);
    assert_null(step_rows_of(&rows, 1));
    assert_true(fabs(step_rows_of(&rows, 2)->evenness - 0.3) < 0.05);
}

TEST_AROUND(rows_that_cannot_be_are_refused, begin_tree, NULL) {
    const struct step_load one = answers(1, 64), none = {.context = 1};
    begin();
    add(1, 2, &one, 5);
    assert_int_equal(read_rows(), STATUS_INVALID);
    assert_string_equal(error.text, "f: steps.rows: number 1: expected 1 or more busy ranks, and "
                                    "as many or more in all");
    begin();
    add(1, 1, &none, 5);
    assert_int_equal(read_rows(), STATUS_INVALID);
    begin();
    add(1, 1, &one, 0);
    assert_int_equal(read_rows(), STATUS_INVALID);
    begin();
    add(3, 3, &one, 5);
    assert_int_equal(read_rows(), STATUS_INVALID);
    assert_string_equal(error.text,
                        "f: steps.rows: expected two or more in which all 3 ranks are busy");
}
