/* SPDX-License-Identifier: Apache-2.0
 * The product construction runs several DFAs in parallel. A state of the product is a tuple of
 * their states. The operation decides which tuples are dead and which accept.
 */
#include "base/check.h"
#include "serving/grammar/automata/automaton_builder.h"

#define LANGUAGES_MAX 64

struct automaton_product {
    struct automaton_work *work;
    enum automaton_operation operation;
    bool joins; /* automaton_join: labels stand for sets of languages */
    const struct automaton *const *languages;
    size_t count;
    uint8_t steps[256][LANGUAGES_MAX]; /* [class of the product] the classes of the languages */
    struct tuple_table tuples;         /* a tuple's number + 1 is its state */
    struct tuple_table sets;
    struct automaton_builder dfa;
};

/* Two bytes share a class if they do so in every language. */
static uint32_t join_classes(struct automaton_product *product, uint8_t *classes) {
    uint32_t class_count = 0;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t *step = product->steps[class_count];
        for (size_t i = 0; i < product->count; i++)
            step[i] = product->languages[i]->classes[byte];
        uint32_t class = 0;
        while (class < class_count && memcmp(product->steps[class], step, product->count) != 0)
            class ++;
        class_count += class == class_count;
        classes[byte] = (uint8_t) class;
    }
    return class_count;
}

static bool is_dead(const struct automaton_product *product, const uint32_t *tuple) {
    if (product->operation == AUTOMATON_WITHOUT) return !tuple[0];
    bool any = false, all = true;
    for (size_t i = 0; i < product->count; i++) {
        any |= tuple[i] != 0;
        all &= tuple[i] != 0;
    }
    return product->operation == AUTOMATON_AND ? !all : !any;
}

static enum status label_of(struct automaton_product *product, const uint32_t *tuple,
                            uint32_t *out) {
    const struct automaton *const *languages = product->languages;
    if (product->joins) {
        uint64_t set = 0;
        for (size_t i = 0; i < product->count; i++)
            if (languages[i]->labels[tuple[i]]) set |= (uint64_t)1 << i;
        *out = 0;
        if (!set) return STATUS_OK;
        const uint32_t words[2] = {(uint32_t)set, (uint32_t)(set >> 32)};
        enum status status = automaton_builder_tuples_intern(&product->sets, words, 2, out);
        ++*out;
        return status;
    }
    uint32_t a = languages[0]->labels[tuple[0]], b = languages[1]->labels[tuple[1]];
    bool without = product->operation == AUTOMATON_WITHOUT;
    *out = product->operation == AUTOMATON_OR ? (a ? a : b) : without == !b ? a : 0;
    return STATUS_OK;
}

/* The state of a tuple, added to the DFA if it is new. */
static enum status automaton_product_state_of(struct automaton_product *product,
                                              const uint32_t *tuple, uint32_t *out) {
    *out = 0;
    if (is_dead(product, tuple)) return STATUS_OK;
    uint32_t number = 0, label = 0;
    enum status status =
        automaton_builder_tuples_intern(&product->tuples, tuple, product->count, &number);
    if (!status && number + 1 == product->dfa.state_count) {
        status = automaton_builder_add(&product->dfa, out);
        if (!status) status = label_of(product, tuple, &label);
        if (!status) product->dfa.labels[*out] = label;
    }
    *out = number + 1;
    return status;
}

static enum status automaton_product_add_steps(struct automaton_product *product, uint32_t state) {
    uint32_t from[LANGUAGES_MAX], to[LANGUAGES_MAX], before[LANGUAGES_MAX];
    size_t count = 0;
    uint32_t next = 0;
    const uint32_t *tuple = tuple_table_at(&product->tuples, state - 1, &count);
    memcpy(from, tuple, count * sizeof *from);
    for (uint32_t class = 0; class < product->dfa.class_count; class ++) {
        for (size_t i = 0; i < count; i++) {
            const struct automaton *language = product->languages[i];
            to[i] =
                language->next[(size_t)from[i] * language->class_count + product->steps[class][i]];
        }
        if (!automaton_spend(product->work, count)) return STATUS_TOO_LARGE;
        if (class == 0 || memcmp(to, before, count * sizeof *to) != 0) {
            enum status status = automaton_product_state_of(product, to, &next);
            if (status) return status;
            memcpy(before, to, count * sizeof *to);
        }
        automaton_builder_row(&product->dfa, state)[class] = next;
    }
    return STATUS_OK;
}

