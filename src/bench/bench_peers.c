/* SPDX-License-Identifier: Apache-2.0
 * fathom bench peers: llama.cpp's tools and ours in turn, on the same machine, the same shape of
 * model and the same work: prefill, decode, and a server under load. Each round runs both, the one
 * that goes first changing from round to round, so that a machine that slows down slows both; the
 * medians count.
 *
 *   prefill 512, 2048    bench model          llama-bench -p
 *   decode 1, 8, 32      bench model          llama-batched-bench, 128 tokens of prompt, 32 more
 *   server               serve                llama-server: 64 requests, 256 in, 64 out, 16 at a
 * time; it averages over its requests and takes longest, so it has rounds of its own
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/tree.h"
#include "bench/bench.h"
#include "bench/child.h"
#include "bench/load_report.h"
#include "bench/machine_limits.h"
#include "command/model_run.h"
#include "compute/weights/shape.h"

#define RUNS_MAX 21
#define ARGUMENTS_MAX 40
#define START_SECONDS_MAX 600
#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define REQUESTS_MAX 4096
#define QUICK_REQUESTS 24
#define SERVER_PROMPT 256
#define SERVER_OUTPUT 64
#define SERVER_PLACES 16
#define PATH_BYTES_MAX 4096

struct peers_values {
    struct model_run_values run;
    const char *llama_bench, *llama_batched_bench, *llama_server, *gguf, *only;
    uint64_t runs, server_runs, requests;
    bool quick, json;
};

#define AT(field) .offset = offsetof(struct peers_values, field)

static const struct option peers_rows[] = {
    MODEL_RUN_OPTIONS,
    {.name = "llama-bench",
     .type = OPTION_TEXT,
     .help = "path of llama.cpp's llama-bench",
     AT(llama_bench)},
    {.name = "llama-batched-bench",
     .type = OPTION_TEXT,
     .help = "path of llama-batched-bench; beside llama-bench if not given",
     AT(llama_batched_bench)},
    {.name = "llama-server", .type = OPTION_TEXT, .help = "path of llama-server", AT(llama_server)},
    {.name = "gguf", .type = OPTION_TEXT, .help = "the peer's model, of the same shape", AT(gguf)},
    {.name = "only",
     .type = OPTION_CHOICE,
     .fallback = "all",
     .choices = "all|prefill|decode|server",
     .help = "measure one part alone",
     AT(only)},
    {.name = "runs",
     .type = OPTION_COUNT,
     .fallback = "3",
     .help = "rounds, of which the median counts",
     .minimum = 1,
     .maximum = RUNS_MAX,
     AT(runs)},
    {.name = "server-runs",
     .type = OPTION_COUNT,
     .fallback = "1",
     .help = "how many of the rounds have the server test",
     .minimum = 1,
     .maximum = RUNS_MAX,
     AT(server_runs)},
    {.name = "quick",
     .type = OPTION_FLAG,
     .help = "one round, 24 requests to the server",
     AT(quick)},
    {.name = "requests",
     .type = OPTION_COUNT,
     .fallback = "64",
     .help = "requests of the server test",
     .minimum = 1,
     .maximum = REQUESTS_MAX,
     AT(requests)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_peers_options = {
    .command = "bench peers",
    .arguments = "",
    .description = "Runs llama.cpp and Fathom in turn on models of one shape and prints ratios.",
    .options = peers_rows,
    .option_count = ARRAY_COUNT(peers_rows),
};

enum peers_figure {
    PREFILL_512,
    PREFILL_2048,
    DECODE_1,
    DECODE_8,
    DECODE_32,
    SERVER_RATE,
    SERVER_FIRST,
    SERVER_TOKEN,
    FIGURE_COUNT
};

static const struct {
    const char *name, *unit;
    bool time; /* less is better */
} figures[FIGURE_COUNT] = {
    [PREFILL_512] = {"prefill 512", "tokens/s", false},
    [PREFILL_2048] = {"prefill 2048", "tokens/s", false},
    [DECODE_1] = {"decode, 1 stream", "tokens/s", false},
    [DECODE_8] = {"decode, 8 streams", "tokens/s", false},
    [DECODE_32] = {"decode, 32 streams", "tokens/s", false},
    [SERVER_RATE] = {"server, output", "tokens/s", false},
    [SERVER_FIRST] = {"server, TTFT p50", "ms", true},
    [SERVER_TOKEN] = {"server, TPOT p50", "ms", true},
};

