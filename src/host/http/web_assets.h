/* SPDX-License-Identifier: Apache-2.0
 * The chat page (src/web/), embedded in the binary by web_assets.S.
 */
#pragma once

#include "host/http/http_server.h"

#define WEB_ASSET_COUNT 5

/* Fills out[WEB_ASSET_COUNT]; the contents are static. */
void web_assets_list(struct http_asset *out);
