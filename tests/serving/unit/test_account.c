/* SPDX-License-Identifier: Apache-2.0
 * A request's account, by hand: what each way of obtaining tokens adds, and that the sums hold
 * whatever comes in between. (The worlds of the other tests check every account that a unit tells
 * against the rows that the engine saw.)
 */

#include "serving/unit/account.h"
#include "test_case.h"

static struct unit_request request;

static void begin(uint32_t prompt_count) {
    request = (struct unit_request){.prompt_count = prompt_count, .arrived_ns = 100};
    request.work.queue_ns = -1;
}

static void assert_sums(uint32_t hit, uint32_t computed, uint32_t again) {
    struct unit_work work;
    account_report(&request, &work);
    assert_int_equal(work.prompt_hit_tokens, hit);
    assert_int_equal(work.prompt_hit_tokens + work.prompt_miss_tokens, request.prompt_count);
    assert_int_equal(work.computed_tokens, computed);
    assert_int_equal(work.recomputed_tokens, again);
    assert_int_equal(work.device_tokens + work.host_tokens + work.disk_tokens +
                         work.transferred_tokens + work.computed_tokens,
                     request.computed_peak < request.prompt_count ? request.computed_peak
                                                                  : request.prompt_count);
}

TEST(every_kv_offload_has_its_column) {
    begin(400);
    account_found(&request, 320);
    assert_sums(0, 0, 0); /* it has not run */
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_obtained(&request, ACCOUNT_DISK, 64, 192);
    account_obtained(&request, ACCOUNT_HOST, 192, 256);
    request.work.load_ns = 30;
    account_begins(&request, 150);
    account_obtained(&request, ACCOUNT_COMPUTED, 256, 400);
    account_obtained(&request, ACCOUNT_COMPUTED, 400, 410); /* of the answer: nobody's */
    assert_sums(320, 144, 0);                               /* one block was faster computed */
    assert_int_equal(request.work.device_tokens, 64);
    assert_int_equal(request.work.disk_tokens, 128);
    assert_int_equal(request.work.host_tokens, 64);
    assert_int_equal(request.work.queue_ns, 20);
    account_begins(&request, 900);
    assert_int_equal(request.work.queue_ns, 20);
}

TEST(what_the_storage_could_not_give_was_no_hit) {
    begin(400);
    account_found(&request, 320);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_missed(&request, 128);
    account_obtained(&request, ACCOUNT_DISK, 64, 128);
    account_begins(&request, 150);
    account_obtained(&request, ACCOUNT_COMPUTED, 128, 400);
    assert_sums(128, 272, 0);
}

TEST(what_comes_again_counts_apart) {
    begin(300);
    account_begins(&request, 100);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_obtained(&request, ACCOUNT_COMPUTED, 64, 192);
    account_obtained(&request, ACCOUNT_DEVICE, 0,
                     128); /* interrupted; most of it was still there */
    account_obtained(&request, ACCOUNT_COMPUTED, 128, 192);
    assert_sums(64, 128, 64);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 256); /* others had gone further meanwhile */
    account_obtained(&request, ACCOUNT_COMPUTED, 256, 300);
    assert_sums(128, 172, 64);
    account_obtained(&request, ACCOUNT_HOST, 0, 128);
    account_obtained(&request, ACCOUNT_COMPUTED, 128, 300);
    assert_sums(128, 172, 64 + 172);
    assert_int_equal(request.work.reloaded_tokens, 128);
    assert_int_equal(request.work.host_tokens, 0);
}

/* Of an answer begun elsewhere the last token was chosen there, but never computed. */
TEST(an_answer_begun_elsewhere_is_computed_again) {
    begin(100);
    request.resumed_count = request.output_count = 50;
    account_begins(&request, 100);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 128);
    account_obtained(&request, ACCOUNT_COMPUTED, 128, 150);
    assert_sums(100, 0, 21);
}

/* The transfer failed: all that it should have brought is computed. */
TEST(a_transfer_comes_whole_or_not_at_all) {
    begin(200);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_obtained(&request, ACCOUNT_TRANSFERRED, 64, 200);
    account_begins(&request, 100);
    assert_sums(64, 0, 0);
    assert_int_equal(request.work.transferred_tokens, 136);
    begin(200);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_obtained(&request, ACCOUNT_DEVICE, 0, 64);
    account_begins(&request, 100);
    account_obtained(&request, ACCOUNT_COMPUTED, 64, 200);
    assert_sums(64, 136, 0);
    assert_int_equal(request.work.transferred_tokens, 0);
}
