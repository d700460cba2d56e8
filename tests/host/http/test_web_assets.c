/* SPDX-License-Identifier: Apache-2.0
 * Protects the embedded chat page: every file of it is in the binary, to the byte.
 */
#include "host/http/web_assets.h"

#include "test_case.h"

TEST(each_path_has_its_file_of_the_sources) {
    static const char *const files[WEB_ASSET_COUNT] = {"index.html", "chat.js", "chat.css",
                                                       "icon.svg", "icon.svg"};
    static const char *const paths[WEB_ASSET_COUNT] = {"/", "/chat.js", "/chat.css", "/icon.svg",
                                                       "/favicon.ico"};
    static char content[1 << 20];
    struct http_asset assets[WEB_ASSET_COUNT];
    web_assets_list(assets);
    for (int i = 0; i < WEB_ASSET_COUNT; i++) {
        char path[400];
        snprintf(path, sizeof path, "%.300s/src/web/%s", getenv("FATHOM_SOURCE"), files[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t bytes = fread(content, 1, sizeof content, file);
        fclose(file);
        assert_string_equal(assets[i].path, paths[i]);
        assert_true(bytes > 0 && bytes == assets[i].content.count);
        assert_memory_equal(assets[i].content.data, content, bytes);
    }
}
