/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#include "../keep.h"

const char *golden_home(void) {
    const char *home = getenv("FATHOM_TEST_GOLDENS");
    check(home);
    return home;
}

const struct tree *golden_read(const char *directory, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    check(text && fread(text, 1, bytes, file) == bytes);
    fclose(file);
    struct arena arena;
    size_t arena_bytes = 64 * bytes + 4096;
    arena_over(&arena, test_keep(malloc(arena_bytes)), arena_bytes);
    const struct tree *root = NULL;
    struct error error;
    if (tree_parse(&arena, (struct bytes){text, bytes}, path, &root, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    free(text);
    return root;
}

void golden_numbers(const struct tree *array, struct golden_list *out) {
    out->count = (uint32_t)tree_count(array);
    check(out->count <= GOLDEN_LIST_MAX);
    for (uint32_t i = 0; i < out->count; i++)
        check(tree_get_number(tree_at(array, i), &out->values[i]));
}

uint32_t golden_ids(const struct tree *array, uint32_t *out, uint32_t capacity) {
    uint32_t count = (uint32_t)tree_count(array);
    check(count <= capacity);
    for (uint32_t i = 0; i < count; i++) {
        int64_t id;
        check(tree_get_integer(tree_at(array, i), &id));
        out[i] = (uint32_t)id;
    }
    return count;
}

/* Adds the cases of a folder; returns how many it has, those that were known before included. */
static uint32_t add_cases(const char *root, char (*directories)[512], uint32_t *count) {
    DIR *folder = opendir(root);
    struct dirent *entry;
    uint32_t found = 0;
    while (folder && (entry = readdir(folder)) && *count < GOLDEN_CASES_MAX) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s/golden.json", root, entry->d_name);
        if (access(path, R_OK) != 0) continue;
        found++;
        snprintf(directories[*count], sizeof *directories, "%s/%s", root, entry->d_name);
        bool known = false; /* the tree's own copy comes first */
        for (uint32_t i = 0; i < *count; i++)
            known |= !strcmp(strrchr(directories[i], '/'), strrchr(directories[*count], '/'));
        *count += !known;
    }
    if (folder) closedir(folder);
    return found;
}

static int by_name(const void *a, const void *b) {
    return strcmp(strrchr(a, '/'), strrchr(b, '/'));
}

/* A folder without cases ends the test: it would pass, and nobody would know that it had read
 * nothing. */
static uint32_t read_cases(char (*directories)[512]) {
    uint32_t count = 0, own = add_cases(golden_home(), directories, &count);
    const char *further = getenv("FATHOM_GOLDENS");
    check(own);
    if (!further || add_cases(further, directories, &count)) return count;
    fprintf(stderr,
            "goldens: '%s' has no folder with a golden.json; expected of FATHOM_GOLDENS a folder "
            "like tests/golden, with a folder for each case\n",
            further);
    exit(1);
}

bool golden_is_v4(const char *directory) {
    const struct tree *names = tree_member(golden_read(directory, "config.json"), "architectures");
    struct bytes name = {0};
    return tree_get_string(tree_at(names, 0), &name) && name.count > 10 &&
           memcmp(name.data, "DeepseekV4", 10) == 0;
}

bool golden_is_for_gpus(const char *directory) {
    const char *name = strrchr(directory, '/');
    return !strstr(name, "int4") && !strstr(name, "dsa") && !strstr(name, "mxfp4") &&
           !golden_is_v4(directory);
}

uint32_t golden_cases(char (*directories_out)[512]) {
    uint32_t count = read_cases(directories_out);
    qsort(directories_out, count, sizeof *directories_out, by_name);
    return count;
}

uint32_t golden_operators(const struct tree **operators_out) {
    char directories[GOLDEN_CASES_MAX][512];
    uint32_t count = 0;
    (void)read_cases(directories);
    operators_out[count++] = golden_read(golden_home(), "ops.json");
    check(operators_out[0]);
    const char *further = getenv("FATHOM_GOLDENS");
    if (further && (operators_out[count] = golden_read(further, "ops.json"))) count++;
    return count;
}
