/* SPDX-License-Identifier: Apache-2.0
 * fathom bench peers: compares builds of llama.cpp and of its fork ik_llama.cpp with ours, in turn,
 * on the same machine, the same shape of model and the same work: prompts, answers after them, many
 * streams, and a server under load. Each round runs all of them, and the first one changes from
 * round to round, so that a machine that slows down affects all alike. Figures are medians.
 *
 *   prefill N, decode after N    bench model    llama-batched-bench, one sequence, 32 tokens more
 *   decode, N streams            bench model    llama-batched-bench, 128 tokens of prompt, 64 more
 *   server                       serve          llama-server: 64 requests, 256 in, 64 out, 16 at a
 *                                               time; it averages over its requests and takes
 *                                               longest, so it has rounds of its own
 *
 * With --busy and nice values, each part runs alone and then next to that many competing processes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cpus.h"
#include "base/file.h"
#include "bench/bench.h"
#include "bench/child.h"
#include "bench/competitors.h"
#include "bench/harness.h"
#include "bench/load_report.h"
#include "command/model_run.h"
#include "compute/weights/shape.h"

#define RUNS_MAX 21
#define SIDES_MAX 4 /* ours, and the peers */
#define FIGURES_MAX (3 * MODEL_RUN_SIZES_MAX + 3)
#define START_SECONDS_MAX 600
#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define TOOL_BYTES_MAX ((size_t)1 << 30)
#define REQUESTS_MAX 4096
#define LENGTH_MAX (1 << 20)
#define LENGTH_GEN "32" /* tokens generated after a prompt */
#define STREAM_PROMPT "128"
#define STREAM_GEN "64"
#define SERVER_PROMPT 256
#define SERVER_OUTPUT 64
#define SERVER_PLACES 16
#define FORK_PORT "18137" /* of the fork's server */
#define PATH_BYTES_MAX 4096
#define NAME_BYTES_MAX 64
#define LOOK_SECONDS 0.3      /* at what others use, before each part */
#define OTHERS_SHARE_MAX 0.05 /* of the CPUs, on a calm machine */

struct peers_values {
    struct model_run_values run;
    struct option_texts peers;
    const char *gguf, *only, *lengths, *streams, *busy;
    uint64_t runs, requests, ranks;
    bool json;
};

#define AT(field) .offset = offsetof(struct peers_values, field)

