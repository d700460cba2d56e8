/* SPDX-License-Identifier: Apache-2.0
 * The variable `loop` and its attributes. Some of them need the next item in advance.
 */
#include "serving/jinja/values/jinja_machine.h"

/* Fetches the next item into `after` unless it is there already; VALUE_MISSING at the end. */
static bool value_loop_peek(struct jinja_machine *machine, struct value_loop *loop) {
    bool more;
    if (loop->after.kind != VALUE_MISSING) return true;
    if (!value_access_iteration_next(machine, &loop->iteration, &loop->after, &more)) return false;
    if (!more) loop->after = (struct value){.kind = VALUE_MISSING};
    return true;
}

bool value_loop_advance(struct jinja_machine *machine, struct value_loop *loop, bool *more) {
    if (!value_loop_peek(machine, loop)) return false;
    *more = loop->after.kind != VALUE_MISSING;
    if (!*more) return true;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after = (struct value){.kind = VALUE_MISSING};
    loop->place++;
    return true;
}

bool value_loop_length(struct jinja_machine *machine, struct value_loop *loop, int64_t *out) {
    struct value_list *rest;
    if (loop->length < 0 && loop->subject.kind != VALUE_GENERATOR &&
        !value_length(machine, &loop->subject, &loop->length))
        return false;
    if (loop->length < 0) {
        if (!value_access_items(machine, &loop->iteration.subject, false, &rest)) return false;
        loop->iteration = (struct iteration){.subject = {.kind = VALUE_LIST, .list = rest}};
        loop->length = (int64_t)rest->count + loop->place + 1 + (loop->after.kind != VALUE_MISSING);
    }
    *out = loop->length;
    return true;
}

static bool neighbour(struct jinja_machine *machine, const struct value *item, const char *missing,
                      struct value *out) {
    *out = *item;
    return item->kind != VALUE_MISSING || value_make_undefined(machine, missing, out);
}

bool value_loop_attribute(struct jinja_machine *machine, const struct value *value,
                          const struct value_text *name, struct value *out, bool *found) {
    static const char *const names[] = {"index",    "index0",    "depth",   "depth0", "length",
                                        "revindex", "revindex0", "first",   "last",   "previtem",
                                        "nextitem", "cycle",     "changed", NULL};
    struct value_loop *loop = value->loop;
    int which = 0;
    int64_t length = 0, place = loop->place;
    while (names[which] && !bytes_equal(value_text_bytes(name), bytes_of(names[which])))
        which++;
    *found = names[which] != NULL;
    if (which >= 4 && which <= 6 && !value_loop_length(machine, loop, &length)) return false;
    if ((which == 8 || which == 10) && !value_loop_peek(machine, loop)) return false;
    const int64_t numbers[] = {place + 1, place, 1, 0, length, length - place, length - place - 1};
    if (which < 7)
        *out = value_integer(numbers[which]);
    else if (which == 7)
        *out = value_bool(place == 0);
    else if (which == 8)
        *out = value_bool(loop->after.kind == VALUE_MISSING);
    else if (which == 9)
        return neighbour(machine, &loop->before, "there is no previous item", out);
    else if (which == 10)
        return neighbour(machine, &loop->after, "there is no next item", out);
    return !*found || which < 11 ||
           machine_fail(machine, "loop.%s() is not supported", names[which]);
}
