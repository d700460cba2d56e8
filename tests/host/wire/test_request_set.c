/* SPDX-License-Identifier: Apache-2.0
 * Protects the set of requests that a unit holds for its gateways: each is in it once, and all of
 * a gateway's are named when that one is lost.
 */
#include "host/wire/request_set.h"

#include "test_case.h"

enum { COUNT = 200 }; /* more than it has room for at first */

static struct request_id id_of(uint32_t number) {
    return (struct request_id){.high = number / 2, .low = number % 2, .attempt = number % 3};
}

TEST(a_request_is_in_it_once_until_it_is_removed) {
    struct request_set set = {0};
    for (uint32_t i = 0; i < 2 * COUNT; i++)
        request_set_add(&set, id_of(i % COUNT), i / COUNT);
    assert_int_equal(request_set_count(&set), COUNT);
    for (uint32_t i = 0; i < COUNT; i += 2)
        assert_int_equal(request_set_remove(&set, id_of(i)), 0);
    assert_int_equal(request_set_remove(&set, id_of(0)), REQUEST_SET_NOBODY);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(request_set_owner(&set, id_of(i)), i % 2 ? 0 : REQUEST_SET_NOBODY);
    struct request_id other = id_of(1);
    other.attempt++;
    assert_int_equal(request_set_owner(&set, other),
                     REQUEST_SET_NOBODY); /* another attempt is another request */
    request_set_close(&set);
    assert_int_equal(request_set_count(&set), 0);
}

static void note(void *context, struct request_id id) {
    uint32_t *seen = context;
    seen[2 * id.high + id.low]++;
}

TEST(taking_an_owners_names_each_once_and_leaves_the_others) {
    struct request_set set = {0};
    uint32_t seen[COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++)
        request_set_add(&set, id_of(i), i % 5 == 0);
    assert_int_equal(request_set_take(&set, 1, note, seen), COUNT / 5);
    assert_int_equal(request_set_take(&set, 1, note, seen), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(seen[i], i % 5 == 0);
        assert_int_equal(request_set_owner(&set, id_of(i)), i % 5 ? 0 : REQUEST_SET_NOBODY);
    }
    request_set_close(&set);
}
