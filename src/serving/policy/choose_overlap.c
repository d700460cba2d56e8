/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/choose_overlap.h"

#include "base/check.h"

#define LEARN_STEPS 3   /* without the first one, because caches and pages are cold */
#define AVERAGE_STEPS 6 /* an average follows a change in about this many steps */
#define RETRY_STEPS 48
#define RETRY_WITHIN 1.3 /* retry schedules within this factor of the fastest */
#define HOPELESS 2       /* schedules slower by this factor are not measured again */

const char *choose_overlap_reason_name(enum choose_overlap_reason reason) {
    static const char *const names[CHOOSE_OVERLAP_REASON_COUNT] = {
        [CHOOSE_OVERLAP_GIVEN] = "given",
        [CHOOSE_OVERLAP_ALONE] = "one rank",
        [CHOOSE_OVERLAP_LEARN] = "to be measured",
        [CHOOSE_OVERLAP_FASTEST] = "the fastest measured",
        [CHOOSE_OVERLAP_RETRY] = "nearly as fast, measured again",
    };
    check(reason < CHOOSE_OVERLAP_REASON_COUNT);
    return names[reason];
}

static struct choose_overlap_class *class_of(struct choose_overlap *choose,
                                             const struct choose_overlap_step *step) {
    uint32_t size = step->tokens ? 31 - (uint32_t)__builtin_clz(step->tokens) : 0;
    if (size >= CHOOSE_OVERLAP_SIZES) size = CHOOSE_OVERLAP_SIZES - 1;
    return &choose->classes[step->prompts][size];
}

static bool has_tokens(const struct choose_overlap_step *step, int kind) {
    /* the same schedule as DECODE_FIVE_STAGE */
    if (step->prompts && kind == OVERLAP_DECODE_EARLY) return false;
    return overlap_of((enum overlap_kind)kind)->micro_batch_count <=
           (step->tokens ? step->tokens : 1);
}

/* The fastest of the measured schedules. Sequential is always possible. */
static int fastest(const struct choose_overlap_class *class,
                   const struct choose_overlap_step *step) {
    int best = OVERLAP_SEQUENTIAL;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (class->seen[kind] && has_tokens(step, kind) &&
            class->ns_each[kind] < class->ns_each[best])
            best = kind;
    return best;
}

/* The schedule to measure next; OVERLAP_KIND_COUNT if there is none. */
static int to_learn(const struct choose_overlap_class *class,
                    const struct choose_overlap_step *step) {
    double hopeless = HOPELESS * class->ns_each[fastest(class, step)];
    for (uint32_t seen = 0; seen < LEARN_STEPS; seen++)
        for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
            if (class->seen[kind] <= seen && has_tokens(step, kind) &&
                (seen < 2 || class->ns_each[kind] < hopeless))
                return kind;
    return OVERLAP_KIND_COUNT;
}

/* The least measured schedule that is nearly as fast; OVERLAP_KIND_COUNT if there is none. */
static int to_retry(const struct choose_overlap_class *class,
                    const struct choose_overlap_step *step, int best) {
    int next = OVERLAP_KIND_COUNT;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (kind != best && has_tokens(step, kind) &&
            class->ns_each[kind] < RETRY_WITHIN * class->ns_each[best] &&
            (next == OVERLAP_KIND_COUNT || class->seen[kind] < class->seen[next]))
            next = kind;
    return next;
}

struct choose_overlap_choice choose_overlap(struct choose_overlap *choose,
                                            const struct choose_overlap_step *step) {
    if (step->ranks <= 1)
        return (struct choose_overlap_choice){OVERLAP_SEQUENTIAL, CHOOSE_OVERLAP_ALONE};
    struct choose_overlap_class *class = class_of(choose, step);
    int kind = to_learn(class, step);
    if (kind != OVERLAP_KIND_COUNT)
        return (struct choose_overlap_choice){(enum overlap_kind)kind, CHOOSE_OVERLAP_LEARN};
    int best = fastest(class, step);
    if (++class->since_retry >= RETRY_STEPS) {
        class->since_retry = 0;
        kind = to_retry(class, step, best);
        if (kind != OVERLAP_KIND_COUNT)
            return (struct choose_overlap_choice){(enum overlap_kind)kind, CHOOSE_OVERLAP_RETRY};
    }
    return (struct choose_overlap_choice){(enum overlap_kind)best, CHOOSE_OVERLAP_FASTEST};
}

void choose_overlap_observe(struct choose_overlap *choose, const struct choose_overlap_step *step,
                            enum overlap_kind kind, int64_t ns) {
    if (step->ranks <= 1 || step->tokens == 0 || ns <= 0) return;
    struct choose_overlap_class *class = class_of(choose, step);
    double each = (double)ns / step->tokens, *average = &class->ns_each[kind];
    uint32_t seen = class->seen[kind]++;
    if (seen <= 1) {
        *average = each;
        return;
    }
    if (each > 2 * *average) each = 2 * *average;
    *average += (each - *average) / (seen < AVERAGE_STEPS ? seen : AVERAGE_STEPS);
}
