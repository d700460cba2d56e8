/* SPDX-License-Identifier: Apache-2.0
 * fathom bench log: what logging costs a gateway. Access lines as of answered requests are said and
 * written, some in each turn of a loop; then refusals of one account, of which nearly all are only
 * counted. Figures are nanoseconds of one core for a line, and its share at a rate of requests.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/bench.h"
#include "contract/machine.h"
#include "host/process/log.h"
#include "host/process/log_request.h"

#define ROUNDS 9

struct bench_log_values {
    uint64_t lines, turn, rate;
    const char *file;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_log_values, field)

static const struct option log_rows[] = {
    {.name = "lines",
     .type = OPTION_COUNT,
     .fallback = "20000",
     .help = "lines of a round; figures are medians of nine rounds",
     .minimum = 1,
     .maximum = 1 << 24,
     AT(lines)},
    {.name = "turn",
     .type = OPTION_COUNT,
     .fallback = "4",
     .help = "lines that are written together, as those of one turn of the loop are",
     .minimum = 1,
     .maximum = 1 << 16,
     AT(turn)},
    {.name = "rate",
     .type = OPTION_COUNT,
     .fallback = "5000",
     .help = "requests a second, for the share of a core",
     .minimum = 1,
     .maximum = 1 << 24,
     AT(rate)},
    {.name = "file",
     .type = OPTION_TEXT,
     .fallback = "/dev/null",
     .help = "where the lines go",
     AT(file)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_log_options = {
    .command = "bench log",
    .arguments = "",
    .description = "What a line of the log costs, as text and as JSON, and one that is counted.",
    .options = log_rows,
    .option_count = ARRAY_COUNT(log_rows),
};

/* As of a request of prefill and decode units, with all that there may be. */
static struct record_entry *make_entry(uint32_t http_status, char *memory, uint32_t bytes) {
    static const char name[] = "7f3a9c52-0f1e-4a8b-9d55-2f60b1c0de42";
    static const char path[] = "/v1/chat/completions", model[] = "deepseek-v3", end[] = "stop";
    struct outbox box = {.memory = memory, .capacity = bytes};
    struct record_entry fixed = {.request = {.high = 0x0123456789abcdef, .low = 0xfedcba9876543210},
                                 .account = "acme-production",
                                 .http_status = http_status,
                                 .hit_tokens = 4096,
                                 .miss_tokens = 812,
                                 .output_tokens = 731,
                                 .queue_ns = 3100000,
                                 .ttft_ns = 812300000,
                                 .tpot_ns = 48120000,
                                 .total_ns = 36000000000,
                                 .path_bytes = sizeof path - 1,
                                 .name_bytes = sizeof name - 1,
                                 .model_bytes = sizeof model - 1,
                                 .end_bytes = sizeof end - 1};
    if (http_status == 200) fixed.stay_count = 2;
    if (http_status != 200) fixed.output_tokens = 0;
    struct record_entry *entry = outbox_put(&box, RECORD_ENTRY, &fixed);
    check(entry);
    memcpy(entry_path(entry), path, fixed.path_bytes);
    memcpy(entry_name(entry), name, fixed.name_bytes);
    memcpy(entry_model(entry), model, fixed.model_bytes);
    memcpy(entry_end(entry), end, fixed.end_bytes);
    for (uint32_t i = 0; i < fixed.stay_count; i++)
        entry_stays(entry)[i] = (struct entry_stay){.unit = 17 + i, .rank = 3 + i};
    return entry;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of this thread: others may have the core meanwhile. */
static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Nanoseconds a line, the median of the rounds. */
static double measure(const struct bench_log_values *values, const char *form, uint32_t status) {
    _Alignas(8) char memory[2048];
    const struct record_entry *entry = make_entry(status, memory, sizeof memory);
    double ns[ROUNDS];
    log_start(form, "info", false);
    for (int round = 0; round < ROUNDS; round++) {
        double began_ns = cpu_ns();
        for (uint64_t i = 0; i < values->lines; i++) {
            log_request_ended(entry);
            if (i % values->turn == values->turn - 1) log_turn();
        }
        log_turn();
        ns[round] = (cpu_ns() - began_ns) / (double)values->lines;
    }
    qsort(ns, ROUNDS, sizeof *ns, ascending);
    return ns[ROUNDS / 2];
}

int bench_log(int argc, char **argv) {
    struct bench_log_values values;
    struct option_result result;
    struct error error;
    int exit_code;
    if (!command_begin(&bench_log_options, argc, argv, &values, &result, &exit_code))
        return exit_code;
    int file = open(values.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) {
        error_write(&error, "cannot open %s", values.file);
        return command_failed(&bench_log_options, STATUS_IO, &error);
    }
    log_write_to(file);
    log_gather();
    const struct {
        const char *name;
        double ns;
    } found[] = {{"text", measure(&values, "text", 200)},
                 {"json", measure(&values, "json", 200)},
                 {"counted", measure(&values, "text", 429)}};
    log_finish();
    log_write_to(STDERR_FILENO);
    close(file);
    if (!values.json) printf("%-10s %12s %22s\n", "line", "ns", "% of a core at rate");
    for (size_t i = 0; i < ARRAY_COUNT(found); i++) {
        double percent = found[i].ns * (double)values.rate * 1e-7;
        if (values.json)
            printf("%s\"%s_ns\":%.0f,\"%s_percent\":%.3f", i ? "," : "{", found[i].name,
                   found[i].ns, found[i].name, percent);
        else
            printf("%-10s %12.0f %22.2f\n", found[i].name, found[i].ns, percent);
    }
    if (values.json) printf("}\n");
    return command_end(&bench_log_options);
}
