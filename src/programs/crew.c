/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/crew.h"

#include "base/check.h"
#include "host/process/supervisor.h"
#include "programs/programs.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENT_BYTES (PATH_MAX + 64)
#define ARGUMENTS_MAX 128

struct crew {
    struct crew_options options;
    struct loop *loop;
    struct supervisor *supervisor;
    char address[PATH_MAX];
    struct crew_unit units[CREW_UNITS_MAX];
    uint32_t rank_counts[CREW_UNITS_MAX], rank_count;
};

/* A command line that grows. */
struct arguments {
    const char *list[ARGUMENTS_MAX + 1];
    char *texts; /* [ARGUMENTS_MAX][ARGUMENT_BYTES] */
    size_t count;
};

static char *next(struct arguments *arguments) {
    check(arguments->count < ARGUMENTS_MAX);
    return arguments->texts + arguments->count * ARGUMENT_BYTES;
}

/* The text that was written to next(), whose length is told. */
static void keep(struct arguments *arguments, size_t bytes) {
    check(bytes < ARGUMENT_BYTES);
    arguments->list[arguments->count] = next(arguments);
    arguments->count++;
}

#define ADD(arguments, ...)                                                                        \
    keep(arguments, (size_t)snprintf(next(arguments), ARGUMENT_BYTES, __VA_ARGS__))

/* Options that a unit gets from its crew, not from its parent's values. */
static bool is_own(const char *name) {
    static const char *const names[] = {"connect",   "board",        "config", "threads",
                                        "trace",     "weights-unit", "ranks",  "role",
                                        "kv-listen", "kv-control"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void hand_on(const struct crew *crew, struct arguments *arguments) {
    const struct option_table *table = crew->options.table;
    for (size_t i = 0; i < unit_options->option_count; i++) {
        const char *name = unit_options->options[i].name;
        const struct option *given = options_find(table, name);
        if (!given || is_own(name)) continue;
        size_t bytes = options_format(given, crew->options.values, next(arguments), ARGUMENT_BYTES);
        if (bytes) keep(arguments, bytes);
    }
}

static uint64_t count_cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
}

static uint64_t threads_each(const struct crew *crew) {
    const struct crew_options *options = &crew->options;
    if (options->threads || options->unit_count == 1) return options->threads;
    uint64_t each = count_cpus() / crew->rank_count;
    return each ? each : 1;
}

/* What it is for, and its KV blocks' ways. */
static void add_task(const struct crew_unit *is, const struct supervisor_unit *unit,
                     struct arguments *arguments) {
    enum unit_role role = unit->has_role ? unit->role : is->role;
    if (role != UNIT_BOTH) ADD(arguments, "--role=%s", role == UNIT_PREFILL ? "prefill" : "decode");
    if (is->kv_listen) ADD(arguments, "--kv-listen=%s", is->kv_listen);
    if (is->ranks > 1) ADD(arguments, "--kv-control=ipc://%s/ranks", unit->folder);
}

static const char **unit_command(void *context, const struct supervisor_unit *unit) {
    const struct crew *crew = context;
    const struct crew_options *options = &crew->options;
    const struct crew_unit *is = &crew->units[unit->number - 1];
    struct arguments arguments = {.texts = malloc(ARGUMENTS_MAX * (size_t)ARGUMENT_BYTES)};
    if (!arguments.texts) return NULL;
    ADD(&arguments, "unit");
    ADD(&arguments, "--connect=%s", crew->address);
    ADD(&arguments, "--board=%s", unit->board);
    ADD(&arguments, "--threads=%" PRIu64, threads_each(crew));
    ADD(&arguments, "--ranks=%u", is->ranks);
    add_task(is, unit, &arguments);
    if (!options->job->weights_dir)
        ADD(&arguments, "--weights-dir=%s/weights", supervisor_folder(crew->supervisor));
    ADD(&arguments, "--weights-unit=%" PRIu32, unit->number);
    if (options->job->trace && options->unit_count == 1)
        ADD(&arguments, "--trace=%s", options->job->trace);
    else if (options->job->trace)
        ADD(&arguments, "--trace=%s.unit%u", options->job->trace, unit->number);
    hand_on(crew, &arguments);
    const char **command = rank_job_command(arguments.list);
    free(arguments.texts);
    return command;
}

static void on_gave_up(void *context, const struct error *error) {
    const struct crew *crew = context;
    loop_end(crew->loop, STATUS_IO, error);
}

enum status crew_open(const struct crew_options *options, struct loop *loop, struct crew **crew_out,
                      struct error *error) {
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < options->unit_count; i++)
        ranks += options->units[i].ranks;
    enum status status = rank_job_check_files(ranks, error);
    if (status) return status;
    struct crew *crew = calloc(1, sizeof *crew);
    if (!crew) return error_set(error, STATUS_NO_MEMORY, "no memory for the units");
    crew->options = *options;
    crew->loop = loop;
    check(options->unit_count <= CREW_UNITS_MAX);
    for (uint32_t i = 0; i < options->unit_count; i++) {
        crew->units[i] = options->units[i];
        crew->rank_counts[i] = options->units[i].ranks;
        crew->rank_count += options->units[i].ranks;
    }
    struct supervisor_options supervisor = {
        .base = loop_base(loop),
        .unit_count = options->unit_count,
        .rank_counts = crew->rank_counts,
        .rank_timeout_ns = (int64_t)(options->crew->rank_timeout * 1e9),
        .context = crew,
        .command = unit_command,
        .gave_up = on_gave_up,
    };
    status = supervisor_open(&supervisor, &crew->supervisor, error);
    if (status) {
        free(crew);
        return status;
    }
    if (options->address)
        snprintf(crew->address, sizeof crew->address, "%s", options->address);
    else
        snprintf(crew->address, sizeof crew->address, "ipc://%s/wire",
                 supervisor_folder(crew->supervisor));
    *crew_out = crew;
    return STATUS_OK;
}

const char *crew_address(const struct crew *crew) {
    return crew->address;
}

void crew_start(struct crew *crew) {
    supervisor_start(crew->supervisor);
}

void crew_close(struct crew *crew) {
    if (!crew) return;
    supervisor_stop(crew->supervisor);
    supervisor_close(crew->supervisor);
    free(crew);
}
