/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/sim_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "host/process/configuration/yaml_tree.h"
#include "host/process/gzip_file.h"
#include "simulate/hardware/builtin.h"

#define PATH_BYTES 1024

static const struct {
    const char *key, *title;
    enum builtin_kind kind;
} kinds[] = {
    {"scenario", "scenarios", BUILTIN_SCENARIO},
    {"hardware", "hardware", BUILTIN_HARDWARE},
    {"model", "models", BUILTIN_MODEL},
    {"prices", "prices", BUILTIN_PRICES},
};

static enum builtin_kind sim_files_kind_of(const char *key) {
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (!strcmp(kinds[i].key, key)) return kinds[i].kind;
    check(!"a kind of built-in files");
    return BUILTIN_SCENARIO;
}

static bool is_path(struct bytes name) {
    return bytes_contain(name, BYTES_LITERAL("/")) || bytes_contain(name, BYTES_LITERAL("."));
}

static enum status no_such(const char *key, struct bytes name, struct error *error) {
    char known[256] = "";
    size_t used = 0;
    const char *one;
    for (uint32_t i = 0; (one = builtin_name(sim_files_kind_of(key), i)) && used < sizeof known;
         i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", one);
    return error_set(error, STATUS_NOT_FOUND,
                     "no %s is called '%.*s'; there are %s, and paths of YAML files", key,
                     (int)(name.count < 80 ? name.count : 80), name.data, known);
}

/* Resolves a path relative to the scenario's file. */
static enum status sim_files_path_of(const struct sim_files *files, struct bytes name,
                                     char path[PATH_BYTES], struct error *error) {
    bool absolute = name.count && name.data[0] == '/';
    int count = snprintf(path, PATH_BYTES, "%s%.*s", absolute ? "" : files->folder, (int)name.count,
                         name.data);
    if (count < PATH_BYTES && !memchr(name.data, 0, name.count)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "a path of %zu bytes is too long", name.count);
}

static enum status read_named(const struct sim_files *files, struct arena *arena, const char *key,
                              struct bytes name, const struct tree **tree_out,
                              struct error *error) {
    struct bytes text = builtin_text(sim_files_kind_of(key), name);
    char shown[96], path[PATH_BYTES];
    if (text.data) {
        snprintf(shown, sizeof shown, "%.*s", (int)name.count, name.data);
        return yaml_tree_parse(arena, text, shown, tree_out, error);
    }
    if (!is_path(name)) return no_such(key, name, error);
    enum status status = sim_files_path_of(files, name, path, error);
    return status ? status : yaml_tree_read(arena, path, tree_out, error);
}

static enum status find(void *context, struct arena *arena, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *error) {
    return read_named(context, arena, key, name, tree_out, error);
}

enum status sim_files_read(const char *scenario, struct arena *arena, struct sim_files *files_out,
                           const struct tree **tree_out, struct error *error) {
    struct sim_files files = {.scenario = scenario};
    enum status status = read_named(&files, arena, "scenario", bytes_of(scenario), tree_out, error);
    const char *slash = strrchr(scenario, '/');
    size_t folder = slash ? (size_t)(slash - scenario) + 1 : 0;
    if (!status && folder >= sizeof files.folder)
        status = error_set(error, STATUS_INVALID, "%.100s: the path is too long", scenario);
    if (status) return status;
    memcpy(files.folder, scenario, folder);
    *files_out = files;
    return STATUS_OK;
}

struct scenario_library sim_files_library(struct sim_files *files) {
    return (struct scenario_library){files, find};
}

enum status sim_files_trace(const struct sim_files *files, const char *name, void **memory_out,
                            struct load_trace *trace_out, struct error *error) {
    char path[PATH_BYTES];
    struct bytes text;
    struct arena arena;
    enum status status = sim_files_path_of(files, bytes_of(name), path, error);
    if (!status) status = gzip_file_take(path, SIM_TRACE_BYTES_MAX, &text, error);
    if (status) return status;
    size_t bytes = load_trace_bytes(text);
    void *memory = malloc(bytes);
    arena_over(&arena, memory, memory ? bytes : 0);
    status = load_trace_read(&arena, text, path, trace_out, error);
    free((void *)(uintptr_t)text.data);
    if (status)
        free(memory);
    else
        *memory_out = memory;
    return status;
}

void sim_files_list(void) {
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        const char *name;
        printf("%s:\n", kinds[i].title);
        for (uint32_t n = 0; (name = builtin_name(kinds[i].kind, n)); n++)
            printf("  %s\n", name);
    }
}
