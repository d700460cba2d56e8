/* SPDX-License-Identifier: Apache-2.0
 * Reading the goldens: JSON files kept whole in memory, lists of numbers, and the folders with
 * cases: those of the tree, in FATHOM_TEST_GOLDENS, and those that FATHOM_GOLDENS adds. Either is a
 * folder like tests/golden: one folder for each case, perhaps ops.json beside them. A test that is
 * told of a FATHOM_GOLDENS without a case ends with a line that says so, and fails.
 */
#pragma once

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
/* False if the engine for GPUs refuses the case: experts in four bits, sparse attention, V4. */
bool golden_is_for_gpus(const char *directory);
/* True for V4 and V4.1. */
bool golden_is_v4(const char *directory);

/* ops.json of the tree and, where it is there, of FATHOM_GOLDENS; returns how many. */
#define GOLDEN_OPERATORS_MAX 2
uint32_t golden_operators(const struct tree **operators_out);

/* The tree's own goldens. */
const char *golden_home(void);
