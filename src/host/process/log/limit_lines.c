/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/log/limit_lines.h"

#include <stddef.h>

#define PLACES 4 /* slots that a key may use, from the one that it selects */

/* Finds the key's kind, or the one to replace; NULL: all of its slots have counts. */
static struct limit_lines_kind *find(struct limit_lines *limits, uint64_t key) {
    struct limit_lines_kind *places = &limits->kinds[key % (LIMIT_LINES_KINDS / PLACES) * PLACES];
    struct limit_lines_kind *oldest = NULL;
    for (int i = 0; i < PLACES; i++) {
        if (places[i].paid_ns && places[i].key == key) return &places[i];
        if (places[i].left_out) continue;
        if (!oldest || places[i].paid_ns < oldest->paid_ns) oldest = &places[i];
    }
    if (oldest) *oldest = (struct limit_lines_kind){.key = key};
    return oldest;
}

bool limit_lines_say(struct limit_lines *limits, uint64_t key, int64_t now_ns, uint32_t *kind_out) {
    struct limit_lines_kind *kind = find(limits, key);
    *kind_out = kind ? (uint32_t)(kind - limits->kinds) : LIMIT_LINES_NONE;
    if (!kind) return true;
    int64_t from_ns = kind->paid_ns > now_ns ? kind->paid_ns : now_ns;
    if (from_ns - now_ns <= (LIMIT_LINES_AT_ONCE - 1) * LIMIT_LINES_EACH_NS) {
        kind->paid_ns = from_ns + LIMIT_LINES_EACH_NS;
        return true;
    }
    if (kind->left_out++ == 0) {
        kind->since_ns = now_ns;
        limits->counting++;
    }
    return false;
}

uint32_t limit_lines_report(struct limit_lines *limits, int64_t now_ns, uint64_t *left_out,
                            int64_t *took_ns) {
    for (uint32_t i = 0; limits->counting && i < LIMIT_LINES_KINDS; i++) {
        struct limit_lines_kind *kind = &limits->kinds[i];
        if (!kind->left_out) continue;
        bool at_end = now_ns == LIMIT_LINES_NEVER;
        if (!at_end && now_ns - kind->since_ns < LIMIT_LINES_REPORT_NS) continue;
        *left_out = kind->left_out;
        *took_ns = at_end ? 0 : now_ns - kind->since_ns;
        kind->left_out = 0;
        limits->counting--;
        return i;
    }
    return LIMIT_LINES_NONE;
}

int64_t limit_lines_next_ns(const struct limit_lines *limits) {
    int64_t next_ns = LIMIT_LINES_NEVER;
    for (uint32_t i = 0; limits->counting && i < LIMIT_LINES_KINDS; i++) {
        const struct limit_lines_kind *kind = &limits->kinds[i];
        if (kind->left_out && kind->since_ns + LIMIT_LINES_REPORT_NS < next_ns)
            next_ns = kind->since_ns + LIMIT_LINES_REPORT_NS;
    }
    return next_ns;
}
