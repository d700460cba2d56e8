/* SPDX-License-Identifier: Apache-2.0
 * Protects tensor maps: forms that the machine would refuse are refused here, before a kernel meets
 * them. What boxes of a map bring is tested with the copies (tests/compute/kernels/emulate).
 */
#include "test_case.h"

#include "device.h"

#include "compute/kernels/cuda/tensor_map.h"

static const struct tensor_map_form sound = {
    .base = (const void *)4096,
    .type = MAP_ELEMENT_BF16,
    .dimensions = 3,
    .size = {100, 7, 2},
    .box = {64, 7, 1},
    .pitch = {208, 2048},
    .swizzle = true,
};

static void check_refused(struct tensor_map_form form) {
    struct tensor_map map;
    assert_false(tensor_map_make(&map, &form));
}

TEST(what_the_machine_refuses_is_refused) {
    struct tensor_map map;
    struct tensor_map_form form = sound;
    assert_true(tensor_map_make(&map, &form));
    form.base = (const void *)4104;
    check_refused(form);
    form = sound;
    form.pitch[0] = 200;
    check_refused(form);
    form = sound;
    form.box[0] = 65; /* 130 bytes: neither a multiple of 16 nor 128 at most */
    check_refused(form);
    form.box[0] = 72;
    check_refused(form);
    form.swizzle = false;
    assert_true(tensor_map_make(&map, &form));
    form = sound;
    form.box[1] = 257;
    check_refused(form);
    form = sound;
    form.size[2] = 0;
    check_refused(form);
    form = sound;
    form.dimensions = 6;
    check_refused(form);
}

/* A form that shares its place, if any does, comes between. */
TEST(a_map_is_made_once) {
    struct tensor_map map, again, other;
    struct tensor_map_form form = sound;
    form.base = (const void *)8192;
    assert_true(tensor_map_make(&map, &form));
    uint64_t made = tensor_map_encoded();
    assert_true(tensor_map_make(&again, &form));
    assert_int_equal(tensor_map_encoded(), made);
    assert_memory_equal(&map, &again, sizeof map);
    for (uint32_t i = 1; i < 10000; i++) {
        form.size[1] = 7 + i;
        assert_true(tensor_map_make(&other, &form));
        assert_memory_not_equal(&map, &other, sizeof map);
    }
    assert_int_equal(tensor_map_encoded(), made + 9999);
    form.size[1] = 7;
    assert_true(tensor_map_make(&again, &form));
    assert_memory_equal(&map, &again, sizeof map);
}
