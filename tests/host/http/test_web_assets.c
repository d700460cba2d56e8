/* SPDX-License-Identifier: Apache-2.0
 * Protects the embedded chat page: every file of src/web is in the binary, to the byte, at its
 * path.
 */
#include "host/http/web_assets.h"

#include <dirent.h>

#include "test_case.h"

static const char *const files[WEB_ASSET_COUNT] = {
#define ASSET(symbol, path, file, type) file,
#include "host/http/web_assets.inc"
#undef ASSET
};

static FILE *open_source(const char *name, char path[400]) {
    snprintf(path, 400, "%.300s/src/web/%.60s", getenv("FATHOM_SOURCE"), name);
    return fopen(path, "rb");
}

TEST(each_path_has_its_file_of_the_sources) {
    static char content[1 << 20];
    struct http_asset assets[WEB_ASSET_COUNT];
    assert_int_equal(web_assets_list(assets), WEB_ASSET_COUNT);
    assert_string_equal(assets[0].path, "/");
    for (int i = 0; i < WEB_ASSET_COUNT; i++) {
        char path[400];
        FILE *file = open_source(files[i], path);
        assert_non_null(file);
        size_t bytes = fread(content, 1, sizeof content, file);
        fclose(file);
        assert_int_equal(assets[i].path[0], '/');
        assert_true(bytes > 0 && bytes == assets[i].content.count);
        assert_memory_equal(assets[i].content.data, content, bytes);
    }
}

TEST(each_file_of_the_sources_has_a_path) {
    char path[400];
    snprintf(path, sizeof path, "%.300s/src/web", getenv("FATHOM_SOURCE"));
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || !strchr(entry->d_name, '.')) continue; /* a folder */
        int found = 0;
        for (int i = 0; i < WEB_ASSET_COUNT; i++)
            found += !strcmp(files[i], entry->d_name);
        if (!found) fail_msg("%s has no row in web_assets.inc", entry->d_name);
    }
    closedir(folder);
}
