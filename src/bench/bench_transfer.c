/* SPDX-License-Identifier: Apache-2.0
 * fathom bench transfer: KV blocks from the pages of one process to those of another, from the
 * offer to the receiver's report that all have arrived. For comparison, the best that the machine
 * does with the same bytes between the same pages, in turn in the same rounds: a plain TCP
 * connection over loopback (send, recv, one byte back), and memcpy. The layouts are runs of 64 KiB
 * slices, and DeepSeek-V3's blocks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "host/transfer/kv_transport.h"

#define ROUNDS_MAX 999
#define WARM_UP 2
#define SECOND INT64_C(1000000000)
#define DEADLINE_NS (60 * SECOND)

struct transfer_values {
    uint64_t rounds;
    bool json;
};

static const struct option transfer_rows[] = {
    {"rounds", OPTION_COUNT, "15", "repetitions; the result is their median",
     .offset = offsetof(struct transfer_values, rounds), .minimum = 3, .maximum = ROUNDS_MAX},
    {"json", OPTION_FLAG, NULL, "print one JSON object",
     .offset = offsetof(struct transfer_values, json)},
};

const struct option_table bench_transfer_options = {
    .command = "bench transfer",
    .arguments = "",
    .description = "Times KV transfers between two processes, compared with plain TCP and memcpy.",
    .options = transfer_rows,
    .option_count = ARRAY_COUNT(transfer_rows),
};

struct layout {
    const char *name;
    uint32_t width, slices; /* of a page; BF16 */
    uint32_t page_count;
    uint32_t blocks[6]; /* of each measured transfer; 0: no more */
};

static const struct layout layouts[] = {
    {"64 KiB slices", 512, 1, 1024, {1, 4, 16, 64, 256, 1024}},
    {"V3 blocks", 576, 61, 32, {1, 4, 16, 32}},
};

enum transfer_path { PATH_TRANSFER, PATH_TCP, PATH_MEMCPY, PATH_COUNT };

/* A request of the parent to the child. */
struct bench_transfer_order {
    enum transfer_path path;
    uint32_t blocks;
    uint64_t number; /* the ticket's */
};

struct transfer_bench {
    struct transfer_values values;
    const struct layout *layout;
    struct kv_pages pages, copy;
    struct kv_transport *transport;
    uint64_t grants;
    pid_t child;
    int to_child, from_child; /* pipes */
    int connection;           /* plain TCP */
    char address[KV_ADDRESS_BYTES];
    struct json_print *out;
};

static enum status broke(struct error *error, const char *what) {
    return error_set(error, STATUS_IO, "%s: %s", what, errno ? strerror(errno) : "it ended");
}

