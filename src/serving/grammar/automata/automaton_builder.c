/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/automata/automaton_builder.h"

#include "base/check.h"
#include "base/hash.h"

#define NONE UINT32_MAX

enum status automaton_builder_room(struct automaton_work *work, struct arena *arena, void *array,
                                   uint32_t count, uint32_t *capacity, size_t item_bytes) {
    if (!automaton_spend(work, 1)) return STATUS_TOO_LARGE;
    return arena_reserve(arena, array, count, capacity, item_bytes) ? STATUS_OK : STATUS_NO_MEMORY;
}

void automaton_builder_sort(uint32_t *words, size_t count, size_t width) {
    size_t gap = 1;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            uint32_t item[2] = {words[i * width], words[i * width + width - 1]};
            size_t j = i;
            for (; j >= gap; j -= gap) {
                const uint32_t *before = words + (j - gap) * width;
                if (before[0] < item[0] || (before[0] == item[0] && before[width - 1] <= item[1]))
                    break;
                memcpy(words + j * width, before, width * sizeof *words);
            }
            memcpy(words + j * width, item, width * sizeof *words);
        }
}

/* ---- tuple tables ---- */

enum status automaton_builder_tuples_open(struct tuple_table *tuple_table,
                                          struct automaton_work *work) {
    *tuple_table = (struct tuple_table){.work = work, .table_mask = 1023};
    tuple_table->table =
        arena_take_zeroed(work->scratch, (tuple_table->table_mask + 1) * sizeof(uint32_t));
    bool room = arena_reserve(work->scratch, &tuple_table->starts, 0, &tuple_table->start_capacity,
                              sizeof(uint32_t)) &&
                arena_reserve(work->scratch, &tuple_table->words, 0, &tuple_table->word_capacity,
                              sizeof(uint32_t));
    if (!tuple_table->table || !room) return STATUS_NO_MEMORY;
    tuple_table->starts[0] = 0;
    return STATUS_OK;
}

static uint32_t *find_slot(const struct tuple_table *tuple_table, const uint32_t *words,
                           size_t count) {
    uint32_t at = (uint32_t)hash_bytes(0, words, count * sizeof *words) & tuple_table->table_mask;
    for (;; at = (at + 1) & tuple_table->table_mask) {
        uint32_t *slot = &tuple_table->table[at];
        if (!*slot) return slot;
        size_t held = 0;
        const uint32_t *there = tuple_table_at(tuple_table, *slot - 1, &held);
        if (held == count && (!count || !memcmp(there, words, count * sizeof *words))) return slot;
    }
}

/* Doubles the hash table if it is more than half full. */
static enum status automaton_builder_widen(struct tuple_table *tuple_table) {
    if (2 * tuple_table->count <= tuple_table->table_mask) return STATUS_OK;
    tuple_table->table_mask = 2 * tuple_table->table_mask + 1;
    tuple_table->table = arena_take_zeroed(tuple_table->work->scratch,
                                           (tuple_table->table_mask + 1) * sizeof(uint32_t));
    if (!tuple_table->table) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < tuple_table->count; i++) {
        size_t count = 0;
        const uint32_t *words = tuple_table_at(tuple_table, i, &count);
        *find_slot(tuple_table, words, count) = i + 1;
    }
    return STATUS_OK;
}

