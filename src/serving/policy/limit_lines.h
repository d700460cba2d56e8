/* SPDX-License-Identifier: Apache-2.0
 * Which lines of a log are said, and which are only counted. Lines of one kind (the same message
 * about the same thing) come as tokens of a bucket: some at once, then one a second. What is left
 * out is counted, and the count is told ten seconds after the first of them, so a flood costs one
 * line a second and loses no number. A kind that has been quiet for long makes way for a new one;
 * where none is quiet, a line is said without being counted.
 *
 * Pure: names of kinds and times in, verdicts out. Times are nanoseconds of any clock that does not
 * go back.
 */
#ifndef SERVING_POLICY_LIMIT_LINES_H
#define SERVING_POLICY_LIMIT_LINES_H

#include <stdbool.h>
#include <stdint.h>

#define LIMIT_LINES_KINDS 256                      /* that are known at the same time */
#define LIMIT_LINES_AT_ONCE 10                     /* of a kind */
#define LIMIT_LINES_EACH_NS ((int64_t)1000000000)  /* then one in so long */
#define LIMIT_LINES_TELL_NS ((int64_t)10000000000) /* from the first left out to their count */
#define LIMIT_LINES_NEVER INT64_MAX
#define LIMIT_LINES_NONE UINT32_MAX

/* Zero it to start. */
struct limit_lines {
    struct limit_lines_kind {
        uint64_t key;
        int64_t paid_ns;  /* until then the lines said so far have been paid for; 0: unused */
        int64_t since_ns; /* when the first was left out, where `left_out` is not 0 */
        uint64_t left_out;
    } kinds[LIMIT_LINES_KINDS];
    uint32_t counting; /* kinds of which lines were left out and not told of */
};

/* False: the line is left out, and counted. *kind_out: its kind's index, LIMIT_LINES_NONE where
 * none was free; what the caller keeps of a kind is out of date when its `key` is another. */
bool limit_lines_say(struct limit_lines *limits, uint64_t key, int64_t now_ns, uint32_t *kind_out);

/* A kind whose count is to be told by now, LIMIT_LINES_NONE if there is none; its count and how
 * long they took, which begin anew. With now_ns LIMIT_LINES_NEVER any that counts; then the time is
 * not told (0). */
uint32_t limit_lines_tell(struct limit_lines *limits, int64_t now_ns, uint64_t *left_out,
                          int64_t *took_ns);

/* When the next count is to be told; LIMIT_LINES_NEVER: none is. */
int64_t limit_lines_next_ns(const struct limit_lines *limits);

#endif