static bool bench_transfer_read_all(int file, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(file, (char *)data + done, bytes - done);
        if (count <= 0 && !(count < 0 && errno == EINTR)) return false;
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool bench_transfer_write_all(int file, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(file, (const char *)data + done, bytes - done);
        if (count <= 0 && !(count < 0 && errno == EINTR)) return false;
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* ---- both sides ---- */

static enum status open_pages(const struct layout *layout, struct kv_pages *pages,
                              struct error *error) {
    const struct kv_format format =
        KV_FORMAT_MLA(KV_ELEMENT_BF16, layout->width, layout->slices, 0);
    enum status status =
        kv_pages_open(pages, &format, layout->page_count * kv_format_block_bytes(&format), error);
    if (status == STATUS_OK) memset(pages->memory, 'k', pages->mapped_bytes);
    return status;
}

static enum status open_transport(struct transfer_bench *bench, struct error *error) {
    static const uint8_t model[32] = "fathom bench transfer";
    struct kv_transport_options options = kv_transport_defaults();
    options.pages = &bench->pages;
    options.model_id = model;
    options.numerics_id = "bench";
    options.host = "127.0.0.1";
    return kv_transport_open(&options, &bench->transport, error);
}

static bool wait_end(struct transfer_bench *bench, struct transfer_ended *ended) {
    while (!kv_transport_next(bench->transport, ended)) {
        struct pollfd file = {kv_transport_file(bench->transport), POLLIN, 0};
        poll(&file, 1, 1000);
    }
    return ended->end == TRANSFER_DONE;
}

static size_t row_bytes(const struct transfer_bench *bench) {
    return kv_format_filled_bytes(&bench->pages.format, KV_BLOCK_TOKENS);
}

static size_t transfer_bytes(const struct transfer_bench *bench, uint32_t blocks) {
    return blocks * bench->layout->slices * row_bytes(bench);
}

/* Calls `move` on the rows of every slice, layer by layer. */
static bool for_slices(struct transfer_bench *bench, uint32_t blocks,
                       bool (*move)(struct transfer_bench *bench, uint32_t block, uint32_t slice)) {
    for (uint32_t slice = 0; slice < bench->layout->slices; slice++)
        for (uint32_t block = 0; block < blocks; block++)
            if (!move(bench, block, slice)) return false;
    return true;
}

/* ---- the child: receives ---- */

static bool receive_slice(struct transfer_bench *bench, uint32_t block, uint32_t slice) {
    return bench_transfer_read_all(bench->connection, kv_pages_slice(&bench->pages, block, slice),
                                   row_bytes(bench));
}

static bool bench_transfer_obey(struct transfer_bench *bench,
                                const struct bench_transfer_order *order) {
    struct transfer_block blocks[1024];
    struct transfer_ended ended;
    char done = 1;
    if (order->path == PATH_TCP)
        return for_slices(bench, order->blocks, receive_slice) &&
               bench_transfer_write_all(bench->connection, &done, 1);
    for (uint32_t i = 0; i < order->blocks; i++)
        blocks[i] =
            (struct transfer_block){{i}, KV_BLOCK_TOKENS, 0, (uint32_t)bench->layout->slices};
    struct transfer_grant grant = {order->number, 1};
    return kv_transport_expect(bench->transport, grant, blocks, order->blocks,
                               clock_now_ns() + DEADLINE_NS, NULL) == STATUS_OK &&
           bench_transfer_write_all(bench->from_child, &done, 1) && wait_end(bench, &ended);
}

static int listen_plainly(struct sockaddr_in *address) {
    socklen_t bytes = sizeof *address;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (file >= 0 && (bind(file, (struct sockaddr *)address, sizeof *address) || listen(file, 1) ||
                      getsockname(file, (struct sockaddr *)address, &bytes)))
        return -1;
    return file;
}

/* Reports where it listens (UCX, plain), then serves orders until the pipe ends. */
static int live_as_child(struct transfer_bench *bench) {
    struct error error;
    struct sockaddr_in plain;
    struct bench_transfer_order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = listen_plainly(&plain);
    if (listener < 0 || open_pages(bench->layout, &bench->pages, &error) != STATUS_OK ||
        open_transport(bench, &error) != STATUS_OK)
        return 1;
    snprintf(bench->address, sizeof bench->address, "%s", kv_transport_address(bench->transport));
    if (!bench_transfer_write_all(bench->from_child, bench->address, sizeof bench->address) ||
        !bench_transfer_write_all(bench->from_child, &plain, sizeof plain))
        return 1;
    bench->connection = accept(listener, NULL, NULL);
    while (bench_transfer_read_all(bench->to_child, &order, sizeof order))
        if (!bench_transfer_obey(bench, &order)) return 1;
    return 0;
}

/* ---- the parent: sends and measures ---- */

static enum status start_child(struct transfer_bench *bench, struct error *error) {
    int down[2], up[2];
    errno = 0;
    if (pipe(down) || pipe(up)) return broke(error, "cannot make pipes");
    fflush(NULL);
    bench->child = fork();
    if (bench->child < 0) return broke(error, "cannot start a second process");
    if (bench->child == 0) {
        close(down[1]);
        close(up[0]);
        bench->to_child = down[0];
        bench->from_child = up[1];
        _exit(live_as_child(bench));
    }
    close(down[0]);
    close(up[1]);
    bench->to_child = down[1];
    bench->from_child = up[0];
    return STATUS_OK;
}

static enum status meet_child(struct transfer_bench *bench, struct error *error) {
    struct sockaddr_in plain;
    int one = 1;
    if (!bench_transfer_read_all(bench->from_child, bench->address, sizeof bench->address) ||
        !bench_transfer_read_all(bench->from_child, &plain, sizeof plain))
        return broke(error, "the second process");
    bench->connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bench->connection < 0 ||
        connect(bench->connection, (struct sockaddr *)&plain, sizeof plain) ||
        setsockopt(bench->connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        return broke(error, "cannot connect over loopback");
    return STATUS_OK;
}

static bool push_slice(struct transfer_bench *bench, uint32_t block, uint32_t slice) {
    enum status status;
    while ((status = kv_transport_push(bench->transport, (struct transfer_grant){bench->grants, 1},
                                       block, slice, kv_pages_slice(&bench->pages, block, slice),
                                       KV_BLOCK_TOKENS)) == STATUS_FULL) {
        struct pollfd file = {kv_transport_file(bench->transport), POLLIN, 0};
        struct transfer_ended none;
        poll(&file, 1, 1000);
        if (kv_transport_next(bench->transport, &none)) return false;
    }
    return status == STATUS_OK;
}

static bool bench_transfer_send_slice(struct transfer_bench *bench, uint32_t block,
                                      uint32_t slice) {
    return bench_transfer_write_all(bench->connection, kv_pages_slice(&bench->pages, block, slice),
                                    row_bytes(bench));
}

static bool copy_slice(struct transfer_bench *bench, uint32_t block, uint32_t slice) {
    memcpy(kv_pages_slice(&bench->copy, block, slice), kv_pages_slice(&bench->pages, block, slice),
           row_bytes(bench));
    return true;
}

static bool send_transfer(struct transfer_bench *bench, uint32_t blocks) {
    struct transfer_grant grant = {bench->grants, 1};
    struct transfer_ended ended;
    return kv_transport_offer(bench->transport, grant, bench->address, clock_now_ns() + DEADLINE_NS,
                              NULL) == STATUS_OK &&
           for_slices(bench, blocks, push_slice) &&
           kv_transport_finish(bench->transport, grant, NULL, 0) == STATUS_OK &&
           wait_end(bench, &ended);
}

/* Seconds of one transfer, negative if it failed. */
static double run_path(struct transfer_bench *bench, enum transfer_path path, uint32_t blocks) {
    struct bench_transfer_order order = {path, blocks, ++bench->grants};
    char done;
    if (path != PATH_MEMCPY && !bench_transfer_write_all(bench->to_child, &order, sizeof order))
        return -1;
    if (path == PATH_TRANSFER && !bench_transfer_read_all(bench->from_child, &done, 1)) return -1;
    double start = machine_limits_now();
    bool good = path == PATH_TRANSFER ? send_transfer(bench, blocks)
                : path == PATH_TCP    ? for_slices(bench, blocks, bench_transfer_send_slice) &&
                                         bench_transfer_read_all(bench->connection, &done, 1)
                                   : for_slices(bench, blocks, copy_slice);
    return good ? machine_limits_now() - start : -1;
}

static const struct harness_column transfer_columns[] = {
    {"layout", "layout", -13, 0, 0},     {"blocks", "blocks", 6, 0, 0},
    {"bytes", "MB", 8, 2, 1e-6},         {"transfer.seconds", "ms", 9, 3, 1e3},
    {"transfer.low", "10 %", 9, 3, 1e3}, {"transfer.high", "90 %", 9, 3, 1e3},
    {NULL, "GB/s", 7, 2, 1e-9},          {"tcp.seconds", "TCP ms", 9, 3, 1e3},
    {"tcp.low", NULL, 0, 0, 0},          {"tcp.high", NULL, 0, 0, 0},
    {NULL, "GB/s", 7, 2, 1e-9},          {"memcpy.seconds", NULL, 0, 0, 0},
    {"memcpy.low", NULL, 0, 0, 0},       {"memcpy.high", NULL, 0, 0, 0},
    {NULL, "memcpy GB/s", 11, 2, 1e-9},  {NULL, "% of TCP", 8, 0, 100},
};
static const struct harness_table transfer_table = {transfer_columns,
                                                    ARRAY_COUNT(transfer_columns)};

static void bench_transfer_print_case(struct transfer_bench *bench, uint32_t blocks,
                                      double (*seconds)[ROUNDS_MAX]) {
    const double bytes = (double)transfer_bytes(bench, blocks);
    struct stats_spread of[PATH_COUNT];
    for (int path = 0; path < PATH_COUNT; path++)
        of[path] = stats_spread(seconds[path], bench->values.rounds, 0.1);
    const struct stats_spread own = of[PATH_TRANSFER], tcp = of[PATH_TCP], copy = of[PATH_MEMCPY];
    const double rate = bytes / own.median, tcp_rate = bytes / tcp.median;
    const double copy_rate = bytes / copy.median, of_tcp = rate / tcp_rate;
    const double numbers[] = {blocks,      bytes,      own.median, own.low,   own.high,
                              rate,        tcp.median, tcp.low,    tcp.high,  tcp_rate,
                              copy.median, copy.low,   copy.high,  copy_rate, of_tcp};
    harness_row(bench->out, NULL, &transfer_table, &bench->layout->name, numbers);
}

static enum status bench_transfer_measure(struct transfer_bench *bench, struct error *error) {
    static double seconds[PATH_COUNT][ROUNDS_MAX];
    for (uint32_t i = 0; i < ARRAY_COUNT(bench->layout->blocks) && bench->layout->blocks[i]; i++) {
        uint32_t blocks = bench->layout->blocks[i];
        for (uint32_t round = 0; round < WARM_UP + bench->values.rounds; round++)
            for (int path = 0; path < PATH_COUNT; path++) {
                double taken = run_path(bench, (enum transfer_path)path, blocks);
                if (taken < 0)
                    return error_set(error, STATUS_IO, "a transfer of %u blocks failed", blocks);
                if (round >= WARM_UP) seconds[path][round - WARM_UP] = taken;
            }
        bench_transfer_print_case(bench, blocks, seconds);
        fflush(stdout);
    }
    return STATUS_OK;
}

static void end_layout(struct transfer_bench *bench) {
    kv_transport_close(bench->transport);
    kv_pages_close(&bench->pages);
    kv_pages_close(&bench->copy);
    if (bench->connection > 0) close(bench->connection);
    if (bench->child > 0) {
        close(bench->to_child);
        close(bench->from_child);
        kill(bench->child, SIGKILL);
        waitpid(bench->child, NULL, 0);
    }
}

static enum status bench_transfer_run_layout(struct transfer_bench *bench, struct error *error) {
    enum status status = open_pages(bench->layout, &bench->pages, error);
    if (status == STATUS_OK) status = open_pages(bench->layout, &bench->copy, error);
    if (status == STATUS_OK) status = open_transport(bench, error);
    if (status == STATUS_OK) status = meet_child(bench, error);
    if (status == STATUS_OK) status = bench_transfer_measure(bench, error);
    end_layout(bench);
    return status;
}

int bench_transfer(void *given, const struct option_result *result) {
    static struct transfer_bench benches[ARRAY_COUNT(layouts)];
    const struct transfer_values *values = given;
    struct error error = {.text = ""};
    enum status status = STATUS_OK;
    struct json_print out = {.off = true};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_COUNT(layouts) && status == STATUS_OK; i++) {
        benches[i] = (struct transfer_bench){.values = *values, .layout = &layouts[i], .out = &out};
        status = start_child(&benches[i], &error); /* before threads are started */
    }
    out = json_print_begin(values->json);
    harness_number(&out, "rounds", (double)values->rounds);
    json_print_say(&out, "median of %u rounds (10 %% and 90 %% of them)\n",
                   (unsigned)values->rounds);
    json_print_open(&out, "cases", '[');
    harness_titles(&out, &transfer_table);
    for (size_t i = 0; i < ARRAY_COUNT(layouts) && status == STATUS_OK; i++)
        status = bench_transfer_run_layout(&benches[i], &error);
    if (status != STATUS_OK) return command_failed(status, &error);
    json_print_close(&out);
    json_print_close(&out);
    return command_end(STATUS_OK, NULL);
}
