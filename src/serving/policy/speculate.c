/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/speculate.h"

#include "base/check.h"

#define MARGIN 0.02
#define LEARN_STEPS 8      /* steps with and without drafts before they are compared */
#define TIME_STEPS 16      /* after this many steps, one step moves an average by a 16th */
#define TRIED_STEPS 4      /* a try moves an average by a 4th, because tries are rare */
#define RIGHT_ANSWERS 64.0 /* one answer moves the share of right drafts by a 64th */
#define RIGHT_PRIOR 0.5 /* share before the first answer, with the weight of RIGHT_PRIOR_ANSWERS */
#define RIGHT_PRIOR_ANSWERS 16.0
#define HICCUP 1.5 /* a step counts for at most this multiple of the average */

_Static_assert(LIMIT_STEP_ROWS < 1 << SPECULATE_BUCKETS, "every number of answers has its bucket");

static uint32_t speculate_bucket_of(uint32_t row_count) {
    check(row_count > 0 && row_count <= LIMIT_STEP_ROWS);
    return 31 - (uint32_t)__builtin_clz(row_count);
}

static bool pays(const struct speculate *speculate, const struct speculate_times *times) {
    return (1 + speculate->right) * times->ns[0] > times->ns[1] * (1 + MARGIN);
}

static uint32_t patience_of(const struct speculate_times *times) {
    return times->patience ? times->patience : SPECULATE_TRY_STEPS;
}

/* If both times are known, they decide. Otherwise the alternative with fewer measurements is next,
 * and drafts on a tie. */
static struct speculate_choice choose_measured(const struct speculate *speculate,
                                               const struct speculate_times *times) {
    if (times->steps[0] < LEARN_STEPS || times->steps[1] < LEARN_STEPS)
        return (struct speculate_choice){times->steps[1] <= times->steps[0], SPECULATE_LEARNS};
    bool drafts = pays(speculate, times);
    if (times->same_steps >= patience_of(times))
        return (struct speculate_choice){!drafts, SPECULATE_TRIES};
    return (struct speculate_choice){drafts, drafts ? SPECULATE_PAYS : SPECULATE_COSTS};
}

struct speculate_choice speculate_choose(const struct speculate *speculate,
                                         enum speculate_mode mode, uint32_t row_count,
                                         uint32_t draft_count, uint32_t room) {
    check(mode < SPECULATE_MODE_COUNT && draft_count <= row_count * LIMIT_DRAFTS);
    if (mode == SPECULATE_NEVER) return (struct speculate_choice){false, SPECULATE_FORBIDDEN};
    if (draft_count == 0) return (struct speculate_choice){false, SPECULATE_NO_ROWS};
    if (row_count + draft_count > room) return (struct speculate_choice){false, SPECULATE_NO_ROOM};
    if (mode == SPECULATE_ALWAYS) return (struct speculate_choice){true, SPECULATE_DEMANDED};
    return choose_measured(speculate, &speculate->times[speculate_bucket_of(row_count)]);
}

static void observe_right(struct speculate *speculate, uint32_t row_count, uint32_t right_count) {
    if (speculate->seen == 0) {
        speculate->right = RIGHT_PRIOR;
        speculate->seen = RIGHT_PRIOR_ANSWERS;
    }
    double rows = row_count, all = speculate->seen + rows;
    if (all > RIGHT_ANSWERS) all = RIGHT_ANSWERS > rows ? RIGHT_ANSWERS : rows;
    speculate->right += (right_count / rows - speculate->right) * rows / all;
    speculate->seen = all;
}

static void observe_time(struct speculate_times *times, bool drafts, bool tried, double ns) {
    double *average = &times->ns[drafts];
    uint32_t *steps = &times->steps[drafts];
    if (*steps < LEARN_STEPS && ns * HICCUP < *average)
        *steps = 0; /* the earlier steps were outliers */
    if (*steps && ns > *average * HICCUP) ns = *average * HICCUP;
    if (*steps < TIME_STEPS) ++*steps;
    *average += (ns - *average) / (tried && *steps > TRIED_STEPS ? TRIED_STEPS : *steps);
}

void speculate_observe(struct speculate *speculate, uint32_t row_count, uint32_t draft_count,
                       uint32_t right_count, int64_t ns) {
    if (row_count == 0) return;
    bool drafts = draft_count > 0;
    struct speculate_times *times = &speculate->times[speculate_bucket_of(row_count)];
    bool before = pays(speculate, times);
    bool known = times->steps[0] >= LEARN_STEPS && times->steps[1] >= LEARN_STEPS;
    if (drafts) observe_right(speculate, row_count, right_count);
    if (ns <= 0) return;
    observe_time(times, drafts, known && drafts != before, (double)ns);
    if (!known) return;
    if (pays(speculate, times) != before) { /* not decided */
        times->same_steps = 0;
        times->patience = SPECULATE_TRY_STEPS;
    } else if (drafts == before) {
        times->same_steps++;
    } else { /* the alternative was tried and is still slower */
        times->same_steps = 0;
        times->patience = 2 * patience_of(times);
        if (times->patience > SPECULATE_TRY_STEPS_MAX) times->patience = SPECULATE_TRY_STEPS_MAX;
    }
}
