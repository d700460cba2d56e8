/* SPDX-License-Identifier: Apache-2.0
 * Protects row descriptors, by which devices find each other's rows: a descriptor returns what was
 * written, and an expert's index is the position of its result in the order of summation. For a
 * rank without mapped buffers this rank's own are used. With a number of ranks as its argument: a
 * rank that dies after buffers were announced and before they are mapped ends no other rank.
 * test_gpu_exchange has ranks that use peer memory.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../exchange/on_ranks.h"
#include "compute/emulated/device_emulated.h"
#include "compute/exchange/exchange.h"
#include "compute/gpu/gpu_peers.h"

static void a_row_descriptor_says_what_it_was_given(void **state) {
    static const uint32_t experts[8] = {0, 3, 17, 31, 64, 200, 255, 65000};
    for (uint32_t per_token = 1; per_token <= 8; per_token++) {
        size_t bytes = gpu_peers_row_descriptor_bytes(per_token);
        char *row_descriptor = malloc(bytes);
        assert_non_null(row_descriptor);
        assert_true(bytes % EXCHANGE_ALIGN == 0 && bytes >= 8 + 2 * per_token);
        gpu_peers_row_descriptor_write(row_descriptor, 143, 70000 + per_token, experts, per_token);
        assert_int_equal(gpu_peers_row_descriptor_rank(row_descriptor), 143);
        assert_int_equal(gpu_peers_row_descriptor_row(row_descriptor), 70000 + per_token);
        for (uint32_t i = 0; i < per_token; i++)
            assert_int_equal(gpu_peers_row_descriptor_place(row_descriptor, experts[i], per_token),
                             i);
        free(row_descriptor);
    }
}

/* A device with buffers of this rank's own. */
struct own {
    struct device *device;
    struct gpu_peer_buffers buffers;
    struct gpu_peers *peers;
};

static struct own open_own(uint32_t ranks, uint32_t rank) {
    struct device_emulation emulation = {.memory_bytes = 1 << 20};
    struct own own;
    struct error error;
    void *rows, *results;
    assert_int_equal(device_emulated_open(&emulation, &own.device, &error), STATUS_OK);
    assert_int_equal(device_allocate_kind(own.device, 64, "rows", DEVICE_SHARED, &rows, &error),
                     STATUS_OK);
    assert_int_equal(
        device_allocate_kind(own.device, 64, "results", DEVICE_SHARED, &results, &error),
        STATUS_OK);
    own.buffers = (struct gpu_peer_buffers){rows, results};
    assert_int_equal(gpu_peers_open(own.device, ranks, rank, &own.buffers, &own.peers, &error),
                     STATUS_OK);
    return own;
}

static void close_own(struct own own) {
    gpu_peers_close(own.peers);
    device_release(own.device, own.buffers.rows);
    device_release(own.device, own.buffers.results);
    device_close(own.device);
}

static void a_rank_without_rooms_has_ones_own(void **state) {
    struct own own = open_own(2, 0);
    assert_ptr_equal(gpu_peers_buffers(own.peers, 0).rows, own.buffers.rows);
    assert_ptr_equal(gpu_peers_buffers(own.peers, 1).results, own.buffers.results);
    close_own(own);
}

/* Tells buffers as gpu_peers_connect does, which nobody will find. */
static void report_rooms_and_die(uint32_t ranks) {
    struct device_handle *out = calloc(2 * ranks, sizeof *out);
    struct device_handle *in = calloc(2 * ranks, sizeof *in);
    assert_true(out && in);
    job_all_to_all((const char *)out, (char *)in, 2 * sizeof *in);
    raise(SIGKILL);
}

static void who_dies_before_its_rooms_are_mapped_takes_nobody_along(void **state) {
    uint32_t ranks = job_count(), dies = ranks - 1;
    struct own own = open_own(ranks, job_rank());
    struct error error;
    if (job_rank() == dies) report_rooms_and_die(ranks);
    if (gpu_peers_connect(own.peers, &error)) fail_msg("%s", error.text);
    while (!job_poll())
        ;
    job_regroup();
    if (gpu_peers_connect(own.peers, &error)) fail_msg("%s", error.text);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        bool is_own = gpu_peers_buffers(own.peers, rank).rows == own.buffers.rows;
        assert_int_equal(is_own, rank == job_rank() || rank == dies);
    }
    job_barrier();
    close_own(own);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_descriptor_says_what_it_was_given),
        cmocka_unit_test(a_rank_without_rooms_has_ones_own),
    };
    static const struct CMUnitTest deaths[] = {
        cmocka_unit_test(who_dies_before_its_rooms_are_mapped_takes_nobody_along),
    };
    on_ranks_deaths = 1;
    if (argc > 1) return on_ranks(argv, "gpu_peers", deaths, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
