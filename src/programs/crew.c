/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/crew.h"

#include "base/check.h"
#include "base/file.h"
#include "host/engine/engine.h"
#include "host/process/agent_facts.h"
#include "host/process/host_list.h"
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
#define SHELL_WORDS_MAX 32
#define KEY_FILES 2
#define KEY_FILE_BYTES_MAX 4096
#define HOSTFILE_BYTES_MAX ((size_t)1 << 20)

struct crew {
    struct crew_options options;
    struct loop *loop;
    struct supervisor *supervisor;
    char address[PATH_MAX];
    struct host_list list;
    bool hosts; /* they were named: the list holds */
    char shell[256];
    const char *shell_words[SHELL_WORDS_MAX + 1], *agent_options[5];
    bool has_keys; /* gateway and units have some of their own, in `files` */
    struct wire_keys keys;
    struct unit_host_file files[KEY_FILES];
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

/* Keeps the text of `bytes` bytes that was written to next(). */
static void keep(struct arguments *arguments, size_t bytes) {
    check(bytes < ARGUMENT_BYTES);
    arguments->list[arguments->count] = next(arguments);
    arguments->count++;
}

#define ADD(arguments, ...)                                                                        \
    keep(arguments, (size_t)snprintf(next(arguments), ARGUMENT_BYTES, __VA_ARGS__))

/* Options that a unit gets from its crew, not from its parent's values. */
static bool is_own(const char *name) {
    static const char *const names[] = {"connect",   "board",        "config",       "threads",
                                        "trace",     "weights-unit", "ranks",        "role",
                                        "kv-listen", "kv-control",   "rank-meeting", "hosts",
                                        "hostfile",  "remote-shell", "interface"};
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

static uint64_t threads_each(const struct crew *crew, const struct supervisor_unit *unit) {
    const struct crew_options *options = &crew->options;
    const struct unit_host_start *start = unit->start;
    if (options->threads) return options->threads;
    if (unit->is_spread || !unit->is_here)
        return start->cpus > start->ranks ? start->cpus / start->ranks : 1;
    if (options->unit_count == 1) return 0;
    uint64_t each = count_cpus() / crew->rank_count;
    return each ? each : 1;
}

/* What it is for, and its KV blocks' ways. */
static void add_task(const struct crew *crew, const struct supervisor_unit *unit,
                     struct arguments *arguments) {
    const struct crew_unit *is = &crew->units[unit->number - 1];
    enum unit_role role = unit->has_role ? unit->role : is->role;
    if (role != UNIT_BOTH) ADD(arguments, "--role=%s", role == UNIT_PREFILL ? "prefill" : "decode");
    if (is->kv_listen)
        ADD(arguments, "--kv-listen=%s", crew->hosts ? unit->start->address : is->kv_listen);
    if (is->ranks > 1 && unit->is_spread)
        ADD(arguments, "--kv-control=tcp://%s:%u", unit->start->first_address,
            unit->start->first_port);
    else if (is->ranks > 1)
        ADD(arguments, "--kv-control=ipc://%s/ranks", unit->start->folder);
}

static const char **unit_command(void *context, const struct supervisor_unit *unit) {
    const struct crew *crew = context;
    const struct crew_options *options = &crew->options;
    const struct crew_unit *is = &crew->units[unit->number - 1];
    struct arguments arguments = {.texts = malloc(ARGUMENTS_MAX * (size_t)ARGUMENT_BYTES)};
    if (!arguments.texts) return NULL;
    ADD(&arguments, "unit");
    ADD(&arguments, "--connect=%s", crew->address);
    ADD(&arguments, "--board=%s/board", unit->start->folder);
    if (crew->has_keys) {
        ADD(&arguments, "--wire-key=%s/unit.secret", unit->start->room);
        ADD(&arguments, "--wire-gateway=%s/gateway.public", unit->start->room);
    }
    ADD(&arguments, "--threads=%" PRIu64, threads_each(crew, unit));
    ADD(&arguments, "--ranks=%u", is->ranks);
    add_task(crew, unit, &arguments);
    if (!options->job->weights_dir)
        ADD(&arguments, "--weights-dir=%s/weights",
            unit->is_here ? supervisor_folder(crew->supervisor) : unit->start->room);
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

/* ---- hosts ---- */

/* As the options name them, else as Slurm does. */
static enum status read_hosts(struct crew *crew, struct error *error) {
    const struct crew_values *values = crew->options.crew;
    const char *nodes = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE");
    struct bytes text;
    enum status status = STATUS_OK;
    if (values->hosts && values->hostfile)
        return error_set(error, STATUS_INVALID, "--hosts and --hostfile exclude each other");
    crew->hosts = true;
    if (values->hosts) return host_list_parse(bytes_of(values->hosts), &crew->list, error);
    if (values->hostfile) {
        status = file_take(values->hostfile, HOSTFILE_BYTES_MAX, &text, error);
        if (status) return status;
        status = host_list_parse_file(text, values->hostfile, &crew->list, error);
        free((void *)(uintptr_t)text.data);
        return status;
    }
    crew->hosts = false;
    if (nodes && tasks)
        status = host_list_parse_slurm(bytes_of(nodes), bytes_of(tasks), &crew->list, error);
    crew->hosts = crew->list.count > 1; /* one node is this one, however it counts tasks */
    return status;
}

/* Without --unbuffered srun holds back what is no whole line until there is 1 KiB of it. What it starts
 * starts ranks in its turn, which may use all CPUs that the allocation has there. */
#define SLURM_SHELL "srun --unbuffered --overlap --cpu-bind=none -N1 -n1 -w"

/* "ssh -o BatchMode=yes", in words. */
static enum status read_shell(struct crew *crew, struct error *error) {
    const struct crew_values *values = crew->options.crew;
    bool slurm = crew->hosts && !values->hosts && !values->hostfile;
    const char *shell = values->remote_shell ? values->remote_shell
                        : slurm              ? SLURM_SHELL
                                             : "ssh -o BatchMode=yes";
    size_t count = 0;
    int bytes = snprintf(crew->shell, sizeof crew->shell, "%s", shell);
    if (bytes < 0 || (size_t)bytes >= sizeof crew->shell)
        return error_set(error, STATUS_TOO_LARGE, "--remote-shell is too long");
    for (char *rest = crew->shell, *word; (word = strtok_r(rest, " ", &rest));) {
        if (count == SHELL_WORDS_MAX)
            return error_set(error, STATUS_TOO_LARGE, "--remote-shell has too many words");
        crew->shell_words[count++] = word;
    }
    if (count) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "--remote-shell is empty");
}

/* Units connect from other hosts: both sides get keys, which no one else has. */
static enum status make_keys(struct crew *crew, struct error *error) {
    static const char *const names[KEY_FILES] = {"unit.secret", "gateway.public"};
    char own[PATH_MAX], units[PATH_MAX], path[PATH_MAX + 16], allowed[PATH_MAX + 16];
    snprintf(own, sizeof own, "%s/gateway", supervisor_folder(crew->supervisor));
    snprintf(units, sizeof units, "%s/unit", supervisor_folder(crew->supervisor));
    enum status status = wire_keys_generate(own, error);
    if (!status) status = wire_keys_generate(units, error);
    for (size_t i = 0; !status && i < KEY_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", supervisor_folder(crew->supervisor), names[i]);
        crew->files[i].name = names[i];
        status = file_take(path, KEY_FILE_BYTES_MAX, &crew->files[i].text, error);
    }
    if (status) return status;
    snprintf(path, sizeof path, "%s.secret", own);
    snprintf(allowed, sizeof allowed, "%s.public", units);
    crew->has_keys = true;
    supervisor_give_files(crew->supervisor, crew->files, KEY_FILES);
    return wire_keys_open(path, allowed, NULL, &crew->keys, error);
}

/* Sets where units connect: as the options say, in the crew's folder, or at this host's address. */
static enum status set_address(struct crew *crew, struct error *error) {
    const struct crew_values *values = crew->options.crew;
    const char *interface = values->interface ? values->interface : "";
    char address[64];
    if (crew->options.address) {
        snprintf(crew->address, sizeof crew->address, "%s", crew->options.address);
        return STATUS_OK;
    }
    if (supervisor_leads_here(crew->supervisor)) {
        snprintf(crew->address, sizeof crew->address, "ipc://%s/wire",
                 supervisor_folder(crew->supervisor));
        return STATUS_OK;
    }
    if (!agent_facts_find_address(interface, address))
        return error_set(error, STATUS_NOT_FOUND,
                         "interface %s is not there, is down or has no address", interface);
    snprintf(crew->address, sizeof crew->address,
             strchr(address, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", address,
             agent_facts_find_port());
    return make_keys(crew, error);
}

/* What ranks need on a host. */
static struct agent_check what_is_needed(const struct crew *crew) {
    const struct crew_options *options = &crew->options;
    struct agent_check check = {.redundant = (uint32_t)options->job->redundant,
                                .kv_bytes = options->kv_bytes};
    snprintf(check.interface, sizeof check.interface, "%s",
             options->crew->interface ? options->crew->interface : "");
    snprintf(check.model, sizeof check.model, "%s", options->model ? options->model : "");
    return check;
}

enum status crew_check_device(const struct crew_values *values, const char *device,
                              struct error *error) {
    bool elsewhere = values->hosts || values->hostfile || getenv("SLURM_JOB_NODELIST");
    return elsewhere ? STATUS_OK : engine_check_device(device, error);
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
    status = read_hosts(crew, error);
    if (!status) status = read_shell(crew, error);
    if (status) {
        host_list_free(&crew->list);
        free(crew);
        return status;
    }
    const char *const agent[] = {"--log-format", options->log->format, "--log-level",
                                 options->log->level, NULL};
    memcpy(crew->agent_options, agent, sizeof agent);
    struct supervisor_options supervisor = {
        .base = loop_base(loop),
        .unit_count = options->unit_count,
        .rank_counts = crew->rank_counts,
        .hosts = crew->hosts ? &crew->list : NULL,
        .remote_shell = crew->shell_words,
        .agent_options = crew->agent_options,
        .check = what_is_needed(crew),
        .rank_timeout_ns = (int64_t)(options->crew->rank_timeout * 1e9),
        .finish_ns_max = options->finish_ns_max,
        .context = crew,
        .command = unit_command,
        .gave_up = on_gave_up,
    };
    status = supervisor_open(&supervisor, &crew->supervisor, error);
    if (status) {
        host_list_free(&crew->list);
        free(crew);
        return status;
    }
    status = set_address(crew, error);
    if (status) {
        crew_close(crew);
        return status;
    }
    *crew_out = crew;
    return STATUS_OK;
}

void crew_wire(const struct crew *crew, struct wire_options *wire) {
    wire->address = crew->address;
    if (crew->has_keys) wire->keys = &crew->keys;
}

uint32_t crew_job_of(void *context, int64_t pid) {
    const struct crew *crew = context;
    return supervisor_job_of(crew->supervisor, pid);
}

void crew_start(struct crew *crew) {
    supervisor_start(crew->supervisor);
}

void crew_close(struct crew *crew) {
    if (!crew) return;
    supervisor_stop(crew->supervisor);
    supervisor_close(crew->supervisor);
    host_list_free(&crew->list);
    wire_keys_close(&crew->keys);
    for (size_t i = 0; i < KEY_FILES; i++)
        free((void *)(uintptr_t)crew->files[i].text.data);
    free(crew);
}
