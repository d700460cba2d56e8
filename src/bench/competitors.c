/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/competitors.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NICE_MAX 19

enum status competitors_read(const char *text, struct competitors *out, struct error *error) {
    memset(out, 0, sizeof *out);
    for (const char *at = text;; at++) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || value > NICE_MAX || (*end && *end != ','))
            return error_set(error, STATUS_INVALID,
                             "\"%s\" is no list of nice values from 0 to %d, such as 10,10", text,
                             NICE_MAX);
        if (out->count == COMPETITORS_MAX)
            return error_set(error, STATUS_TOO_LARGE, "at most %d competitors are possible",
                             COMPETITORS_MAX);
        out->nices[out->count++] = (int)value;
        at = end;
        if (!*at) return STATUS_OK;
    }
}

double competitors_fair_share(const struct competitors *competitors, uint32_t cpus) {
    double share = 0;
    for (uint32_t cpu = 0; cpu < cpus; cpu++) {
        double weights = 1;
        for (uint32_t i = cpu; i < competitors->count; i += cpus)
            weights += pow(1.25, -competitors->nices[i]);
        share += 1 / weights / cpus;
    }
    return share;
}

static _Noreturn void compete(int nice_value, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setpriority(PRIO_PROCESS, 0, nice_value) != 0) _exit(1);
    for (volatile uint64_t count = 0; getppid() == parent;)
        for (uint64_t i = 0; i < 1u << 28; i++)
            count = count + 1;
    _exit(0);
}

enum status competitors_start(struct competitors *competitors, struct error *error) {
    pid_t parent = getpid();
    for (uint32_t i = 0; i < competitors->count; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            competitors_stop(competitors);
            return error_set(error, STATUS_IO, "cannot start a competing process: %s",
                             strerror(errno));
        }
        if (!pid) compete(competitors->nices[i], parent);
        competitors->pids[i] = pid;
    }
    return STATUS_OK;
}

void competitors_stop(struct competitors *competitors) {
    for (uint32_t i = 0; i < competitors->count; i++) {
        if (!competitors->pids[i]) continue;
        kill(competitors->pids[i], SIGKILL);
        waitpid(competitors->pids[i], NULL, 0);
        competitors->pids[i] = 0;
    }
}

/* Ticks of all CPUs since the start: in use, and idle. proc(5) lists user, nice, system, idle and
 * iowait first. */
static bool read_ticks(double *used_out, double *idle_out) {
    double ticks[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return false;
    int count = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2],
                       &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    fclose(file);
    *idle_out = ticks[3] + ticks[4];
    *used_out = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return count == 8;
}

double competitors_of_machine(double seconds) {
    double used[2], idle[2];
    struct timespec pause = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    if (!read_ticks(&used[0], &idle[0])) return 0;
    nanosleep(&pause, NULL);
    if (!read_ticks(&used[1], &idle[1])) return 0;
    double in_use = used[1] - used[0], all = in_use + idle[1] - idle[0];
    return all > 0 ? in_use / all : 0;
}