static const uint32_t decode_batches[] = {1, 8, 32};

enum peers_side { OURS, PEER, SIDE_COUNT };

struct peers_bench {
    struct peers_values values;
    char own[PATH_BYTES_MAX], batched[PATH_BYTES_MAX];
    char threads[16];
    uint32_t vocab;
    double runs[SIDE_COUNT][FIGURE_COUNT][RUNS_MAX];
    uint32_t counts[FIGURE_COUNT]; /* rounds that have both sides' figure */
    double of_flops[FIGURE_COUNT][RUNS_MAX], of_read[FIGURE_COUNT][RUNS_MAX]; /* ours; 0: unknown */
    uint32_t run;
    struct error *error;
};

/* ---- reading what the tools print ---- */

/* A parsed text and its memory. */
struct document {
    void *memory;
    const struct tree *root;
};

static enum status parse(struct bytes text, const char *name, struct document *document_out,
                         struct error *error) {
    struct arena arena;
    size_t room = text.count * 64 + 65536;
    struct document document = {.memory = malloc(room)};
    if (!document.memory) return error_set(error, STATUS_NO_MEMORY, "no memory for %s", name);
    arena_over(&arena, document.memory, room);
    enum status status = tree_parse(&arena, text, name, &document.root, error);
    if (status)
        free(document.memory);
    else
        *document_out = document;
    return status;
}

static double number_at(const struct tree *object, const char *key) {
    double value = 0;
    return tree_get_number(tree_member(object, key), &value) ? value : 0;
}

static void note(struct peers_bench *bench, enum peers_side side, enum peers_figure figure,
                 double value) {
    bench->runs[side][figure][bench->run] = value;
    bench->counts[figure] = bench->run + 1;
}

/* ---- prefill and decode ---- */

struct peers_command {
    const char *argv[ARGUMENTS_MAX];
    size_t count;
};

static void add(struct peers_command *command, const char *first, ...) {
    va_list more;
    va_start(more, first);
    for (const char *text = first; text; text = va_arg(more, const char *)) {
        check(command->count < ARGUMENTS_MAX - 1);
        command->argv[command->count++] = text;
    }
    va_end(more);
}

static void add_own_model(struct peers_command *command, const struct peers_bench *bench) {
    const struct model_run_values *run = &bench->values.run;
    add(command, "--device", run->device, "--activations", run->activations, "--expert-sum",
        run->expert_sum, "--cpu-mask", run->cpu_mask, "--threads", bench->threads, NULL);
    if (run->model) add(command, "--model", run->model, NULL);
}

/* Ours; batches NULL: prefill alone. */
static enum status run_own(struct peers_bench *bench, const char *prompt, const char *gen,
                           const char *batches, enum peers_figure first) {
    struct peers_command command = {.count = 0};
    struct bytes text;
    struct document document;
    add(&command, bench->own, "bench", "model", "--json", "--runs", "1", "--prompt", prompt,
        "--gen", gen, "--batch", batches ? batches : "1", NULL);
    add_own_model(&command, bench);
    enum status status = child_run(command.argv, &text, bench->error);
    if (status) return status;
    status = parse(text, "what bench model prints", &document, bench->error);
    free((void *)(uintptr_t)text.data);
    if (status) return status;
    const struct tree *list = tree_member(document.root, "decode");
    const struct tree *prefill = tree_member(document.root, "prefill");
    size_t count = batches ? ARRAY_COUNT(decode_batches) : 1;
    for (size_t i = 0; i < count; i++) {
        const struct tree *part = batches ? tree_at(list, i) : prefill;
        enum peers_figure figure = (enum peers_figure)(first + i);
        note(bench, OURS, figure, number_at(part, "tokens_per_second"));
        bench->of_flops[figure][bench->run] = number_at(part, "of_flops");
        bench->of_read[figure][bench->run] = number_at(part, "of_read");
    }
    free(document.memory);
    return STATUS_OK;
}

