/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a GGUF file. Whatever is accepted must lie inside the file, values and tensors, to
 * the last byte; and its metadata become a config.json that parses or is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compute/weights/ggml_block.h"
#include "compute/weights/gguf_config.h"
#include "compute/weights/gguf_tensors.h"
#include "compute/weights/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_values(const struct gguf *gguf) {
    for (uint32_t i = 0; i < gguf->pair_count; i++) {
        const struct gguf_value *value = &gguf->pairs[i].value;
        uint64_t count, items = 0;
        double number;
        struct bytes text;
        int64_t integer;
        bool flag;
        size_t at = 0;
        (void)gguf_get_count(value, &count);
        (void)gguf_get_number(value, &number);
        (void)gguf_get_bool(value, &flag);
        while (gguf_next_string(value, &at, &text) || gguf_next_integer(value, &at, &integer))
            items++;
        check(items <= value->count && at <= value->raw.count);
    }
}

static void look_at_tensors(const struct gguf *gguf, const uint8_t *data, size_t size) {
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[i];
        const uint8_t *at = tensor->data;
        struct gguf_place place;
        float values[GGML_BLOCK_VALUES_MAX];
        check(at >= data && at <= data + size && tensor->bytes <= (size_t)(data + size - at));
        (void)gguf_tensors_find(tensor->name, &place);
        if (ggml_block_is(tensor->type) && tensor->bytes)
            ggml_block_to_float(tensor->type, at, values);
    }
}

static void read_config(const struct gguf *gguf) {
    struct json_writer writer = {.room = 0};
    struct error error = {""};
    struct shape shape;
    if (gguf_config_write(gguf, &writer, &error) != STATUS_OK) {
        check(error.text[0] && !strchr(error.text, '\n'));
        return;
    }
    const size_t room = writer.count;
    writer = (struct json_writer){.out = malloc(room + 1), .room = room};
    check(writer.out && gguf_config_write(gguf, &writer, &error) == STATUS_OK);
    check(writer.count == room);
    enum status status = shape_parse((struct bytes){writer.out, room}, "fuzz", &shape, &error);
    check(status == STATUS_OK || !strstr(error.text, "JSON"));
    free(writer.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t memory_bytes = gguf_memory(size);
    void *memory = malloc(memory_bytes);
    struct gguf gguf;
    struct error error = {""};
    struct arena arena;
    check(memory);
    arena_over(&arena, memory, memory_bytes);
    enum status status =
        gguf_read((struct bytes){(const char *)data, size}, "fuzz", &arena, &gguf, &error);
    check((status == STATUS_OK) == (error.text[0] == '\0') && !strchr(error.text, '\n'));
    if (status == STATUS_OK) {
        look_at_values(&gguf);
        look_at_tensors(&gguf, data, size);
        read_config(&gguf);
    }
    free(memory);
    return 0;
}
