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
#include "compute/weights/random_checkpoint.h"
#include "programs/programs.h"

#define CONFIG_FILE_BYTES_MAX ((size_t)1 << 20)
#define PATH_BYTES 4096
#define SHOWN_NS 10000000000 /* between two lines of progress */

struct make_values {
    const char *shape, *weights;
    uint64_t seed, shards;
    double bias_mean, bias_deviation;
    bool mtp, without_mtp, force;
};

#define AT(field) offsetof(struct make_values, field)

static const struct option make_rows[] = {
    {"shape", OPTION_TEXT, "tiny",
     "dsv3b (792 M parameters, for benchmarks), v2-lite (16 B), v3 (671 B), tiny, or a config.json "
     "to follow",
     .offset = AT(shape)},
    {"weights", OPTION_CHOICE, "auto",
     "type of the weights; auto: fp8, or that of the given config.json", .offset = AT(weights),
     .choices = "auto|fp8|bf16|f16|f32"},
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

static const char fp8_keys[] =
    "{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", "
    "\"activation_scheme\": \"dynamic\", \"weight_block_size\": [128, 128]},\n";

/* Reads a config.json. For FP8 weights, puts the keys of an FP8 checkpoint in front. The caller
 * frees it. */
static enum status make_checkpoint_read_config(const char *path, const char *weights,
                                               char **text_out, size_t *bytes_out,
                                               struct error *error) {
    struct bytes file;
    enum status status = file_take(path, CONFIG_FILE_BYTES_MAX, &file, error);
    if (status) return status;
    size_t bytes = file.count;
    char *text = malloc(bytes + sizeof fp8_keys);
    check(text);
    memcpy(text, file.data, bytes);
    free((void *)(uintptr_t)file.data);
    struct shape shape;
    status = shape_parse((struct bytes){text, bytes}, path, &shape, error);
    const bool fp8 = !strcmp(weights, "fp8");
    if (status == STATUS_OK && shape.fp8 && !fp8 && strcmp(weights, "auto"))
        status = error_set(error, STATUS_INVALID,
                           "%s: expected no quantization_config with --weights %s, found one; "
                           "remove it",
                           path, weights);
    if (status == STATUS_OK && fp8 && !shape.fp8) {
        size_t brace = (size_t)((char *)memchr(text, '{', bytes) - text);
        bytes -= brace + 1;
        memmove(text + sizeof fp8_keys - 1, text + brace + 1, bytes);
        memcpy(text, fp8_keys, sizeof fp8_keys - 1);
        bytes += sizeof fp8_keys - 1;
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
    char named[RANDOM_CHECKPOINT_CONFIG_BYTES], path[PATH_BYTES], *text = NULL;
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
    const bool fp8 = !strcmp(values->weights, "fp8") || !strcmp(values->weights, "auto");
    format_text(path, sizeof path, "%s/config.json", plan.directory);
    if (!values->force && access(path, F_OK) == 0)
        return command_misused("%s exists already; give --force to overwrite it", path);
    plan.config =
        (struct bytes){named, random_checkpoint_config(values->shape, fp8, values->mtp, named)};
    enum status status = STATUS_OK;
    if (!plan.config.count) {
        if (values->mtp)
            return command_misused("--mtp is for named shapes; set num_nextn_predict_layers "
                                   "in %s",
                                   values->shape);
        status = make_checkpoint_read_config(values->shape, values->weights, &text,
                                             &plan.config.count, &error);
        plan.config.data = text;
    }
    if (status == STATUS_OK) status = random_checkpoint_write(&plan, &error);
    free(text);
    return command_end(status, &error);
}
