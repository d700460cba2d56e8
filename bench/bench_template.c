/* SPDX-License-Identifier: Apache-2.0
 * bench_template TEMPLATE... : renders conversations of 100 messages with each template. Prints the
 * compilation, the values, and the text with its contents, in microseconds of processor time, as
 * the best of many passes. bench_template --request writes that conversation as a request of
 * `fathom template`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/file.h"
#include "serving/text/chat_template.h"

#define PASSES 200
#define MESSAGES 100
#define ARENA_BYTES ((size_t)256 << 20)

static char request[1 << 20];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static struct arena take_arena(void) {
    struct arena arena;
    void *memory = malloc(ARENA_BYTES);
    check(memory);
    arena_over(&arena, memory, ARENA_BYTES);
    return arena;
}

/* Questions of about 150 bytes, and answers of about 400 bytes with reasoning. */
static struct bytes write_request(void) {
    size_t count = 0;
#define PUT(...) count += (size_t)snprintf(request + count, sizeof request - count, __VA_ARGS__)
    PUT("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":true,"
        "\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"}");
    for (int i = 1; i < MESSAGES; i++)
        if (i % 2)
            PUT(",{\"role\":\"user\",\"content\":\"Question %d: what does the otter that lives "
                "under the third bridge eat when the river is frozen, and who brings it? Please "
                "answer in one sentence.\"}",
                i);
        else
            PUT(",{\"role\":\"assistant\",\"content\":\"<think>\\nThe otter of question %d needs "
                "about a kilogram of fish a day. Under ice it finds some where the current keeps "
                "the water open.\\n</think>\\n\\nIt eats small fish, crayfish and mussels that it "
                "finds beneath the ice, and nobody has to bring them, as otters dive below the "
                "frozen river through holes that they keep open themselves all winter long.\"}",
                i - 1);
    PUT("]}");
    check(count < sizeof request);
    return (struct bytes){request, count};
}

static void measure(const char *path, const struct tree *root) {
    struct bytes source;
    struct error error;
    struct chat_template found;
    struct chat_rendering rendering = {0};
    struct arena kept = take_arena(), scratch = take_arena();
    if (file_take(path, JINJA_SOURCE_BYTES_MAX, &source, &error)) {
        fprintf(stderr, "bench_template: %s\n", error.text);
        exit(1);
    }
    double start = now(), best = 1e30;
    enum status status = chat_template_open(
        &kept, &scratch, (struct chat_files){.own = {source, path}}, &found, &error);
    double opening = now() - start;
    struct chat_ask ask = {.messages = tree_member(root, "messages"), .prompts = true};
    for (int pass = 0; !status && pass < PASSES; pass++) {
        arena_clear(&scratch);
        start = now();
        status = chat_template_render(&found, &ask, &scratch, &rendering, &error);
        if (now() - start < best) best = now() - start;
    }
    if (status)
        printf("%s: %s\n", path, error.text);
    else
        printf("%s: open %.0f us, render %.0f us: %zu bytes of text, %.0f KiB of memory\n", path,
               1e6 * opening, 1e6 * best, rendering.text.count,
               (double)(scratch.at - scratch.start) / 1024);
    free(kept.start);
    free(scratch.start);
    free((void *)(uintptr_t)source.data);
}

int main(int argc, char **argv) {
    struct bytes json = write_request();
    struct arena arena = take_arena();
    struct error error;
    const struct tree *root;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_template TEMPLATE... | --request\n");
        return 2;
    }
    if (strcmp(argv[1], "--request") == 0) {
        fwrite(json.data, 1, json.count, stdout);
        return 0;
    }
    if (tree_parse(&arena, json, "request", &root, &error)) {
        fprintf(stderr, "bench_template: %s\n", error.text);
        return 1;
    }
    for (int i = 1; i < argc; i++)
        measure(argv[i], root);
    return 0;
}