enum status automaton_builder_tuples_intern(struct tuple_table *tuple_table, const uint32_t *words,
                                            size_t count, uint32_t *number_out) {
    struct arena *scratch = tuple_table->work->scratch;
    if (!automaton_spend(tuple_table->work, 1 + count)) return STATUS_TOO_LARGE;
    enum status status = automaton_builder_widen(tuple_table);
    if (status) return status;
    uint32_t *slot = find_slot(tuple_table, words, count);
    if (*slot) {
        *number_out = *slot - 1;
        return STATUS_OK;
    }
    if (tuple_table->count >= tuple_table->work->states_max) return STATUS_TOO_LARGE;
    bool room = arena_reserve(scratch, &tuple_table->starts, tuple_table->count + 1,
                              &tuple_table->start_capacity, sizeof(uint32_t));
    while (room && tuple_table->word_capacity - tuple_table->starts[tuple_table->count] < count)
        room = arena_reserve(scratch, &tuple_table->words, tuple_table->word_capacity,
                             &tuple_table->word_capacity, sizeof *words);
    if (!room) return STATUS_NO_MEMORY;
    uint32_t first = tuple_table->starts[tuple_table->count];
    if (count) memcpy(tuple_table->words + first, words, count * sizeof *words);
    *number_out = tuple_table->count++;
    *slot = tuple_table->count;
    tuple_table->starts[tuple_table->count] = first + (uint32_t)count;
    return STATUS_OK;
}

/* ---- builders ---- */

enum status automaton_builder_open(struct automaton_builder *dfa, struct automaton_work *work,
                                   const uint8_t *classes, uint32_t class_count) {
    *dfa = (struct automaton_builder){.work = work, .class_count = class_count};
    memcpy(dfa->classes, classes, sizeof dfa->classes);
    uint32_t dead = 0;
    return automaton_builder_add(dfa, &dead);
}

enum status automaton_builder_add(struct automaton_builder *dfa, uint32_t *state_out) {
    struct automaton_work *work = dfa->work;
    /* The dead state does not count. */
    if (dfa->state_count > work->states_max || !automaton_spend(work, dfa->class_count))
        return STATUS_TOO_LARGE;
    uint32_t state = dfa->state_count;
    if (!arena_reserve(work->scratch, &dfa->next, state, &dfa->next_capacity,
                       dfa->class_count * sizeof(uint32_t)) ||
        !arena_reserve(work->scratch, &dfa->labels, state, &dfa->label_capacity, sizeof(uint32_t)))
        return STATUS_NO_MEMORY;
    dfa->state_count++;
    memset(automaton_builder_row(dfa, state), 0, dfa->class_count * sizeof(uint32_t));
    dfa->labels[state] = 0;
    *state_out = state;
    return STATUS_OK;
}

/* Merges byte classes with equal transitions in all states. The rows keep their layout; kept[i] is
 * the column of the new class i. Returns the number of new classes. */
static uint32_t merge_classes(struct automaton_builder *dfa, uint8_t *kept) {
    uint64_t hashes[256] = {0};
    uint8_t merged[256];
    uint32_t k = dfa->class_count, count = 0;
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        const uint32_t *row = automaton_builder_row(dfa, s);
        for (uint32_t c = 0; c < k; c++)
            hashes[c] = hash_word(hashes[c] + 1, row[c]);
    }
    for (uint32_t c = 0; c < k; c++) {
        uint32_t other = 0;
        for (; other < count; other++) {
            if (hashes[kept[other]] != hashes[c]) continue;
            uint32_t s = 0;
            const uint32_t *next = dfa->next;
            while (s < dfa->state_count &&
                   next[(size_t)s * k + c] == next[(size_t)s * k + kept[other]])
                s++;
            if (s == dfa->state_count) break;
        }
        if (other == count) kept[count++] = (uint8_t)c;
        merged[c] = (uint8_t)other;
    }
    for (int byte = 0; byte < 256; byte++)
        dfa->classes[byte] = merged[dfa->classes[byte]];
    return count;
}

/* ---- live states and their transitions ---- */

struct transitions {
    uint32_t count;
    uint32_t *tails, *heads; /* [count] */
    uint8_t *classes;        /* [count] into `kept` */
};

struct minimiser {
    struct automaton_builder *dfa;
    struct arena *scratch;
    uint8_t kept[256];
    uint32_t class_count;
    uint32_t state_count;
    uint32_t *numbers; /* [states of dfa] new number; NONE: removed */
    uint32_t *states;  /* [state_count] old number */
    struct transitions steps;
    uint32_t *first_in, *in; /* [state_count + 1], [steps.count]: transitions sorted by head */
};

