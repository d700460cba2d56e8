/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/request_list.h"

#include "base/check.h"

void request_list_add(struct request_list *list, struct request *request, bool in_front) {
    struct request_life *life = &request->life;
    struct request *before = in_front ? NULL : list->last;
    list->unsorted |= before && before->life.arrival > life->arrival;
    life->before = before;
    life->behind = before ? before->life.behind : list->first;
    *(before ? &before->life.behind : &list->first) = request;
    *(life->behind ? &life->behind->life.before : &list->last) = request;
    list->count++;
}

void request_list_take_out(struct request_list *list, struct request *request) {
    struct request_life *life = &request->life;
    *(life->before ? &life->before->life.behind : &list->first) = life->behind;
    *(life->behind ? &life->behind->life.before : &list->last) = life->before;
    life->before = life->behind = NULL;
    list->count--;
}

static struct request *request_list_merge(struct request *a, struct request *b) {
    struct request *first = NULL, **link = &first;
    while (a && b) {
        struct request **least = a->life.arrival <= b->life.arrival ? &a : &b;
        *link = *least;
        link = &(*least)->life.behind;
        *least = *link;
    }
    *link = a ? a : b;
    return first;
}

/* Takes the longest sorted run off the front of *rest_io. */
static struct request *take_run(struct request **rest_io) {
    struct request *first = *rest_io, *last = first;
    while (last->life.behind && last->life.behind->life.arrival >= last->life.arrival)
        last = last->life.behind;
    *rest_io = last->life.behind;
    last->life.behind = NULL;
    return first;
}

/* A natural merge sort: piles[i] is a merge of 2^i runs. A lost unit gives back thousands of
 * requests at once, in no order. */
void request_list_sort(struct request_list *list) {
    struct request *piles[32] = {NULL}, *rest = list->first, *all = NULL, *before = NULL;
    if (!list->unsorted) return;
    while (rest) {
        struct request *run = take_run(&rest);
        uint32_t i = 0;
        for (; piles[i]; piles[i++] = NULL)
            run = request_list_merge(piles[i], run);
        piles[i] = run;
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(piles); i++)
        all = request_list_merge(piles[i], all);
    list->first = all;
    for (struct request *request = all; request; request = request->life.behind) {
        request->life.before = before;
        before = request;
    }
    list->last = before;
    list->unsorted = false;
}
