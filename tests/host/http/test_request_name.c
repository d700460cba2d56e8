/* SPDX-License-Identifier: Apache-2.0
 * Protects the name of a request: fresh ones differ and say their random number, and a client's own
 * is taken only where it can stand in a header.
 */
#include "host/http/request_name.h"

#include "test_case.h"

TEST(a_fresh_name_is_its_random_number) {
    struct request_name first, second;
    char expected[40];
    request_name_draw(&first);
    request_name_draw(&second);
    snprintf(expected, sizeof expected, "%016llx%016llx", (unsigned long long)first.random[0],
             (unsigned long long)first.random[1]);
    assert_string_equal(first.text, expected);
    assert_string_not_equal(first.text, second.text);
}

TEST(a_client_may_give_its_own) {
    struct request_name name;
    request_name_draw(&name);
    request_name_take(&name, BYTES_LITERAL("job-7/ü"));
    request_name_take(&name, BYTES_LITERAL("job 7"));
    request_name_take(&name, BYTES_LITERAL(""));
    char longer[REQUEST_NAME_BYTES_MAX + 1];
    memset(longer, 'x', sizeof longer);
    request_name_take(&name, (struct bytes){longer, sizeof longer});
    assert_int_equal(strlen(name.text), 32);
    request_name_take(&name, (struct bytes){longer, sizeof longer - 1});
    assert_int_equal(strlen(name.text), REQUEST_NAME_BYTES_MAX);
    request_name_take(&name, BYTES_LITERAL("job-7"));
    assert_string_equal(name.text, "job-7");
}
