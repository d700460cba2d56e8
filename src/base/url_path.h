/* SPDX-License-Identifier: Apache-2.0
 * Percent-encoding in the path of a URL (RFC 3986, 2.1): '%' and two hexadecimal digits are one byte.
 * A path is split at its '/' first and decoded once: what comes out is never decoded again.
 */
#ifndef BASE_URL_PATH_H
#define BASE_URL_PATH_H

#include "base/bytes.h"

/* True if two hexadecimal digits stand behind each '%', and none of them says a zero byte. */
bool url_path_is_valid(struct bytes text);

/* Decodes a text into out[room] and returns the bytes written; what has no room is left out. A '%'
 * that is no encoding stays as it is. */
size_t url_path_decode(struct bytes text, char *out, size_t room);

#endif
