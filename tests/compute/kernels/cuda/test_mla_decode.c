/* SPDX-License-Identifier: Apache-2.0
 * Protects decode's attention for GPUs, emulated: it is the softmax's mean of the keys that a token
 * sees, in one part or several, whatever lies in the rows it does not see (NaNs here); a token's
 * bits depend on no other token; and no schedule shows a fault.
 */
#include "test_case.h"

#include "device.h"

#include <math.h>

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
    uint32_t *first, *last, *first_page, *page_list; /* [token], and pages of all */
    struct mla_decode_tokens list;
    float *room;
    struct mla_decode_pages pages;
    struct mla_decode_queries made;
};

static uint16_t *row_of(const struct attention *a, uint32_t page, uint32_t slice, uint32_t row) {
    return a->memory + ((page * SLICES + slice) * KEYS + row) * (size_t)a->width;
}

static uint16_t *key_of(const struct attention *a, uint32_t token, uint32_t key) {
    return row_of(a, a->page_list[a->first_page[token] + key / KEYS], 1, key % KEYS);
}

/* The token's keys in slice 1 of pages that are drawn from behind. */
static void fill_keys(struct attention *a, uint64_t *state, uint32_t token, struct range range,
                      uint32_t *next_page) {
    uint32_t blocks = (range.end + KEYS - 1) / KEYS;
    a->first_page[token] = a->page_count - *next_page;
    for (uint32_t block = 0; block < blocks; block++)
        a->page_list[a->first_page[token] + block] = --*next_page;
    a->first[token] = range.first;
    a->last[token] = range.end - 1;
    for (uint32_t key = range.first; key < range.end; key++)
        for (uint32_t i = 0; i < a->width; i++)
            key_of(a, token, key)[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
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
    a.first = device_new(tokens * sizeof *a.first, "first keys");
    a.last = device_new(tokens * sizeof *a.last, "last keys");
    a.first_page = device_new(tokens * sizeof *a.first_page, "first pages");
    a.page_list = device_new(a.page_count * sizeof *a.page_list, "page table");
    a.list = (struct mla_decode_tokens){a.first,     a.last, a.first_page,
                                        a.page_list, tokens, live_rows_of(NULL)};
    a.queries = device_new((size_t)tokens * heads * a.width * 2, "queries");
    a.y = device_new((size_t)tokens * heads * rank * 2, "y");
    for (size_t i = 0; i < (size_t)tokens * heads * a.width; i++)
        a.queries[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
    for (uint32_t i = 0; i < tokens; i++)
        fill_keys(&a, state, i, ranges[i], &next_page);
    describe(&a);
    a.room = device_new(mla_decode_room(rank, tokens, heads, a.keys_max) * sizeof(float), "room");
    return a;
}

static void discard(struct attention *a) {
    device_free(a->first);
    device_free(a->last);
    device_free(a->first_page);
    device_free(a->page_list);
    device_free(a->memory);
    device_free(a->queries);
    device_free(a->y);
    device_free(a->room);
}

static void run(struct attention *a) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    mla_decode_run(NULL, &a->pages, 1, &a->made, &a->list, a->keys_max, SCALE, a->room, a->y);
    emulate_collect(NULL);
    device_check(&report);
}

/* What a head's row should be, in float64. */
struct mean {
    double scores[1200]; /* of keys */
    double exact, rounded, size;
};

static void find_scores(const struct attention *a, uint32_t token, uint32_t head,
                        struct mean *mean) {
    const uint16_t *q = a->queries + ((size_t)token * a->heads + head) * a->width;
    for (uint32_t key = a->first[token]; key <= a->last[token]; key++) {
        double score = 0;
        for (uint32_t i = 0; i < a->width; i++)
            score +=
                (double)float_from_bf16(q[i]) * (double)float_from_bf16(key_of(a, token, key)[i]);
        mean->scores[key] = score * (double)SCALE;
    }
}

/* A key's probability as the kernel has it before it is brought to the largest score of all: by the
 * largest of its part's blocks up to its own. */
static double block_top(const struct mean *mean, uint32_t first, uint32_t last, uint32_t key) {
    uint32_t begin = key / MLA_DECODE_PART * MLA_DECODE_PART, end = (key / KEYS + 1) * KEYS;
    double top = -INFINITY;
    for (uint32_t k = first > begin ? first : begin; k < end && k <= last; k++)
        top = fmax(top, mean->scores[k]);
    return top;
}

/* Weighs channel i: exactly, with the kernel's probabilities rounded to BF16, and by size. */
static void weigh_channel(const struct attention *a, uint32_t token, uint32_t channel,
                          struct mean *mean) {
    uint32_t first = a->first[token], last = a->last[token];
    double top = -INFINITY, sum = 0, block = 0;
    for (uint32_t key = first; key <= last; key++)
        top = fmax(top, mean->scores[key]);
    mean->exact = mean->rounded = mean->size = 0;
    for (uint32_t key = first; key <= last; key++) {
        double value = (double)float_from_bf16(key_of(a, token, key)[channel]);
        double p = exp(mean->scores[key] - top);
        if (key == first || key % KEYS == 0) block = block_top(mean, first, last, key);
        float rounded = bf16_rounded((float)exp(mean->scores[key] - block));
        sum += p;
        mean->exact += p * value;
        mean->size += p * fabs(value);
        mean->rounded += (double)rounded * exp(block - top) * value;
    }
    mean->exact /= sum;
    mean->rounded /= sum;
    mean->size /= sum;
}

/* The kernel's result before it is rounded to BF16, of tokens with one part. */
static double unrounded(const struct attention *a, uint32_t token, uint32_t head,
                        uint32_t channel) {
    uint32_t parts = (a->keys_max + MLA_DECODE_PART - 1) / MLA_DECODE_PART;
    size_t rows = (size_t)a->tokens * a->heads * parts;
    size_t row = ((size_t)token * a->heads + head) * parts + a->first[token] / MLA_DECODE_PART;
    return (double)a->room[row * a->rank + channel] / (double)a->room[rows * a->rank + row * 2 + 1];
}

struct deviations { /* in parts of sum p|v| */
    double result;  /* of y from the exact mean */
    double before;  /* of y before its rounding */
    double rest;    /* of that, from the mean of probabilities rounded as the kernel's */
};

static void deviate(const struct attention *a, uint32_t token, uint32_t head,
                    struct deviations *largest) {
    static struct mean mean;
    bool one_part = a->last[token] < MLA_DECODE_PART;
    find_scores(a, token, head, &mean);
    for (uint32_t i = 0; i < a->rank; i++) {
        size_t at = ((size_t)token * a->heads + head) * a->rank + i;
        double y = (double)float_from_bf16(a->y[at]);
        weigh_channel(a, token, i, &mean);
        assert_true(isfinite(y));
        largest->result = fmax(largest->result, fabs(y - mean.exact) / mean.size);
        if (!one_part) continue;
        double found = unrounded(a, token, head, i);
        largest->before = fmax(largest->before, fabs(found - mean.exact) / mean.size);
        largest->rest = fmax(largest->rest, fabs(found - mean.rounded) / mean.size);
        assert_true(fabs(y - found) <= fabs(found) / 256);
    }
}

/* Of what y is off, rounding y to BF16 costs up to 1 / 256 and rounding probabilities as much,
 * where a token sees few keys. What neither explains is the kernel's own: sums in float, 2^x, and
 * now and then a probability that a score's last bits round the other way. */
static void check_all(const struct attention *a) {
    struct deviations largest = {0};
    for (uint32_t token = 0; token < a->tokens; token++) {
        struct deviations own = {0};
        for (uint32_t head = 0; head < a->heads; head++)
            deviate(a, token, head, &own);
        print_message("# rank %u, %u heads, keys %u-%u: %.1e of sum p|v|; before rounding y %.1e; "
                      "beside p rounded %.1e\n",
                      a->rank, a->heads, a->first[token], a->last[token], own.result, own.before,
                      own.rest);
        largest.result = fmax(largest.result, own.result);
        largest.rest = fmax(largest.rest, own.rest);
    }
    if (largest.result > 2.0 / 256) fail_msg("rank %u: %g of sum p|v|", a->rank, largest.result);
    if (largest.rest > 5e-4)
        fail_msg("rank %u: %g of sum p|v| beside what rounding explains", a->rank, largest.rest);
}

static const struct range ranges[] = {{0, 5}, {1, 130}, {0, 64}, {70, 71}, {0, 1100}};

TEST(attention_is_the_mean_of_what_a_token_sees) {
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

TEST(a_token_alone_has_the_bits_it_has_among_others) {
    uint64_t state = 42;
    struct attention a = make(&state, 5, 64, 16, ranges, 5);
    size_t row_bytes = (size_t)a.heads * a.rank * 2;
    run(&a);
    for (uint32_t token = 0; token < 5; token++) {
        struct attention one = a;
        one.tokens = 1;
        one.list = (struct mla_decode_tokens){
            a.first + token,   a.last + token, a.first_page + token, a.page_list, 1,
            live_rows_of(NULL)};
        one.queries = a.queries + (size_t)token * a.heads * a.width;
        one.y = device_new(row_bytes, "y of one token");
        one.keys_max = ranges[token].end;
        describe(&one);
        run(&one);
        assert_memory_equal(one.y, a.y + (size_t)token * a.heads * a.rank, row_bytes);
        device_free(one.y);
    }
    discard(&a);
}

TEST(no_schedule_shows_a_fault) {
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
