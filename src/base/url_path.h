/* SPDX-License-Identifier: Apache-2.0
 * Percent-encoding in the path of a URL (RFC 3986, 2.1): '%' and two hexadecimal digits encode one
 * byte. A path is split at each '/' first and then decoded exactly once.
 */
#pragma once

#include "base/bytes.h"

/* True if two hexadecimal digits follow each '%', and no encoded byte is zero. */
bool url_path_is_valid(struct bytes text);

/* Decodes a text into out[room], truncated to `room`, and returns the bytes written. A '%' that
 * starts no valid encoding is copied. */
size_t url_path_decode(struct bytes text, char *out, size_t room);
