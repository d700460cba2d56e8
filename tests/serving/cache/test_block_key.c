/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/block_key.h"

#include "test_case.h"

static struct block_key_identity identity(const char *numerics, const char *salt) {
    return (struct block_key_identity){
        .model_id = {1, 2, 3}, .numerics_id = bytes_of(numerics), .tenant_salt = bytes_of(salt)};
}

static void assert_differ(struct block_key a, struct block_key b) {
    assert_false(block_key_equal(&a, &b));
}

/* Keys that live on disks and in other processes must never change by accident: these values were
 * computed with Python's hashlib from the formula in the header. */
TEST(keys_are_those_of_the_formula) {
    static const char *const expected[] = {
        "edb46d858c6b27022586d1598a4a03b69193207e60764659fac44c4147ee9c83",
        "3aaae6f23c6c96ac9b41deaa8826d53090f224a83c4b3697687d9fa5384a7dc6",
        "3ca7b0edcedec3d387bacee54b2729c93c433adb43c49ff1dbed0edd9da26304",
        "f4fb752e34a6f177020fe5eef9771a95504e7ffe5d955a8fbcfed4fc20564ca1",
    };
    uint32_t tokens[KV_BLOCK_TOKENS];
    uint8_t forms[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++) {
        tokens[i] = i * 1000003u;
        forms[i] = i >= 40;
    }
    struct block_key_identity who = identity("fma1.bf16.v1", "tenant");
    for (int chain = 0; chain < BLOCK_KEY_CHAIN_COUNT; chain++) {
        struct block_key keys[2];
        keys[0] = block_key_root(chain, &who);
        keys[1] = block_key_next(chain, &keys[0], tokens, forms);
        for (int i = 0; i < 2; i++) {
            char text[65];
            for (int b = 0; b < 32; b++)
                snprintf(text + 2 * b, 3, "%02x", keys[i].bytes[b]);
            assert_string_equal(text, expected[2 * chain + i]);
        }
    }
}

/* Whatever the numbers of a block depend on must change its key; forms only the true one. */
TEST(every_part_counts) {
    struct block_key_identity a = identity("n", "s"), b = identity("ns", ""), c = a;
    c.model_id[31] = 1;
    struct block_key root = block_key_root(BLOCK_KEY_TRUE, &a);
    assert_differ(root, block_key_root(BLOCK_KEY_TRUE, &b));
    assert_differ(root, block_key_root(BLOCK_KEY_TRUE, &c));
    assert_differ(root, block_key_root(BLOCK_KEY_MODE_FREE, &a));

    uint32_t tokens[KV_BLOCK_TOKENS] = {0}, others[KV_BLOCK_TOKENS] = {0};
    uint8_t forms[KV_BLOCK_TOKENS] = {0}, generated[KV_BLOCK_TOKENS] = {0};
    others[63] = 1;
    generated[63] = 1;
    struct block_key first = block_key_next(BLOCK_KEY_TRUE, &root, tokens, forms);
    assert_differ(first, block_key_next(BLOCK_KEY_TRUE, &root, others, forms));
    assert_differ(first, block_key_next(BLOCK_KEY_TRUE, &root, tokens, generated));
    assert_differ(first, block_key_next(BLOCK_KEY_TRUE, &first, tokens, forms));
    struct block_key free_form = block_key_next(BLOCK_KEY_MODE_FREE, &root, tokens, forms);
    struct block_key same = block_key_next(BLOCK_KEY_MODE_FREE, &root, tokens, generated);
    assert_true(block_key_equal(&free_form, &same));
    assert_differ(free_form, first);
}
