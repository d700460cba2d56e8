/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "base/random.h"
#include "test_case.h"

enum { COUNT = 300 };

struct item {
    uint32_t value, number;
};

static uint32_t positions[COUNT]; /* of each number, as the heap reports it */

static bool is_smaller(const void *context, const void *a, const void *b) {
    return ((const struct item *)a)->value < ((const struct item *)b)->value;
}

static void moved(const void *context, const void *item, uint32_t position) {
    positions[((const struct item *)item)->number] = position;
}

static const struct heap_order order = {sizeof(struct item), is_smaller, moved};

static void draw(struct item *items) {
    for (uint32_t i = 0; i < COUNT; i++)
        items[i] = (struct item){(uint32_t)(random_uniform(5, 0, i) * 100), positions[i] = i};
}

TEST(items_leave_in_order) {
    struct item items[COUNT], drawn[COUNT];
    draw(drawn);
    for (uint32_t count = 0; count < COUNT; count++) {
        items[count] = drawn[count];
        uint32_t position = heap_sift_up(&order, NULL, items, count);
        assert_int_equal(items[position].number, count);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(items[positions[i]].number, i);
    for (uint32_t count = COUNT, least = 0; count > 0; count--) {
        heap_pop(&order, NULL, items, count);
        assert_true(items[count - 1].value >= least);
        least = items[count - 1].value;
    }
}

TEST(the_first_are_chosen_and_none_is_lost) {
    struct item items[COUNT];
    bool found[COUNT] = {false};
    for (uint32_t wanted = 0; wanted <= COUNT; wanted += 60) {
        draw(items);
        heap_choose(&order, NULL, items, COUNT, wanted);
        for (uint32_t i = COUNT - wanted; i + 1 < COUNT; i++)
            assert_true(items[i].value >= items[i + 1].value); /* the very first one last */
        for (uint32_t i = 0; i < COUNT - wanted && wanted; i++)
            assert_true(items[i].value >= items[COUNT - wanted].value);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        found[items[i].number] = true;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(found[i]);
}