static uint32_t *automaton_builder_take_words(struct arena *scratch, size_t count) {
    return arena_take(scratch, count * sizeof(uint32_t));
}

/* Lists the transitions of all states reachable from the start, and marks those states by
 * numbers[s] != NONE. */
static enum status reach_forward(struct minimiser *m) {
    struct automaton_builder *dfa = m->dfa;
    size_t room = (size_t)dfa->state_count * m->class_count, count = 0;
    uint32_t *queue = automaton_builder_take_words(m->scratch, dfa->state_count), queued = 0;
    m->numbers = automaton_builder_take_words(m->scratch, dfa->state_count);
    if (!queue || !m->numbers) return STATUS_NO_MEMORY;
    if (!automaton_spend(dfa->work, 2 * room)) return STATUS_TOO_LARGE;
    for (size_t i = 0, all = (size_t)dfa->state_count * dfa->class_count; i < all; i++)
        count += dfa->next[i] != 0;
    m->steps.tails = automaton_builder_take_words(m->scratch, count);
    m->steps.heads = automaton_builder_take_words(m->scratch, count);
    m->steps.classes = arena_take(m->scratch, count);
    if (!m->steps.tails || !m->steps.heads || !m->steps.classes) return STATUS_NO_MEMORY;
    memset(m->numbers, 0xFF, dfa->state_count * sizeof(uint32_t));
    if (dfa->start) {
        queue[queued++] = dfa->start;
        m->numbers[dfa->start] = 0;
    }
    for (uint32_t i = 0; i < queued; i++) {
        const uint32_t *row = automaton_builder_row(dfa, queue[i]);
        for (uint32_t c = 0; c < m->class_count; c++) {
            uint32_t head = row[m->kept[c]];
            if (!head) continue;
            m->steps.tails[m->steps.count] = queue[i];
            m->steps.heads[m->steps.count] = head;
            m->steps.classes[m->steps.count++] = (uint8_t)c;
            if (m->numbers[head] != NONE) continue;
            m->numbers[head] = 0;
            queue[queued++] = head;
        }
    }
    m->states = queue;
    m->state_count = queued;
    return STATUS_OK;
}

/* Sorts transitions by their head (a number below state_count) into first_in and in. */
static enum status index_heads(struct minimiser *m, uint32_t state_count) {
    m->first_in = arena_take_zeroed(m->scratch, ((size_t)state_count + 2) * sizeof(uint32_t));
    m->in = automaton_builder_take_words(m->scratch, m->steps.count);
    if (!m->first_in || !m->in) return STATUS_NO_MEMORY;
    for (uint32_t t = 0; t < m->steps.count; t++)
        m->first_in[m->steps.heads[t] + 2]++;
    for (uint32_t s = 0; s < state_count; s++)
        m->first_in[s + 2] += m->first_in[s + 1];
    for (uint32_t t = 0; t < m->steps.count; t++)
        m->in[m->first_in[m->steps.heads[t] + 1]++] = t;
    return STATUS_OK;
}

/* Keeps the states from which an accepting state is reachable, and renumbers them and their
 * transitions. */
