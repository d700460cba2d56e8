/* SPDX-License-Identifier: Apache-2.0
 * Protects the functions that every template has. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ range(4)|count }}", "4"},
    {"{{ range(4)|d|list }}", "[0, 1, 2, 3]"},
    {"{{ range(4)|default|list }}", "[0, 1, 2, 3]"},
    {"{{ range(4)|dictsort }}", NULL},
    {"{{ range(4)|first }}", "0"},
    {"{{ range(4)|int }}", "0"},
    {"{{ range(4)|join }}", "0123"},
    {"{{ range(4)|last }}", "3"},
    {"{{ range(4)|length }}", "4"},
    {"{{ range(4)|list }}", "[0, 1, 2, 3]"},
    {"{{ range(4)|max }}", "3"},
    {"{{ range(4)|min }}", "0"},
    {"{{ range(4)|reverse|list }}", "[3, 2, 1, 0]"},
    {"{{ range(4)|sort }}", "[0, 1, 2, 3]"},
    {"{{ range(4)|tojson }}", NULL},
    {"{{ range(4)|unique|list }}", "[0, 1, 2, 3]"},
    {"{{ range(4)|map|list }}", NULL},
    {"{{ range(4)|select|list }}", "[1, 2, 3]"},
    {"{{ range(4)|reject|list }}", "[0]"},
    {"{{ range(4)|indent }}", NULL},
};

TEST(functions_agree_with_jinja) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ strftime_now('%d %B %Y %H:%M:%S') }}", "05 March 2024 14:07:09"},
};

TEST(time_is_reported_in_utc) {
    AGREES(rows_1);
}

/* clang-format on */
