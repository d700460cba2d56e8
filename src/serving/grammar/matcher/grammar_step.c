/* SPDX-License-Identifier: Apache-2.0
 * Advances one stack by one byte. Handles whitespace between the parts of a JSON text, and calls
 * the step function for the kind of the top frame.
 */
#include "serving/grammar/matcher/grammar.h"

/* ---- whitespace ---- */

enum space {
    SPACE_NONE,
    SPACE_TWO = 2, /* two spaces or tabs, without a line end */
    SPACE_RETURN = 3,
    SPACE_LINE = 4,
    SPACE_SECOND_RETURN = 5,
    SPACE_SECOND_LINE = 6,
    SPACE_INDENTED = SPACE_SECOND_LINE + 40,
    SPACE_DEAD
};

static uint8_t step_space(uint8_t space, uint8_t byte) {
    if (byte == ' ' || byte == '\t') {
        if (space < SPACE_TWO) return space + 1;
        if (space == SPACE_LINE) return SPACE_SECOND_LINE + 1;
        return space >= SPACE_SECOND_LINE && space < SPACE_INDENTED ? space + 1 : SPACE_DEAD;
    }
    if (byte == '\r')
        return space == SPACE_NONE   ? SPACE_RETURN
               : space == SPACE_LINE ? SPACE_SECOND_RETURN
                                     : SPACE_DEAD;
    if (byte != '\n') return SPACE_DEAD;
    if (space == SPACE_NONE || space == SPACE_RETURN) return SPACE_LINE;
    return space == SPACE_LINE || space == SPACE_SECOND_RETURN ? SPACE_SECOND_LINE : SPACE_DEAD;
}

static bool is_between_lines(uint8_t space) {
    return space == SPACE_RETURN || space == SPACE_SECOND_RETURN;
}

uint32_t grammar_rule_below(const struct grammar *grammar, const struct stack_table *table,
                            uint32_t number) {
    const struct stack_frame *frame = stack_table_at(table, number);
    if (frame->kind == STACK_RULE) return number;
    if (frame->kind != STACK_NUMBER ||
        !grammar->leaves[frame->subject].automaton->labels[frame->state])
        return STACK_NONE;
    return stack_table_at(table, frame->below)->kind == STACK_RULE ? frame->below : STACK_NONE;
}

/* Handles whitespace. True: `byte` is not whitespace, and another part of the text may come. */
static bool step_whitespace(struct stack_table *table, const struct stack_frame *frame,
                            uint8_t byte, struct stack_list *out) {
    if (byte != ' ' && byte != '\t' && byte != '\n' && byte != '\r')
        return !is_between_lines(frame->space);
    struct stack_frame next = *frame;
    next.space = step_space(frame->space, byte);
    if (next.space != SPACE_DEAD)
        grammar_add_stack(out, stack_table_put(table, &next, frame->tail));
    return false;
}

/* Advances a number. It has no last byte of its own. If it may end, the byte goes to the stacks
 * below. */
static void step_number(const struct grammar *grammar, struct stack_table *table,
                        const struct stack_frame *frame, uint8_t byte, struct stack_list *out) {
    struct stack_list ended;
    ended.count = 0;
    value_step_number(grammar, table, frame, byte, out, &ended);
    for (uint32_t i = 0; i < ended.count; i++)
        grammar_step(grammar, table, ended.frames[i], byte, out);
}

void grammar_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                  uint8_t byte, struct stack_list *out) {
    const struct stack_frame *frame = stack_table_at(table, number);
    switch (frame->kind) {
    case STACK_RULE:
        rule_step(grammar, table, number, byte, out);
        return;
    case STACK_LITERAL:
        value_step_literal(grammar, table, frame, byte, out);
        return;
    case STACK_NUMBER:
        step_number(grammar, table, frame, byte, out);
        return;
    case STACK_STRING:
    case STACK_KEY:
        value_step_string(grammar, table, frame, byte, out);
        return;
    default:
        break;
    }
    if (!step_whitespace(table, frame, byte, out)) return;
    if (frame->kind == STACK_ARRAY)
        value_step_array(grammar, table, frame, byte, out);
    else if (frame->where == WHERE_VALUE)
        value_step_begin(grammar, table, object_step_value(grammar, frame), byte,
                         object_step_behind_value(table, frame), out);
    else if (byte == '}' && object_step_may_close(frame))
        value_step_end(grammar, table, frame->below, 0, out);
    else
        object_step(grammar, table, frame, byte, out);
}