static enum status keep_live(struct minimiser *m) {
    struct automaton_builder *dfa = m->dfa;
    enum status status = index_heads(m, dfa->state_count);
    if (status) return status;
    uint32_t *queue = automaton_builder_take_words(m->scratch, dfa->state_count), queued = 0,
             kept = 0;
    if (!queue) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < m->state_count; i++) {
        uint32_t s = m->states[i];
        m->numbers[s] = dfa->labels[s] ? 1 : NONE;
        if (dfa->labels[s]) queue[queued++] = s;
    }
    for (uint32_t i = 0; i < queued; i++)
        for (uint32_t j = m->first_in[queue[i]]; j < m->first_in[queue[i] + 1]; j++) {
            uint32_t tail = m->steps.tails[m->in[j]];
            if (m->numbers[tail] != NONE) continue;
            m->numbers[tail] = 1;
            queue[queued++] = tail;
        }
    for (uint32_t i = 0; i < queued; i++)
        m->numbers[queue[i]] = i;
    m->states = queue;
    m->state_count = queued;
    for (uint32_t t = 0; t < m->steps.count; t++) {
        uint32_t head = m->numbers[m->steps.heads[t]], tail = m->numbers[m->steps.tails[t]];
        if (head == NONE || tail == NONE) continue;
        m->steps.tails[kept] = tail;
        m->steps.heads[kept] = head;
        m->steps.classes[kept++] = m->steps.classes[t];
    }
    m->steps.count = kept;
    return index_heads(m, m->state_count);
}

/* ---- minimization: A. Valmari, "Fast brief practical DFA minimization" (2012) ---- */

/* A partition of the numbers below `count` into sets (refinable partition). Elements of a set can
 * be marked; splitting separates the marked ones. */
struct partition {
    uint32_t set_count, count;
    uint32_t *elements, *places, *sets; /* [count] */
    uint32_t *firsts, *ends, *marked;   /* [count] by set: indices into elements */
    uint32_t *touched, touched_count;
};

static enum status partition_open(struct partition *partition, struct arena *scratch,
                                  uint32_t count) {
    *partition = (struct partition){.count = count, .set_count = count > 0};
    uint32_t *words = automaton_builder_take_words(scratch, 7 * (size_t)count + 7);
    if (!words) return STATUS_NO_MEMORY;
    uint32_t **const parts[] = {&partition->elements, &partition->places, &partition->sets,
                                &partition->firsts,   &partition->ends,   &partition->marked,
                                &partition->touched};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        *parts[i] = words + i * ((size_t)count + 1);
    for (uint32_t i = 0; i < count; i++) {
        partition->elements[i] = partition->places[i] = i;
        partition->sets[i] = 0;
    }
    partition->firsts[0] = partition->marked[0] = 0;
    partition->ends[0] = count;
    return STATUS_OK;
}

static void partition_mark(struct partition *partition, uint32_t element) {
    uint32_t set = partition->sets[element], from = partition->places[element];
    uint32_t to = partition->firsts[set] + partition->marked[set];
    if (from < to) return;
    partition->elements[from] = partition->elements[to];
    partition->places[partition->elements[from]] = from;
    partition->elements[to] = element;
    partition->places[element] = to;
    if (!partition->marked[set]++) partition->touched[partition->touched_count++] = set;
}

/* Splits each set with marks into its marked and unmarked elements. The smaller part becomes the
 * new set. */
static void partition_split(struct partition *partition) {
    while (partition->touched_count) {
        uint32_t set = partition->touched[--partition->touched_count];
        uint32_t border = partition->firsts[set] + partition->marked[set];
        uint32_t added = partition->set_count;
        uint32_t marked = partition->marked[set];
        partition->marked[set] = 0;
        if (border == partition->ends[set]) continue;
        if (marked <= partition->ends[set] - border) {
            partition->firsts[added] = partition->firsts[set];
            partition->ends[added] = partition->firsts[set] = border;
        } else {
            partition->ends[added] = partition->ends[set];
            partition->firsts[added] = partition->ends[set] = border;
        }
        for (uint32_t i = partition->firsts[added]; i < partition->ends[added]; i++)
            partition->sets[partition->elements[i]] = added;
        partition->marked[added] = 0;
        partition->set_count++;
    }
}

