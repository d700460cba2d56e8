/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url_path.h"

static int url_path_hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The byte encoded by the percent triplet (%XX) at `at`, where text.data[at] is '%'; -1 if two hex
 * digits do not follow. */
static int encoded_byte(struct bytes text, size_t at) {
    if (text.count - at < 3) return -1;
    int high = url_path_hex_value(text.data[at + 1]), low = url_path_hex_value(text.data[at + 2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool url_path_is_valid(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        if (text.data[i] == '%' && encoded_byte(text, i) <= 0) return false; /* also rejects %00 */
    return true;
}

size_t url_path_decode(struct bytes text, char *out, size_t room) {
    size_t count = 0;
    for (size_t i = 0; i < text.count && count < room; i++) {
        int byte = text.data[i] == '%' ? encoded_byte(text, i) : -1;
        out[count++] = byte < 0 ? text.data[i] : (char)byte;
        if (byte >= 0) i += 2;
    }
    return count;
}