static const struct option peers_rows[] = {
    MODEL_RUN_OPTIONS,
    {"peer", OPTION_TEXTS, NULL,
     "folder with llama-batched-bench and llama-server, a build of llama.cpp or of ik_llama.cpp; "
     "up to three times; none is needed for the shares next to competing processes",
     AT(peers)},
    {"gguf", OPTION_TEXT, NULL, "the peers' model, of the same shape", AT(gguf)},
    {"only", OPTION_CHOICE, "all", "measure one part alone", AT(only),
     .choices = "all|lengths|streams|server"},
    {"lengths", OPTION_TEXT, "512,2048,4096,16384",
     "tokens of the prompts, one at a time, each followed by " LENGTH_GEN " generated tokens",
     AT(lengths)},
    {"streams", OPTION_TEXT, "1,8,32,64,128",
     "numbers of sequences that generate together, each after " STREAM_PROMPT " prompt tokens",
     AT(streams)},
    {"busy", OPTION_TEXT, "none",
     "what else runs. none: no ratios where other processes use more than 5 % of the CPUs; any: "
     "ratios there, too; or nice values of competing processes, such as 10,10",
     AT(busy)},
    {"ranks", OPTION_COUNT, "1",
     "Fathom's processes, which share the experts and the sequences, and the threads", AT(ranks),
     .minimum = 1, .maximum = LIMIT_RANKS},
    {"runs", OPTION_COUNT, "3", "rounds; the result is their median", AT(runs), .minimum = 1,
     .maximum = RUNS_MAX},
    {"requests", OPTION_COUNT, "64", "requests of the server test, which the first round has",
     AT(requests), .minimum = 1, .maximum = REQUESTS_MAX},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_peers_options = {
    .command = "bench peers",
    .arguments = "",
    .description = "Runs llama.cpp, its fork ik_llama.cpp and Fathom in turn on models of one "
                   "shape and prints ratios.",
    .options = peers_rows,
    .option_count = ARRAY_COUNT(peers_rows),
};

enum server_figure { SERVER_RATE, SERVER_FIRST, SERVER_TOKEN, SERVER_FIGURES };

struct peers_figure {
    char name[40];
    const char *unit;
    bool time;       /* less is better */
    uint32_t rounds; /* rounds with the figure of all sides */
    double runs[SIDES_MAX][RUNS_MAX];
    double alone[SIDES_MAX][RUNS_MAX]; /* the same without competitors, if there are any */
    double of_read[RUNS_MAX], of_flops[RUNS_MAX]; /* ours; 0: unknown */
};

/* One of the peers. The fork runs with its fastest options on CPUs: attention over latents (-mla
 * 3), flash attention, and weights repacked at load time (-rtr). */
struct peer {
    const char *name, *folder;
    char commit[NAME_BYTES_MAX];
    bool fork;
};

struct peers_bench {
    struct peers_values values;
    char threads[16];
    uint32_t vocab;
    struct model_run_sizes lengths, streams;
    struct peer peers[SIDES_MAX - 1];
    uint32_t sides; /* side 0 is ours */
    struct peers_figure figures[FIGURES_MAX];
    uint32_t figure_count, run;
    struct competitors competitors;
    bool alone;    /* they do not run now */
    double others; /* the largest share of the CPUs that other processes used before a part */
    struct error *error;
};

/* The order of figures is: two of each length, those of streams, the server's. */
static struct peers_figure *length_figure(struct peers_bench *bench, uint32_t length, bool after) {
    return &bench->figures[2 * length + after];
}

static struct peers_figure *stream_figure(struct peers_bench *bench, uint32_t stream) {
    return &bench->figures[2 * bench->lengths.count + stream];
}

static struct peers_figure *server_figure(struct peers_bench *bench, enum server_figure which) {
    return &bench->figures[2 * bench->lengths.count + bench->streams.count + which];
}

static void name_figures(struct peers_bench *bench) {
    static const char rate[] = "tokens/s";
    for (uint32_t i = 0; i < bench->lengths.count; i++) {
        struct peers_figure *prefill = length_figure(bench, i, false);
        struct peers_figure *after = length_figure(bench, i, true);
        prefill->unit = after->unit = rate;
        snprintf(prefill->name, sizeof prefill->name, "prefill %u", bench->lengths.values[i]);
        snprintf(after->name, sizeof after->name, "decode after %u", bench->lengths.values[i]);
    }
    for (uint32_t i = 0; i < bench->streams.count; i++) {
        struct peers_figure *figure = stream_figure(bench, i);
        figure->unit = rate;
        snprintf(figure->name, sizeof figure->name, "decode, %u streams", bench->streams.values[i]);
    }
    *server_figure(bench, SERVER_RATE) =
        (struct peers_figure){.name = "server, output", .unit = rate};
    *server_figure(bench, SERVER_FIRST) =
        (struct peers_figure){.name = "server, TTFT p50", .unit = "ms", .time = true};
    *server_figure(bench, SERVER_TOKEN) =
        (struct peers_figure){.name = "server, TPOT p50", .unit = "ms", .time = true};
    bench->figure_count = 2 * bench->lengths.count + bench->streams.count + SERVER_FIGURES;
}

static void bench_peers_note(struct peers_bench *bench, uint32_t side, struct peers_figure *figure,
                             double value) {
    (bench->alone ? figure->alone : figure->runs)[side][bench->run] = value;
    figure->rounds = bench->run + 1;
}

/* ---- commands ---- */

/* Adds the words of a text, which are separated by single spaces. */
static void add_words(struct child_command *command, const char *words) {
    for (; *words; words += *words == ' ') {
        int bytes = (int)strcspn(words, " ");
        child_add(command, "%.*s", bytes, words);
        words += bytes;
    }
}

/* Adds a peer's tool with its model and its fastest options. */
static void bench_peers_add_own(const struct peers_bench *bench, struct child_command *command) {
    child_add_model(command, &bench->values.run);
    child_add(command, "--ranks=%u", (unsigned)bench->values.ranks);
}

static void bench_peers_add_peer(struct child_command *command, const struct peers_bench *bench,
                                 const struct peer *peer, const char *tool) {
    child_add(command, "%s/%s", peer->folder, tool);
    child_add(command, "-m");
    child_add(command, "%s", bench->values.gguf);
    add_words(command, "-fa on -t");
    child_add(command, "%s", bench->threads);
    child_add(command, "-tb");
    child_add(command, "%s", bench->threads);
    if (peer->fork) add_words(command, "-mla 3 -rtr");
}

/* ---- prompts, and tokens after them ---- */

/* `batches`: numbers of sequences, such as "1,8". Writes to `prefill` (may be NULL) and to
 * `decode`, one figure for each of the batches. */
static enum status run_own(struct peers_bench *bench, const char *prompt, const char *gen,
                           const char *batches, struct peers_figure *prefill,
                           struct peers_figure *decode) {
    struct child_command command;
    struct child_document document;
    child_own(&command, "bench", "model", "--json", "--runs=1", NULL);
    child_add_option(&command, "prompt", prompt);
    child_add_option(&command, "gen", gen);
    child_add_option(&command, "batch", batches);
    bench_peers_add_own(bench, &command);
    enum status status =
        child_read(command.argv, "the output of bench model", &document, bench->error);
    if (status) return status;
    const struct tree *list = tree_member(document.root, "decode"), *part;
    for (uint32_t i = 0; (part = tree_at(list, i)); i++) {
        bench_peers_note(bench, 0, &decode[i], child_number(part, "tokens_per_second"));
        decode[i].of_flops[bench->run] = child_number(part, "of_flops");
        decode[i].of_read[bench->run] = child_number(part, "of_read");
    }
    part = tree_member(document.root, "prefill");
    if (prefill) {
        bench_peers_note(bench, 0, prefill, child_number(part, "tokens_per_second"));
        prefill->of_flops[bench->run] = child_number(part, "of_flops");
    }
    free(document.memory);
    return STATUS_OK;
}

/* A line of llama-batched-bench's table with the columns PP, TG, B, N_KV, T_PP, S_PP, T_TG,
 * S_TG. */
#define BATCHED_CELLS 8
struct batched_line {
    double prompt_rate, gen_rate;
};

static bool read_cells(const char *line, double cells_out[BATCHED_CELLS]) {
    for (int i = 0; i < BATCHED_CELLS; i++) {
        char *end;
        if (*line != '|') return false;
        cells_out[i] = strtod(line + 1, &end);
        if (end == line + 1) return false;
        line = end + strspn(end, " ");
    }
    return *line == '|';
}

/* Finds the last line for `batch` sequences. */
static bool find_batched_line(struct bytes text, unsigned batch, struct batched_line *line_out) {
    bool found = false;
    for (const char *at = text.data; at; at = strchr(at, '\n'), at += at != NULL) {
        double cells[BATCHED_CELLS];
        if (!read_cells(at, cells) || cells[2] != batch) continue;
        *line_out = (struct batched_line){.prompt_rate = cells[5], .gen_rate = cells[7]};
        found = true;
    }
    return found;
}

static enum status run_batched(struct peers_bench *bench, uint32_t side, const char *prompt,
                               const char *gen, const char *batches,
                               const struct model_run_sizes *sizes, struct peers_figure *prefill,
                               struct peers_figure *decode) {
    struct child_command command = {.count = 0};
    struct bytes text;
    enum status status = STATUS_OK;
    uint32_t tokens = (uint32_t)(strtoul(prompt, NULL, 10) + strtoul(gen, NULL, 10));
    if (bench->peers[side - 1].fork) { /* it prints its table to stderr */
        add_words(&command, "sh -c");
        child_add(&command, "exec \"$0\" \"$@\" 2>&1");
    }
    bench_peers_add_peer(&command, bench, &bench->peers[side - 1], "llama-batched-bench");
    add_words(&command, "-b 2048 -ub 512 -npp");
    child_add(&command, "%s", prompt);
    child_add(&command, "-ntg");
    child_add(&command, "%s", gen);
    child_add(&command, "-c"); /* whole blocks of 256 tokens for each sequence */
    child_add(&command, "%u", sizes->largest * ((tokens + 255) / 256 * 256));
    child_add(&command,
              "-npl"); /* one sequence first, which touches the memory and does not count */
    child_add(&command, "1,%s", batches);
    status = child_run(command.argv, &text, bench->error);
    if (status) return status;
    for (uint32_t i = 0; !status && i < sizes->count; i++) {
        struct batched_line line;
        if (!find_batched_line(text, sizes->values[i], &line))
            status = error_set(bench->error, STATUS_INVALID,
                               "%s printed no line of its table for %u sequences",
                               bench->peers[side - 1].folder, sizes->values[i]);
        if (status) break;
        bench_peers_note(bench, side, &decode[i], line.gen_rate);
        if (prefill) bench_peers_note(bench, side, prefill, line.prompt_rate);
    }
    free((void *)(uintptr_t)text.data);
    return status;
}

static enum status bench_peers_run_tokens(struct peers_bench *bench, uint32_t side,
                                          const char *prompt, const char *gen, const char *batches,
                                          const struct model_run_sizes *sizes,
                                          struct peers_figure *prefill,
                                          struct peers_figure *decode) {
    return side ? run_batched(bench, side, prompt, gen, batches, sizes, prefill, decode)
                : run_own(bench, prompt, gen, batches, prefill, decode);
}

static enum status run_length(struct peers_bench *bench, uint32_t side, uint32_t length) {
    static const struct model_run_sizes one = {.values = {1}, .count = 1, .largest = 1};
    char prompt[16];
    snprintf(prompt, sizeof prompt, "%u", bench->lengths.values[length]);
    return bench_peers_run_tokens(bench, side, prompt, LENGTH_GEN, "1", &one,
                                  length_figure(bench, length, false),
                                  length_figure(bench, length, true));
}

static enum status run_streams(struct peers_bench *bench, uint32_t side) {
    return bench_peers_run_tokens(bench, side, STREAM_PROMPT, STREAM_GEN, bench->values.streams,
                                  &bench->streams, NULL, stream_figure(bench, 0));
}

/* ---- servers ---- */

static enum status load_server(struct peers_bench *bench, uint32_t side, const char *url) {
    static struct load_request requests[REQUESTS_MAX];
    size_t count = bench->values.requests;
    struct load_outcome outcome;
    struct load_report report;
    for (size_t i = 0; i < count; i++)
        requests[i] =
            (struct load_request){.prompt_tokens = SERVER_PROMPT, .output_tokens = SERVER_OUTPUT};
    struct load_options options = {
        .url = url,
        .extra = side ? "\"cache_prompt\":false" : NULL,
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
        bench_peers_note(bench, side, server_figure(bench, SERVER_RATE),
                         (double)report.output_tokens / outcome.seconds);
        bench_peers_note(bench, side, server_figure(bench, SERVER_FIRST), 1e3 * report.first.p50);
        bench_peers_note(bench, side, server_figure(bench, SERVER_TOKEN), 1e3 * report.token.p50);
    }
    load_outcome_free(&outcome);
    return status;
}

/* Llama.cpp and Fathom report their port. The fork needs a port as an option, and reports that it
 * listens a moment too early. */
static enum status bench_peers_run_server(struct peers_bench *bench, uint32_t side) {
    struct child_command command = {.count = 0};
    struct child child;
    char url[256], port[128];
    bool fork = side && bench->peers[side - 1].fork;
    const char *mark = fork ? "HTTP server listening" : "listening on http://127.0.0.1:";
    if (side == 0) {
        child_own(&command, "serve", "--port=0", NULL);
        bench_peers_add_own(bench, &command);
    } else {
        bench_peers_add_peer(&command, bench, &bench->peers[side - 1], "llama-server");
        add_words(&command, "--host 127.0.0.1 -np 16 -c 8192 --port");
        child_add(&command, fork ? FORK_PORT : "0");
    }
    enum status status =
        child_start(command.argv, mark, START_SECONDS_MAX, &child, port, sizeof port, bench->error);
    if (status) return status;
    if (fork) sleep(1);
    snprintf(url, sizeof url, "http://127.0.0.1:%s", fork ? FORK_PORT : port);
    status = load_server(bench, side, url);
    child_stop(&child);
    return status;
}

/* ---- rounds ---- */

/* The parts of a round: one for each length, one for all streams, one for the server. */
static uint32_t part_count(const struct peers_bench *bench) {
    return bench->lengths.count + 2;
}

static bool is_streams(const struct peers_bench *bench, uint32_t part) {
    return part == bench->lengths.count;
}

static const char *part_kind(const struct peers_bench *bench, uint32_t part) {
    if (part < bench->lengths.count) return "lengths";
    return is_streams(bench, part) ? "streams" : "server";
}

static bool bench_peers_wanted(const struct peers_bench *bench, uint32_t part) {
    const char *only = bench->values.only, *kind = part_kind(bench, part);
    if (!strcmp(kind, "server") && bench->run > 0) return false;
    return !strcmp(only, "all") || !strcmp(only, kind);
}

static enum status run_side(struct peers_bench *bench, uint32_t part, uint32_t side) {
    if (part < bench->lengths.count) return run_length(bench, side, part);
    return is_streams(bench, part) ? run_streams(bench, side) : bench_peers_run_server(bench, side);
}

static enum status run_part(struct peers_bench *bench, uint32_t part, uint32_t side) {
    char length[24] = "";
    if (part < bench->lengths.count)
        snprintf(length, sizeof length, " %u", bench->lengths.values[part]);
    fprintf(stderr, "round %u of %u: %s%s, %s\n", bench->run + 1, (uint32_t)bench->values.runs,
            part_kind(bench, part), length, side ? bench->peers[side - 1].name : "Fathom");
    double others = competitors_of_machine(LOOK_SECONDS);
    if (others > bench->others) bench->others = others;
    enum status status = STATUS_OK;
    if (bench->competitors.count) {
        bench->alone = true;
        status = run_side(bench, part, side);
        bench->alone = false;
        if (!status) status = competitors_start(&bench->competitors, bench->error);
    }
    if (!status) status = run_side(bench, part, side);
    competitors_stop(&bench->competitors);
    return status;
}

static enum status bench_peers_run_all(struct peers_bench *bench) {
    for (; bench->run < bench->values.runs; bench->run++)
        for (uint32_t part = 0; part < part_count(bench); part++)
            for (uint32_t turn = 0; bench_peers_wanted(bench, part) && turn < bench->sides;
                 turn++) {
                enum status status = run_part(bench, part, (bench->run + turn) % bench->sides);
                if (status) return status;
            }
    return STATUS_OK;
}

/* ---- results ---- */

static double median(const struct peers_figure *figure, const double *runs) {
    double sorted[RUNS_MAX];
    memcpy(sorted, runs, sizeof sorted);
    return stats_median(sorted, figure->rounds);
}

/* Above 1: ours is better. It is the median of the rounds' ratios, since the runs of one round are
 * close in time. */
static double bench_peers_ratio(const struct peers_figure *figure, uint32_t side) {
    double ratios[RUNS_MAX] = {0};
    for (uint32_t run = 0; run < figure->rounds; run++) {
        double ours = figure->runs[0][run], peer = figure->runs[side][run];
        if (figure->time)
            ratios[run] = ours > 0 ? peer / ours : 0;
        else
            ratios[run] = peer > 0 ? ours / peer : 0;
    }
    return median(figure, ratios);
}

/* Ratios of a machine that others use say little. */
static bool bench_peers_refuses(const struct peers_bench *bench) {
    return bench->others > OTHERS_SHARE_MAX && !strcmp(bench->values.busy, "none");
}

/* A side's speed next to competitors, relative to its fair share of its speed alone. */
static double of_fair_share(const struct peers_bench *bench, const struct peers_figure *figure,
                            uint32_t side) {
    double shares[RUNS_MAX] = {0};
    uint32_t threads = (uint32_t)strtoul(bench->threads, NULL, 10);
    for (uint32_t run = 0; run < figure->rounds; run++) {
        double busy = figure->runs[side][run], alone = figure->alone[side][run];
        if (busy > 0 && alone > 0) shares[run] = figure->time ? alone / busy : busy / alone;
    }
    return median(figure, shares) / competitors_fair_share(&bench->competitors, threads);
}

static void print_fair_shares(const struct peers_bench *bench, struct json_print *out,
                              const struct peers_figure *figure) {
    if (!bench->competitors.count) return;
    json_print_say(out, "%-20s %-9s", "  of its fair share", "");
    json_print_open(out, "of_fair_share", '[');
    for (uint32_t side = 0; side < bench->sides; side++) {
        double share = of_fair_share(bench, figure, side);
        json_print_say(out, side ? " %12.2f %8s" : " %10.2f", share, "");
        harness_number(out, NULL, share);
    }
    json_print_close(out);
    json_print_say(out, "\n");
}

/* A row for each figure; in the JSON an object with a list of peers. */
static void print_figure(struct peers_bench *bench, struct json_print *out,
                         const struct peers_figure *figure) {
    double ours = median(figure, figure->runs[0]);
    double of_read = median(figure, figure->of_read), of_flops = median(figure, figure->of_flops);
    json_print_say(out, "%-20s %-9s %10.1f", figure->name, figure->unit, ours);
    json_print_open(out, NULL, '{');
    json_print_text(out, "name", figure->name);
    json_print_text(out, "unit", figure->unit);
    harness_number(out, "ours", ours);
    harness_number(out, "of_read", of_read);
    harness_number(out, "of_flops", of_flops);
    json_print_open(out, "peers", '[');
    for (uint32_t side = 1; side < bench->sides; side++) {
        double value = median(figure, figure->runs[side]), ratio = bench_peers_ratio(figure, side);
        if (bench_peers_refuses(bench)) {
            json_print_say(out, " %12.1f %8s", value, "");
            ratio = NAN;
        } else
            json_print_say(out, " %12.1f %7.2fx", value, ratio);
        json_print_open(out, NULL, '{');
        json_print_text(out, "name", bench->peers[side - 1].name);
        harness_number(out, "value", value);
        harness_number(out, "ratio", ratio);
        json_print_close(out);
    }
    json_print_close(out);
    if (of_read > 0) json_print_say(out, " %13.0f%%", 100 * of_read);
    if (of_flops > 0) json_print_say(out, " %*.0f%%", of_read > 0 ? 13 : 28, 100 * of_flops);
    json_print_say(out, "\n");
    print_fair_shares(bench, out, figure);
    json_print_close(out);
}

/* The machine, what else it does, and the peers' commits. */
static void print_conditions(const struct peers_bench *bench, struct json_print *out) {
    char cpu[NAME_BYTES_MAX] = "unknown CPU";
    machine_limits_line("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    json_print_text(out, "cpu", cpu);
    harness_number(out, "others", bench->others);
    json_print_text(out, "busy", bench->values.busy);
    json_print_say(out, "%s, %s threads; before a part others used up to %.0f %% of the CPUs", cpu,
                   bench->threads, 100 * bench->others);
    if (bench->competitors.count) json_print_say(out, "; competitors: nice %s", bench->values.busy);
    json_print_open(out, "commits", '[');
    for (uint32_t side = 1; side < bench->sides; side++) {
        const struct peer *peer = &bench->peers[side - 1];
        json_print_text(out, NULL, peer->commit);
        json_print_say(out, "; %s %s", peer->name, peer->commit);
    }
    json_print_close(out);
    json_print_say(out, "\n");
}

static void bench_peers_print(struct peers_bench *bench) {
    struct json_print out = json_print_begin(bench->values.json);
    harness_number(&out, "runs", (double)bench->values.runs);
    harness_number(&out, "threads", strtod(bench->threads, NULL));
    print_conditions(bench, &out);
    json_print_open(&out, "figures", '[');
    json_print_say(&out, "%-20s %-9s %10s", "", "", "Fathom");
    for (uint32_t side = 1; side < bench->sides; side++)
        json_print_say(&out, " %12s %8s", bench->peers[side - 1].name, "ratio");
    json_print_say(&out, " %14s %14s\n", "of bandwidth", "of arithmetic");
    for (uint32_t i = 0; i < bench->figure_count; i++)
        if (bench->figures[i].rounds) print_figure(bench, &out, &bench->figures[i]);
    json_print_close(&out);
    json_print_close(&out);
}

/* ---- the program ---- */

/* The peer draws its prompts from the same vocabulary as ours. */
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

/* The tools print "version: 3912 (8337e4cd3)". */
static void read_commit(struct peer *peer) {
    struct child_command command = {.count = 0};
    struct bytes text;
    struct error error;
    add_words(&command, "sh -c");
    child_add(&command, "exec \"$0\" --version 2>&1");
    child_add(&command, "%s/llama-server", peer->folder);
    snprintf(peer->commit, sizeof peer->commit, "unknown");
    if (child_run(command.argv, &text, &error)) return;
    const char *at = strstr(text.data, "version: ");
    at = at ? strchr(at, '(') : NULL;
    if (at)
        snprintf(peer->commit, sizeof peer->commit, "%.*s", (int)strcspn(at + 1, ")\n"), at + 1);
    free((void *)(uintptr_t)text.data);
}

/* The fork is recognised by an option that only it has, which is in its tools' binaries as text. */
static enum status open_peer(struct peers_bench *bench, const char *folder) {
    struct peer *peer = &bench->peers[bench->sides - 1];
    struct bytes tool;
    char path[PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%.*s/llama-batched-bench", PATH_BYTES_MAX, folder);
    enum status status = file_take(path, TOOL_BYTES_MAX, &tool, bench->error);
    if (status) return status;
    peer->folder = folder;
    peer->fork = memmem(tool.data, tool.count, "--mla-use", 9) != NULL;
    peer->name = peer->fork ? "ik_llama.cpp" : "llama.cpp";
    free((void *)(uintptr_t)tool.data);
    bench->sides++;
    read_commit(peer);
    return STATUS_OK;
}

static enum status read_busy(struct peers_bench *bench) {
    const char *busy = bench->values.busy;
    if (!strcmp(busy, "none") || !strcmp(busy, "any")) return STATUS_OK;
    return competitors_read(busy, &bench->competitors, bench->error);
}

static enum status bench_peers_prepare(struct peers_bench *bench) {
    const struct peers_values *values = &bench->values;
    uint64_t threads = values->run.threads ? values->run.threads : cpus_usable();
    snprintf(bench->threads, sizeof bench->threads, "%u", (uint32_t)threads);
    enum status status = model_run_sizes_within("lengths", values->lengths, 1, LENGTH_MAX,
                                                &bench->lengths, bench->error);
    if (!status)
        status = model_run_sizes_read("streams", values->streams, &bench->streams, bench->error);
    if (!status) status = read_vocab(bench);
    for (size_t i = 0; !status && i < values->peers.count; i++)
        status = open_peer(bench, values->peers.texts[i]);
    if (!status) name_figures(bench);
    return status;
}

int bench_peers(void *given, const struct option_result *result) {
    static struct peers_bench bench = {.sides = 1};
    struct error error = {""};
    bench.values = *(const struct peers_values *)given;
    bench.error = &error;
    if (read_busy(&bench)) return command_misused(error.text);
    if (bench.values.peers.count >= SIDES_MAX ||
        (!bench.values.peers.count && !bench.competitors.count))
        return command_misused("--peer is needed, once to three times");
    if (bench.values.peers.count && !bench.values.gguf) return command_misused("--gguf is needed");
    enum status status = bench_peers_prepare(&bench);
    if (!status) status = bench_peers_run_all(&bench);
    if (!status) bench_peers_print(&bench);
    if (!status && bench_peers_refuses(&bench))
        status = error_set(&error, STATUS_UNSUPPORTED,
                           "other processes used %.0f %% of the CPUs, so there are no ratios: "
                           "measure again without them, or take them with --busy any",
                           100 * bench.others);
    return command_end(status, &error);
}
