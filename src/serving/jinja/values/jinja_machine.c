/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/jinja/values/jinja_machine.h"

#include "base/format.h"

#define BLOCK_BYTES_MIN ((size_t)16 << 10)
#define BLOCK_BYTES_MAX ((size_t)4 << 20)

void jinja_machine_note_failure(struct jinja_machine *machine, const char *format, ...) {
    char text[400];
    va_list arguments;
    if (machine->status != STATUS_OK) return;
    va_start(arguments, format);
    format_va(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\r') *at = ' ';
    machine->status =
        error_set(machine->error, STATUS_INVALID, "%s:%u: %s", machine->name, machine->line, text);
}

void jinja_machine_note_excess(struct jinja_machine *machine, const char *what) {
    if (machine->status != STATUS_OK) return;
    machine->status = error_set(machine->error, STATUS_TOO_LARGE,
                                "%s:%u: the template needs more %s than are allowed", machine->name,
                                machine->line, what);
}

void *jinja_machine_take_slowly(struct jinja_machine *machine, size_t bytes) {
    size_t wanted = (bytes + 7) & ~(size_t)7;
    if (wanted < bytes || wanted > machine->memory_left) {
        jinja_machine_note_excess(machine, "bytes of memory");
        return NULL;
    }
    size_t block = machine->block_bytes < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : machine->block_bytes;
    if (block < wanted) block = wanted;
    if (block > machine->memory_left) block = machine->memory_left & ~(size_t)7;
    char *memory = arena_take(machine->arena, block);
    if (!memory && block > wanted) {
        block = wanted;
        memory = arena_take(machine->arena, block);
    }
    if (!memory) {
        if (machine->status == STATUS_OK)
            machine->status =
                error_set(machine->error, STATUS_NO_MEMORY,
                          "%s:%u: no memory left for the template", machine->name, machine->line);
        return NULL;
    }
    machine->memory_left -= block;
    if (machine->block_bytes < BLOCK_BYTES_MAX) machine->block_bytes = 2 * block;
    if (block - wanted >= (size_t)(machine->end - machine->at)) {
        machine->at = memory + wanted;
        machine->end = memory + block;
    }
    return memory;
}

bool jinja_machine_enter(struct jinja_machine *machine) {
    if (machine->depth >= MACHINE_DEPTH_MAX) return machine_exceed(machine, "levels of nesting");
    machine->depth++;
    return true;
}
