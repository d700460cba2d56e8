/* SPDX-License-Identifier: Apache-2.0
 * bench_tokenizer MODEL_DIR TEXT_FILE...: speed of the tokenizer on one thread. For each file:
 * encoding with an empty word cache (the first pass over the text) and a warm one, and decoding, in
 * MB of text a second of processor time, as the best of several passes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/file.h"
#include "serving/text/tokenizer.h"

#define PASSES 5
#define FILE_BYTES_MAX ((size_t)256 << 20)

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static struct bytes take_file(const char *path) {
    struct bytes text;
    struct error error;
    if (file_take(path, FILE_BYTES_MAX, &text, &error)) {
        fprintf(stderr, "bench_tokenizer: %s\n", error.text);
        exit(1);
    }
    return text;
}

static void *take_memory(size_t bytes) {
    void *memory = malloc(bytes);
    check(memory);
    return memory;
}

static struct tokenizer *open_tokenizer(const char *folder) {
    char path[4096];
    struct error error;
    struct arena arena, scratch;
    struct tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    struct bytes json = take_file(path);
    size_t arena_bytes = tokenizer_arena_bytes(json.count);
    size_t scratch_bytes = tokenizer_open_scratch_bytes(json.count);
    void *memory = take_memory(scratch_bytes);
    arena_over(&arena, take_memory(arena_bytes), arena_bytes);
    arena_over(&scratch, memory, scratch_bytes);
    double start = now();
    if (tokenizer_open(&arena, &scratch, json, path, &tokenizer, &error)) {
        fprintf(stderr, "bench_tokenizer: %s\n", error.text);
        exit(1);
    }
    printf("open: %.0f ms; tokenizer %.1f MiB, scratch %.1f MiB, for %.1f MiB of JSON\n",
           1e3 * (now() - start), (double)(arena.at - arena.start) / 0x1p20,
           (double)(scratch.at - scratch.start) / 0x1p20, (double)json.count / 0x1p20);
    free(memory);
    free((void *)(uintptr_t)json.data);
    return tokenizer;
}

static void measure(const struct tokenizer *tokenizer, const char *path) {
    struct bytes text = take_file(path);
    size_t capacity = 3 * text.count + 1, scratch_bytes = tokenizer_scratch_bytes(capacity);
    uint32_t *ids = take_memory(capacity * sizeof *ids);
    char *out = take_memory(capacity);
    double cold = 1e30, warm = 1e30, decode = 1e30;
    size_t count = 0, bytes = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        struct arena arena;
        void *memory = take_memory(scratch_bytes);
        arena_over(&arena, memory, scratch_bytes);
        struct tokenizer_scratch *scratch = tokenizer_scratch_create(&arena, capacity);
        check(scratch);
        double times[4];
        times[0] = now();
        check(
            !tokenizer_encode(tokenizer, scratch, text, plain_text_nowhere, ids, capacity, &count));
        times[1] = now();
        check(
            !tokenizer_encode(tokenizer, scratch, text, plain_text_nowhere, ids, capacity, &count));
        times[2] = now();
        check(!tokenizer_decode(tokenizer, ids, count, false, out, capacity, &bytes));
        times[3] = now();
        if (times[1] - times[0] < cold) cold = times[1] - times[0];
        if (times[2] - times[1] < warm) warm = times[2] - times[1];
        if (times[3] - times[2] < decode) decode = times[3] - times[2];
        free(memory);
    }
    double megabytes = (double)text.count / 1e6;
    printf("%s: %.2f MB, %zu tokens (%.2f bytes each); encode %.1f MB/s, again %.1f MB/s; "
           "decode %.0f MB/s\n",
           path, megabytes, count, (double)text.count / (double)(count ? count : 1),
           megabytes / cold, megabytes / warm, megabytes / decode);
    free(ids);
    free(out);
    free((void *)(uintptr_t)text.data);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer MODEL_DIR TEXT_FILE...\n");
        return 2;
    }
    struct tokenizer *tokenizer = open_tokenizer(argv[1]);
    for (int i = 2; i < argc; i++)
        measure(tokenizer, argv[i]);
    tokenizer_close(tokenizer);
    return 0;
}
