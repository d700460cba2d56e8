/* SPDX-License-Identifier: Apache-2.0
 * Protects block keys and checkpoint identities: SHA-256 must be SHA-256 on every build, or caches
 * written by one are lost to the other.
 */
#include "base/check.h"
#include "base/sha256.h"
#include "test_case.h"

static const char *hex(const uint8_t digest[SHA256_BYTES], char out[2 * SHA256_BYTES + 1]) {
    for (int i = 0; i < SHA256_BYTES; i++)
        sprintf(out + 2 * i, "%02x", digest[i]);
    return out;
}

static void plain_digest(const void *data, size_t bytes, uint8_t out[SHA256_BYTES]) {
    struct sha256 hash;
    sha256_plain_init(&hash);
    sha256_plain_update(&hash, data, bytes);
    sha256_plain_final(&hash, out);
}

/* FIPS 180-2, appendix B, and the empty message of NIST's test vectors. */
TEST(it_agrees_with_the_published_vectors) {
    static char million[1000000];
    memset(million, 'a', sizeof million);
    const struct {
        const char *text;
        size_t bytes;
        const char *digest;
    } vectors[] = {
        {"", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {million, sizeof million,
         "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        uint8_t digest[SHA256_BYTES];
        char text[2 * SHA256_BYTES + 1];
        sha256_digest(vectors[i].text, vectors[i].bytes, digest);
        assert_string_equal(hex(digest, text), vectors[i].digest);
        plain_digest(vectors[i].text, vectors[i].bytes, digest);
        assert_string_equal(hex(digest, text), vectors[i].digest);
    }
}

/* Every length around the block's edges, and pieces of any size, give one digest in both codes. */
TEST(pieces_and_twins_agree) {
    uint8_t data[300], whole[SHA256_BYTES], digest[SHA256_BYTES];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + 11);
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        struct sha256 hash, plain;
        sha256_digest(data, bytes, whole);
        plain_digest(data, bytes, digest);
        assert_memory_equal(whole, digest, SHA256_BYTES);
        sha256_init(&hash);
        sha256_plain_init(&plain);
        for (size_t at = 0, step = 1; at < bytes; at += step, step = step * 3 % 71 + 1) {
            if (step > bytes - at) step = bytes - at;
            sha256_update(&hash, data + at, step);
            sha256_plain_update(&plain, data + at, step);
        }
        sha256_final(&hash, digest);
        assert_memory_equal(whole, digest, SHA256_BYTES);
        sha256_plain_final(&plain, digest);
        assert_memory_equal(whole, digest, SHA256_BYTES);
    }
}

/* RFC 4231's keys are shorter or longer than ours; a shorter one is one with zeros behind it. */
TEST(hmac_agrees_with_the_published_vectors) {
    static const struct {
        const char *key, *data;
        uint8_t first[4];
    } vectors[] = {
        {"Jefe", "what do ya want for nothing?", {0x5b, 0xdc, 0xc1, 0x46}},
        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b",
         "Hi There",
         {0xb0, 0x34, 0x4c, 0x61}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t key[SHA256_BYTES] = {0}, digest[SHA256_BYTES];
        memcpy(key, vectors[i].key, strlen(vectors[i].key));
        sha256_hmac(key, vectors[i].data, strlen(vectors[i].data), digest);
        assert_memory_equal(digest, vectors[i].first, sizeof vectors[i].first);
    }
}
