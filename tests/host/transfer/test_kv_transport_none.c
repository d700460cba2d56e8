/* SPDX-License-Identifier: Apache-2.0
 * Protects the build without UCX: it says what is missing.
 */
#include "host/transfer/kv_transport.h"
#include "test_case.h"

TEST(opening_says_what_is_missing) {
    struct kv_transport_options options = kv_transport_defaults();
    struct kv_transport *transport = NULL;
    struct error error;
    assert_int_equal(kv_transport_open(&options, &transport, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libucx-dev"));
    assert_null(transport);
    kv_transport_close(transport);
}
