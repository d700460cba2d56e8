/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/configuration/default_model.h"

#include "base/check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status default_model_find(char *path_out, size_t path_bytes, struct error *error) {
    static const char *const places[] = {"../models", "../share/fathom/models"};
    char directory[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
    if (length <= 0)
        return error_set(
            error, STATUS_NOT_FOUND,
            "cannot read /proc/self/exe (%s), and with it the folder of the embedded model; "
            "mount /proc or name a model with --model DIR",
            strerror(errno));
    directory[length] = 0;
    *strrchr(directory, '/') = 0; /* /proc returns an absolute path */
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s/%s/" DEFAULT_MODEL "/config.json", directory, places[i]);
        if (access(path, R_OK) != 0) continue;
        int written = snprintf(path_out, path_bytes, "%s/%s/" DEFAULT_MODEL, directory, places[i]);
        if (written > 0 && (size_t)written < path_bytes) return STATUS_OK;
    }
    return error_set(error, STATUS_NOT_FOUND,
                     "no model " DEFAULT_MODEL
                     " in %.180s/../models or ../share/fathom/models; name "
                     "one with --model DIR",
                     directory);
}
