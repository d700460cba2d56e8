/* SPDX-License-Identifier: Apache-2.0
 * Launches units as processes of this machine, each in a session of its own. Running units are
 * found in /proc: processes of this user with the words "--instance" and an instance of the fleet
 * in their command line. Ranks that a unit starts have that as one word, and are not counted.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "host/fleet/launcher.h"
#include "host/process/child_process.h"
#include "host/process/own_file.h"

#define LIST_DELAY_MAX_NS ((int64_t)2000000000)
#define COMMAND_BYTES_MAX 65536

struct launch_local {
    char tag[FLEET_TAG_DIGITS + 1];
};

/* ---- starting ---- */

static enum status local_start(void *self, const struct launch_request *request,
                               struct error *error) {
    pid_t pid;
    int output = own_file_open(request->log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (output < 0)
        return error_set(error, STATUS_IO, "%.200s: %s", request->log_path, strerror(errno));
    const struct child_process_options child = {.words = request->argv,
                                                .input = CHILD_PROCESS_NO_INPUT,
                                                .output = output,
                                                .errors = output};
    enum status status = child_process_start(&child, &pid, error);
    close(output);
    return status;
}

/* ---- polling ---- */

/* Reads the terminated words of a process; 0 if there are none, or the process has exited. */
static size_t launch_local_read_words(long pid, char *words) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t bytes = read(file, words, COMMAND_BYTES_MAX - 1);
    close(file);
    if (bytes <= 0) return 0;
    words[bytes] = 0;
    return (size_t)bytes;
}

/* The word after the last occurrence of `name`; NULL if there is none. */
static const char *launch_local_value_of(const char *words, size_t bytes, const char *name) {
    const char *found = NULL;
    for (const char *word = words; word < words + bytes; word += strlen(word) + 1)
        if (strcmp(word, name) == 0 && word + strlen(word) + 1 < words + bytes)
            found = word + strlen(word) + 1;
    return found;
}

/* True if the process belongs to this user: processes of others may have any command line. The
 * owner of the /proc directory is root for a program with capabilities, so it is not used. */
static bool is_own_process(long pid) {
    char path[64], line[128];
    unsigned user = 0;
    bool is_known = false;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *file = fopen(path, "re");
    while (file && !is_known && fgets(line, sizeof line, file))
        is_known = sscanf(line, "Uid: %u", &user) == 1;
    if (file) fclose(file);
    return is_known && user == getuid();
}

/* The number of the unit; 0 if the process is not a unit of the fleet. */
static uint32_t launch_local_unit_of(const struct launch_local *local, long pid,
                                     enum unit_role *role_out) {
    static char words[COMMAND_BYTES_MAX];
    size_t bytes = is_own_process(pid) ? launch_local_read_words(pid, words) : 0;
    const char *instance = launch_local_value_of(words, bytes, "--instance");
    const char *role = launch_local_value_of(words, bytes, "--role");
    *role_out = role && strcmp(role, "prefill") == 0 ? UNIT_PREFILL : UNIT_DECODE;
    return instance && role ? launcher_number(local->tag, instance) : 0;
}

/* Calls `visit` for each running unit of the fleet. */
static enum status launch_local_walk(const struct launch_local *local,
                                     void (*visit)(void *context, long pid, uint32_t number,
                                                   enum unit_role role),
                                     void *context, struct error *error) {
    DIR *processes = opendir("/proc");
    if (!processes) return error_set(error, STATUS_IO, "/proc: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(processes));) {
        enum unit_role role;
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        long pid = strtol(entry->d_name, NULL, 10);
        uint32_t number = launch_local_unit_of(local, pid, &role);
        if (number) visit(context, pid, number, role);
    }
    closedir(processes);
    return STATUS_OK;
}

struct local_list {
    void (*visit)(void *context, const struct launched_unit *unit);
    void *context;
};

static void launch_local_report(void *context, long pid, uint32_t number, enum unit_role role) {
    const struct local_list *list = context;
    struct launched_unit unit = {.number = number, .role = role};
    snprintf(unit.job, sizeof unit.job, "pid %ld", pid);
    list->visit(list->context, &unit);
}

static enum status local_list(void *self,
                              void (*visit)(void *context, const struct launched_unit *unit),
                              void *context, struct error *error) {
    struct local_list list = {visit, context};
    return launch_local_walk(self, launch_local_report, &list, error);
}

/* ---- stopping ---- */

struct local_stop {
    uint32_t number;
    int signal_number;
};

static void stop_one(void *context, long pid, uint32_t number, enum unit_role role) {
    const struct local_stop *stop = context;
    if (number == stop->number) kill((pid_t)pid, stop->signal_number);
}

static void local_stop(void *self, uint32_t number, bool at_once) {
    struct local_stop stop = {number, at_once ? SIGKILL : SIGTERM};
    struct error error;
    (void)launch_local_walk(self, stop_one, &stop, &error);
}

static void local_close(void *self) {
    free(self);
}

enum status launch_local_open(const char *tag, struct unit_launcher *launcher_out,
                              struct error *error) {
    struct launch_local *local = calloc(1, sizeof *local);
    if (!local) return error_set(error, STATUS_NO_MEMORY, "no memory for a launcher");
    snprintf(local->tag, sizeof local->tag, "%s", tag);
    signal(SIGCHLD, SIG_IGN); /* exited units need no wait */
    *launcher_out = (struct unit_launcher){.self = local,
                                           .name = "local",
                                           .list_delay_max_ns = LIST_DELAY_MAX_NS,
                                           .start = local_start,
                                           .list = local_list,
                                           .stop = local_stop,
                                           .close = local_close};
    return STATUS_OK;
}
