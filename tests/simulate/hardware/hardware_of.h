/* SPDX-License-Identifier: Apache-2.0
 * For tests: hardware and models of the binary, with numbers of the test's own in their place.
 */
#pragma once

#include "host/process/configuration/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/hardware/hardware_file.h"
#include "test_case.h"

static _Alignas(16) char tree_memory[8 << 20];
static struct arena tree_arena;
static struct error error;

static inline const struct tree *tree_of(const char *text) {
    const struct tree *tree = NULL;
    assert_int_equal(yaml_tree_parse(&tree_arena, bytes_of(text), "text", &tree, &error),
                     STATUS_OK);
    return tree;
}

static inline struct tree *builtin_tree(enum builtin_kind kind, const char *name) {
    const struct tree *tree = NULL;
    struct bytes text = builtin_text(kind, bytes_of(name));
    assert_non_null(text.data);
    assert_int_equal(yaml_tree_parse(&tree_arena, text, name, &tree, &error), STATUS_OK);
    return (struct tree *)(uintptr_t)tree;
}

/* With `key` as the test says; NULL: as the file does. */
static inline struct hardware hardware_with(const char *name, const char *key, double value) {
    struct hardware hardware;
    struct tree *tree = builtin_tree(BUILTIN_HARDWARE, name);
    if (key) assert_true(tree_set(&tree_arena, tree, key, tree_make_real(&tree_arena, value)));
    enum status status = hardware_file_read(&tree_arena, tree, name, &hardware, &error);
    if (status) print_error("%s\n", error.text);
    assert_int_equal(status, STATUS_OK);
    return hardware;
}

static inline struct model_figures model_named(const char *name) {
    struct model_figures model;
    const struct tree *tree = builtin_tree(BUILTIN_MODEL, name);
    assert_int_equal(hardware_file_model_figures_read(tree, name, &model, &error), STATUS_OK);
    return model;
}

static inline int begin_tree(void **state) {
    (void)state;
    arena_over(&tree_arena, tree_memory, sizeof tree_memory);
    return 0;
}
