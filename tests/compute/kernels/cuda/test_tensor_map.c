/* SPDX-License-Identifier: Apache-2.0
 * Protects tensor maps: forms that the machine would refuse are refused here, before a kernel meets them.
 * What boxes of a map bring is tested with the copies (tests/compute/kernels/emulate).
 */
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

static void what_the_machine_refuses_is_refused(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_machine_refuses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
