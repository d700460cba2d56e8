/* SPDX-License-Identifier: Apache-2.0
 * Protects the decoding of paths: each byte comes out once, and what is no encoding is known.
 */
#include "base/check.h"
#include "base/url_path.h"
#include "test_case.h"

static void assert_decoded(const char *text, const char *expected) {
    char out[64];
    assert_true(url_path_is_valid(bytes_of(text)));
    struct bytes decoded = {out, url_path_decode(bytes_of(text), out, sizeof out)};
    if (!bytes_equal(decoded, bytes_of(expected)))
        fail_msg("%s: %.*s", text, (int)decoded.count, out);
}

TEST(each_byte_is_decoded_once) {
    assert_decoded("", "");
    assert_decoded("tiny-r1", "tiny-r1");
    assert_decoded("lab%2Ftiny%3a1", "lab/tiny:1");
    assert_decoded("a+b%20c", "a+b c");
    assert_decoded("%252F", "%2F");
    assert_decoded("%E6%B7%B1", "\xE6\xB7\xB1");
    assert_decoded("%2e%2e%2fhealth", "../health");
}

TEST(what_is_no_encoding_is_known) {
    static const char *const bad[] = {"%", "%2", "a%zz", "%2g", "%%41", "% 41", "%-1", "a%00b"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        if (url_path_is_valid(bytes_of(bad[i]))) fail_msg("let in: %s", bad[i]);
    char out[8];
    assert_int_equal(url_path_decode(bytes_of("%%41%4"), out, sizeof out), 4);
    assert_memory_equal(out, "%A%4", 4);
}

TEST(nothing_is_written_beyond_the_room) {
    char out[4] = {'-', '-', '-', '-'};
    assert_int_equal(url_path_decode(bytes_of("%41%42%43"), out, 2), 2);
    assert_memory_equal(out, "AB--", 4);
}
