/* SPDX-License-Identifier: Apache-2.0
 * Launches units as processes on several hosts, through a remote shell. A unit starts on the host
 * that has the fewest of the fleet's units and had no failure recently, in a session of its own, so
 * that it outlives the shell. Running units are found with `ps` among this user's processes on each
 * host. If a host does not respond, its units are kept as long as gateways may still be connected
 * to them. Then they count as gone, and are adopted when the host responds again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/fleet/launcher.h"
#include "host/process/child_process.h"
#include "host/process/log/log.h"

#define LIST_DELAY_MAX_NS ((int64_t)5000000000)
#define TIMEOUT_MS 10000
#define ANSWER_BYTES ((size_t)4 << 20)
#define SCRIPT_BYTES 16384
#define AWAY_NS ((int64_t)60000000000)   /* time after which a host's units count as gone */
#define AVOID_NS ((int64_t)120000000000) /* time without new units after a failed start */
#define HOST_UNITS_MAX 64

struct launch_host {
    const char *name;
    uint32_t unit_count;
    struct launched_unit units[HOST_UNITS_MAX];
    long pids[HOST_UNITS_MAX];
    int64_t answered_ns; /* time of the last response; 0: never */
    int64_t failed_ns;   /* time of a failed start; 0: never */
};

struct launch_hosts {
    char tag[FLEET_TAG_DIGITS + 1];
    struct launch_hosts_options options;
    struct launch_host *hosts; /* [options.host_count] */
    char *answer;              /* [ANSWER_BYTES] */
};

/* Runs a script in a host's shell. */
static enum status run_on(struct launch_hosts *hosts, const struct launch_host *host,
                          const char *script, struct error *error) {
    struct command_line line = {.count = 0};
    (void)command_line_add_all(&line, hosts->options.remote_shell);
    (void)command_line_add(&line, host->name);
    if (!command_line_add(&line, script))
        return error_set(error, STATUS_TOO_LARGE, "the remote shell has too many words");
    struct error why;
    enum status status = child_process_run(&line, TIMEOUT_MS, hosts->answer, ANSWER_BYTES, &why);
    return status ? error_set(error, status, "host %.100s: %.300s", host->name, why.text)
                  : STATUS_OK;
}

/* ---- polling ---- */

/* The word after `name` in a command line; empty if there is none. */
static void word_behind(const char *text, const char *name, char word[64]) {
    const char *at = strstr(text, name);
    word[0] = 0;
    if (!at) return;
    at += strlen(name);
    size_t bytes = strcspn(at, " ");
    if (bytes < 64) snprintf(word, 64, "%.*s", (int)bytes, at);
}

static void read_process(const struct launch_hosts *hosts, struct launch_host *host,
                         const char *line) {
    char instance[64], role[64], *words;
    long pid = strtol(line, &words, 10);
    word_behind(words, " --instance ", instance);
    word_behind(words, " --role ", role);
    uint32_t number = launcher_number(hosts->tag, instance);
    bool is_shell = strstr(words, "setsid") != NULL; /* the shell that starts the unit */
    if (!number || pid <= 1 || is_shell || host->unit_count == HOST_UNITS_MAX) return;
    struct launched_unit *unit = &host->units[host->unit_count];
    *unit = (struct launched_unit){.number = number,
                                   .role = strcmp(role, "prefill") ? UNIT_DECODE : UNIT_PREFILL};
    snprintf(unit->job, sizeof unit->job, "pid %ld on %.30s", pid, host->name);
    host->pids[host->unit_count++] = pid;
}

static enum status launch_hosts_poll(struct launch_hosts *hosts, struct launch_host *host,
                                     struct error *error) {
    enum status status = run_on(hosts, host, "ps -ww -U \"$(id -u)\" -o pid=,args=", error);
    if (status) return status;
    char *rest = hosts->answer;
    host->unit_count = 0;
    host->answered_ns = clock_now_ns();
    for (char *line; (line = strsep(&rest, "\n"));)
        read_process(hosts, host, line);
    return STATUS_OK;
}

static enum status hosts_list(void *self,
                              void (*visit)(void *context, const struct launched_unit *unit),
                              void *context, struct error *error) {
    struct launch_hosts *hosts = self;
    enum status status = STATUS_OK;
    uint32_t answered = 0;
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct launch_host *host = &hosts->hosts[i];
        enum status one = launch_hosts_poll(hosts, host, error);
        answered += !one;
        if (one) status = one;
        if (one && clock_now_ns() - host->answered_ns > AWAY_NS) host->unit_count = 0;
        for (uint32_t unit = 0; unit < host->unit_count; unit++)
            visit(context, &host->units[unit]);
    }
    return answered ? STATUS_OK : status; /* without any response, this machine's network is down */
}

