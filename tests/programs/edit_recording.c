/* SPDX-License-Identifier: Apache-2.0
 * edit_recording FILE KIND BYTE: adds 1 to a byte of the last record of that kind which a machine
 * was given, as such or carried from a unit, and makes the checksums right: a recording that is
 * whole and says what never happened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/record_unit.h"
#include "host/process/recording/recording.h"

static char *memory;
static size_t bytes;

static bool read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return false;
    bytes = (size_t)ftell(file);
    rewind(file);
    memory = malloc(bytes);
    bool whole = memory && fread(memory, 1, bytes, file) == bytes;
    fclose(file);
    return whole;
}

static bool write_all(const char *path) {
    FILE *file = fopen(path, "wb");
    return file && fwrite(memory, 1, bytes, file) == bytes && fclose(file) == 0;
}

/* The chunks' checksums anew, of a file that is whole. */
static void sum_again(void) {
    for (size_t at = sizeof(struct recording_start); at < bytes;) {
        struct recording_chunk *chunk = (struct recording_chunk *)(void *)(memory + at);
        *chunk = recording_chunk_of((enum recording_chunk_kind)chunk->kind, chunk->sequence,
                                    chunk + 1, chunk->bytes);
        at += sizeof *chunk + chunk->bytes;
    }
}

/* The record, or that which it carries, if it is one of that kind; else NULL. */
static const struct record *find(const struct record *record, const char *kind) {
    if (!record || strcmp(record_name(record->kind), kind) == 0) return record;
    return record->kind == RECORD_FROM_UNIT
               ? find(envelope_inner((const struct record_envelope *)record), kind)
               : NULL;
}

int main(int argc, char **argv) {
    struct recording recording;
    struct error error;
    const struct recording_entry *entry;
    char *last = NULL;
    if (argc != 4 || !read_all(argv[1])) return 2;
    if (recording_open(argv[1], memory, bytes, &recording, &error)) return 2;
    while (!recording_next(&recording, argv[1], &entry, &error) && entry) {
        const struct record *record = find(recording_given(entry), argv[2]);
        if (record) last = (char *)(uintptr_t)record;
    }
    if (!last) return 3;
    last[strtoul(argv[3], NULL, 10)]++;
    sum_again();
    return write_all(argv[1]) ? 0 : 2;
}
