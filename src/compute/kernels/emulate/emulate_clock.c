/* SPDX-License-Identifier: Apache-2.0
 * The last answers are kept: the threads of a group ask the same, one after another.
 */
#include "compute/kernels/emulate/emulate_clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct emulate_clock *spare[64];
static uint32_t spare_count;

static struct emulate_clock *emulate_clock_take(uint32_t count) {
    struct emulate_clock *clock =
        spare_count ? spare[--spare_count] : malloc(sizeof(struct emulate_clock));
    check(clock);
    clock->holders = 1;
    clock->count = count;
    return clock;
}

struct emulate_clock *emulate_clock_new(void) {
    return emulate_clock_take(0);
}

struct emulate_clock *emulate_clock_hold(struct emulate_clock *clock) {
    check(clock);
    clock->holders++;
    return clock;
}

void emulate_clock_drop(struct emulate_clock *clock) {
    if (!clock || --clock->holders) return;
    if (spare_count < sizeof spare / sizeof *spare)
        spare[spare_count++] = clock;
    else
        free(clock);
}

/* The clock that both have seen: one of the two if it contains the other. */
static struct emulate_clock *merged(struct emulate_clock *a, struct emulate_clock *b) {
    uint32_t a_lacks = a->count < b->count, b_lacks = b->count < a->count;
    uint32_t both = a_lacks ? a->count : b->count;
    for (uint32_t i = 0; i < both; i++) {
        a_lacks |= a->at[i] < b->at[i];
        b_lacks |= b->at[i] < a->at[i];
    }
    if (!a_lacks) return emulate_clock_hold(a);
    if (!b_lacks) return emulate_clock_hold(b);
    struct emulate_clock *longer = a->count > b->count ? a : b;
    struct emulate_clock *sum = emulate_clock_take(longer->count);
    for (uint32_t i = 0; i < both; i++)
        sum->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
    memcpy(sum->at + both, longer->at + both, (longer->count - both) * sizeof *sum->at);
    return sum;
}

static void emulate_clock_replace(struct emulate_clock **place, struct emulate_clock *clock) {
    emulate_clock_drop(*place);
    *place = clock;
}

void emulate_clock_learn(struct emulate_clock **clock, struct emulate_clock *other) {
    static struct emulate_clock *asked[2], *answer;
    if (*clock == other) return;
    if (!answer || asked[0] != *clock || asked[1] != other) {
        struct emulate_clock *sum = merged(*clock, other);
        emulate_clock_replace(&asked[0], emulate_clock_hold(*clock));
        emulate_clock_replace(&asked[1], emulate_clock_hold(other));
        emulate_clock_replace(&answer, sum);
    }
    emulate_clock_replace(clock, emulate_clock_hold(answer));
}

static struct emulate_clock *copy_of(const struct emulate_clock *clock, uint32_t count) {
    struct emulate_clock *other = emulate_clock_take(clock->count > count ? clock->count : count);
    memcpy(other->at, clock->at, clock->count * sizeof *clock->at);
    memset(other->at + clock->count, 0, (other->count - clock->count) * sizeof *clock->at);
    return other;
}

void emulate_clock_own(struct emulate_clock **clock, uint32_t count) {
    emulate_clock_replace(clock, copy_of(*clock, count));
}

void emulate_clock_note(struct emulate_clock **clock, uint32_t index, uint32_t time) {
    static struct emulate_clock *asked, *answer;
    static uint32_t asked_index, asked_time;
    if (index < (*clock)->count && (*clock)->at[index] >= time) return;
    if ((*clock)->holders == 1 && index < (*clock)->count) {
        (*clock)->at[index] = time;
        return;
    }
    if (asked != *clock || asked_index != index || asked_time != time) {
        struct emulate_clock *other = copy_of(*clock, index + 1);
        other->at[index] = time;
        emulate_clock_replace(&asked, emulate_clock_hold(*clock));
        emulate_clock_replace(&answer, other);
        asked_index = index;
        asked_time = time;
    }
    emulate_clock_replace(clock, emulate_clock_hold(answer));
}
