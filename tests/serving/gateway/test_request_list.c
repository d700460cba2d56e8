/* SPDX-License-Identifier: Apache-2.0
 * A list keeps its requests whatever comes and goes, and is sorted by arrival when some have come
 * back behind others, however many.
 */
#include "serving/gateway/request_list.h"

#include "base/random.h"
#include "test_case.h"

enum { COUNT = 500 };

static struct request *make_requests(void) {
    struct request *requests = calloc(COUNT, sizeof *requests);
    for (uint32_t i = 0; i < COUNT; i++)
        requests[i].life.arrival = i;
    return requests;
}

static void assert_links(const struct request_list *list, uint32_t count) {
    const struct request *before = NULL;
    uint32_t seen = 0;
    for (const struct request *r = list->first; r; before = r, r = r->life.behind, seen++)
        assert_ptr_equal(r->life.before, before);
    assert_ptr_equal(list->last, before);
    assert_int_equal(seen, count);
    assert_int_equal(list->count, count);
}

TEST(who_comes_stands_behind_or_in_front) {
    struct request *requests = make_requests();
    struct request_list list = {0};
    request_list_add(&list, &requests[1], false);
    request_list_add(&list, &requests[2], false);
    request_list_add(&list, &requests[0], true);
    assert_links(&list, 3);
    assert_ptr_equal(list.first, &requests[0]);
    assert_false(list.unsorted);
    request_list_take_out(&list, &requests[1]);
    assert_links(&list, 2);
    request_list_take_out(&list, &requests[0]);
    request_list_take_out(&list, &requests[2]);
    assert_links(&list, 0);
    free(requests);
}

TEST(those_that_come_back_are_sorted_in) {
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct request *requests = make_requests();
        struct request_list list = {0};
        for (uint32_t i = 0; i < COUNT; i++)
            request_list_add(&list, &requests[i], false);
        request_list_sort(&list); /* nothing to do */
        for (uint32_t i = 0; i < 20 * seed; i++) {
            struct request *any = &requests[(uint32_t)(random_uniform(seed, 0, i) * COUNT)];
            request_list_take_out(&list, any);
            request_list_add(&list, any, false);
        }
        assert_links(&list, COUNT);
        request_list_sort(&list);
        assert_links(&list, COUNT);
        assert_false(list.unsorted);
        uint32_t place = 0;
        for (const struct request *r = list.first; r; r = r->life.behind)
            assert_ptr_equal(r, &requests[place++]);
        free(requests);
    }
}
