/* SPDX-License-Identifier: Apache-2.0
 * Builds a text from pieces and records the origin of each byte.
 */
#include "base/utf8.h"
#include "serving/jinja/values/jinja_machine.h"

void text_builder_open(struct text_builder *builder, struct jinja_machine *machine) {
    *builder = (struct text_builder){.machine = machine, .ascii = true};
}

static bool grow(struct text_builder *builder, size_t more) {
    struct jinja_machine *machine = builder->machine;
    size_t count = builder->count + more;
    if (builder->is_output && count > machine->output_bytes_max)
        return machine_exceed(machine, "bytes of output");
    if (count > UINT32_MAX / 4) return machine_exceed(machine, "bytes in a text");
    size_t capacity = builder->capacity ? 2 * builder->capacity : 64;
    if (capacity < count) capacity = count + count / 4;
    if (builder->is_output && capacity > machine->output_bytes_max)
        capacity = machine->output_bytes_max;
    if (!machine_spend(machine, capacity / 64)) return false;
    char *data = machine_take(machine, capacity);
    if (!data) return false;
    if (builder->count) memcpy(data, builder->data, builder->count);
    if (builder->marks) {
        uint8_t *marks = machine_take(machine, capacity);
        if (!marks) return false;
        if (builder->count) memcpy(marks, builder->marks, builder->count);
        builder->marks = marks;
    }
    builder->data = data;
    builder->capacity = capacity;
    return true;
}

/* Makes room for `more` bytes of one origin (or of mixed origins). */
static bool text_builder_prepare(struct text_builder *builder, size_t more, bool mixed,
                                 uint8_t origin) {
    if (more > builder->capacity - builder->count && !grow(builder, more)) return false;
    if (builder->marks) return true;
    if (!mixed) {
        if (builder->count == 0) builder->origin = origin;
        if (builder->origin == origin) return true;
    }
    builder->marks = machine_take(builder->machine, builder->capacity);
    if (!builder->marks) return false;
    memset(builder->marks, builder->origin, builder->count);
    return true;
}

static bool text_builder_is_ascii(const char *data, size_t count) {
    uint64_t all = 0, word;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        memcpy(&word, data + i, 8);
        all |= word;
    }
    for (; i < count; i++)
        all |= (uint8_t)data[i];
    return (all & 0x8080808080808080u) == 0; /* no byte has its highest bit set */
}

bool text_builder_add(struct text_builder *builder, const char *data, size_t count,
                      enum value_origin origin) {
    if (count == 0) return true;
    if (!machine_spend(builder->machine, count / 64)) return false;
    if (!text_builder_prepare(builder, count, false, (uint8_t)origin)) return false;
    memcpy(builder->data + builder->count, data, count);
    if (builder->marks) memset(builder->marks + builder->count, origin, count);
    if (builder->ascii) builder->ascii = text_builder_is_ascii(data, count);
    builder->count += count;
    return true;
}

bool text_builder_add_part(struct text_builder *builder, const struct value_text *text,
                           size_t start, size_t count) {
    if (!text->marks) return text_builder_add(builder, text->data + start, count, text->origin);
    if (count == 0) return true;
    if (!machine_spend(builder->machine, count / 64)) return false;
    if (!text_builder_prepare(builder, count, true, 0)) return false;
    memcpy(builder->data + builder->count, text->data + start, count);
    memcpy(builder->marks + builder->count, text->marks + start, count);
    if (builder->ascii) builder->ascii = text_builder_is_ascii(text->data + start, count);
    builder->count += count;
    return true;
}

bool text_builder_add_text(struct text_builder *builder, const struct value_text *text) {
    return text_builder_add_part(builder, text, 0, text->count);
}

/* Returns unused capacity to the machine if the builder made the latest allocation. */
static void text_builder_give_back(struct text_builder *builder) {
    struct jinja_machine *machine = builder->machine;
    char *memory = builder->marks ? (char *)builder->marks : builder->data;
    if (!memory || memory + round_up_8(builder->capacity) != machine->at) return;
    machine->at = memory + round_up_8(builder->count);
}

bool text_builder_finish(struct text_builder *builder, bool markup, struct value *out) {
    struct jinja_machine *machine = builder->machine;
    text_builder_give_back(builder);
    struct value_text *text = machine_take(machine, sizeof *text);
    if (!text) return false;
    *text = (struct value_text){
        .data = builder->count ? builder->data : "",
        .marks = builder->count ? builder->marks : NULL,
        .count = (uint32_t)builder->count,
        .origin = builder->count ? builder->origin : VALUE_TRUSTED,
        .markup = markup,
    };
    text->length = builder->ascii ? text->count
                                  : (uint32_t)utf8_count((struct bytes){text->data, text->count});
    *out = (struct value){.kind = VALUE_TEXT, .text = text};
    return true;
}
