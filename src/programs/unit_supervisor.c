/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/unit_supervisor.h"

#include "base/check.h"
#include "base/cpus.h"
#include "base/file.h"
#include "compute/gpu/compute_gpu.h"
#include "host/engine/engine.h"
#include "host/process/agent/agent_facts.h"
#include "host/process/agent/supervisor.h"
#include "host/process/configuration/host_list.h"
#include "programs/programs.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENT_BYTES (PATH_MAX + 64)
#define ARGUMENTS_MAX 128
#define SHELL_WORDS_MAX 32
#define KEY_FILES 2
#define KEY_FILE_BYTES_MAX 4096
#define HOSTFILE_BYTES_MAX ((size_t)1 << 20)

struct unit_supervisor {
    struct unit_supervisor_options options;
    struct loop *loop;
    struct supervisor *supervisor;
    struct unit_machines machines;
    char address[PATH_MAX];
    struct host_list list;
    bool hosts; /* hosts were given: `list` is valid */
    char shell[256];
    const char *shell_words[SHELL_WORDS_MAX + 1], *agent_options[5];
    bool has_keys; /* gateway and units have generated keys, in `files` */
    struct wire_keys keys;
    struct unit_host_file files[KEY_FILES];
    struct supervised_unit units[UNIT_SUPERVISOR_UNITS_MAX];
    uint32_t rank_counts[UNIT_SUPERVISOR_UNITS_MAX], rank_count;
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

/* Appends the text of `bytes` bytes that was written to next(). */
static void unit_supervisor_keep(struct arguments *arguments, size_t bytes) {
    check(bytes < ARGUMENT_BYTES);
    arguments->list[arguments->count] = next(arguments);
    arguments->count++;
}

#define ADD(arguments, ...)                                                                        \
    unit_supervisor_keep(arguments, (size_t)snprintf(next(arguments), ARGUMENT_BYTES, __VA_ARGS__))

/* True for options of a unit that the supervisor sets instead of passing on its own values. */
static bool unit_supervisor_is_own(const char *name) {
    static const char *const names[] = {"connect",   "board",        "config",       "threads",
                                        "trace",     "weights-unit", "ranks",        "role",
                                        "kv-listen", "kv-control",   "rank-meeting", "hosts",
                                        "hostfile",  "remote-shell", "interface"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void unit_supervisor_hand_on(const struct unit_supervisor *unit_supervisor,
                                    struct arguments *arguments) {
    const struct option_table *table = unit_supervisor->options.table;
    for (size_t i = 0; i < unit_options.option_count; i++) {
        const char *name = unit_options.options[i].name;
        const struct option *given = options_find(table, name);
        if (!given || unit_supervisor_is_own(name)) continue;
        size_t bytes =
            options_format(given, unit_supervisor->options.values, next(arguments), ARGUMENT_BYTES);
        if (bytes) unit_supervisor_keep(arguments, bytes);
    }
}

static uint64_t threads_each(const struct unit_supervisor *unit_supervisor,
                             const struct unit_host_start *start) {
    const struct unit_supervisor_options *options = &unit_supervisor->options;
    if (options->threads) return options->threads;
    if (start->is_spread || !start->is_here)
        return start->cpus > start->ranks ? start->cpus / start->ranks : 1;
    if (options->unit_count == 1) return 0;
    uint64_t each = cpus_usable() / unit_supervisor->rank_count;
    return each ? each : 1;
}

/* Adds the unit's task and the paths of its KV blocks. */
static void add_task(const struct unit_supervisor *unit_supervisor,
                     const struct unit_host_start *start, struct arguments *arguments) {
    const struct supervised_unit *is = &unit_supervisor->units[start->unit - 1];
    enum unit_role role = start->has_role ? start->role : is->role;
    if (role != UNIT_BOTH) ADD(arguments, "--role=%s", role == UNIT_PREFILL ? "prefill" : "decode");
    if (is->kv_listen)
        ADD(arguments, "--kv-listen=%s", unit_supervisor->hosts ? start->address : is->kv_listen);
    if (is->ranks > 1 && start->is_spread)
        ADD(arguments, "--kv-control=tcp://%s:%u", start->first_address, start->first_port);
    else if (is->ranks > 1)
        ADD(arguments, "--kv-control=ipc://%s/ranks", start->folder);
}

static const char **unit_command(void *context, const struct unit_host_start *start) {
    const struct unit_supervisor *unit_supervisor = context;
    const struct unit_supervisor_options *options = &unit_supervisor->options;
    const struct supervised_unit *is = &unit_supervisor->units[start->unit - 1];
    struct arguments arguments = {.texts = malloc(ARGUMENTS_MAX * (size_t)ARGUMENT_BYTES)};
    if (!arguments.texts) return NULL;
    ADD(&arguments, "unit");
    ADD(&arguments, "--connect=%s", unit_supervisor->address);
    ADD(&arguments, "--board=%s/board", start->folder);
    if (unit_supervisor->has_keys) {
        ADD(&arguments, "--wire-key=%s/unit.secret", start->room);
        ADD(&arguments, "--wire-gateway=%s/gateway.public", start->room);
    }
    ADD(&arguments, "--threads=%" PRIu64, threads_each(unit_supervisor, start));
    ADD(&arguments, "--ranks=%u", is->ranks);
    add_task(unit_supervisor, start, &arguments);
    if (!options->job->weights_dir)
        ADD(&arguments, "--weights-dir=%s/weights",
            start->is_here ? supervisor_folder(unit_supervisor->supervisor) : start->room);
    ADD(&arguments, "--weights-unit=%" PRIu32, start->unit);
    if (options->job->trace && options->unit_count == 1)
        ADD(&arguments, "--trace=%s", options->job->trace);
    else if (options->job->trace)
        ADD(&arguments, "--trace=%s.unit%u", options->job->trace, start->unit);
    unit_supervisor_hand_on(unit_supervisor, &arguments);
    const char **command = rank_job_command(arguments.list);
    free(arguments.texts);
    return command;
}

static void on_gave_up(void *context, const struct error *error) {
    const struct unit_supervisor *unit_supervisor = context;
    loop_end(unit_supervisor->loop, STATUS_IO, error);
}

/* ---- hosts ---- */

/* Reads the hosts from the options, else from Slurm. */
static enum status read_hosts(struct unit_supervisor *unit_supervisor, struct error *error) {
    const struct unit_supervisor_values *values = unit_supervisor->options.unit_supervisor;
    const char *nodes = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE");
    struct bytes text;
    enum status status = STATUS_OK;
    if (values->hosts && values->hostfile)
        return error_set(error, STATUS_INVALID, "--hosts and --hostfile are mutually exclusive");
    unit_supervisor->hosts = true;
    if (values->hosts)
        return host_list_parse(bytes_of(values->hosts), &unit_supervisor->list, error);
    if (values->hostfile) {
        status = file_take(values->hostfile, HOSTFILE_BYTES_MAX, &text, error);
        if (status) return status;
        status = host_list_parse_file(text, values->hostfile, &unit_supervisor->list, error);
        free((void *)(uintptr_t)text.data);
        return status;
    }
    unit_supervisor->hosts = false;
    if (nodes && tasks)
        status =
            host_list_parse_slurm(bytes_of(nodes), bytes_of(tasks), &unit_supervisor->list, error);
    unit_supervisor->hosts =
        unit_supervisor->list.count > 1; /* a single node is this one, however many tasks it has */
    return status;
}

/* Without --unbuffered, srun delays incomplete lines until there is 1 KiB. The agent's ranks may
 * use all CPUs of the allocation. */
#define SLURM_SHELL "srun --unbuffered --overlap --cpu-bind=none -N1 -n1 -w"

/* Splits the remote shell's command, such as "ssh -o BatchMode=yes", into words. */
static enum status read_shell(struct unit_supervisor *unit_supervisor, struct error *error) {
    const struct unit_supervisor_values *values = unit_supervisor->options.unit_supervisor;
    bool slurm = unit_supervisor->hosts && !values->hosts && !values->hostfile;
    const char *shell = values->remote_shell ? values->remote_shell
                        : slurm              ? SLURM_SHELL
                                             : "ssh -o BatchMode=yes";
    size_t count = 0;
    int bytes = snprintf(unit_supervisor->shell, sizeof unit_supervisor->shell, "%s", shell);
    if (bytes < 0 || (size_t)bytes >= sizeof unit_supervisor->shell)
        return error_set(error, STATUS_TOO_LARGE, "--remote-shell is too long");
    for (char *rest = unit_supervisor->shell, *word; (word = strtok_r(rest, " ", &rest));) {
        if (count == SHELL_WORDS_MAX)
            return error_set(error, STATUS_TOO_LARGE, "--remote-shell has too many words");
        unit_supervisor->shell_words[count++] = word;
    }
    if (count) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "--remote-shell is empty");
}

/* Generates secret keys for gateway and units, as units connect from other hosts. */
static enum status make_keys(struct unit_supervisor *unit_supervisor, struct error *error) {
    static const char *const names[KEY_FILES] = {"unit.secret", "gateway.public"};
    char own[PATH_MAX], units[PATH_MAX], path[PATH_MAX + 16], allowed[PATH_MAX + 16];
    snprintf(own, sizeof own, "%s/gateway", supervisor_folder(unit_supervisor->supervisor));
    snprintf(units, sizeof units, "%s/unit", supervisor_folder(unit_supervisor->supervisor));
    enum status status = wire_keys_generate(own, error);
    if (!status) status = wire_keys_generate(units, error);
    for (size_t i = 0; !status && i < KEY_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", supervisor_folder(unit_supervisor->supervisor),
                 names[i]);
        unit_supervisor->files[i].name = names[i];
        status = file_take(path, KEY_FILE_BYTES_MAX, &unit_supervisor->files[i].text, error);
    }
    if (status) return status;
    snprintf(path, sizeof path, "%s.secret", own);
    snprintf(allowed, sizeof allowed, "%s.public", units);
    unit_supervisor->has_keys = true;
    supervisor_give_files(unit_supervisor->supervisor, unit_supervisor->files, KEY_FILES);
    return wire_keys_open(path, allowed, NULL, &unit_supervisor->keys, error);
}

/* Sets the address to which units connect: the option's, a socket in the supervisor's folder, or
 * this host's address. */
static enum status set_address(struct unit_supervisor *unit_supervisor, struct error *error) {
    const struct unit_supervisor_values *values = unit_supervisor->options.unit_supervisor;
    const char *interface = values->interface ? values->interface : "";
    char address[64];
    if (unit_supervisor->options.address) {
        snprintf(unit_supervisor->address, sizeof unit_supervisor->address, "%s",
                 unit_supervisor->options.address);
        return STATUS_OK;
    }
    if (supervisor_leads_here(unit_supervisor->supervisor)) {
        snprintf(unit_supervisor->address, sizeof unit_supervisor->address, "ipc://%s/wire",
                 supervisor_folder(unit_supervisor->supervisor));
        return STATUS_OK;
    }
    if (!agent_facts_find_address(interface, address))
        return error_set(error, STATUS_NOT_FOUND,
                         "interface %s is not there, is down or has no address", interface);
    snprintf(unit_supervisor->address, sizeof unit_supervisor->address,
             strchr(address, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", address,
             agent_facts_find_port());
    return make_keys(unit_supervisor, error);
}

/* The requirements of a rank that an agent checks on its host. */
static struct agent_check what_is_needed(const struct unit_supervisor *unit_supervisor) {
    const struct unit_supervisor_options *options = &unit_supervisor->options;
    struct agent_check check = {.redundant = (uint32_t)options->job->redundant,
                                .force = options->force,
                                .kv_bytes = options->kv_bytes};
    snprintf(check.interface, sizeof check.interface, "%s",
             options->unit_supervisor->interface ? options->unit_supervisor->interface : "");
    snprintf(check.model, sizeof check.model, "%s", options->model ? options->model : "");
    return check;
}

enum status unit_supervisor_check_device(const struct unit_supervisor_values *values,
                                         const char *device, struct error *error) {
    bool elsewhere = values->hosts || values->hostfile || getenv("SLURM_JOB_NODELIST");
    const struct model_device *found;
    return elsewhere ? compute_gpu_find(device, &found, error) : engine_check_device(device, error);
}

enum status unit_supervisor_open(const struct unit_supervisor_options *options, struct loop *loop,
                                 struct unit_supervisor **unit_supervisor_out,
                                 struct error *error) {
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < options->unit_count; i++)
        ranks += options->units[i].ranks;
    enum status status = rank_job_check_files(ranks, error);
    if (status) return status;
    struct unit_supervisor *unit_supervisor = calloc(1, sizeof *unit_supervisor);
    if (!unit_supervisor) return error_set(error, STATUS_NO_MEMORY, "no memory for the units");
    unit_supervisor->options = *options;
    unit_supervisor->loop = loop;
    check(options->unit_count <= UNIT_SUPERVISOR_UNITS_MAX);
    for (uint32_t i = 0; i < options->unit_count; i++) {
        unit_supervisor->units[i] = options->units[i];
        unit_supervisor->rank_counts[i] = options->units[i].ranks;
        unit_supervisor->rank_count += options->units[i].ranks;
    }
    status = read_hosts(unit_supervisor, error);
    if (!status) status = read_shell(unit_supervisor, error);
    if (status) {
        host_list_free(&unit_supervisor->list);
        free(unit_supervisor);
        return status;
    }
    const char *const agent[] = {"--log-format", options->log->format, "--log-level",
                                 options->log->level, NULL};
    memcpy(unit_supervisor->agent_options, agent, sizeof agent);
    struct supervisor_options supervisor = {
        .units = {.base = loop_base(loop),
                  .remote_shell = unit_supervisor->shell_words,
                  .agent_options = unit_supervisor->agent_options,
                  .check = what_is_needed(unit_supervisor),
                  .machines = strcmp(options->device, "cpu") ? &unit_supervisor->machines : NULL,
                  .context = unit_supervisor,
                  .command = unit_command},
        .unit_count = options->unit_count,
        .rank_counts = unit_supervisor->rank_counts,
        .hosts = unit_supervisor->hosts ? &unit_supervisor->list : NULL,
        .rank_timeout_ns = (int64_t)(options->unit_supervisor->rank_timeout * 1e9),
        .finish_ns_max = options->finish_ns_max,
        .gave_up = on_gave_up,
    };
    status = supervisor_open(&supervisor, &unit_supervisor->supervisor, error);
    if (status) {
        host_list_free(&unit_supervisor->list);
        free(unit_supervisor);
        return status;
    }
    status = set_address(unit_supervisor, error);
    if (status) {
        unit_supervisor_close(unit_supervisor);
        return status;
    }
    *unit_supervisor_out = unit_supervisor;
    return STATUS_OK;
}

void unit_supervisor_wire(const struct unit_supervisor *unit_supervisor,
                          struct wire_options *wire) {
    wire->address = unit_supervisor->address;
    if (unit_supervisor->has_keys) wire->keys = &unit_supervisor->keys;
}

uint32_t unit_supervisor_job_of(void *context, int64_t pid) {
    const struct unit_supervisor *unit_supervisor = context;
    return supervisor_job_of(unit_supervisor->supervisor, pid);
}

void unit_supervisor_start(struct unit_supervisor *unit_supervisor) {
    supervisor_start(unit_supervisor->supervisor);
}

void unit_supervisor_close(struct unit_supervisor *unit_supervisor) {
    if (!unit_supervisor) return;
    supervisor_stop(unit_supervisor->supervisor);
    supervisor_close(unit_supervisor->supervisor);
    host_list_free(&unit_supervisor->list);
    wire_keys_close(&unit_supervisor->keys);
    for (size_t i = 0; i < KEY_FILES; i++)
        free((void *)(uintptr_t)unit_supervisor->files[i].text.data);
    free(unit_supervisor);
}
