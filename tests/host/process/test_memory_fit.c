/* SPDX-License-Identifier: Apache-2.0
 * Protects the refusal of a model that does not fit: it says what the model needs, what there is,
 * and a remedy that is true, that is, with which the same model does fit.
 */
#include "host/process/memory_fit.h"

#include <stdlib.h>

#include "test_case.h"

static const struct memory_need v3 = {
    .model = {.common = 16e9, .expert = 44e6, .experts = 256, .moe_layers = 58},
    .ranks = 1,
    .host_ranks = 1,
    .kv = 1e9,
    .step = 0.4e9,
};
static const struct memory_fit serve = {.model = "/v3", .has_kv_option = true};

static struct machine_memory machine(double total, double free_gb) {
    return (struct machine_memory){.total_bytes = (uint64_t)(total * 1e9),
                                   .free_bytes = (uint64_t)(free_gb * 1e9)};
}

TEST(a_model_that_fits_passes) {
    char text[512];
    struct machine_memory large = machine(768, 700);
    assert_true(memory_fit_verify(&serve, &v3, &large, text));
    assert_string_equal(text, "");
    struct machine_memory unknown = {.total_bytes = 0};
    assert_true(memory_fit_verify(&serve, &v3, &unknown, text));
}

TEST(one_that_does_not_gets_the_sum_and_the_number_of_machines) {
    char text[512];
    struct machine_memory small = machine(25, 23.5);
    assert_false(memory_fit_verify(&serve, &v3, &small, text));
    assert_string_equal(text,
                        "/v3: needs 671 GB of memory (weights 669, KV 1.00, step 0.40); this "
                        "machine has 25.0 GB, of which 23.5 are free; 128 such machines would "
                        "hold it (`fathom serve --ranks 128 --hosts`, docs/cluster.md); "
                        "--force loads it anyway");
    struct memory_need spread = v3;
    spread.ranks = 128;
    assert_true(memory_fit_verify(&serve, &spread, &small, text));
}

TEST(a_smaller_kv_memory_is_proposed_where_it_helps) {
    char text[512];
    struct memory_need need = v3;
    struct machine_memory large = machine(700, 690);
    need.kv = 100e9;
    assert_false(memory_fit_verify(&serve, &need, &large, text));
    const char *proposed = strstr(text, "--kv-memory ");
    assert_non_null(proposed);
    need.kv = strtod(proposed + strlen("--kv-memory "), NULL) * (1 << 20);
    assert_true(memory_fit_verify(&serve, &need, &large, text));
    struct memory_fit chat = {.model = "/v3"};
    need.kv = 100e9;
    assert_false(memory_fit_verify(&chat, &need, &large, text));
    assert_null(strstr(text, "--kv-memory"));
}

/* A typing error must not end in a plan for many machines. */
TEST(a_kv_memory_that_is_far_too_large_is_cut_to_what_fits) {
    char text[512];
    struct memory_need need = {.model = {.common = 40e6}, .ranks = 1, .host_ranks = 1};
    struct machine_memory small = machine(25, 23.5);
    need.kv = 1000 * 1073741824.0;
    assert_false(memory_fit_verify(&serve, &need, &small, text));
    assert_null(strstr(text, "machines"));
    assert_non_null(strstr(text, "give --kv-memory 22372MiB or less"));
}

TEST(memory_that_others_use_is_named) {
    char text[512];
    struct machine_memory busy = machine(768, 300);
    assert_false(memory_fit_verify(&serve, &v3, &busy, text));
    assert_non_null(strstr(text, "of which 300 are free; it fits if other programs free theirs"));
}

TEST(a_control_group_is_named) {
    char text[512];
    struct machine_memory group = machine(8, 7);
    group.limited = true;
    assert_false(memory_fit_verify(&serve, &v3, &group, text));
    assert_non_null(
        strstr(text, "this process's control group has 8.00 GB, of which 7.00 are free"));
    assert_non_null(strstr(text, "no number of such machines would hold it"));
}
