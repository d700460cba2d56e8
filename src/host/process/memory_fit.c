/* SPDX-License-Identifier: Apache-2.0
 * Amounts are in GB (10^9 bytes), as the sizes of models are published. Files of packed weights on
 * a tmpfs occupy memory already and will be used, so they count as free memory.
 */
#include "host/process/memory_fit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define GB 1e9
#define MIB ((double)(1 << 20))
#define KV_LEAST 0.05 /* of the requested KV memory, or of KV_AMPLE: a smaller one is no remedy */
#define KV_AMPLE (8 * GB)
#define TMPFS 0x01021994

#define AMOUNT_BYTES 24

/* "671", "23.5", "1.07". */
static const char *in_gb(double bytes, char out[AMOUNT_BYTES]) {
    int decimals = bytes >= 100 * GB ? 0 : bytes >= 10 * GB ? 1 : 2;
    snprintf(out, AMOUNT_BYTES, "%.*f", decimals, bytes / GB);
    return out;
}

/* Writes the remedy that does not need another machine, or else the number of machines. */
static void write_remedy(const struct memory_fit *fit, const struct memory_need *need,
                         const struct machine_memory *memory, char *text, size_t bytes) {
    struct memory_sum sum = memory_need_host(need);
    double left = (double)memory->free_bytes - sum.weights - sum.step;
    uint32_t hosts = memory_need_hosts(need, (double)memory->free_bytes);
    if (memory_need_total(&sum) <= (double)memory->total_bytes)
        snprintf(text, bytes, "it fits if other programs free theirs");
    else if (fit->has_kv_option && left > KV_LEAST * (sum.kv < KV_AMPLE ? sum.kv : KV_AMPLE))
        snprintf(text, bytes, "give --kv-memory %.0fMiB or less",
                 left / need->host_ranks * need->ranks / MIB - 1);
    else if (hosts)
        snprintf(text, bytes,
                 "%u such machines would hold it (`fathom serve --ranks %u --hosts`, "
                 "docs/cluster.md)",
                 hosts, hosts * need->host_ranks);
    else
        snprintf(text, bytes, "no number of such machines would hold it");
}

bool memory_fit_verify(const struct memory_fit *fit, const struct memory_need *need,
                       const struct machine_memory *memory, char text[static 512]) {
    struct memory_sum sum = memory_need_host(need);
    char amounts[6][AMOUNT_BYTES], remedy[140];
    text[0] = 0;
    if (!memory->total_bytes || memory_need_total(&sum) <= (double)memory->free_bytes) return true;
    write_remedy(fit, need, memory, remedy, sizeof remedy);
    snprintf(
        text, 512,
        "%.100s: needs %s GB of memory (weights %s, KV %s, step %s); %s %s GB, of which %s are "
        "free; %s; --force loads it anyway",
        fit->model, in_gb(memory_need_total(&sum), amounts[0]), in_gb(sum.weights, amounts[1]),
        in_gb(sum.kv, amounts[2]), in_gb(sum.step, amounts[3]),
        memory->limited ? "this process's control group has" : "this machine has",
        in_gb((double)memory->total_bytes, amounts[4]),
        in_gb((double)memory->free_bytes, amounts[5]), remedy);
    return false;
}

/* Bytes of the files in a directory of a tmpfs; 0 elsewhere. */
static uint64_t bytes_in_memory(const char *directory) {
    struct statfs system;
    struct stat info;
    uint64_t bytes = 0;
    if (!directory || statfs(directory, &system) || system.f_type != TMPFS) return 0;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (!fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_blocks * 512;
    if (entries) closedir(entries);
    return bytes;
}

enum status memory_fit_check(void *context, const struct memory_need *need, struct error *error) {
    const struct memory_fit *fit = context;
    struct machine_memory memory = machine_memory_look("");
    char text[512];
    memory.free_bytes += bytes_in_memory(fit->weights_directory);
    if (memory_fit_verify(fit, need, &memory, text)) return STATUS_OK;
    if (!fit->force) return error_set(error, STATUS_NO_MEMORY, "%s", text);
    fprintf(stderr, "%s\n", text);
    return STATUS_OK;
}