/* The value of `key` in the output's JSON line whose `where` is `wanted`. */
static enum status find_line(const struct peers_bench *bench, struct bytes text,
                             const char *program, const char *where, double wanted, const char *key,
                             double *value_out) {
    while (text.count) {
        const char *end = memchr(text.data, '\n', text.count);
        struct bytes line = {text.data, end ? (size_t)(end - text.data) : text.count};
        text.data += line.count + (end != NULL);
        text.count -= line.count + (end != NULL);
        struct document document;
        if (line.count == 0 || line.data[0] != '{' || parse(line, program, &document, NULL))
            continue;
        double value = number_at(document.root, key);
        bool found = number_at(document.root, where) == wanted && value > 0;
        free(document.memory);
        if (!found) continue;
        *value_out = value;
        return STATUS_OK;
    }
    return error_set(bench->error, STATUS_INVALID,
                     "%s printed no JSON line with \"%s\": %.0f and \"%s\"", program, where, wanted,
                     key);
}

static enum status run_llama_bench(struct peers_bench *bench, const char *prompt,
                                   enum peers_figure figure) {
    struct peers_command command = {.count = 0};
    const char *program = bench->values.llama_bench;
    struct bytes text;
    double rate = 0;
    add(&command, program, "-m", bench->values.gguf, "-p", prompt, "-n", "0", "-r", "1", "-t",
        bench->threads, "-o", "jsonl", NULL);
    enum status status = child_run(command.argv, &text, bench->error);
    if (status) return status;
    status = find_line(bench, text, program, "n_prompt", strtod(prompt, NULL), "avg_ts", &rate);
    free((void *)(uintptr_t)text.data);
    if (!status) note(bench, PEER, figure, rate);
    return status;
}

static enum status run_llama_batched(struct peers_bench *bench) {
    struct peers_command command = {.count = 0};
    struct bytes text;
    add(&command, bench->batched, "-m", bench->values.gguf, "-c", "8192", "-b", "2048", "-ub",
        "512", "-npp", "128", "-ntg", "32", "-npl", "1,8,32", "-t", bench->threads,
        "--output-format", "jsonl", NULL);
    enum status status = child_run(command.argv, &text, bench->error);
    if (status) return status;
    for (size_t i = 0; !status && i < ARRAY_COUNT(decode_batches); i++) {
        double rate = 0;
        status = find_line(bench, text, bench->batched, "pl", decode_batches[i], "speed_tg", &rate);
        if (!status) note(bench, PEER, (enum peers_figure)(DECODE_1 + i), rate);
    }
    free((void *)(uintptr_t)text.data);
    return status;
}

/* ---- servers ---- */

static enum status load_server(struct peers_bench *bench, enum peers_side side, const char *url) {
    static struct load_request requests[REQUESTS_MAX];
    size_t count = bench->values.requests;
    struct load_outcome outcome;
    struct load_report report;
    for (size_t i = 0; i < count; i++)
        requests[i] =
            (struct load_request){.prompt_tokens = SERVER_PROMPT, .output_tokens = SERVER_OUTPUT};
    struct load_options options = {
        .url = url,
        .extra = side == PEER ? "\"cache_prompt\":false" : NULL,
        .ignore_eos = true,
        .concurrency = SERVER_PLACES,
        .token_low = bench->vocab > 600 ? 300 : 1,
        .token_high = bench->vocab,
        .warmup = 2,
        .stall_ms_max = START_SECONDS_MAX * 1000,
        .seed = bench->run + 1,
    };
    enum status status = load_run(&options, requests, count, &outcome, bench->error);
    if (status) return status;
    status = load_report_make(&outcome, count, &report, bench->error);
    if (!status && report.failed) {
        const char *why = "";
        for (int kind = LOAD_OK + 1; kind < LOAD_FAILURE_COUNT; kind++)
            if (report.failures[kind]) why = outcome.messages[kind];
        status = error_set(bench->error, STATUS_IO, "%zu of %zu requests to %s failed: %s",
                           report.failed, count, url, why);
    }
    if (!status) {
        note(bench, side, SERVER_RATE, (double)report.output_tokens / outcome.seconds);
        note(bench, side, SERVER_FIRST, 1e3 * report.first.p50);
        note(bench, side, SERVER_TOKEN, 1e3 * report.token.p50);
    }
    load_outcome_free(&outcome);
    return status;
}

