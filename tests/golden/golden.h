/* SPDX-License-Identifier: Apache-2.0
 * Reading the goldens: JSON files kept whole in memory, lists of numbers, and the folders with
 * cases (those of the tree, named by FATHOM_TEST_GOLDENS, and those that FATHOM_GOLDENS adds).
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "base/tree.h"

#define GOLDEN_CASES_MAX 64
#define GOLDEN_LIST_MAX 4096

struct golden_list {
    uint32_t count;
    double values[GOLDEN_LIST_MAX];
};

/* Parses a file; NULL if it is not there. Lives until the process ends. */
const struct tree *golden_read(const char *directory, const char *name);

/* Numbers of an array; empty for NULL. */
void golden_numbers(const struct tree *array, struct golden_list *out);
uint32_t golden_ids(const struct tree *array, uint32_t *out, uint32_t capacity);

/* Directories with a golden.json, in name order; returns how many. */
uint32_t golden_cases(char (*directories_out)[512]);

/* The tree's own goldens. */
const char *golden_home(void);

#endif
