/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include "base/check.h"

size_t nearest_edits(struct bytes a, struct bytes b) {
    size_t row[NEAREST_NAME_BYTES_MAX + 1]; /* edits between a's first i bytes and b's first j */
    check(b.count <= NEAREST_NAME_BYTES_MAX);
    for (size_t j = 0; j <= b.count; j++)
        row[j] = j;
    for (size_t i = 0; i < a.count; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.count; j++) {
            size_t replaced = diagonal + (a.data[i] != b.data[j]);
            size_t shorter = row[j] < row[j + 1] ? row[j] : row[j + 1];
            diagonal = row[j + 1];
            row[j + 1] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b.count];
}

struct nearest nearest_begin(struct bytes word) {
    /* with more edits it is a different word */
    return (struct nearest){.word = word, .limit = word.count / 3 + 2};
}

void nearest_try(struct nearest *nearest, const char *name) {
    if (nearest->word.count > NEAREST_NAME_BYTES_MAX) return;
    size_t edits = nearest_edits(nearest->word, bytes_of(name));
    if (edits >= nearest->limit) return;
    nearest->limit = edits;
    nearest->name = name;
}