/* ---- starting ---- */

static struct launch_host *choose_host(struct launch_hosts *hosts) {
    struct launch_host *best = NULL;
    int64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct launch_host *host = &hosts->hosts[i];
        bool is_avoided = host->failed_ns && now_ns - host->failed_ns < AVOID_NS;
        bool is_away = !host->answered_ns || now_ns - host->answered_ns > AWAY_NS;
        if (is_avoided || is_away || host->unit_count >= hosts->options.units_per_host_max)
            continue;
        if (!best || host->unit_count < best->unit_count) best = host;
    }
    return best;
}

/* The script checks that the program exists, because afterwards the shell always reports
 * success. */
static enum status launch_hosts_write_script(const struct launch_request *request,
                                             char script[SCRIPT_BYTES], struct error *error) {
    char log_path[1024] = "", program[4096] = "";
    bool fits = command_line_quote(program, sizeof program, request->argv[0]) &&
                command_line_quote(log_path, sizeof log_path, request->log_path);
    snprintf(script, SCRIPT_BYTES,
             "command -v %s >/dev/null || { echo %s is not there >&2; exit 127; }; setsid", program,
             program);
    for (const char *const *word = request->argv; *word && fits; word++) {
        size_t bytes = strlen(script);
        fits = bytes + 2 < SCRIPT_BYTES;
        if (fits) memcpy(script + bytes, " ", 2);
        fits = fits && command_line_quote(script, SCRIPT_BYTES, *word);
    }
    size_t bytes = strlen(script);
    int more = snprintf(script + bytes, SCRIPT_BYTES - bytes, " </dev/null >>%s 2>&1 &", log_path);
    fits = fits && more > 0 && bytes + (size_t)more < SCRIPT_BYTES;
    return fits ? STATUS_OK
                : error_set(error, STATUS_TOO_LARGE, "a unit's command line is too long");
}

static enum status hosts_start(void *self, const struct launch_request *request,
                               struct error *error) {
    struct launch_hosts *hosts = self;
    char script[SCRIPT_BYTES];
    struct launch_host *host = choose_host(hosts);
    if (!host)
        return error_set(
            error, STATUS_FULL,
            "no host can run another unit: each is full, does not respond, or failed recently");
    enum status status = launch_hosts_write_script(request, script, error);
    if (!status) status = run_on(hosts, host, script, error);
    if (status)
        host->failed_ns = clock_now_ns();
    else
        host->unit_count += host->unit_count < HOST_UNITS_MAX; /* until the next poll */
    return status;
}

/* ---- stopping ---- */

static void hosts_stop(void *self, uint32_t number, bool at_once) {
    struct launch_hosts *hosts = self;
    struct error error;
    char script[64];
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct launch_host *host = &hosts->hosts[i];
        if (launch_hosts_poll(hosts, host, &error)) continue; /* will be polled again */
        for (uint32_t unit = 0; unit < host->unit_count; unit++) {
            if (host->units[unit].number != number) continue;
            snprintf(script, sizeof script, "kill -%s %ld", at_once ? "KILL" : "TERM",
                     host->pids[unit]);
            if (run_on(hosts, host, script, &error))
                log_say(LOG_WARNING, "fleet", "a unit could not be ended unit=%u why=%s", number,
                        error.text);
        }
    }
}

static void hosts_close(void *self) {
    struct launch_hosts *hosts = self;
    free(hosts->hosts);
    free(hosts->answer);
    free(hosts);
}

enum status launch_hosts_open(const char *tag, const struct launch_hosts_options *options,
                              struct unit_launcher *launcher_out, struct error *error) {
    struct launch_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts) hosts->hosts = calloc(options->host_count, sizeof *hosts->hosts);
    if (hosts) hosts->answer = malloc(ANSWER_BYTES);
    if (!hosts || !hosts->hosts || !hosts->answer) {
        if (hosts) hosts_close(hosts);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a launcher");
    }
    snprintf(hosts->tag, sizeof hosts->tag, "%s", tag);
    hosts->options = *options;
    for (uint32_t i = 0; i < options->host_count; i++)
        hosts->hosts[i].name = options->hosts[i];
    *launcher_out = (struct unit_launcher){.self = hosts,
                                           .name = "hosts",
                                           .list_delay_max_ns = LIST_DELAY_MAX_NS,
                                           .start = hosts_start,
                                           .list = hosts_list,
                                           .stop = hosts_stop,
                                           .close = hosts_close};
    return STATUS_OK;
}
