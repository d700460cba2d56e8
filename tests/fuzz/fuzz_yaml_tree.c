/* SPDX-License-Identifier: Apache-2.0
 * YAML as a tree: whatever the text, it is read or refused with a message that names it; and what
 * was read can be written as JSON and read again as the same.
 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "host/process/configuration/yaml_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(16) char memory[4 << 20], again_memory[8 << 20];
    struct arena arena, again_arena;
    struct error error = {0};
    const struct tree *root = NULL, *again = NULL;
    arena_over(&arena, memory, sizeof memory);
    arena_over(&again_arena, again_memory, sizeof again_memory);
    struct bytes text = {(const char *)data, size};
    enum status status = yaml_tree_parse(&arena, text, "f.yaml", &root, &error);
    check(status == STATUS_OK || !strncmp(error.text, "f.yaml", 6));
    if (status) return 0;
    struct bytes json = tree_text(&again_arena, root);
    if (!json.data) return 0;
    status = tree_parse(&again_arena, json, "again", &again, &error);
    if (status == STATUS_NO_MEMORY) return 0;
    check(status == STATUS_OK);
    struct bytes twice = tree_text(&again_arena, again);
    check(!twice.data || bytes_equal(json, twice));
    return 0;
}
