/* SPDX-License-Identifier: Apache-2.0
 * Protects the products of a warpgroup: in every shape and form they are the product of the
 * matrices that lie in global memory, so boxes, descriptors, swizzles and fragments fit together;
 * E4M3's sums are cut as Hopper's are said to be; and misused registers and operands are found.
 */
#include "test_case.h"

#include "faults.h"

#include <math.h>

#include "base/number.h"

#include "../levels.h"

struct matrices {
    enum wgmma_form form;
    uint32_t n, k;
    struct tensor_map a_map, b_map;
    uint8_t *a, *b; /* rows of 128 bytes; b of MN-major [64][n] BF16 */
    float *d, start[64 * 256];
};

static bool is_transposed(enum wgmma_form form) {
    return form == FORM_BF16_TRANSPOSED || form == FORM_REGISTERS_TRANSPOSED;
}

static void launch(void *context, uint32_t fault) {
    struct matrices *m = context;
    memcpy(m->d, m->start, 64 * m->n * sizeof(float));
    wrappers_wgmma(NULL, m->form, m->n, &m->a_map, &m->b_map, (const uint16_t *)(void *)m->a, m->d,
                   fault);
}

static void fill(uint64_t *state, enum wgmma_form form, uint8_t *rows, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 2) {
        uint16_t pair = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
        if (form == FORM_E4M3)
            pair = (uint16_t)(e4m3_from_float(levels_number(state, NUMBERS_NORMAL)) << 8 |
                              e4m3_from_float(levels_number(state, NUMBERS_NORMAL)));
        memcpy(rows + i, &pair, 2);
    }
}

static struct matrices *matrices_make(enum wgmma_form form, uint32_t n, uint64_t *state) {
    static struct matrices m;
    m = (struct matrices){.form = form, .n = n, .k = form == FORM_E4M3 ? 128 : 64};
    enum map_element element = form == FORM_E4M3 ? MAP_ELEMENT_BYTE : MAP_ELEMENT_BF16;
    bool turned = is_transposed(form);
    m.a = device_new(64 * 128, "a");
    m.b = device_new(n * 128, "b");
    m.d = device_new(64 * n * sizeof(float), "d");
    fill(state, form, m.a, 64 * 128);
    fill(state, form, m.b, n * 128);
    levels_fill(state, NUMBERS_NORMAL, m.start, 64 * n);
    assert_true(tensor_map_make_matrix(&m.a_map, m.a, element, m.k, 64, 128, m.k, 64));
    assert_true(tensor_map_make_matrix(&m.b_map, m.b, element, turned ? n : m.k, turned ? 64 : n,
                                       turned ? n * 2 : 128, m.k, 64));
    return &m;
}

static void matrices_free(struct matrices *m) {
    device_free(m->a);
    device_free(m->b);
    device_free(m->d);
}

static double value(const struct matrices *m, const uint8_t *rows, size_t index) {
    uint16_t bits;
    if (m->form == FORM_E4M3) return float_from_e4m3(rows[index]);
    memcpy(&bits, rows + 2 * index, 2);
    return float_from_bf16(bits);
}

/* The largest deviation from d + a b, in parts of |d| + |a||b|. */
static double deviation(const struct matrices *m) {
    double largest = 0;
    for (uint32_t row = 0; row < 64; row++)
        for (uint32_t c = 0; c < m->n; c++) {
            double sum = m->start[row * m->n + c], weight = fabs(sum);
            for (uint32_t k = 0; k < m->k; k++) {
                size_t at = is_transposed(m->form) ? k * m->n + c : c * m->k + k;
                double part = value(m, m->a, row * m->k + k) * value(m, m->b, at);
                sum += part;
                weight += fabs(part);
            }
            largest = fmax(largest, fabs(sum - (double)m->d[row * m->n + c]) / weight);
        }
    return largest;
}

TEST(products_are_those_of_the_matrices) {
    uint64_t state = 21;
    for (enum wgmma_form form = 0; form < FORM_COUNT; form++)
        for (uint32_t n = 64; n <= (form == FORM_E4M3 ? 128 : 256); n *= 2) {
            struct matrices *m = matrices_make(form, n, &state);
            emulate_e4m3_bits(0);
            faults_check_sound(launch, m);
            if (deviation(m) > 3e-7) fail_msg("form %u, n %u: %g", form, n, deviation(m));
            emulate_e4m3_bits(13);
            launch(m, 0);
            double found = deviation(m);
            /* Four additions, each of which cuts 33 terms to 13 bits of the largest. */
            if (form == FORM_E4M3) assert_true(found > 1e-6 && found < 4 * 33.0 / 8192);
            matrices_free(m);
        }
}

TEST(misused_products_are_found) {
    uint64_t state = 22;
    struct matrices *m = matrices_make(FORM_BF16, 128, &state);
    faults_check_found(launch, m, WGMMA_PLAIN_WRITES, EMULATE_PROXY, false, "shared+0x20");
    faults_check_found(launch, m, WGMMA_TOUCHED, EMULATE_REGISTERS, false, "element 3");
    faults_check_found(launch, m, WGMMA_NO_FENCE, EMULATE_REGISTERS, false, "no wgmma.fence");
    faults_check_found(launch, m, WGMMA_LEFT, EMULATE_LEFT, false, "4 products");
    faults_check_found(launch, m, WGMMA_NOT_ALIGNED, EMULATE_DESCRIPTOR, false, "1,024");
    faults_check_found(launch, m, WGMMA_BEYOND, EMULATE_BOUNDS, true, "");
    faults_check_found(launch, m, WGMMA_OVERWRITTEN, EMULATE_RACE, false, "ordered behind");
    matrices_free(m);
}
