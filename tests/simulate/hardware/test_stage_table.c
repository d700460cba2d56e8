/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of measured stage times and what is made of them between their points: exact
 * at the points, never falling where the points rise, and one clear line for every broken text.
 */

#include "base/check.h"
#include "simulate/hardware/stage_table.h"
#include "test_case.h"

#define HEAD "phase,part,tokens,context,expert_rows,experts,us,flop,bytes\n"

static char text[1 << 16];
static struct stage_table table;
static struct error error;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t used = strlen(text);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
}

/* Every part that a layer has, at 10 and 30 tokens; those of `core` are left to the caller. */
static void write_others(void) {
    static const char *const phases[] = {"decode", "prompt", "experts"};
    text[0] = '\0';
    add("# made up\n" HEAD);
    for (int phase = 0; phase < 3; phase++)
        for (int part = 0; part < STAGE_PART_COUNT; part++) {
            const char *name = stage_part_name((enum stage_part)part);
            if (!stage_part_is_in((enum stage_part)part, (enum stage_phase)phase) ||
                stage_part_is_optional((enum stage_part)part) ||
                stage_part_is_of_context((enum stage_part)part))
                continue;
            if (phase == 2)
                add("experts,%s,0,0,10,2,5.5,1,2\nexperts,%s,0,0,30,2,9.25,1,2\n", name, name);
            else
                add("%s,%s,10,0,0,0,2.125,1,2\n%s,%s,30,0,0,0,4,1,2\n", phases[phase], name,
                    phases[phase], name);
        }
}

static void write_whole(void) {
    write_others();
    /* not in order; times rise with tokens and context, not evenly */
    add("decode,core,30,4096,0,0,900.125,1,2\ndecode,core,10,4096,0,0,300,1,2\n"
        "decode,core,10,0,0,0,7.5,1,2\r\n\n# between\ndecode,core,30,0,0,0,21,1,2\n"
        "decode,core,10,1000,0,0,100,1,2\ndecode,core,30,1000,0,0,101,1,2\n"
        "prompt,core_prompt,64,0,0,0,50,1,2\n");
}

static enum status read_text(void) {
    error.text[0] = '\0';
    return stage_table_read(bytes_of(text), "t.csv", &table, &error);
}

static double core(double tokens, double context) {
    return stage_table_us(&table, STAGE_PHASE_DECODE, PART_CORE, tokens, context);
}

TEST(points_are_exact) {
    write_whole();
    if (read_text() != STATUS_OK) fail_msg("%s", error.text);
    assert_int_equal(table.experts, 2);
    assert_true(core(10, 0) == 7.5 && core(30, 0) == 21);
    assert_true(core(10, 1000) == 100 && core(30, 1000) == 101);
    assert_true(core(10, 4096) == 300 && core(30, 4096) == 900.125);
    assert_true(stage_table_us(&table, STAGE_PHASE_EXPERTS, PART_EXPERT_UP, 30, 0) == 9.25);
    assert_true(stage_table_us(&table, STAGE_PHASE_PROMPT, PART_OUTPUT, 10, 77) == 2.125);
}

TEST(between_points_is_linear) {
    write_whole();
    assert_int_equal(read_text(), STATUS_OK);
    assert_true(core(10, 500) == 53.75);                          /* half way in context */
    assert_true(core(20, 1000) == 100.5);                         /* half way in tokens */
    assert_true(core(20, 500) == (53.75 + (21 + 101) / 2.0) / 2); /* and in both */
    assert_true(core(1, 0) == 7.5 && core(0, 0) == 0); /* weights are read for one, too */
    assert_true(core(50, 0) == 34.5);                  /* 21 + 20 * (21 - 7.5) / 20 */
    const enum stage_phase prompt = STAGE_PHASE_PROMPT;
    assert_true(stage_table_us(&table, prompt, PART_CORE_PROMPT, 128, 9) == 100); /* one point */
    assert_true(stage_table_us(&table, prompt, PART_DENSE, 8, 0) == 0);           /* none */
}

TEST(times_never_fall) {
    write_whole();
    assert_int_equal(read_text(), STATUS_OK);
    for (double context = 0; context < 9000; context += 96.5)
        for (double tokens = 0.25; tokens < 60; tokens += 0.75) {
            assert_true(core(tokens + 0.75, context) >= core(tokens, context));
            assert_true(core(tokens, context + 96.5) >= core(tokens, context));
        }
}

/* A machine that was busy while it was measured: behind the points, nothing becomes faster. */
TEST(falling_points_end_flat) {
    write_others();
    add("decode,core,10,0,0,0,50,1,2\ndecode,core,30,0,0,0,40,1,2\n"
        "prompt,core_prompt,64,0,0,0,50,1,2\n");
    assert_int_equal(read_text(), STATUS_OK);
    assert_true(core(20, 0) == 45 && core(1000, 0) == 40 && core(1000, 5000) == 40);
}

static void refused(const char *words) {
    assert_int_equal(read_text(), STATUS_INVALID);
    if (!strstr(error.text, "t.csv") || !strstr(error.text, words) || strchr(error.text, '\n'))
        fail_msg("expected '%s', found '%s'", words, error.text);
}

TEST(broken_lines_are_named) {
    static const struct {
        const char *line, *words;
    } lines[] = {
        {"decode,core,1,2,3\n", "nine fields"},
        {"decode,core,1,2,3,4,5,6,7,8\n", "nine fields"},
        {"decode,,1,0,0,0,5,6,7\n", "nine fields"},
        {"Decode,core,1,0,0,0,5,6,7\n", "decode, prompt or experts"},
        {"decode,corn,1,0,0,0,5,6,7\n", "part"},
        {"decode,core,1.5,0,0,0,5,6,7\n", "whole numbers"},
        {"decode,core,-1,0,0,0,5,6,7\n", "whole numbers"},
        {"decode,core,9999999999,0,0,0,5,6,7\n", "whole numbers"},
        {"decode,core,0,0,0,0,5,6,7\n", "tokens"},
        {"experts,expert_up,4,0,0,2,5,6,7\n", "expert_rows"},
        {"experts,expert_up,0,0,5,3,5,6,7\n", "as many experts"},
        {"decode,core,1,0,0,0,0,6,7\n", "microseconds"},
        {"decode,core,1,0,0,0,1e9,6,7\n", "microseconds"},
        {"decode,core,1,0,0,0,nan,6,7\n", "microseconds"},
        {"decode,core,1,0,0,0,5,.,7\n", "flop and bytes"},
        {"decode,core,10,1000,0,0,5,6,7\n", "once"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        write_whole();
        add("%s", lines[i].line);
        refused(lines[i].words);
        if (!strstr(error.text, "line ")) fail_msg("no line in '%s'", error.text);
    }
    write_whole();
    for (int i = 0; i < 40; i++)
        add("decode,output,%d,0,0,0,5,6,7\n", 100 + i);
    refused("at most 32");
}

TEST(what_is_missing_is_named) {
    snprintf(text, sizeof text, "part,phase\n");
    refused("the line phase,part");
    text[0] = '\0';
    refused("found none");
    write_others();
    add("prompt,core_prompt,64,0,0,0,50,1,2\n");
    refused("decode,core");
    write_whole();
    add("decode,core,50,0,0,0,70,1,2\n");
    refused("decode,core at 50");
    refused("context 1000");
}
