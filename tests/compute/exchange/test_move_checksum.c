/* SPDX-License-Identifier: Apache-2.0
 * Protects the checksum of moved experts: it is the same for any division into multiples of 32
 * bytes, and differs for any single changed bit, for exchanged words and for another length.
 */
#include "test_case.h"

#include "compute/exchange/move_checksum.h"

static uint64_t sum_of(const char *data, size_t bytes, size_t piece) {
    struct move_checksum sum;
    move_checksum_begin(&sum);
    for (size_t at = 0; at < bytes; at += piece)
        move_checksum_add(&sum, data + at, bytes - at < piece ? bytes - at : piece);
    return move_checksum_end(&sum);
}

TEST(a_sum_follows_from_bytes_and_their_places) {
    char data[1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * i + 3 * i);
    uint64_t whole = sum_of(data, sizeof data, sizeof data);
    assert_true(whole == sum_of(data, sizeof data, 32));
    assert_true(whole == sum_of(data, sizeof data, 96));
    assert_true(whole != sum_of(data, sizeof data - 1, sizeof data));
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        assert_true(whole != sum_of(data, sizeof data, 64));
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    char exchanged[1000];
    memcpy(exchanged, data, sizeof data);
    memcpy(exchanged, data + 8, 8);
    memcpy(exchanged + 8, data, 8);
    assert_true(whole != sum_of(exchanged, sizeof data, 64));
    memcpy(exchanged, data + 32, 32);
    memcpy(exchanged + 32, data, 32);
    assert_true(whole != sum_of(exchanged, sizeof data, 64));
    char zeros[96] = {0};
    assert_true(sum_of(zeros, 64, 32) != sum_of(zeros, 96, 32));
}
