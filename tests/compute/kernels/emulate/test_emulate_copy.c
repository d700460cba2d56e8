/* SPDX-License-Identifier: Apache-2.0
 * Protects copies to shared memory: cp.async and TMA bring what they are defined to, zeros where
 * the tensor ends, 16-byte pieces at their swizzled places; and what is not awaited, expected,
 * aligned or ordered is found.
 */
#include "test_case.h"

#include "faults.h"

#define THREADS WRAPPERS_THREADS

struct arrays {
    uint32_t *in, *out;
};

static void launch_copy(void *context, uint32_t fault) {
    struct arrays *arrays = context;
    wrappers_copy(NULL, arrays->in, arrays->out, fault);
}

TEST(small_copies_bring_their_bytes_and_zeros) {
    struct arrays arrays = {device_new(THREADS * 16, "in"), device_new(THREADS * 16, "out")};
    for (uint32_t i = 0; i < 4 * THREADS; i++)
        arrays.in[i] = i + 1;
    faults_check_sound(launch_copy, &arrays);
    for (uint32_t i = 0; i < 4 * THREADS; i++)
        assert_int_equal(arrays.out[i], i % 4 < i / 4 % 5 ? i + 1 : 0);
    faults_check_found(launch_copy, &arrays, COPY_NOT_AWAITED, EMULATE_PENDING, false, "shared+");
    faults_check_found(launch_copy, &arrays, COPY_NOT_COMMITTED, EMULATE_PENDING, false, "shared+");
    faults_check_found(launch_copy, &arrays, COPY_NOT_ALIGNED, EMULATE_ALIGNMENT, false, "in+");
    faults_check_found(launch_copy, &arrays, COPY_BEYOND, EMULATE_BOUNDS, false, "in+2048");
    faults_check_found(launch_copy, &arrays, COPY_LEFT, EMULATE_LEFT, false, "copies");
    device_free(arrays.in);
    device_free(arrays.out);
}

/* The other thread's copy may be unset, on its way, or there without an order. */
TEST(another_threads_copy_is_not_there) {
    struct arrays arrays = {device_new(THREADS * 16, "in"), device_new(THREADS * 16, "out")};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct emulate_report report = {0};
        emulate_seed(seed);
        emulate_collect(&report);
        launch_copy(&arrays, COPY_OF_ANOTHER_THREAD);
        emulate_collect(NULL);
        assert_true(report.made);
        assert_true(report.check == EMULATE_RACE || report.check == EMULATE_PENDING ||
                    report.check == EMULATE_UNSET);
    }
    device_free(arrays.in);
    device_free(arrays.out);
}

struct box_case {
    struct tensor_map map;
    uint32_t dimensions, rows;
    int32_t at[4];
    uint8_t *tensor, *out;
    struct tensor_map_form form;
};

static void launch_box(void *context, uint32_t fault) {
    struct box_case *box = context;
    wrappers_box(NULL, &box->map, box->dimensions, box->at, box->rows, (uint32_t *)(void *)box->out,
                 fault);
}

/* A tensor of bytes of `dimensions`, 200 x 5 x 4 x 3, rows 208 bytes apart. */
static struct box_case box_make(uint32_t dimensions, const int32_t *at, bool swizzle) {
    static const uint32_t sizes[] = {200, 5, 4, 3}, sides[] = {128, 4, 2, 2};
    struct box_case box = {.dimensions = dimensions, .rows = 1};
    box.form = (struct tensor_map_form){
        .type = MAP_ELEMENT_BYTE, .dimensions = dimensions, .swizzle = swizzle};
    uint64_t pitch = 208;
    for (uint32_t i = 0; i < dimensions; i++) {
        box.form.size[i] = sizes[i];
        box.form.box[i] = sides[i];
        box.form.pitch[i] = pitch;
        if (i) pitch *= sizes[i];
        if (i) box.rows *= sides[i];
        if (i && i + 1 < dimensions) box.form.pitch[i] = pitch;
        box.at[i] = at[i];
    }
    box.tensor = device_new(pitch, "tensor");
    for (uint64_t i = 0; i < pitch; i++)
        box.tensor[i] = (uint8_t)(1 + i % 251);
    box.out = device_new(box.rows * 128, "out");
    box.form.base = box.tensor;
    assert_true(tensor_map_make(&box.map, &box.form));
    return box;
}