static enum status automaton_product_make(struct automaton_product *product,
                                          const struct automaton **out) {
    struct automaton_work *work = product->work;
    uint32_t start[LANGUAGES_MAX] = {0};
    uint8_t classes[256];
    check(product->count <= LANGUAGES_MAX);
    uint32_t class_count = join_classes(product, classes);
    enum status status = automaton_builder_tuples_open(&product->tuples, work);
    if (!status) status = automaton_builder_tuples_open(&product->sets, work);
    if (!status) status = automaton_builder_open(&product->dfa, work, classes, class_count);
    for (size_t i = 0; i < product->count; i++)
        start[i] = product->languages[i]->start;
    if (!status) status = automaton_product_state_of(product, start, &product->dfa.start);
    for (uint32_t state = 1; !status && state < product->dfa.state_count; state++)
        status = automaton_product_add_steps(product, state);
    return status ? status : automaton_builder_finish(&product->dfa, out);
}

enum status automaton_product_combine(struct automaton_work *work,
                                      enum automaton_operation operation, const struct automaton *a,
                                      const struct automaton *b, const struct automaton **out) {
    const struct automaton *const languages[] = {a, b};
    struct automaton_product *product = arena_take_zeroed(work->scratch, sizeof *product);
    if (!product) return STATUS_NO_MEMORY;
    product->work = work;
    product->operation = operation;
    product->languages = languages;
    product->count = 2;
    return automaton_product_make(product, out);
}

enum status automaton_combine(struct automaton_work *work, enum automaton_operation operation,
                              const struct automaton *a, const struct automaton *b,
                              const struct automaton **out) {
    enum status status = automaton_product_combine(work, operation, a, b, out);
    arena_clear(work->scratch);
    return status;
}

enum status automaton_join(struct automaton_work *work, const struct automaton *const *languages,
                           size_t count, const struct automaton **out, const uint64_t **sets_out,
                           uint32_t *set_count_out) {
    struct automaton_product *product = arena_take_zeroed(work->scratch, sizeof *product);
    if (!product) return STATUS_NO_MEMORY;
    product->work = work;
    product->operation = AUTOMATON_OR;
    product->joins = true;
    product->languages = languages;
    product->count = count;
    enum status status = automaton_product_make(product, out);
    uint64_t *sets = NULL;
    if (!status) {
        sets = arena_take(work->arena, (product->sets.count + 1) * sizeof *sets);
        if (!sets) status = STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; !status && i < product->sets.count; i++) {
        size_t words = 0;
        const uint32_t *set = tuple_table_at(&product->sets, i, &words);
        sets[i] = set[0] | (uint64_t)set[1] << 32;
    }
    if (!status) {
        *sets_out = sets;
        *set_count_out = product->sets.count;
    }
    arena_clear(work->scratch);
    return status;
}

enum status automaton_relabel(struct automaton_work *work, const struct automaton *a,
                              const uint32_t *new_labels, const struct automaton **out) {
    struct automaton_builder dfa;
    enum status status = automaton_builder_open(&dfa, work, a->classes, a->class_count);
    for (uint32_t state = 1; !status && state < a->state_count; state++) {
        uint32_t added = 0;
        status = automaton_builder_add(&dfa, &added);
        if (status) break;
        memcpy(automaton_builder_row(&dfa, added), a->next + (size_t)state * a->class_count,
               a->class_count * sizeof *a->next);
        dfa.labels[added] = a->labels[state] ? new_labels[a->labels[state] - 1] : 0;
    }
    dfa.start = a->start;
    if (!status) status = automaton_builder_finish(&dfa, out);
    arena_clear(work->scratch);
    return status;
}
