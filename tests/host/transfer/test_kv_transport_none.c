/* SPDX-License-Identifier: Apache-2.0
 * Protects the build without UCX: it says what is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/transfer/kv_transport.h"

static void opening_says_what_is_missing(void **state) {
    struct kv_transport_options options = kv_transport_defaults();
    struct kv_transport *transport = NULL;
    struct error error;
    assert_int_equal(kv_transport_open(&options, &transport, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libucx-dev"));
    assert_null(transport);
    kv_transport_close(transport);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(opening_says_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