static void box_free(struct box_case *box) {
    device_free(box->tensor);
    device_free(box->out);
}

/* Byte `column` of row `row` of a box, by the tensor's definition. */
static uint8_t expected(const struct box_case *box, uint32_t row, uint32_t column) {
    int64_t index = box->at[0] + (int64_t)column, offset = index;
    if (index < 0 || index >= box->form.size[0]) return 0;
    for (uint32_t i = 1; i < box->dimensions; i++) {
        index = box->at[i] + (int64_t)(row % box->form.box[i]);
        row /= box->form.box[i];
        if (index < 0 || index >= box->form.size[i]) return 0;
        offset += index * (int64_t)box->form.pitch[i - 1];
    }
    return box->tensor[offset];
}

TEST(boxes_bring_what_the_map_says) {
    static const int32_t places[][4] = {
        {0, 0, 0, 0}, {96, 3, 3, 2}, {-16, -1, 1, -1}, {64, 2, 0, 1}};
    for (uint32_t dimensions = 2; dimensions <= 4; dimensions++)
        for (uint32_t place = 0; place < 4; place++)
            for (uint32_t swizzle = 0; swizzle < 2; swizzle++) {
                struct box_case box = box_make(dimensions, places[place], swizzle);
                faults_check_sound(launch_box, &box);
                for (uint32_t row = 0; row < box.rows; row++)
                    for (uint32_t i = 0; i < 128; i++) {
                        uint32_t piece = swizzle ? i / 16 ^ row % 8 : i / 16;
                        assert_int_equal(box.out[row * 128 + piece * 16 + i % 16],
                                         expected(&box, row, i));
                    }
                box_free(&box);
            }
}

TEST(misused_boxes_and_barriers_are_found) {
    static const int32_t at[] = {0, 0};
    struct box_case box = box_make(2, at, true);
    faults_check_found(launch_box, &box, BOX_NOT_READY, EMULATE_PROXY, false, "mbarrier_init");
    faults_check_found(launch_box, &box, BOX_NOT_ALIGNED, EMULATE_ALIGNMENT, false, "shared+0x80");
    faults_check_found(launch_box, &box, BOX_OVER_PLAIN_WRITES, EMULATE_PROXY, false,
                       "fence.proxy");
    faults_check_found(launch_box, &box, BOX_NO_MAP, EMULATE_DESCRIPTOR, false, "tensor map");
    faults_check_found(launch_box, &box, BOX_LEFT, EMULATE_LEFT, true, "on their way");
    faults_check_found(launch_box, &box, BOX_BARRIER_TWICE, EMULATE_BARRIER, false, "twice");
    faults_check_found(launch_box, &box, BOX_BARRIER_TOUCHED, EMULATE_BARRIER, false, "barrier's");
    box.dimensions = 3;
    faults_check_found(launch_box, &box, BOX_SOUND, EMULATE_DESCRIPTOR, false, "3 coordinates");
    box_free(&box);
}

TEST(who_has_not_waited_may_not_read) {
    static const int32_t at[] = {0, 0};
    struct box_case box = box_make(2, at, true);
    static const uint32_t faults[] = {BOX_NOT_AWAITED, BOX_AWAITED_BY_ONE, BOX_NOT_EXPECTED};
    for (uint32_t i = 0; i < 3; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct emulate_report report = {0};
            emulate_seed(seed);
            emulate_collect(&report);
            launch_box(&box, faults[i]);
            emulate_collect(NULL);
            assert_true(report.made);
            assert_true(report.check == EMULATE_RACE || report.check == EMULATE_PENDING ||
                        report.check == EMULATE_UNSET ||
                        (faults[i] == BOX_NOT_EXPECTED && report.check == EMULATE_BARRIER));
        }
    box_free(&box);
}
