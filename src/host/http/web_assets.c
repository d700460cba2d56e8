/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/web_assets.h"

extern const char web_index_start[], web_index_end[], web_script_start[], web_script_end[],
    web_style_start[], web_style_end[], web_icon_start[], web_icon_end[];

static struct http_asset asset(const char *path, const char *type, const char *start,
                               const char *end) {
    return (struct http_asset){path, type, {start, (size_t)(end - start)}};
}

void web_assets_list(struct http_asset *out) {
    const char *html = "text/html; charset=utf-8", *script = "text/javascript; charset=utf-8";
    out[0] = asset("/", html, web_index_start, web_index_end);
    out[1] = asset("/chat.js", script, web_script_start, web_script_end);
    out[2] = asset("/chat.css", "text/css; charset=utf-8", web_style_start, web_style_end);
    out[3] = asset("/icon.svg", "image/svg+xml", web_icon_start, web_icon_end);
    out[4] = asset("/favicon.ico", "image/svg+xml", web_icon_start, web_icon_end);
}
