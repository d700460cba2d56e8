/* SPDX-License-Identifier: Apache-2.0
 * What a block of a sequence holds: all its rows, the first ones of the last block, none behind it.
 */
#include "contract/kv_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void rows_of_all_blocks_are_the_sequence(void **state) {
    (void)state;
    for (uint32_t tokens = 0; tokens < 300; tokens++) {
        uint32_t sum = 0;
        for (uint32_t block = 0; block < 7; block++) {
            uint32_t rows = kv_block_rows(tokens, block);
            assert_true(rows <= KV_BLOCK_TOKENS);
            if (block > 0 && rows > 0)
                assert_int_equal(kv_block_rows(tokens, block - 1), KV_BLOCK_TOKENS);
            sum += rows;
        }
        assert_int_equal(sum, tokens);
    }
    assert_int_equal(kv_block_rows(UINT32_MAX, UINT32_MAX), 0); /* far behind it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_blocks_are_the_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