/* Groups elements by key: keys [count], each below key_count. */
static enum status partition_by(struct partition *partition, struct arena *scratch,
                                const uint32_t *keys, uint32_t key_count) {
    uint32_t *at = arena_take_zeroed(scratch, ((size_t)key_count + 1) * sizeof *at);
    if (!at) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < partition->count; i++)
        at[keys[i] + 1]++;
    partition->set_count = 0;
    for (uint32_t key = 0; key < key_count; key++) {
        uint32_t first = at[key], end = at[key] + at[key + 1];
        at[key + 1] = end;
        if (first == end) continue;
        partition->firsts[partition->set_count] = first;
        partition->ends[partition->set_count] = end;
        partition->marked[partition->set_count++] = 0;
    }
    for (uint32_t i = 0; i < partition->count; i++) {
        uint32_t place = at[keys[i]]++;
        partition->elements[place] = i;
        partition->places[i] = place;
    }
    for (uint32_t set = 0; set < partition->set_count; set++)
        for (uint32_t i = partition->firsts[set]; i < partition->ends[set]; i++)
            partition->sets[partition->elements[i]] = set;
    return STATUS_OK;
}

static enum status open_partitions(struct minimiser *m, struct partition *blocks,
                                   struct partition *cords) {
    struct tuple_table labels;
    uint32_t count = m->steps.count > m->state_count ? m->steps.count : m->state_count;
    uint32_t *keys = automaton_builder_take_words(m->scratch, count);
    enum status status = keys ? STATUS_OK : STATUS_NO_MEMORY;
    if (!status) status = automaton_builder_tuples_open(&labels, m->dfa->work);
    for (uint32_t i = 0; !status && i < m->state_count; i++)
        status =
            automaton_builder_tuples_intern(&labels, &m->dfa->labels[m->states[i]], 1, &keys[i]);
    if (!status) status = partition_open(blocks, m->scratch, m->state_count);
    if (!status) status = partition_by(blocks, m->scratch, keys, labels.count);
    if (!status) status = partition_open(cords, m->scratch, m->steps.count);
    if (status) return status;
    for (uint32_t t = 0; t < m->steps.count; t++)
        keys[t] = m->steps.classes[t];
    return partition_by(cords, m->scratch, keys, m->class_count);
}

static enum status automaton_builder_refine(struct minimiser *m, struct partition *blocks) {
    struct partition cords;
    enum status status = open_partitions(m, blocks, &cords);
    if (status) return status;
    for (uint32_t block = 1, cord = 0; cord < cords.set_count; cord++) {
        if (!automaton_spend(m->dfa->work, cords.ends[cord] - cords.firsts[cord]))
            return STATUS_TOO_LARGE;
        for (uint32_t i = cords.firsts[cord]; i < cords.ends[cord]; i++)
            partition_mark(blocks, m->steps.tails[cords.elements[i]]);
        partition_split(blocks);
        for (; block < blocks->set_count; block++) {
            for (uint32_t i = blocks->firsts[block]; i < blocks->ends[block]; i++) {
                uint32_t state = blocks->elements[i];
                for (uint32_t j = m->first_in[state]; j < m->first_in[state + 1]; j++)
                    partition_mark(&cords, m->in[j]);
            }
            partition_split(&cords);
        }
    }
    return STATUS_OK;
}

/* ---- the automaton ---- */

/* Counts the texts accepted from each state, up to UINT64_MAX. States that reach a cycle accept
 * infinitely many. *out is NULL if all states do. */
