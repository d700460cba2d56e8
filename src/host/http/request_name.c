/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/request_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"

void request_name_draw(struct request_name *name) {
    check(getrandom(name->random, sizeof name->random, 0) == sizeof name->random);
    snprintf(name->text, sizeof name->text, "%016" PRIx64 "%016" PRIx64, name->random[0],
             name->random[1]);
}

void request_name_take(struct request_name *name, struct bytes given) {
    if (given.count == 0 || given.count > REQUEST_NAME_BYTES_MAX) return;
    for (size_t i = 0; i < given.count; i++)
        if (given.data[i] <= ' ' || given.data[i] > '~') return;
    memcpy(name->text, given.data, given.count);
    name->text[given.count] = '\0';
}
