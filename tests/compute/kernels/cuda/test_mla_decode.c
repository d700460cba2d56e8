/* SPDX-License-Identifier: Apache-2.0
 * Protects decode's attention for GPUs, emulated: it is the softmax's mean of the keys that a token sees,
 * in one part or several, whatever lies in the rows it does not see (NaNs here); a token's bits depend
 * on no other token; and no schedule shows a fault.
 */
#include "device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/number.h"
#include "compute/kernels/cuda/mla_decode.h"

#include "../levels.h"

#define KEYS 64u
#define SLICES 2u
#define SCALE 0.11f

struct range {
    uint32_t first, end;
};

/* Tokens with pages of their own, and what attention makes of them. */
struct attention {
    uint32_t heads, rank, width, tokens, keys_max, page_count;
    uint16_t *queries, *memory, *y;
    uint32_t *page_of[8];
    struct mla_decode_token *list;
    float *room;
    struct mla_decode_pages pages;
    struct mla_decode_queries made;
};

static uint16_t *row_of(const struct attention *a, uint32_t page, uint32_t slice, uint32_t row) {
    return a->memory + ((page * SLICES + slice) * KEYS + row) * (size_t)a->width;
}

/* The token's keys in slice 1 of pages that are drawn from behind. */
static void fill_keys(struct attention *a, uint64_t *state, uint32_t token, struct range range,
                      uint32_t *next_page) {
    uint32_t blocks = (range.end + KEYS - 1) / KEYS;
    a->page_of[token] = device_new(blocks * sizeof(uint32_t), "page table");
    for (uint32_t block = 0; block < blocks; block++)
        a->page_of[token][block] = --*next_page;
    for (uint32_t key = range.first; key < range.end; key++)
        for (uint32_t i = 0; i < a->width; i++)
            row_of(a, a->page_of[token][key / KEYS], 1, key % KEYS)[i] =
                bf16_from_float(levels_number(state, NUMBERS_NORMAL));
    a->list[token] = (struct mla_decode_token){range.first, range.end, a->page_of[token]};
}

static void describe(struct attention *a) {
    assert_true(mla_decode_make_pages(&a->pages, a->memory, KEYS * a->width * 2,
                                      SLICES * KEYS * a->width * 2, SLICES, a->page_count, a->width,
                                      a->rank));
    assert_true(mla_decode_make_queries(&a->made, a->queries, a->tokens, a->heads, a->width));
}

static struct attention make(uint64_t *state, uint32_t heads, uint32_t rank, uint32_t rope,
                             const struct range *ranges, uint32_t tokens) {
    struct attention a = {.heads = heads, .rank = rank, .width = rank + rope, .tokens = tokens};
    for (uint32_t i = 0; i < tokens; i++) {
        a.page_count += (ranges[i].end + KEYS - 1) / KEYS;
        if (ranges[i].end > a.keys_max) a.keys_max = ranges[i].end;
    }
    uint32_t next_page = a.page_count;
    a.memory = device_new((size_t)a.page_count * SLICES * KEYS * a.width * 2, "pages");
    a.list = device_new(tokens * sizeof *a.list, "tokens");
    a.queries = device_new((size_t)tokens * heads * a.width * 2, "queries");
    a.y = device_new((size_t)tokens * heads * rank * 2, "y");
    for (size_t i = 0; i < (size_t)tokens * heads * a.width; i++)
        a.queries[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
    for (uint32_t i = 0; i < tokens; i++)
        fill_keys(&a, state, i, ranges[i], &next_page);
    describe(&a);
    a.room =
        device_new(mla_decode_room(&a.pages, tokens, heads, a.keys_max) * sizeof(float), "room");
    return a;
}

static void discard(struct attention *a) {
    for (uint32_t i = 0; i < a->tokens; i++)
        device_free(a->page_of[i]);
    device_free(a->memory);
    device_free(a->list);
    device_free(a->queries);
    device_free(a->y);
    device_free(a->room);
}

static void run(struct attention *a) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    mla_decode_run(NULL, &a->pages, 1, &a->made, a->list, a->tokens, a->keys_max, SCALE, a->room,
                   a->y);
    emulate_collect(NULL);
    device_check(&report);
}