static enum status count_members(const struct minimiser *m, uint64_t **out) {
    const struct transitions *steps = &m->steps;
    uint32_t *leaving = arena_take_zeroed(m->scratch, m->state_count * sizeof *leaving);
    uint32_t *queue = automaton_builder_take_words(m->scratch, m->state_count), queued = 0;
    uint64_t *counts = arena_take_zeroed(m->scratch, m->state_count * sizeof *counts);
    uint32_t weights[256] = {0};
    if (!leaving || !queue || !counts) return STATUS_NO_MEMORY;
    for (int byte = 0; byte < 256; byte++)
        weights[m->dfa->classes[byte]]++;
    for (uint32_t t = 0; t < steps->count; t++)
        leaving[steps->tails[t]]++;
    for (uint32_t s = 0; s < m->state_count; s++) {
        counts[s] = m->dfa->labels[m->states[s]] != 0;
        if (leaving[s] == 0) queue[queued++] = s;
    }
    *out = queued || !m->state_count ? counts : NULL;
    for (uint32_t i = 0; i < queued; i++)
        for (uint32_t j = m->first_in[queue[i]]; j < m->first_in[queue[i] + 1]; j++) {
            uint64_t more, *count = &counts[steps->tails[m->in[j]]];
            if (__builtin_mul_overflow(counts[queue[i]], weights[steps->classes[m->in[j]]],
                                       &more) ||
                __builtin_add_overflow(*count, more, count))
                *count = UINT64_MAX;
            if (--leaving[steps->tails[m->in[j]]] == 0) queue[queued++] = steps->tails[m->in[j]];
        }
    for (uint32_t s = 0; s < m->state_count; s++)
        if (leaving[s]) counts[s] = UINT64_MAX;
    return STATUS_OK;
}

static enum status emit(struct minimiser *m, const struct partition *blocks,
                        const struct automaton **out) {
    struct automaton_builder *dfa = m->dfa;
    struct arena *arena = dfa->work->arena;
    uint32_t n = blocks->set_count + 1;
    struct automaton_builder small = {
        .work = dfa->work, .class_count = m->class_count, .state_count = n};
    struct automaton *automaton = arena_take_zeroed(arena, sizeof *automaton);
    uint32_t *labels = arena_take_zeroed(arena, n * sizeof *labels);
    uint64_t *counts = NULL, *members = NULL;
    enum status status = count_members(m, &counts);
    if (status) return status;
    if (counts) members = arena_take_zeroed(arena, n * sizeof *members);
    small.next = arena_take_zeroed(m->scratch, (size_t)n * m->class_count * sizeof *small.next);
    if (!automaton || !labels || !small.next || (counts && !members)) return STATUS_NO_MEMORY;
    memcpy(small.classes, dfa->classes, sizeof small.classes);
    for (uint32_t t = 0; t < m->steps.count; t++)
        automaton_builder_row(&small, blocks->sets[m->steps.tails[t]] + 1)[m->steps.classes[t]] =
            blocks->sets[m->steps.heads[t]] + 1;
    for (uint32_t set = 0; set < blocks->set_count; set++) {
        uint32_t state = blocks->elements[blocks->firsts[set]];
        labels[set + 1] = dfa->labels[m->states[state]];
        if (members) members[set + 1] = counts[state];
    }
    uint8_t kept[256];
    uint32_t k = merge_classes(&small, kept);
    uint32_t *next = arena_take(arena, (size_t)n * k * sizeof *next);
    if (!next) return STATUS_NO_MEMORY;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t c = 0; c < k; c++)
            next[(size_t)s * k + c] = automaton_builder_row(&small, s)[kept[c]];
    bool empty = !dfa->start || m->numbers[dfa->start] == NONE;
    automaton->state_count = n;
    automaton->start = empty ? 0 : blocks->sets[m->numbers[dfa->start]] + 1;
    automaton->class_count = k;
    memcpy(automaton->classes, small.classes, sizeof automaton->classes);
    automaton->next = next;
    automaton->labels = labels;
    automaton->member_counts = members;
    *out = automaton;
    return STATUS_OK;
}

enum status automaton_builder_finish(struct automaton_builder *dfa, const struct automaton **out) {
    struct minimiser m = {.dfa = dfa, .scratch = dfa->work->scratch};
    struct partition blocks;
    if (!automaton_spend(dfa->work, (uint64_t)dfa->state_count * dfa->class_count))
        return STATUS_TOO_LARGE;
    m.class_count = merge_classes(dfa, m.kept);
    enum status status = reach_forward(&m);
    if (!status) status = keep_live(&m);
    if (!status) status = automaton_builder_refine(&m, &blocks);
    if (!status) status = emit(&m, &blocks, out);
    return status;
}
