/* SPDX-License-Identifier: Apache-2.0
 * Encoded bodies: the first byte chooses the coding and how the rest is cut. A body never grows
 * beyond its limit or the memory it was given, and pieces make the same of it as the whole does.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/http/request_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)1 << 20)

static size_t held;

static bool hold(void *context, size_t more) {
    held += more;
    return true;
}

/* 0 if the body was taken to its end. */
static uint32_t take_in_pieces(struct request_body *body, enum content_coding coding,
                               struct bytes text, size_t step) {
    uint32_t status = 0;
    held = 0;
    *body = (struct request_body){.coding = coding, .bytes_max = LIMIT, .hold = hold};
    while (text.count && !status) {
        size_t count = text.count < step ? text.count : step;
        status = request_body_take(body, (struct bytes){text.data, count});
        text = (struct bytes){text.data + count, text.count - count};
    }
    check(status == 0 || status == 400 || status == 413);
    check(body->count <= LIMIT && body->capacity <= 2 * LIMIT);
    check(held <= content_decoder_bytes(coding) +
                      content_decoder_weight(coding) * (body->count + ((size_t)16 << 10)));
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct request_body whole, cut;
    if (size == 0) return 0;
    enum content_coding coding = (enum content_coding)(CODING_GZIP + data[0] % 3);
    size_t step = 1 + data[0] / 3;
    struct bytes text = {(const char *)data + 1, size - 1};
    uint32_t at_once = take_in_pieces(&whole, coding, text, SIZE_MAX);
    uint32_t in_pieces = take_in_pieces(&cut, coding, text, step);
    check((at_once == 0) == (in_pieces == 0)); /* 400 or 413: what is seen first */
    check(at_once || request_body_is_decoded(&whole) == request_body_is_decoded(&cut));
    check(at_once || (whole.count == cut.count &&
                      (whole.count == 0 || !memcmp(whole.text, cut.text, whole.count))));
    request_body_clear(&whole);
    request_body_clear(&cut);
    return 0;
}
