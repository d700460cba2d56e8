/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

void *device_new(size_t bytes, const char *name) {
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    assert_non_null(memory);
    memset(memory, 0xFF, bytes);
    emulate_memory_add(memory, bytes, name);
    return memory;
}

void *device_new_copy(const void *from, size_t bytes, const char *name) {
    return memcpy(device_new(bytes, name), from, bytes);
}

void device_free(void *memory) {
    emulate_memory_drop(memory);
    free(memory);
}

uint32_t device_seeds(void) {
    const char *text = getenv("FATHOM_EMULATE_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 20;
}

void device_check(const struct emulate_report *report) {
    if (report->made) fail_msg("%s", report->text);
}
