/* SPDX-License-Identifier: Apache-2.0
 * Protects tickets, by which devices find each other's rows: a ticket says what it was given, and an expert's
 * place is where the token's results are in the order of summation. Of a rank whose rooms are not mapped, one's
 * own are taken. (test_gpu_exchange has ranks that use them.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/exchange/exchange.h"
#include "compute/gpu/gpu_peers.h"

static void a_ticket_says_what_it_was_given(void **state) {
    static const uint32_t experts[8] = {0, 3, 17, 31, 64, 200, 255, 65000};
    for (uint32_t per_token = 1; per_token <= 8; per_token++) {
        size_t bytes = gpu_ticket_bytes(per_token);
        char *ticket = malloc(bytes);
        assert_non_null(ticket);
        assert_true(bytes % EXCHANGE_ALIGN == 0 && bytes >= 8 + 2 * per_token);
        gpu_ticket_write(ticket, 143, 70000 + per_token, experts, per_token);
        assert_int_equal(gpu_ticket_rank(ticket), 143);
        assert_int_equal(gpu_ticket_row(ticket), 70000 + per_token);
        for (uint32_t i = 0; i < per_token; i++)
            assert_int_equal(gpu_ticket_place(ticket, experts[i], per_token), i);
        free(ticket);
    }
}

static void a_rank_without_rooms_has_ones_own(void **state) {
    struct device_emulation emulation = {.memory_bytes = 1 << 20};
    struct device *device;
    struct gpu_peers *peers;
    struct error error;
    void *rows, *results;
    assert_int_equal(device_open_emulated(&emulation, &device, &error), STATUS_OK);
    assert_int_equal(device_allocate_kind(device, 64, "rows", DEVICE_SHARED, &rows, &error),
                     STATUS_OK);
    assert_int_equal(device_allocate_kind(device, 64, "results", DEVICE_SHARED, &results, &error),
                     STATUS_OK);
    const struct gpu_rooms own = {rows, results};
    assert_int_equal(gpu_peers_open(device, 2, 0, &own, &peers, &error), STATUS_OK);
    assert_ptr_equal(gpu_peers_rooms(peers, 0).rows, rows);
    assert_ptr_equal(gpu_peers_rooms(peers, 1).results, results);
    gpu_peers_close(peers);
    device_release(device, rows);
    device_release(device, results);
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_says_what_it_was_given),
        cmocka_unit_test(a_rank_without_rooms_has_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
