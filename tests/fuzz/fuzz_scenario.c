/* SPDX-License-Identifier: Apache-2.0
 * Scenarios: YAML text, then settings (--set), with 0xFF between them. Whatever they are, they are
 * read or refused with one line; what is read can be told its load and begin, or says what it
 * lacks. Names stand for what the binary carries. No fleet runs here: it would have no memory to.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "host/process/configuration/yaml_tree.h"
#include "parts.h"
#include "simulate/hardware/builtin.h"
#include "simulate/scenario/scenario.h"
#include "simulate/scenario/scenario_edit.h"

#define SETTINGS_MAX 8
#define SETTING_BYTES 512
#define LOAD_BYTES_MAX ((size_t)4 << 20) /* beyond, as in `fathom sim`, it would be refused */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status find(void *context, struct arena *arena, const char *key, struct bytes name,
                        const struct tree **tree_out, struct error *error) {
    enum builtin_kind kind = !strcmp(key, "hardware") ? BUILTIN_HARDWARE
                             : !strcmp(key, "model")  ? BUILTIN_MODEL
                                                      : BUILTIN_PRICES;
    struct bytes text = builtin_text(kind, name);
    (void)context;
    if (!text.data) return error_set(error, STATUS_NOT_FOUND, "no such %s", key);
    return yaml_tree_parse(arena, text, key, tree_out, error);
}

static size_t read_settings(struct bytes rest, char texts[SETTINGS_MAX][SETTING_BYTES],
                            const char *settings[SETTINGS_MAX]) {
    size_t count = 0;
    while (rest.count && count < SETTINGS_MAX) {
        struct bytes one = next_part(&rest);
        size_t bytes = one.count < SETTING_BYTES ? one.count : SETTING_BYTES - 1;
        memcpy(texts[count], one.data, bytes);
        texts[count][bytes] = 0;
        settings[count] = texts[count];
        count++;
    }
    return count;
}

static enum status read_scenario(struct arena *arena, struct bytes text, struct bytes rest,
                                 struct scenario *scenario, struct error *error) {
    static char texts[SETTINGS_MAX][SETTING_BYTES];
    const char *settings[SETTINGS_MAX];
    size_t count = read_settings(rest, texts, settings);
    const struct scenario_library library = {NULL, find};
    const struct tree *tree;
    enum status status = yaml_tree_parse(arena, text, "f.yaml", &tree, error);
    if (!status)
        status = scenario_edit_prepare(arena, tree, settings, count, &library, &tree, error);
    return status ? status : scenario_read(arena, tree, "f.yaml", scenario, error);
}

/* Without a byte of memory it says so, if nothing else is wrong. */
static void begin(const struct scenario *scenario) {
    struct simulator_report report;
    struct error error = {""};
    struct arena nothing;
    char none[1];
    arena_over(&nothing, none, 0);
    check(simulator_bytes(&scenario->options) > 0);
    enum status status = simulator_run(&scenario->options, &nothing, &report, &error);
    check(status == STATUS_NO_MEMORY || status == STATUS_INVALID);
    check(error.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(16) char memory[32 << 20], load_memory[LOAD_BYTES_MAX];
    static struct scenario scenario;
    struct arena arena, load_arena;
    struct error error = {""};
    struct bytes rest = {(const char *)data, size}, text = next_part(&rest);
    arena_over(&arena, memory, sizeof memory);
    enum status status = read_scenario(&arena, text, rest, &scenario, &error);
    check(!status == !error.text[0]);
    if (status || scenario.load.kind == SCENARIO_LOAD_DAY) return 0;
    if (scenario.load.kind == SCENARIO_LOAD_MIX) {
        if (scenario_load_bytes(&scenario, NULL) > LOAD_BYTES_MAX) return 0;
        arena_over(&load_arena, load_memory, sizeof load_memory);
        status = scenario_open_load(&load_arena, &scenario, NULL, &error);
        check(status != STATUS_NO_MEMORY);
        check(!status == !error.text[0]);
        if (status) return 0;
    }
    begin(&scenario);
    return 0;
}
