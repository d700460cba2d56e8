/* SPDX-License-Identifier: Apache-2.0
 * fathom make-checkpoint: writes a checkpoint of random weights, to measure speed without a
 * download and to try odd shapes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "compute/weights/named_shapes.h"
#include "compute/weights/random_checkpoint.h"
#include "programs/programs.h"

#define CONFIG_FILE_BYTES_MAX ((size_t)1 << 20)
#define PATH_BYTES 4096
#define SHOWN_NS 10000000000 /* between two lines of progress */

struct make_values {
    const char *shape, *weights;
    uint64_t seed, shards, layers;
    double bias_mean, bias_deviation;
    bool mtp, without_mtp, force;
};

#define AT(field) offsetof(struct make_values, field)

static const struct option make_rows[] = {
    {"shape", OPTION_TEXT, "tiny",
     "a model's sizes: v3 (671 B parameters), v3.2, v2-lite (16 B), k2 (1 T), glm-5 (744 B), "
     "moonlight (16 B), glm-4.7-flash (30 B), dsv3b (792 M, for benchmarks) or tiny; or a "
     "config.json to follow",
     .offset = AT(shape)},
    {"weights", OPTION_CHOICE, "auto",
     "type of the weights; auto: as published (dsv3b, tiny and v2-lite: fp8), or that of the given "
     "config.json. int4 and mxfp4: of the routed experts, the rest is bf16",
     .offset = AT(weights), .choices = NAMED_WEIGHTS_CHOICES "|f16|f32"},
    {"layers", OPTION_COUNT, "0", "of a named shape, the first ones; 0: all", .offset = AT(layers),
     .maximum = LIMIT_LAYERS},
    {"seed", OPTION_COUNT, "0", "the same seed gives the same weights", .offset = AT(seed)},
    {"shards", OPTION_COUNT, "1", "files to spread the tensors over", .offset = AT(shards),
     .minimum = 1, .maximum = 4096},
    {"mtp", OPTION_FLAG, NULL, "give a named shape an MTP layer", .offset = AT(mtp)},
    {"without-mtp", OPTION_FLAG, NULL, "leave out the MTP layers that config.json announces",
     .offset = AT(without_mtp)},
    {"bias-mean", OPTION_NUMBER, "0", "mean of the router's correction bias",
     .offset = AT(bias_mean)},
    {"bias-deviation", OPTION_NUMBER, "0.15", "standard deviation of the router's correction bias",
     .offset = AT(bias_deviation)},
    {"force", OPTION_FLAG, NULL, "overwrite an existing checkpoint", .offset = AT(force)},
};

const struct option_table make_checkpoint_options = {
    .command = "make-checkpoint",
    .arguments = "DIRECTORY",
    .description =
        "Writes a checkpoint with random weights in the Hugging Face layout. Says its size and the "
        "free disk first, and refuses what does not fit.",
    .options = make_rows,
    .option_count = ARRAY_COUNT(make_rows),
    .positional_min = 1,
    .positional_max = 1,
};

/* Reads a config.json. For weights in FP8 or four bits, puts the keys of such a checkpoint in
 * front. The caller frees it. */
static enum status make_checkpoint_read_config(const char *path, const char *weights,
                                               char **text_out, size_t *bytes_out,
                                               struct error *error) {
    const enum named_weights wanted = named_shapes_find_weights(weights);
    const char *keys = wanted < NAMED_WEIGHTS_COUNT ? named_shapes_quantization(wanted) : "";
    struct bytes file;
    enum status status = file_take(path, CONFIG_FILE_BYTES_MAX, &file, error);
    if (status) return status;
    size_t bytes = file.count, added = strlen(keys);
    char *text = malloc(bytes + added + 1);
    check(text);
    memcpy(text, file.data, bytes);
    free((void *)(uintptr_t)file.data);
    struct shape shape;
    status = shape_parse((struct bytes){text, bytes}, path, &shape, error);
    enum named_weights found = NAMED_WEIGHTS_AUTO;
    if (status == STATUS_OK) found = named_shapes_weights_of(&shape);
    if (status == STATUS_OK && wanted && found != wanted && found != NAMED_WEIGHTS_BF16)
        status = error_set(error, STATUS_INVALID,
                           "%s: expected no quantization_config with --weights %s, found one; "
                           "remove it",
                           path, weights);
    if (status == STATUS_OK && found != wanted && added) {
        size_t brace = (size_t)((char *)memchr(text, '{', bytes) - text) + 1;
        memmove(text + brace + added, text + brace, bytes - brace);
        memcpy(text + brace, keys, added);
        bytes += added;
    }
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    *text_out = text;
    *bytes_out = bytes;
    return STATUS_OK;
}

struct make_progress {
    const char *directory;
    uint64_t percent; /* last one shown */
    int64_t shown_ns;
};

