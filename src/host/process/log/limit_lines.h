/* SPDX-License-Identifier: Apache-2.0
 * Decides which lines of a log are written and which are only counted. Lines of one kind (the same
 * message about the same thing) are limited by a token bucket: some at once, then one per second.
 * Further lines are counted, and the count is written ten seconds after the first of them. So a
 * flood costs one line per second, and no number is lost. A kind that has been quiet for long is
 * replaced by a new one. If none is quiet, a line is written without being counted.
 *
 * Pure: names of kinds and times in, verdicts out. Times are nanoseconds of any monotonic clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LIMIT_LINES_KINDS 256                        /* limit of known kinds */
#define LIMIT_LINES_AT_ONCE 10                       /* burst of a kind */
#define LIMIT_LINES_EACH_NS ((int64_t)1000000000)    /* then one per this interval */
#define LIMIT_LINES_REPORT_NS ((int64_t)10000000000) /* from the first omitted line to its report */
#define LIMIT_LINES_NEVER INT64_MAX
#define LIMIT_LINES_NONE UINT32_MAX

/* All zeros at first. */
struct limit_lines {
    struct limit_lines_kind {
        uint64_t key;
        int64_t paid_ns;  /* the lines written so far use the rate until then; 0: unused entry */
        int64_t since_ns; /* time of the first omitted line, if `left_out` is not 0 */
        uint64_t left_out;
    } kinds[LIMIT_LINES_KINDS];
    uint32_t counting; /* kinds with lines left out that are not reported yet */
};

/* Returns false if the line is omitted and counted. *kind_out: its kind's index, or
 * LIMIT_LINES_NONE if none was free. Data that a caller stores for an index is outdated once its
 * `key` has changed. */
bool limit_lines_say(struct limit_lines *limits, uint64_t key, int64_t now_ns, uint32_t *kind_out);

/* Finds a kind with a count that is due, or returns LIMIT_LINES_NONE. Returns its count and the
 * time over which lines were omitted, and resets both. With now_ns LIMIT_LINES_NEVER every count is
 * due; the time is then 0. */
uint32_t limit_lines_report(struct limit_lines *limits, int64_t now_ns, uint64_t *left_out,
                            int64_t *took_ns);

/* When the next count must be reported; LIMIT_LINES_NEVER: there is none. */
int64_t limit_lines_next_ns(const struct limit_lines *limits);
