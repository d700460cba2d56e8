/* SPDX-License-Identifier: Apache-2.0
 * fathom bench cache: how much of a disk's bandwidth the KV storage uses. Blocks are stored and
 * loaded through the store, past the page cache. If fio is installed, it writes and reads as many
 * bytes in the same directory, in turn in the same rounds, in transfers of the same size and depth.
 * In addition: the time to open a storage of many blocks, and the memory per block.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/random.h"
#include "base/sha256.h"
#include "bench/bench.h"
#include "bench/child.h"
#include "bench/harness.h"
#include "host/storage/kv_store.h"
#include "serving/cache/store_index.h"

#define ROUNDS_MAX 99
/* The store's limit as a multiple of --size. A segment is a sixteenth of the limit, as usual. */
#define SIZES 16
#define SOURCE_BLOCKS 16              /* stored in turn under new keys each time */
#define RUN_BYTES ((size_t)128 << 20) /* one load */
#define FIO_WRITE_BW 47               /* fields of fio's terse output, version 3: KiB/s */
#define FIO_READ_BW 6
#define WAIT_NS_MAX 60000000000

struct bench_cache_values {
    const char *dir, *io, *keep;
    uint64_t size, width, layers, rounds, index_blocks;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_cache_values, field)

static const struct option cache_rows[] = {
    {"dir", OPTION_TEXT, ".", "a directory on the disk to use", AT(dir)},
    {"size", OPTION_BYTES, "1GiB", "bytes written and read in a round", AT(size)},
    {"width", OPTION_COUNT, "576", "BF16 elements of a token and layer", AT(width), .minimum = 1,
     .maximum = 65536},
    {"layers", OPTION_COUNT, "62", "slices of a block (DeepSeek-V3: 61 layers and MTP)", AT(layers),
     .minimum = 1, .maximum = LIMIT_LAYERS},
    {"io", OPTION_CHOICE, "auto", "how the store reads and writes", AT(io),
     .choices = "auto|io_uring|threads"},
    {"rounds", OPTION_COUNT, "3", "rounds; the result is their median", AT(rounds), .minimum = 1,
     .maximum = ROUNDS_MAX},
    {"index-blocks", OPTION_COUNT, "50000",
     "blocks of 8 KiB stored for the index that is rebuilt; 0: leave it out", AT(index_blocks),
     .maximum = 1 << 26},
    {"keep", OPTION_TEXT, NULL, "leave the last round's blocks in a directory of this name",
     AT(keep)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_cache_options = {
    .command = "bench cache",
    .arguments = "",
    .description = "Cold writes and reads of the KV storage compared with fio, and its index.",
    .options = cache_rows,
    .option_count = ARRAY_COUNT(cache_rows),
};

struct cache_bench {
    struct bench_cache_values values;
    struct kv_format format;
    char directory[400]; /* our own, under --dir */
    size_t block_bytes, read_bytes, write_bytes;
    uint32_t blocks;
    bool fio;
    double write[ROUNDS_MAX], read[ROUNDS_MAX], fio_write[ROUNDS_MAX], fio_read[ROUNDS_MAX];
    double open_s;
    uint64_t index_found;
    const char *io;
};

static struct block_key bench_cache_key_of(uint32_t round, uint32_t i) {
    struct block_key key;
    uint32_t seed[2] = {round, i};
    sha256_digest(seed, sizeof seed, key.bytes);
    return key;
}

/* ---- the store ---- */

/* Creates a new, empty directory. */
static enum status make_directory(const struct cache_bench *bench, struct error *error) {
    if (mkdir(bench->directory, 0700) == 0) return STATUS_OK;
    return error_set(error, STATUS_IO, "%s: cannot be made: %s", bench->directory, strerror(errno));
}

static void close_store(struct kv_store *store) {
    kv_store_stop(store, WAIT_NS_MAX);
    kv_store_close(store);
}

static enum status bench_cache_open_store(const struct cache_bench *bench, uint64_t disk_bytes,
                                          struct kv_store **store_out, struct error *error) {
    struct kv_store_options options = {
        .directory = bench->directory,
        .format = bench->format,
        .disk_bytes = disk_bytes,
        .io = !strcmp(bench->values.io, "io_uring")  ? KV_IO_URING
              : !strcmp(bench->values.io, "threads") ? KV_IO_THREADS
                                                     : KV_IO_AUTO,
    };
    enum status status = kv_store_open(&options, store_out, error);
    if (status || kv_store_get_stats(*store_out).on_disk) return status;
    close_store(*store_out); /* it has logged why */
    return error_set(error, STATUS_INVALID, "%s: a KV storage cannot use it; name another --dir",
                     bench->directory);
}

static void bench_cache_wait_a_moment(void) {
    struct timespec moment = {.tv_nsec = 200000};
    nanosleep(&moment, NULL);
}

/* Seconds until all blocks are written. */
static double bench_cache_write_blocks(const struct cache_bench *bench, struct kv_store *store,
                                       uint32_t round, const char *memory) {
    double begun = machine_limits_now();
    for (uint32_t i = 0; i < bench->blocks; i++) {
        struct kv_put_request ask = {.key = bench_cache_key_of(round, i),
                                     .position = i,
                                     .block = memory + i % SOURCE_BLOCKS * bench->block_bytes};
        while (kv_store_put(store, &ask) == KV_PUT_FULL)
            bench_cache_wait_a_moment();
    }
    kv_store_flush(store);
    return machine_limits_now() - begun;
}

/* Returns seconds, or 0 if a block could not be loaded. */
static double bench_cache_read_blocks(const struct cache_bench *bench, struct kv_store *store,
                                      uint32_t round, char *memory, uint32_t run) {
    struct block_key *keys = calloc(run, sizeof *keys);
    void **blocks = calloc(run, sizeof *blocks);
    double begun = machine_limits_now();
    uint32_t loaded = 0;
    check(keys && blocks);
    for (uint32_t first = 0; first < bench->blocks; first += run) {
        uint32_t count = bench->blocks - first < run ? bench->blocks - first : run;
        for (uint32_t i = 0; i < count; i++) {
            keys[i] = bench_cache_key_of(round, first + i);
            blocks[i] = memory + i * bench->block_bytes;
        }
        struct kv_load_request ask = {.keys = keys, .blocks = blocks, .count = count};
        struct kv_load *load = kv_store_load(store, &ask);
        check(load);
        loaded += kv_store_load_wait(load, UINT32_MAX, INT64_MAX).blocks;
        kv_store_load_end(load);
    }
    double seconds = machine_limits_now() - begun;
    free(keys);
    free(blocks);
    return loaded == bench->blocks ? seconds : 0;
}

enum status bench_cache_clear(const char *directory, struct error *error) {
    uint64_t removed, left;
    char path[800];
    enum status status = kv_store_shrink(directory, 0, &removed, &left, error);
    DIR *names = opendir(directory);
    for (struct dirent *entry; names && (entry = readdir(names));) {
        format_text(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.' && rmdir(path)) fprintf(stderr, "%s: stays\n", path);
    }
    if (names) closedir(names);
    if (rmdir(directory)) fprintf(stderr, "%s: stays\n", directory);
    return status;
}

static enum status keep_blocks(const struct cache_bench *bench, struct error *error) {
    char to[500];
    format_text(to, sizeof to, "%s/%s", bench->values.dir, bench->values.keep);
    if (rename(bench->directory, to) == 0) return STATUS_OK;
    return error_set(error, STATUS_IO, "%s: cannot move the blocks there: %s", to, strerror(errno));
}

static enum status measure_store(struct cache_bench *bench, uint32_t round, struct error *error) {
    struct kv_store *store;
    uint32_t run = (uint32_t)(RUN_BYTES / bench->block_bytes);
    if (run < SOURCE_BLOCKS) run = SOURCE_BLOCKS;
    char *memory = aligned_alloc(STORE_PAGE_BYTES, run * bench->block_bytes);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for %u blocks", run);
    for (size_t i = 0; i < run * bench->block_bytes; i++)
        memory[i] = (char)(i * 17 + (i >> 12));
    enum status status = make_directory(bench, error);
    if (!status)
        status =
            bench_cache_open_store(bench, SIZES * bench->values.size + (64 << 20), &store, error);
    if (!status) {
        double bytes = (double)bench->blocks * (double)bench->block_bytes;
        bench->write[round] = bytes / bench_cache_write_blocks(bench, store, round, memory);
        double seconds = bench_cache_read_blocks(bench, store, round, memory, run);
        bench->read[round] = seconds > 0 ? bytes / seconds : 0;
        struct kv_store_stats stats = kv_store_get_stats(store);
        bench->io = stats.io;
        close_store(store);
        if (seconds <= 0)
            status = error_set(error, STATUS_CORRUPT, "%s: some blocks could not be loaded",
                               bench->directory);
        bool kept = bench->values.keep && round + 1 == bench->values.rounds;
        enum status cleared =
            kept ? keep_blocks(bench, error) : bench_cache_clear(bench->directory, error);
        if (!status) status = cleared;
    }
    free(memory);
    return status;
}

/* ---- fio ---- */

/* A field of fio's terse line, converted from KiB/s to bytes/s. */
static double terse_field(struct bytes text, uint32_t field) {
    const char *at = text.data;
    while (at && field-- > 0) {
        at = strchr(at, ';');
        if (at) at++;
    }
    return at ? strtod(at, NULL) * 1024 : 0;
}

static enum status run_fio(const struct cache_bench *bench, bool write, double *rate_out,
                           struct error *error) {
    char file[500], size[40], block[40];
    format_text(file, sizeof file, "--filename=%s/fio", bench->directory);
    format_text(size, sizeof size, "--size=%llu", (unsigned long long)bench->values.size);
    format_text(block, sizeof block, "--bs=%zu", write ? bench->write_bytes : bench->read_bytes);
    const char *const argv[] = {"fio",
                                "--name=cache",
                                file,
                                size,
                                block,
                                write ? "--rw=write" : "--rw=read",
                                "--direct=1",
                                "--ioengine=io_uring",
                                "--iodepth=16",
                                "--output-format=terse",
                                "--terse-version=3",
                                NULL};
    struct bytes output;
    enum status status = child_run(argv, &output, error);
    if (status) return status;
    double rate = terse_field(output, write ? FIO_WRITE_BW : FIO_READ_BW);
    free((void *)(uintptr_t)output.data);
    if (!(rate > 0))
        return error_set(error, STATUS_CORRUPT,
                         "fio names no rate in its terse output, version 3; is it fio 3?");
    *rate_out = rate;
    return STATUS_OK;
}

static enum status measure_fio(struct cache_bench *bench, uint32_t round, struct error *error) {
    enum status status = make_directory(bench, error);
    if (status) return status;
    status = run_fio(bench, true, &bench->fio_write[round], error);
    if (!status) status = run_fio(bench, false, &bench->fio_read[round], error);
    char file[500];
    format_text(file, sizeof file, "%s/fio", bench->directory);
    unlink(file);
    rmdir(bench->directory);
    return status;
}

/* ---- the index ---- */

/* Tiny blocks are stored, and the store is opened again. */
static enum status measure_index(struct cache_bench *bench, struct error *error) {
    struct cache_bench index = *bench;
    struct kv_store *store;
    index.format = (struct kv_format)KV_FORMAT_MLA(KV_ELEMENT_BF16, 8, 1, 0);
    index.block_bytes = kv_format_block_bytes(&index.format);
    index.blocks = (uint32_t)bench->values.index_blocks;
    uint64_t disk_bytes = 2 * (uint64_t)index.blocks * index.block_bytes + (1 << 20);
    char *memory = calloc(SOURCE_BLOCKS, index.block_bytes);
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for blocks");
    enum status status = make_directory(&index, error);
    if (!status) status = bench_cache_open_store(&index, disk_bytes, &store, error);
    if (!status) {
        bench_cache_write_blocks(&index, store, 0, memory);
        close_store(store);
        status = bench_cache_open_store(&index, disk_bytes, &store, error);
    }
    free(memory);
    if (status) return status;
    struct kv_store_stats stats = kv_store_get_stats(store);
    bench->open_s = (double)stats.open_ns * 1e-9;
    bench->index_found = stats.blocks;
    close_store(store);
    return bench_cache_clear(index.directory, error);
}

/* ---- the report ---- */

static const struct harness_column rate_columns[] = {
    {NULL, "", -8, 0, 0},
    {NULL, "store MB/s", 12, 0, 1e-6},
    {NULL, "fio MB/s", 12, 0, 1e-6},
    {NULL, "% of fio", 8, 0, 100},
};

/* A rate for the JSON: megabytes a second with one decimal; null if it was not measured. */
static void print_rate(struct json_print *out, const char *name, bool measured, double rate) {
    harness_number(out, name, measured ? round(rate * 1e-5) / 10 : NAN);
}

static void print_rates(const struct cache_bench *bench, struct json_print *out, const char *name,
                        const double *medians) {
    const struct harness_table table = {rate_columns, bench->fio ? 4 : 2};
    const double numbers[] = {medians[0], medians[1], medians[0] / medians[1]};
    harness_row(out, NULL, &table, &name, numbers);
}

static void print_index(const struct cache_bench *bench, struct json_print *out) {
    double million = bench->open_s / (double)bench->index_found * 1e6;
    harness_number(out, "index_s_per_million", bench->index_found ? million : NAN);
    harness_number(out, "index_blocks", (double)bench->index_found);
    harness_number(out, "index_bytes_per_block", STORE_INDEX_BLOCK_BYTES);
    if (bench->index_found)
        json_print_say(out,
                       "index: %llu blocks in %.2f s (%.2f s a million), %zu bytes of memory a "
                       "block\n",
                       (unsigned long long)bench->index_found, bench->open_s, million,
                       (size_t)STORE_INDEX_BLOCK_BYTES);
}

static void bench_cache_print_report(struct cache_bench *bench) {
    const struct harness_table table = {rate_columns, bench->fio ? 4 : 2};
    size_t rounds = bench->values.rounds;
    double write[2] = {stats_median(bench->write, rounds)};
    double read[2] = {stats_median(bench->read, rounds)};
    if (bench->fio) {
        write[1] = stats_median(bench->fio_write, rounds);
        read[1] = stats_median(bench->fio_read, rounds);
    }
    struct json_print out = json_print_begin(bench->values.json);
    json_print_text(&out, "io", bench->io);
    harness_number(&out, "block_bytes", (double)bench->block_bytes);
    harness_number(&out, "read_bytes", (double)bench->read_bytes);
    harness_number(&out, "write_bytes", (double)bench->write_bytes);
    print_rate(&out, "write_mb_s", true, write[0]);
    print_rate(&out, "read_mb_s", true, read[0]);
    print_rate(&out, "fio_write_mb_s", bench->fio, write[1]);
    print_rate(&out, "fio_read_mb_s", bench->fio, read[1]);
    json_print_say(&out,
                   "blocks of %zu bytes, %s, reads of %zu bytes, writes of %zu; medians of %zu\n",
                   bench->block_bytes, bench->io, bench->read_bytes, bench->write_bytes, rounds);
    harness_titles(&out, &table);
    print_rates(bench, &out, "write", write);
    print_rates(bench, &out, "read", read);
    if (!bench->fio) json_print_say(&out, "fio is not installed: nothing to compare with\n");
    print_index(bench, &out);
    json_print_close(&out);
}

static enum status bench_cache_prepare(struct cache_bench *bench, struct error *error) {
    const struct bench_cache_values *values = &bench->values;
    bench->format = (struct kv_format)KV_FORMAT_MLA(KV_ELEMENT_BF16, (uint32_t)values->width,
                                                    (uint32_t)values->layers, 0);
    bench->block_bytes = kv_format_block_bytes(&bench->format);
    kv_store_transfers(values->dir, &bench->format, &bench->read_bytes, &bench->write_bytes);
    bench->blocks = (uint32_t)(values->size / bench->block_bytes);
    format_text(bench->directory, sizeof bench->directory, "%.300s/fathom-bench-cache-%d",
                values->dir, (int)getpid());
    if (bench->blocks == 0)
        return error_set(error, STATUS_INVALID, "--size is less than a block of %zu bytes",
                         bench->block_bytes);
    static const char *const version[] = {"fio", "--version", NULL};
    struct bytes output;
    bench->fio = child_run(version, &output, NULL) == STATUS_OK;
    if (bench->fio) free((void *)(uintptr_t)output.data);
    return STATUS_OK;
}

int bench_cache(void *given, const struct option_result *result) {
    static struct cache_bench bench;
    struct error error = {""};
    bench.values = *(const struct bench_cache_values *)given;
    enum status status = bench_cache_prepare(&bench, &error);
    for (uint32_t round = 0; round < bench.values.rounds && !status; round++) {
        if (bench.fio) status = measure_fio(&bench, round, &error);
        if (!status) status = measure_store(&bench, round, &error);
    }
    if (!status && bench.values.index_blocks) status = measure_index(&bench, &error);
    if (!status) bench_cache_print_report(&bench);
    return command_end(status, &error);
}