/* Bytes that a new file may take, on the file system of `directory` or of the nearest folder above
 * that exists; files of an earlier checkpoint are replaced. UINT64_MAX: unknown. */
static uint64_t disk_bytes(const char *directory) {
    char path[PATH_BYTES];
    struct statvfs system;
    struct stat info;
    uint64_t replaced = 0;
    format_text(path, sizeof path, "%s", directory);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strstr(entry->d_name, ".safetensors") &&
            !fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW))
            replaced += (uint64_t)info.st_blocks * 512;
    if (entries) closedir(entries);
    while (statvfs(path, &system)) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || slash == path) return UINT64_MAX;
        format_text(slash ? slash : path, slash ? 1 : sizeof path, slash ? "" : ".");
    }
    return (uint64_t)system.f_bavail * system.f_frsize + replaced;
}

/* Says what will be written, and refuses what does not fit. */
static enum status make_checkpoint_plan(void *context, uint64_t bytes, struct error *error) {
    const struct make_progress *progress = context;
    uint64_t disk = disk_bytes(progress->directory);
    if (disk == UINT64_MAX) return STATUS_OK; /* writing will say what is wrong */
    if (bytes > disk)
        return error_set(error, STATUS_FULL,
                         "%.300s: the checkpoint needs %.3f GB, and %.3f GB of the disk are free; "
                         "choose a directory of another disk, or a smaller --shape",
                         progress->directory, (double)bytes / 1e9, (double)disk / 1e9);
    printf("writing %.3f GB to %s, where %.3f GB are free\n", (double)bytes / 1e9,
           progress->directory, (double)disk / 1e9);
    fflush(stdout);
    return STATUS_OK;
}

/* On a terminal each percent, elsewhere a line every ten seconds. */
static void make_checkpoint_show_progress(void *context, uint64_t done_bytes,
                                          uint64_t total_bytes) {
    struct make_progress *progress = context;
    uint64_t now = total_bytes ? 100 * done_bytes / total_bytes : 100;
    int64_t now_ns = clock_now_ns();
    bool terminal = isatty(STDERR_FILENO);
    if (terminal ? now == progress->percent : now_ns - progress->shown_ns < SHOWN_NS) return;
    progress->percent = now;
    progress->shown_ns = now_ns;
    FILE *out = terminal ? stderr : stdout;
    fprintf(out, "%s%3u %% of %.3f GB%s", terminal ? "\r" : "", (unsigned)now,
            (double)total_bytes / 1e9, now == 100 || !terminal ? "\n" : "");
    fflush(out);
}

int program_make_checkpoint(void *given, const struct option_result *result) {
    struct make_values *values = given;
    struct error error;
    char config[NAMED_SHAPES_CONFIG_BYTES], path[PATH_BYTES], *text = NULL;
    const enum named_weights weights = named_shapes_find_weights(values->weights);
    const struct named_shape named = {.name = values->shape,
                                      .weights = weights < NAMED_WEIGHTS_COUNT ? weights
                                                                               : NAMED_WEIGHTS_BF16,
                                      .layers = (uint32_t)values->layers,
                                      .mtp = values->mtp};
    struct make_progress progress = {
        .directory = result->positional[0], .percent = 101, .shown_ns = clock_now_ns()};
    struct random_checkpoint plan = {
        .directory = result->positional[0],
        .seed = values->seed,
        .shards = (uint32_t)values->shards,
        .bias_mean = (float)values->bias_mean,
        .bias_deviation = (float)values->bias_deviation,
        .without_mtp = values->without_mtp,
        .type = !strcmp(values->weights, "f32")   ? TENSOR_F32
                : !strcmp(values->weights, "f16") ? TENSOR_F16
                                                  : TENSOR_BF16,
        .planned = make_checkpoint_plan,
        .progress = make_checkpoint_show_progress,
        .context = &progress,
    };
    format_text(path, sizeof path, "%s/config.json", plan.directory);
    if (!values->force && access(path, F_OK) == 0)
        return command_misused("%s exists already; give --force to overwrite it", path);
    plan.config = (struct bytes){config, named_shapes_write_config(&named, config)};
    enum status status = STATUS_OK;
    if (!plan.config.count) {
        if (values->mtp || values->layers)
            return command_misused(
                "%s is for named shapes; set %s in %s", values->mtp ? "--mtp" : "--layers",
                values->mtp ? "num_nextn_predict_layers" : "num_hidden_layers", values->shape);
        status = make_checkpoint_read_config(values->shape, values->weights, &text,
                                             &plan.config.count, &error);
        plan.config.data = text;
    }
    if (status == STATUS_OK) status = random_checkpoint_write(&plan, &error);
    free(text);
    return command_end(status, &error);
}
