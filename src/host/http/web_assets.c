/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/web_assets.h"

#define ASSET(symbol, path, file, type)                                                            \
    extern const char web_##symbol##_start[], web_##symbol##_end[];
#include "host/http/web_assets.inc"
#undef ASSET

size_t web_assets_list(struct http_asset *out) {
    size_t count = 0;
#define ASSET(symbol, path, file, type)                                                            \
    out[count++] = (struct http_asset){                                                            \
        path, type, {web_##symbol##_start, (size_t)(web_##symbol##_end - web_##symbol##_start)}};
#include "host/http/web_assets.inc"
#undef ASSET
    return count;
}
