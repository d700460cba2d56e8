/* SPDX-License-Identifier: Apache-2.0
 * fathom bench ledger: how long an entry takes until it is durable, when so many come a second, and
 * what it costs of a processor; beside what the disk takes for one write that is flushed, in the
 * same directory and in turn with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "host/ledger/account_store.h"
#include "host/ledger/ledger_thread.h"
#include "host/wire/worker.h"

#define RATES_MAX 16
#define UNDER_WAY_MAX 4096 /* without a rate: entries that are not settled */
#define FLUSHES 200
#define FLUSH_BYTES 8192 /* about what a small transaction writes */
#define TIMES_MAX 2000000
#define CLOSE_NS 10000000000

struct bench_ledger_values {
    const char *dir, *rates;
    uint64_t accounts;
    double seconds;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_ledger_values, field)

static const struct option ledger_rows[] = {
    {.name = "dir",
     .type = OPTION_TEXT,
     .fallback = ".",
     .help = "a directory on the disk to use",
     AT(dir)},
    {.name = "rates",
     .type = OPTION_TEXT,
     .fallback = "1,100,5000,0",
     .help = "entries a second, with commas between; 0: as many as it takes",
     AT(rates)},
    {.name = "seconds",
     .type = OPTION_NUMBER,
     .fallback = "5",
     .help = "of each rate (at 1 a second: four times as long)",
     .minimum = 0.05,
     .maximum = 600,
     AT(seconds)},
    {.name = "accounts",
     .type = OPTION_COUNT,
     .fallback = "1000",
     .help = "that take turns, each with a key",
     .minimum = 1,
     .maximum = LIMIT_ACCOUNTS,
     AT(accounts)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_ledger_options = {
    .command = "bench ledger",
    .arguments = "",
    .description = "The time from an entry to its being durable, by entries a second.",
    .options = ledger_rows,
    .option_count = ARRAY_COUNT(ledger_rows),
};

struct ledger_rate {
    double asked, reached; /* entries a second */
    double p50_ms, p99_ms; /* from an entry to its being settled */
    double cpu_us;         /* of all threads, an entry */
    double writer_us;      /* without the thread that makes them */
    double together;       /* entries of a transaction */
    double flush_p50_ms, flush_p99_ms, flush_cpu_us;
    uint64_t entries;
};

struct ledger_bench {
    struct bench_ledger_values values;
    char folder[400], path[420];
    struct ledger *ledger;
    struct worker *worker;
    struct record_entry *entry; /* scratch */
    struct record_accounts *accounts;
    uint64_t given, settled, transactions;
    double *given_s; /* [TIMES_MAX] when, by the entry's number in this rate */
    double *took_s;  /* [TIMES_MAX] */
    uint64_t first;  /* the number of the rate's first one */
    struct ledger_rate rates[RATES_MAX];
    uint32_t rate_count;
};

/* ---- what the disk takes ---- */

static double quantile(double *sorted, uint64_t count, double share) {
    return count ? sorted[(uint64_t)((double)(count - 1) * share)] : 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static enum status measure_flushes(struct ledger_bench *bench, struct ledger_rate *rate,
                                   struct error *error) {
    static const char bytes[FLUSH_BYTES];
    double times[FLUSHES];
    char path[440];
    snprintf(path, sizeof path, "%s/flushed", bench->folder);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool whole = file >= 0;
    double cpu = machine_limits_processor_now();
    for (int i = 0; i < FLUSHES && whole; i++) {
        double begun = machine_limits_now();
        whole = write(file, bytes, sizeof bytes) == sizeof bytes && fdatasync(file) == 0;
        times[i] = machine_limits_now() - begun;
    }
    int failure = errno;
    rate->flush_cpu_us = 1e6 * (machine_limits_processor_now() - cpu) / FLUSHES;
    if (file >= 0) close(file);
    unlink(path);
    if (!whole)
        return error_set(error, STATUS_IO, "cannot write %.300s: %s", path, strerror(failure));
    qsort(times, FLUSHES, sizeof *times, compare);
    rate->flush_p50_ms = 1e3 * quantile(times, FLUSHES, 0.5);
    rate->flush_p99_ms = 1e3 * quantile(times, FLUSHES, 0.99);
    return STATUS_OK;
}

/* ---- entries ---- */

static struct ledger_price price_of(const void *context, struct bytes model, int64_t unix_time) {
    struct token_price price = {.hit = 14000, .miss = 140000, .output = 280000};
    (void)context;
    (void)model;
    (void)unix_time;
    return (struct ledger_price){price, price};
}

static enum status make_accounts(struct ledger_bench *bench, struct error *error) {
    struct database *database = NULL;
    enum status status = database_open(bench->path, DATABASE_MAKE, &database, error);
    for (uint32_t i = 0; i < bench->values.accounts && !status; i++) {
        char name[32], key[ACCOUNTS_KEY_TEXT];
        snprintf(name, sizeof name, "account-%u", i);
        status = account_store_create(database, name, &account_terms_unset, 1, key, error);
    }
    database_close(database);
    return status;
}

/* The ledger's own are its thread's, once that runs. */
static enum status copy_accounts(struct ledger_bench *bench, struct error *error) {
    const struct record_accounts *accounts = ledger_accounts(bench->ledger);
    bench->accounts = malloc(accounts->record.bytes);
    if (!bench->accounts) return error_set(error, STATUS_NO_MEMORY, "no memory for the accounts");
    memcpy(bench->accounts, accounts, accounts->record.bytes);
    return STATUS_OK;
}

static enum status start(struct ledger_bench *bench, struct error *error) {
    struct ledger_options options = {
        .path = bench->path, .models = "m", .prices = {.currency = "USD", .at = price_of}};
    struct record_entry fixed = {.model_bytes = 11, .end_bytes = 4, .name_bytes = 16};
    bench->given_s = calloc(TIMES_MAX, sizeof *bench->given_s);
    bench->took_s = calloc(TIMES_MAX, sizeof *bench->took_s);
    bench->entry = calloc(1, record_bytes(RECORD_ENTRY, &fixed));
    if (!bench->given_s || !bench->took_s || !bench->entry)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the times of entries");
    *bench->entry = fixed;
    record_set_head(bench->entry, RECORD_ENTRY);
    memcpy(entry_model(bench->entry), "deepseek-r1", 11);
    memcpy(entry_end(bench->entry), "stop", 4);
    memcpy(entry_name(bench->entry), "0123456789abcdef", 16);
    enum status status = make_accounts(bench, error);
    if (!status) status = ledger_open(&options, &bench->ledger, error);
    if (!status) status = copy_accounts(bench, error);
    if (!status) status = worker_open("ledger", ledger_work, bench->ledger, &bench->worker, error);
    if (!status) worker_call(bench->worker);
    return status;
}

static void give_one(struct ledger_bench *bench) {
    const struct record_accounts *accounts = bench->accounts;
    uint64_t number = ++bench->given, turn = number * 7919 % accounts->account_count;
    struct record_entry *entry = bench->entry;
    entry->request.high = number * 0x9E3779B97F4A7C15u; /* as random as real ones */
    entry->request.low = number;
    entry->sequence = number;
    entry->unix_time = time(NULL);
    entry->is_charged = entry->choices = 1;
    entry->http_status = 200;
    entry->hit_tokens = 2816;
    entry->miss_tokens = 2200;
    entry->output_tokens = 1200;
    entry->device_tokens = 2816;
    entry->computed_tokens = 2200;
    entry->made_tokens = 1200;
    memcpy(entry->account, accounts_named(accounts)[turn].name, sizeof entry->account);
    memcpy(entry->key, accounts_keys(accounts)[turn].sha256, sizeof entry->key);
    uint64_t index = number - bench->first;
    if (index < TIMES_MAX) bench->given_s[index] = machine_limits_now();
    worker_give(bench->worker, &entry->record);
}

static void take(void *context, const struct record *record) {
    struct ledger_bench *bench = context;
    if (record->kind != RECORD_SETTLED) return;
    double now = machine_limits_now();
    uint64_t until = ((const struct record_settled *)record)->sequence;
    while (bench->settled < until) {
        uint64_t index = ++bench->settled - bench->first;
        if (index < TIMES_MAX) bench->took_s[index] = now - bench->given_s[index];
    }
    bench->transactions++;
}

static void wait_until(struct ledger_bench *bench, double until_s) {
    double left = until_s - machine_limits_now();
    struct pollfd file = {worker_file(bench->worker), POLLIN, 0};
    struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    if (left <= 0) time = (struct timespec){0};
    if (ppoll(&file, 1, &time, NULL) == 1) worker_take(bench->worker, take, bench);
}

/* At their times, whatever the ledger does; without a rate as many as are let. */
static void give_all(struct ledger_bench *bench, double rate, double begun_s, double seconds) {
    const double count = rate * seconds, end_s = begun_s + seconds;
    uint64_t given = 0;
    while ((double)given < count) { /* all of them, also where this thread comes late */
        wait_until(bench, begun_s + (double)given / rate);
        double now = machine_limits_now();
        for (; (double)given < count && begun_s + (double)given / rate <= now; given++)
            give_one(bench);
    }
    while (rate <= 0 && machine_limits_now() < end_s) {
        while (bench->given - bench->settled < UNDER_WAY_MAX)
            give_one(bench);
        wait_until(bench, end_s);
    }
    while (bench->settled < bench->given)
        wait_until(bench, machine_limits_now() + 1);
}

static double process_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum status run_rate(struct ledger_bench *bench, double rate, struct error *error) {
    struct ledger_rate *out = &bench->rates[bench->rate_count++];
    double seconds = bench->values.seconds * (rate > 0 && rate <= 1 ? 4 : 1);
    enum status status = measure_flushes(bench, out, error);
    if (status) return status;
    bench->first = bench->given + 1;
    bench->transactions = 0;
    double begun = machine_limits_now(), cpu = process_now(), own = machine_limits_processor_now();
    give_all(bench, rate, begun, seconds);
    uint64_t count = bench->given + 1 - bench->first;
    cpu = process_now() - cpu;
    own = machine_limits_processor_now() - own;
    out->asked = rate;
    out->entries = count;
    out->reached = (double)count / (machine_limits_now() - begun);
    out->cpu_us = 1e6 * cpu / (double)count;
    out->writer_us = 1e6 * (cpu - own) / (double)count;
    out->together = (double)count / (double)bench->transactions;
    if (count > TIMES_MAX) count = TIMES_MAX;
    qsort(bench->took_s, count, sizeof *bench->took_s, compare);
    out->p50_ms = 1e3 * quantile(bench->took_s, count, 0.5);
    out->p99_ms = 1e3 * quantile(bench->took_s, count, 0.99);
    return STATUS_OK;
}

/* ---- the report ---- */

static void print_json(const struct ledger_bench *bench) {
    printf("{\"rates\":[");
    for (uint32_t i = 0; i < bench->rate_count; i++) {
        const struct ledger_rate *rate = &bench->rates[i];
        printf("%s\n  {\"asked\":%.6g,\"reached\":%.1f,\"entries\":%llu,\"p50_ms\":%.4f,"
               "\"p99_ms\":%.4f,\"cpu_us\":%.3f,\"writer_us\":%.3f,\"together\":%.2f,"
               "\"flush_p50_ms\":%.4f,\"flush_p99_ms\":%.4f,\"flush_cpu_us\":%.2f}",
               i ? "," : "", rate->asked, rate->reached, (unsigned long long)rate->entries,
               rate->p50_ms, rate->p99_ms, rate->cpu_us, rate->writer_us, rate->together,
               rate->flush_p50_ms, rate->flush_p99_ms, rate->flush_cpu_us);
    }
    printf("]}\n");
}

static void print_text(const struct ledger_bench *bench) {
    printf("%10s %10s %9s %9s %11s %13s %9s   %s\n", "asked/s", "reached/s", "p50 ms", "p99 ms",
           "a commit", "CPU us each", "writer", "a flush of the disk: p50 and p99 ms, CPU us");
    for (uint32_t i = 0; i < bench->rate_count; i++) {
        const struct ledger_rate *rate = &bench->rates[i];
        char asked[16] = "any";
        if (rate->asked > 0) snprintf(asked, sizeof asked, "%.0f", rate->asked);
        printf("%10s %10.0f %9.3f %9.3f %11.1f %13.1f %9.1f   %.3f %.3f %.0f\n", asked,
               rate->reached, rate->p50_ms, rate->p99_ms, rate->together, rate->cpu_us,
               rate->writer_us, rate->flush_p50_ms, rate->flush_p99_ms, rate->flush_cpu_us);
    }
}

static enum status run_all(struct ledger_bench *bench, struct error *error) {
    snprintf(bench->folder, sizeof bench->folder, "%.300s/fathom-ledger.XXXXXX", bench->values.dir);
    if (!mkdtemp(bench->folder))
        return error_set(error, STATUS_IO, "cannot make %.300s: %s", bench->folder,
                         strerror(errno));
    snprintf(bench->path, sizeof bench->path, "%s/ledger", bench->folder);
    enum status status = start(bench, error);
    const char *at = bench->values.rates;
    while (!status && at) {
        char *end;
        double rate = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(rate >= 0 && rate <= 1e6) ||
            bench->rate_count == RATES_MAX)
            return error_set(
                error, STATUS_INVALID,
                "--rates: expected up to %d numbers with commas between, found '%.80s'", RATES_MAX,
                at);
        status = run_rate(bench, rate, error);
        at = *end ? end + 1 : NULL;
    }
    return status;
}

static void clear(struct ledger_bench *bench) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[440];
    if (bench->worker) check(worker_close(bench->worker, CLOSE_NS));
    ledger_close(bench->ledger);
    for (size_t i = 0; i < ARRAY_COUNT(ends) && bench->path[0]; i++) {
        snprintf(name, sizeof name, "%s%s", bench->path, ends[i]);
        unlink(name);
    }
    if (bench->path[0]) rmdir(bench->folder);
    free(bench->given_s);
    free(bench->took_s);
    free(bench->entry);
    free(bench->accounts);
}

int bench_ledger(int argc, char **argv) {
    static struct ledger_bench bench;
    struct option_result result;
    struct error error = {""};
    int exit_code;
    if (!command_begin(&bench_ledger_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    enum status status = run_all(&bench, &error);
    if (!status && bench.values.json) print_json(&bench);
    if (!status && !bench.values.json) print_text(&bench);
    clear(&bench);
    return status ? command_failed(&bench_ledger_options, status, &error)
                  : command_end(&bench_ledger_options);
}