/* The largest deviation of a head's row from the exact mean, in parts of sum p|v| / sum p. */
static double deviation(const struct attention *a, uint32_t token, uint32_t head) {
    const struct mla_decode_token *seen = &a->list[token];
    const uint16_t *q = a->queries + ((size_t)token * a->heads + head) * a->width;
    double *p = calloc(seen->end, sizeof *p), top = -INFINITY, sum = 0, largest = 0;
    for (uint32_t key = seen->first; key < seen->end; key++) {
        const uint16_t *row = row_of(a, seen->pages[key / KEYS], 1, key % KEYS);
        for (uint32_t i = 0; i < a->width; i++)
            p[key] +=
                (double)SCALE * (double)float_from_bf16(q[i]) * (double)float_from_bf16(row[i]);
        top = fmax(top, p[key]);
    }
    for (uint32_t key = seen->first; key < seen->end; key++)
        sum += p[key] = exp(p[key] - top);
    for (uint32_t i = 0; i < a->rank; i++) {
        double mean = 0, weight = 1e-30;
        for (uint32_t key = seen->first; key < seen->end; key++) {
            double value =
                (double)float_from_bf16(row_of(a, seen->pages[key / KEYS], 1, key % KEYS)[i]);
            mean += p[key] * value / sum;
            weight += p[key] * fabs(value) / sum;
        }
        double found =
            (double)float_from_bf16(a->y[((size_t)token * a->heads + head) * a->rank + i]);
        largest = isfinite(found) ? fmax(largest, fabs(found - mean) / weight) : INFINITY;
    }
    free(p);
    return largest;
}

static void check_all(const struct attention *a) {
    double largest = 0;
    for (uint32_t token = 0; token < a->tokens; token++)
        for (uint32_t head = 0; head < a->heads; head++)
            largest = fmax(largest, deviation(a, token, head));
    print_message("# rank %u, %u heads: %.1e of sum p|v|\n", a->rank, a->heads, largest);
    /* Probabilities and results are rounded to BF16, of 8 bits: 1 / 256 of each at most. */
    if (largest > 2.0 / 256) fail_msg("rank %u: %g of sum p|v|", a->rank, largest);
}

static const struct range ranges[] = {{0, 5}, {1, 130}, {0, 64}, {70, 71}, {0, 1100}};

static void attention_is_the_mean_of_what_a_token_sees(void **context) {
    static const uint32_t forms[][3] = {{70, 64, 16}, {3, 200, 40}, {128, 512, 64}};
    uint64_t state = 41;
    for (uint32_t i = 0; i < 3; i++) {
        struct attention a =
            make(&state, forms[i][0], forms[i][1], forms[i][2], ranges, i == 2 ? 2 : 5);
        run(&a);
        check_all(&a);
        discard(&a);
    }
}

static void a_token_alone_has_the_bits_it_has_among_others(void **context) {
    uint64_t state = 42;
    struct attention a = make(&state, 5, 64, 16, ranges, 5);
    size_t row_bytes = (size_t)a.heads * a.rank * 2;
    run(&a);
    for (uint32_t token = 0; token < 5; token++) {
        struct attention one = a;
        one.tokens = 1;
        one.list = device_copy(&a.list[token], sizeof *a.list, "one token");
        one.queries = a.queries + (size_t)token * a.heads * a.width;
        one.y = device_new(row_bytes, "y of one token");
        one.keys_max = ranges[token].end;
        describe(&one);
        run(&one);
        assert_memory_equal(one.y, a.y + (size_t)token * a.heads * a.rank, row_bytes);
        device_free(one.list);
        device_free(one.y);
    }
    discard(&a);
}

static void no_schedule_shows_a_fault(void **context) {
    uint64_t state = 43;
    struct attention a = make(&state, 66, 64, 16, ranges, 4);
    size_t bytes = (size_t)a.tokens * a.heads * a.rank * 2;
    uint16_t *first = malloc(bytes);
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        emulate_seed(seed);
        run(&a);
        if (!seed) memcpy(first, a.y, bytes);
        assert_memory_equal(first, a.y, bytes);
    }
    free(first);
    discard(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_the_mean_of_what_a_token_sees),
        cmocka_unit_test(a_token_alone_has_the_bits_it_has_among_others),
        cmocka_unit_test(no_schedule_shows_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