static enum status run_server(struct peers_bench *bench, enum peers_side side) {
    struct peers_command command = {.count = 0};
    struct child child;
    char url[256], port[256];
    if (side == OURS) {
        add(&command, bench->own, "serve", "--port", "0", NULL);
        add_own_model(&command, bench);
    } else {
        add(&command, bench->values.llama_server, "-m", bench->values.gguf, "--host", "127.0.0.1",
            "--port", "0", "-np", "16", "-c", "8192", "-t", bench->threads, "-tb", bench->threads,
            NULL);
    }
    enum status status =
        child_start(command.argv, "listening on http://127.0.0.1:", START_SECONDS_MAX, &child, port,
                    sizeof port, bench->error);
    if (status) return status;
    snprintf(url, sizeof url, "http://127.0.0.1:%.200s", port);
    status = load_server(bench, side, url);
    child_stop(&child);
    return status;
}

/* ---- rounds ---- */

enum peers_part { PART_512, PART_2048, PART_DECODE, PART_SERVER, PART_COUNT };

static const struct {
    const char *name, *kind;
} parts[PART_COUNT] = {
    [PART_512] = {"prefill 512", "prefill"},
    [PART_2048] = {"prefill 2048", "prefill"},
    [PART_DECODE] = {"decode", "decode"},
    [PART_SERVER] = {"server", "server"},
};

static enum status run_part(struct peers_bench *bench, enum peers_part part, enum peers_side side) {
    switch (part) {
    case PART_512:
        return side == OURS ? run_own(bench, "512", "1", NULL, PREFILL_512)
                            : run_llama_bench(bench, "512", PREFILL_512);
    case PART_2048:
        return side == OURS ? run_own(bench, "2048", "1", NULL, PREFILL_2048)
                            : run_llama_bench(bench, "2048", PREFILL_2048);
    case PART_DECODE:
        return side == OURS ? run_own(bench, "128", "32", "1,8,32", DECODE_1)
                            : run_llama_batched(bench);
    case PART_SERVER:
        return run_server(bench, side);
    case PART_COUNT:
        break;
    }
    return STATUS_OK;
}

static bool wanted(const struct peers_bench *bench, enum peers_part part) {
    const char *only = bench->values.only;
    if (part == PART_SERVER && bench->run >= bench->values.server_runs) return false;
    return !strcmp(only, "all") || !strcmp(only, parts[part].kind);
}

static enum status run_all(struct peers_bench *bench) {
    static const char *const names[SIDE_COUNT] = {"Fathom", "llama.cpp"};
    for (; bench->run < bench->values.runs; bench->run++)
        for (int part = 0; part < PART_COUNT; part++)
            for (uint32_t turn = 0; wanted(bench, (enum peers_part)part) && turn < SIDE_COUNT;
                 turn++) {
                enum peers_side side = (enum peers_side)((bench->run + turn) % SIDE_COUNT);
                fprintf(stderr, "round %u of %u: %s, %s\n", bench->run + 1,
                        (uint32_t)bench->values.runs, parts[part].name, names[side]);
                enum status status = run_part(bench, (enum peers_part)part, side);
                if (status) return status;
            }
    return STATUS_OK;
}

/* ---- results ---- */

static double median(const struct peers_bench *bench, enum peers_figure figure,
                     const double *runs) {
    double sorted[RUNS_MAX];
    memcpy(sorted, runs, sizeof sorted);
    return machine_limits_median(sorted, bench->counts[figure]);
}

/* Above 1: ours is better. The median of the rounds' ratios, since a round's two runs are close in
 * time. */
static double ratio(const struct peers_bench *bench, enum peers_figure figure) {
    double ratios[RUNS_MAX] = {0};
    for (uint32_t run = 0; run < bench->counts[figure]; run++) {
        double ours = bench->runs[OURS][figure][run], peer = bench->runs[PEER][figure][run];
        if (figures[figure].time)
            ratios[run] = ours > 0 ? peer / ours : 0;
        else
            ratios[run] = peer > 0 ? ours / peer : 0;
    }
    return median(bench, figure, ratios);
}

static void print_table(const struct peers_bench *bench) {
    printf("%-20s %-9s %10s %10s %8s %14s %14s\n", "", "", "Fathom", "llama.cpp", "ratio",
           "of bandwidth", "of arithmetic");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        enum peers_figure figure = (enum peers_figure)i;
        if (!bench->counts[figure]) continue;
        double of_read = median(bench, figure, bench->of_read[figure]);
        double of_flops = median(bench, figure, bench->of_flops[figure]);
        printf("%-20s %-9s %10.1f %10.1f %7.2fx", figures[figure].name, figures[figure].unit,
               median(bench, figure, bench->runs[OURS][figure]),
               median(bench, figure, bench->runs[PEER][figure]), ratio(bench, figure));
        if (of_read > 0)
            printf(" %13.0f%%", 100 * of_read);
        else
            printf(" %14s", "");
        if (of_flops > 0) printf(" %13.0f%%", 100 * of_flops);
        printf("\n");
    }
}

