/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/request_lines.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/gateway/request_list.h"
#include "serving/policy/fair_queue.h"

#define NO_REQUEST UINT64_MAX /* no request has been passed */

static uint32_t request_lines_number_of(uint32_t account) {
    return account == ACCOUNT_NONE ? 0 : 1 + account;
}

static struct request_line *request_lines_of(const struct request_lines *lines,
                                             const struct request *request) {
    return &lines->lines[request_lines_number_of(request->asked.account)];
}

size_t request_lines_bytes(uint32_t account_count) {
    return (1 + account_count) * sizeof(struct request_line) + due_heap_bytes(1 + account_count) +
           32;
}

enum status request_lines_open(struct request_lines *lines, struct arena *arena,
                               uint32_t account_count) {
    lines->line_count = 1 + account_count;
    lines->passed = NO_REQUEST;
    lines->lines = arena_take_zeroed(arena, lines->line_count * sizeof *lines->lines);
    if (!lines->lines) return STATUS_NO_MEMORY;
    return due_heap_open(&lines->turns, arena, lines->line_count);
}

uint64_t request_lines_turn(struct request_lines *lines, uint32_t account, uint64_t work) {
    struct request_line *line = &lines->lines[request_lines_number_of(account)];
    if (account == ACCOUNT_NONE) return 0; /* without accounts the order is by arrival */
    return line->last_turn = fair_queue_turn(lines->now, line->last_turn, work);
}

/* Virtual time from now until a line's last turn. */
static uint64_t span_of(const struct request_lines *lines, const struct request_line *line) {
    return line->last_turn > lines->now ? line->last_turn - lines->now : 0;
}

/* Assumes that a line's turns are spread evenly between now and its last one. */
struct request_ahead request_lines_ahead(const struct request_lines *lines, uint32_t account,
                                         uint64_t work) {
    const struct request_line *own = &lines->lines[request_lines_number_of(account)];
    uint64_t turn = fair_queue_turn(lines->now, own->last_turn, work);
    double tokens = 0, spans = 0;
    uint64_t all_tokens = 0;
    for (uint32_t i = 0; i < lines->turns.count; i++) {
        const struct request_line *line = &lines->lines[lines->turns.entries[i].number];
        double span = (double)span_of(lines, line), before = (double)(turn - lines->now);
        bool all = account == ACCOUNT_NONE || before >= span;
        tokens += (double)line->tokens * (all ? 1 : before / span);
        all_tokens += line->tokens;
        spans += span;
    }
    return (struct request_ahead){
        .tokens = (uint64_t)tokens,
        .all_tokens = all_tokens,
        .is_over_share = (double)span_of(lines, own) * (double)lines->turns.count > spans};
}

/* Counts at most `most` requests, so that its time is bounded. */
uint32_t request_lines_before(const struct request_lines *lines, const struct request *request,
                              uint32_t most) {
    const struct request_line *own = request_lines_of(lines, request);
    uint32_t count = 0;
    for (const struct request *r = request->life.before; r && count < most; r = r->life.before)
        count++;
    for (uint32_t i = 0; i < lines->turns.count && count < most; i++) {
        const struct request_line *line = &lines->lines[lines->turns.entries[i].number];
        if (line == own) continue;
        for (const struct request *r = line->list.first;
             r && r->life.turn < request->life.turn && count < most; r = r->life.behind)
            count++;
    }
    return count;
}

/* Makes this request the next of the line; NULL: none. */
static void point(struct request_lines *lines, struct request_line *line, struct request *request) {
    line->next = request;
    due_heap_set(&lines->turns, (uint32_t)(line - lines->lines),
                 request ? (int64_t)request->life.turn : DUE_NEVER);
}

void request_lines_add(struct request_lines *lines, struct request *request) {
    struct request_line *line = request_lines_of(lines, request);
    bool sorted = !line->list.unsorted;
    request_list_add(&line->list, request, false);
    line->tokens += request->life.work_tokens;
    lines->count++;
    if (line->list.first == request) point(lines, line, request);
    if (!sorted || !line->list.unsorted) return;
    line->behind_unsorted = lines->unsorted;
    lines->unsorted = line;
}

void request_lines_take_out(struct request_lines *lines, struct request *request) {
    struct request_line *line = request_lines_of(lines, request);
    if (line->next == request) point(lines, line, request->life.behind);
    request_list_take_out(&line->list, request);
    line->tokens -= request->life.work_tokens;
    lines->count--;
    if (!line->list.first)
        line->last_turn = 0; /* an account without waiting requests starts afresh */
}

uint64_t request_lines_serve(struct request_lines *lines, const struct request *request) {
    lines->now = max_u64(lines->now, min_u64(lines->passed, request->life.turn));
    return min_u64(request->life.turn, lines->now);
}

void request_lines_begin(struct request_lines *lines) {
    check(!lines->seen);
    while (lines->unsorted) {
        struct request_line *line = lines->unsorted;
        lines->unsorted = line->behind_unsorted;
        request_list_sort(&line->list);
        point(lines, line, line->list.first);
    }
}

struct request *request_lines_next(struct request_lines *lines) {
    uint32_t number;
    if (due_heap_first(&lines->turns, &number) == DUE_NEVER) return NULL;
    struct request_line *line = &lines->lines[number];
    struct request *request = line->next;
    if (!line->is_seen) line->behind_seen = lines->seen, lines->seen = line;
    line->is_seen = true;
    point(lines, line, request->life.behind);
    return request;
}

void request_lines_pass(struct request_lines *lines, const struct request *request) {
    bool has_had_its_turn = request->id.attempt; /* it may avoid the unit that failed it */
    if (!has_had_its_turn) lines->passed = min_u64(lines->passed, request->life.turn);
}

void request_lines_end(struct request_lines *lines) {
    lines->passed = NO_REQUEST;
    while (lines->seen) {
        struct request_line *line = lines->seen;
        lines->seen = line->behind_seen;
        line->is_seen = false;
        point(lines, line, line->list.first);
    }
}

/* Checks a line. Until the next begin, requests that have waited before may be behind later ones.
 * They may have smaller turns than requests before them that they have passed. */
static void audit_line(const struct request_lines *lines, const struct request_line *line) {
    const struct request *before = NULL;
    uint64_t tokens = 0;
    uint32_t count = 0;
    for (const struct request *r = line->list.first; r; before = r, r = r->life.behind, count++) {
        check(r->life.state == REQUEST_WAITING && r->life.before == before);
        tokens += r->life.work_tokens;
        check(&lines->lines[request_lines_number_of(r->asked.account)] == line);
        check(line->list.unsorted || !before ||
              (before->life.arrival <= r->life.arrival &&
               (before->life.turn <= r->life.turn || r->id.attempt)));
    }
    check(line->list.last == before && line->list.count == count);
    check(line->next == line->list.first && !line->is_seen && line->tokens == tokens);
}

void request_lines_audit(const struct request_lines *lines) {
    uint32_t count = 0, waiting = 0;
    for (uint32_t i = 0; i < lines->line_count; i++) {
        const struct request_line *line = &lines->lines[i];
        const struct request *first = line->list.first;
        audit_line(lines, line);
        check(due_heap_time(&lines->turns, i) == (first ? (int64_t)first->life.turn : DUE_NEVER));
        count += line->list.count;
        waiting += first != NULL;
    }
    check(count == lines->count && waiting == lines->turns.count);
    due_heap_audit(&lines->turns);
}
