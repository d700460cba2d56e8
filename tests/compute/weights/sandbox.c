/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"

#define PATH_BYTES 512

static const char *path_of(const char *directory, const char *file, char out[PATH_BYTES]) {
    format_text(out, PATH_BYTES, "%s/%s", directory, file);
    return out;
}

int sandbox_make(void **state) {
    const char *root = getenv("TMPDIR");
    char *directory = malloc(PATH_BYTES);
    check(directory);
    format_text(directory, PATH_BYTES, "%s/fathom-test-XXXXXX", root ? root : "/tmp");
    *state = directory;
    return mkdtemp(directory) ? 0 : -1;
}

int sandbox_remove(void **state) {
    char *directory = *state;
    DIR *listing = opendir(directory);
    check(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.') sandbox_delete(directory, entry->d_name);
    closedir(listing);
    int failed = rmdir(directory);
    free(directory);
    return failed;
}

void sandbox_write(const char *directory, struct random_checkpoint plan) {
    struct error error;
    plan.directory = directory;
    enum status status = random_checkpoint_write(&plan, &error);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", error.text);
    check(status == STATUS_OK);
}

struct bytes sandbox_read(const char *directory, const char *file) {
    char path[PATH_BYTES];
    FILE *in = fopen(path_of(directory, file, path), "rb");
    check(in);
    fseek(in, 0, SEEK_END);
    size_t bytes = (size_t)ftell(in);
    rewind(in);
    char *data = malloc(bytes + 1);
    check(data && fread(data, 1, bytes, in) == bytes);
    data[bytes] = '\0';
    fclose(in);
    return (struct bytes){data, bytes};
}

void sandbox_replace(const char *directory, const char *file, struct bytes content) {
    char path[PATH_BYTES];
    FILE *out = fopen(path_of(directory, file, path), "wb");
    check(out && fwrite(content.data, 1, content.count, out) == content.count);
    check(fclose(out) == 0);
}

void sandbox_delete(const char *directory, const char *file) {
    char path[PATH_BYTES];
    check(unlink(path_of(directory, file, path)) == 0);
}

void sandbox_cut(const char *directory, const char *file, size_t bytes_less) {
    char path[PATH_BYTES];
    struct bytes content = sandbox_read(directory, file);
    check(content.count >= bytes_less);
    check(truncate(path_of(directory, file, path), (off_t)(content.count - bytes_less)) == 0);
    free((void *)(uintptr_t)content.data);
}

void sandbox_edit(const char *directory, const char *file, const char *old, const char *new) {
    struct bytes content = sandbox_read(directory, file);
    const bool tensors = !strcmp(file + strlen(file) - strlen("safetensors"), "safetensors");
    const size_t start = tensors ? 8 : 0;
    const char *place = strstr(content.data + start, old);
    if (!place) fprintf(stderr, "%s has no '%s'\n", file, old);
    check(place);
    const size_t before = (size_t)(place - content.data);
    const size_t after = content.count - before - strlen(old);
    char *changed = malloc(content.count + strlen(new));
    check(changed);
    memcpy(changed, content.data, before);
    memcpy(changed + before, new, strlen(new));
    memcpy(changed + before + strlen(new), place + strlen(old), after);
    uint64_t length = 0;
    for (int i = 7; tensors && i >= 0; i--)
        length = length << 8 | (uint8_t)content.data[i];
    length += strlen(new) - strlen(old);
    for (int i = 0; tensors && i < 8; i++)
        changed[i] = (char)(length >> (8 * i) & 0xFF);
    sandbox_replace(directory, file, (struct bytes){changed, before + strlen(new) + after});
    free(changed);
    free((void *)(uintptr_t)content.data);
}
