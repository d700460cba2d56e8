/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a safetensors file. Whatever is accepted must lie inside the file, to its last byte.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compute/weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes file = {(const char *)data, size};
    struct safetensors found;
    struct error error = {""};
    struct arena arena;
    uint64_t header_bytes;
    enum status status = safetensors_header_bytes(file, "fuzz", &header_bytes, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0'));
    if (status != STATUS_OK) return 0;
    const size_t memory_bytes = safetensors_memory(header_bytes);
    void *memory = malloc(memory_bytes);
    check(memory);
    arena_over(&arena, memory, memory_bytes);
    status = safetensors_read(file, "fuzz", &arena, &found, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    for (uint32_t i = 0; status == STATUS_OK && i < found.count; i++) {
        const struct safetensors_entry *entry = &found.entries[i];
        const uint8_t *at = entry->data;
        check(at >= data + 8 + header_bytes && at + entry->bytes <= data + size);
        check(entry->dims <= SAFETENSORS_DIMS_MAX && entry->name && entry->type_name);
        if (entry->type == TENSOR_TYPE_COUNT) continue;
        uint64_t values = 1;
        for (uint32_t k = 0; k < entry->dims; k++)
            values *= entry->shape[k];
        check(tensor_type_bytes(entry->type, values) == entry->bytes);
    }
    free(memory);
    return 0;
}
