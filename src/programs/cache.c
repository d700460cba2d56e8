/* SPDX-License-Identifier: Apache-2.0
 * fathom cache: inspects the directory of a KV storage (`serve --kv-dir`) without a server.
 */
#include <stdio.h>
#include <string.h>

#include "command/json_print.h"
#include "host/storage/kv_store.h"
#include "programs/programs.h"

struct cache_values {
    uint64_t size;
    bool json;
};

static const struct option cache_rows[] = {
    {"size", OPTION_BYTES, NULL, "gc: bytes to keep",
     .offset = offsetof(struct cache_values, size)},
    {"json", OPTION_FLAG, NULL, "print one JSON object",
     .offset = offsetof(struct cache_values, json)},
};

const struct option_table cache_options = {
    .command = "cache",
    .arguments = "stat|verify|gc DIR",
    .description = "A KV storage on disk: what is in it; every byte of it read and checked (exit "
                   "code 1: damage); its oldest segments removed, whichever their format, until "
                   "--size is left. Servers may use it meanwhile.",
    .options = cache_rows,
    .option_count = sizeof cache_rows / sizeof *cache_rows,
    .positional_min = 2,
    .positional_max = 2,
};

struct printed {
    struct json_print print;
    bool deep;
    uint32_t folders;
};

static void print_damage(void *context, const char *line) {
    fprintf(stderr, "%s\n", line);
}

/* Behind all that can fail before the first folder. */
static void begin_folders(struct printed *printed) {
    if (printed->folders++) return;
    json_print_open(&printed->print, NULL, '{');
    json_print_open(&printed->print, "folders", '[');
}

static void print_counts(struct json_print *print, const struct kv_check *check, bool deep) {
    json_print_values(print,
                      "\"block_bytes\":%lu,\"segments\":%lu,\"bytes\":%lu,\"blocks\":%lu,"
                      "\"retired\":%lu,\"writers\":%lu",
                      check->block_bytes, check->segments, check->bytes, check->blocks,
                      check->retired, check->writers);
    if (deep)
        json_print_values(print, "\"sound\":%lu,\"damaged\":%lu,\"unfinished\":%lu", check->sound,
                          check->damaged, check->unfinished);
}

static void print_folder(void *context, const struct kv_check *check) {
    struct printed *printed = context;
    begin_folders(printed);
    json_print_open(&printed->print, NULL, '{');
    json_print_text(&printed->print, "folder", check->folder);
    print_counts(&printed->print, check, printed->deep);
    json_print_close(&printed->print);
    if (!printed->print.off) return;
    printf("%s: %llu blocks of %zu bytes in %llu segments, %.1f MiB; %llu slots retired, "
           "%llu written to\n",
           check->folder, (unsigned long long)check->blocks, check->block_bytes,
           (unsigned long long)check->segments, (double)check->bytes / ((size_t)1 << 20),
           (unsigned long long)check->retired, (unsigned long long)check->writers);
    if (printed->deep)
        printf("  %llu sound, %llu damaged, %llu unfinished\n", (unsigned long long)check->sound,
               (unsigned long long)check->damaged, (unsigned long long)check->unfinished);
}

static int cache_look(const char *directory, bool deep, bool json) {
    struct printed printed = {.print.off = !json, .deep = deep};
    struct kv_check_listener listener = {print_damage, print_folder, &printed};
    struct kv_check total;
    struct error error = {""};
    enum status status = kv_store_check(directory, deep, &listener, &total, &error);
    if (status) return command_failed(status, &error);
    bool empty = !printed.folders;
    begin_folders(&printed);
    json_print_close(&printed.print);
    json_print_values(&printed.print, "\"blocks\":%lu,\"bytes\":%lu,\"damaged\":%lu", total.blocks,
                      total.bytes, total.damaged);
    json_print_close(&printed.print);
    if (printed.print.off && empty)
        printf("no blocks\n");
    else if (printed.print.off)
        printf("in all: %llu blocks, %.1f MiB; --kv-disk bounds this sum\n",
               (unsigned long long)total.blocks, (double)total.bytes / ((size_t)1 << 20));
    int exit_code = command_end(STATUS_OK, NULL);
    return exit_code == EXIT_CODE_OK && deep && total.damaged ? EXIT_CODE_FAILED : exit_code;
}

static int shrink(const char *directory, const struct cache_values *values) {
    uint64_t removed, left;
    struct error error = {""};
    enum status status = kv_store_shrink(directory, values->size, &removed, &left, &error);
    if (status) return command_failed(status, &error);
    struct json_print print = json_print_begin(values->json);
    json_print_count(&print, "removed_segments", removed);
    json_print_count(&print, "bytes", left);
    json_print_close(&print);
    json_print_say(&print, "%llu segments removed, %.1f MiB left\n", (unsigned long long)removed,
                   (double)left / ((size_t)1 << 20));
    return command_end(STATUS_OK, NULL);
}

int program_cache(void *given, const struct option_result *result) {
    struct cache_values *values = given;
    const char *what = result->positional[0], *directory = result->positional[1];
    if (!strcmp(what, "stat")) return cache_look(directory, false, values->json);
    if (!strcmp(what, "verify")) return cache_look(directory, true, values->json);
    if (!strcmp(what, "gc") && values->size == 0)
        return command_misused("gc wants --size BYTES (1 leaves nothing)");
    if (!strcmp(what, "gc")) return shrink(directory, values);
    return command_misused("no subject named '%s'; there are: stat, verify, gc", what);
}
