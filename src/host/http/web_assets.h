/* SPDX-License-Identifier: Apache-2.0
 * The chat page (src/web/), embedded in the binary by web_assets.S. A row of web_assets.inc adds a
 * file.
 */
#pragma once

#include "host/http/http_server.h"

#define ASSET(symbol, path, file, type) +1
enum {
    WEB_ASSET_COUNT = 0
#include "host/http/web_assets.inc"
};
#undef ASSET

/* Fills out[WEB_ASSET_COUNT] and returns that count; the contents are static. */
size_t web_assets_list(struct http_asset *out);