static void print_json(const struct peers_bench *bench) {
    printf("{\"runs\":%u,\"threads\":%s,\"figures\":[", (uint32_t)bench->values.runs,
           bench->threads);
    bool first = true;
    for (int i = 0; i < FIGURE_COUNT; i++) {
        enum peers_figure figure = (enum peers_figure)i;
        if (!bench->counts[figure]) continue;
        printf("%s\n {\"name\":\"%s\",\"unit\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"ratio\":%.4g,"
               "\"of_read\":%.3f,\"of_flops\":%.3f}",
               first ? "" : ",", figures[figure].name, figures[figure].unit,
               median(bench, figure, bench->runs[OURS][figure]),
               median(bench, figure, bench->runs[PEER][figure]), ratio(bench, figure),
               median(bench, figure, bench->of_read[figure]),
               median(bench, figure, bench->of_flops[figure]));
        first = false;
    }
    printf("]}\n");
}

/* ---- the program ---- */

/* The peer draws its prompts from the same vocabulary as we do. */
static enum status read_vocab(struct peers_bench *bench) {
    struct model_options options = {0};
    struct bytes text;
    static struct shape shape;
    char path[PATH_BYTES_MAX + 16];
    enum status status = model_run_options(&bench->values.run, &options, bench->error);
    if (status) return status;
    snprintf(path, sizeof path, "%.*s/config.json", PATH_BYTES_MAX, options.directory);
    status = file_take(path, CONFIG_BYTES_MAX, &text, bench->error);
    if (status) return status;
    status = shape_parse(text, path, &shape, bench->error);
    free((void *)(uintptr_t)text.data);
    bench->vocab = shape.vocab;
    return status;
}

static enum status prepare(struct peers_bench *bench) {
    const struct peers_values *values = &bench->values;
    ssize_t count = readlink("/proc/self/exe", bench->own, sizeof bench->own - 1);
    if (count <= 0)
        return error_set(bench->error, STATUS_IO, "cannot find the path of this program");
    bench->own[count] = 0;
    if (values->llama_batched_bench) {
        snprintf(bench->batched, sizeof bench->batched, "%s", values->llama_batched_bench);
    } else if (values->llama_bench) {
        const char *slash = strrchr(values->llama_bench, '/');
        int folder = slash ? (int)(slash + 1 - values->llama_bench) : 0;
        snprintf(bench->batched, sizeof bench->batched, "%.*sllama-batched-bench", folder,
                 values->llama_bench);
    }
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = values->run.threads ? values->run.threads : (uint64_t)(cpus > 0 ? cpus : 1);
    snprintf(bench->threads, sizeof bench->threads, "%u", (uint32_t)threads);
    return read_vocab(bench);
}

/* The option that is needed and missing; NULL: none. */
static const char *missing(const struct peers_bench *bench) {
    const struct peers_values *values = &bench->values;
    bool prefill = wanted(bench, PART_512), decode = wanted(bench, PART_DECODE);
    if (!values->gguf) return "--gguf";
    if (prefill && !values->llama_bench) return "--llama-bench";
    if (decode && !values->llama_bench && !values->llama_batched_bench)
        return "--llama-batched-bench";
    if (wanted(bench, PART_SERVER) && !values->llama_server) return "--llama-server";
    return NULL;
}

int bench_peers(int argc, char **argv) {
    static struct peers_bench bench;
    struct option_result result;
    struct error error = {""};
    int exit_code;
    if (!command_begin(&bench_peers_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    if (bench.values.quick) {
        bench.values.runs = bench.values.server_runs = 1;
        bench.values.requests = QUICK_REQUESTS;
    }
    if (missing(&bench))
        return command_misused(&bench_peers_options, "%s is needed", missing(&bench));
    bench.error = &error;
    enum status status = prepare(&bench);
    if (!status) status = run_all(&bench);
    if (!status) (bench.values.json ? print_json : print_table)(&bench);
    return status ? command_failed(&bench_peers_options, status, &error)
                  : command_end(&bench_peers_options);
}
