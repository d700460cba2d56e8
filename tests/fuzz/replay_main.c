/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target over files, without a fuzzer: each argument is a file or a directory of files.
 * So the ordinary tests replay every seed, with any compiler. Fails if there was nothing to replay.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status)) {
        perror(path);
        return -1;
    }
    size_t bytes = (size_t)status.st_size;
    uint8_t *data = malloc(bytes ? bytes : 1); /* of exact size, so that sanitizers see overreads */
    if (!data || fread(data, 1, bytes, file) != bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    return 1;
}

/* Files replayed, or -1. */
static int replay_directory(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return replay_file(path);
    int count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(directory));) {
        char name[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        count = replay_file(name) < 0 ? -1 : count + 1;
    }
    closedir(directory);
    return count;
}

int main(int argc, char **argv) {
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int count = replay_directory(argv[i]);
        if (count < 0) return 1;
        total += count;
    }
    printf("%d inputs replayed\n", total);
    return total > 0 ? 0 : 1;
}
