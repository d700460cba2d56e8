/* SPDX-License-Identifier: Apache-2.0
 * Each value is a string that options_set parses in the same way as a flag, so a file and a flag
 * accept the same values.
 */
#include "host/process/configuration/config_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "host/process/configuration/yaml_tree.h"

#define CONFIG_BYTES_MAX ((size_t)64 << 10)
#define CONFIG_KEYS_MAX 256
#define TREE_BYTES_PER_BYTE 64 /* see yaml_tree.h */

/* Texts that options point to for the life of the process. A leak checker finds them here. */
static char *volatile kept[CONFIG_KEYS_MAX];

static const struct option *config_file_find_option(const struct option_table *table,
                                                    struct bytes key) {
    for (size_t i = 0; i < table->option_count; i++)
        if (bytes_equal(key, bytes_of(table->options[i].name)) &&
            strcmp(table->options[i].name, "config") != 0) /* a file cannot include another one */
            return &table->options[i];
    return NULL;
}

static enum status config_file_set_option(const struct option_table *table,
                                          const struct option *option, struct bytes text,
                                          const char *path, void *values, struct error *error) {
    struct error cause;
    bool keeps =
        option->type == OPTION_TEXT || option->type == OPTION_LIST || option->type == OPTION_CHOICE;
    char *copy = strndup(text.data, text.count);
    if (!copy) return error_set(error, STATUS_NO_MEMORY, "%.200s: out of memory", path);
    enum status status = options_set(table, option->name, copy, values, &cause);
    if (status) error_set(error, status, "%.200s: %s", path, cause.text);
    if (!status && keeps)
        kept[option - table->options] = copy;
    else
        free(copy);
    return status;
}

static enum status config_file_apply(const struct option_table *table, const struct tree *root,
                                     const char *path, void *values, struct error *error) {
    struct tree_cursor cursor = {0};
    const struct tree *value;
    struct bytes key, text;
    while (tree_next_member(root, &cursor, &key, &value)) {
        const struct option *option = config_file_find_option(table, key);
        const char *nearest = option ? NULL : options_nearest(table, key);
        if (!option)
            return error_set(error, STATUS_INVALID,
                             "%.200s: unknown key '%.*s'%s%s; `fathom %s --help` lists the names",
                             path, (int)(key.count < 80 ? key.count : 80), key.data,
                             nearest ? ", did you mean " : "", nearest ? nearest : "",
                             table->command);
        if (!tree_get_string(value, &text))
            return error_set(error, STATUS_INVALID,
                             "%.200s: %s: expected one value, as after --%s, found %s", path,
                             option->name, option->name, tree_kind_name(tree_kind(value)));
        if (memchr(text.data, 0, text.count))
            return error_set(error, STATUS_INVALID,
                             "%.200s: %s: expected a text without a zero byte", path, option->name);
        enum status status = config_file_set_option(table, option, text, path, values, error);
        if (status) return status;
    }
    return STATUS_OK;
}

enum status config_file_parse(struct bytes text, const char *path, const struct option_table *table,
                              void *values, struct error *error) {
    size_t bytes = TREE_BYTES_PER_BYTE * (text.count + 64);
    const struct tree *root = NULL;
    struct arena arena;
    check(table->option_count <= CONFIG_KEYS_MAX);
    void *memory = malloc(bytes);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "%.200s: out of memory", path);
    arena_over(&arena, memory, bytes);
    enum status status = yaml_tree_parse_words(&arena, text, path, &root, error);
    if (!status && root && tree_kind(root) != TREE_OBJECT)
        status = error_set(error, STATUS_INVALID,
                           "%.200s: expected lines of 'name: value' with the names of `fathom %s "
                           "--help`, found %s",
                           path, table->command, tree_kind_name(tree_kind(root)));
    if (!status && root) status = config_file_apply(table, root, path, values, error);
    free(memory);
    return status;
}

enum status config_file_read(const char *path, const struct option_table *table, void *values,
                             struct error *error) {
    struct bytes text;
    enum status status = file_take(path, CONFIG_BYTES_MAX, &text, error);
    if (status) return status;
    status = config_file_parse(text, path, table, values, error);
    free((void *)(uintptr_t)text.data);
    return status;
}
