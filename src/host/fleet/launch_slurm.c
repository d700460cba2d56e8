/* SPDX-License-Identifier: Apache-2.0
 * Launches units as Slurm jobs, one each: sbatch starts, squeue lists, scancel ends them. The name
 * of a job contains the fleet's tag, the unit's number and its role. The batch script becomes the
 * unit, so that it receives the signals to the batch process: SIGTERM means drain, and Slurm also
 * sends it before it takes nodes away. While Slurm's controller does not respond, nothing is known
 * and nothing changes. Nodes with a unit that failed soon after its start are excluded for a while,
 * because Slurm would choose them again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/fleet/launcher.h"
#include "host/process/child_process.h"
#include "host/process/log/log.h"

#define LIST_DELAY_MAX_NS ((int64_t)20000000000)
#define TIMEOUT_MS 20000
#define ANSWER_BYTES ((size_t)1 << 20)
#define SCRIPT_BYTES 16384
#define NAME_BYTES 64
/* exclusion time after a failure, which must occur within the same time of the start */
#define SHUN_S 120
#define AVOIDED_BYTES 1024
#define EXCLUDED_BYTES 8192
#define ENDED_MAX 64 /* remembered units that were killed */
#define FIELDS 7

struct launch_slurm {
    char tag[FLEET_TAG_DIGITS + 1];
    const char *const *options;  /* options of sbatch; NULL at the end */
    char *answer;                /* [ANSWER_BYTES] */
    char avoided[AVOIDED_BYTES]; /* excluded nodes, from the last poll: "n3,n[5-6]" */
    uint32_t ended[ENDED_MAX];   /* numbers of killed units; their jobs have not failed */
    uint32_t ended_count;        /* total number */
};

/* Finds the first job of that number, whatever its role is now. */
static void launch_slurm_name_of(const struct launch_slurm *slurm, uint32_t number,
                                 enum unit_role role, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "fathom-%s-%u-%s", slurm->tag, number, record_unit_role_name(role));
}

/* ---- starting ---- */

static enum status launch_slurm_write_script(const struct launch_request *request,
                                             char script[SCRIPT_BYTES], struct error *error) {
    bool fits = true;
    snprintf(script, SCRIPT_BYTES, "exec");
    for (const char *const *word = request->argv; *word && fits; word++) {
        size_t bytes = strlen(script);
        fits = bytes + 2 < SCRIPT_BYTES;
        if (fits) memcpy(script + bytes, " ", 2);
        fits = fits && command_line_quote(script, SCRIPT_BYTES, *word);
    }
    return fits ? STATUS_OK
                : error_set(error, STATUS_TOO_LARGE, "a unit's command line is too long");
}

/* Adds sbatch's options except excluded nodes, which are written to `excluded_out`, followed by
 * those of the launcher: sbatch uses the last --exclude. Returns false if there are too many. */
static bool add_options(const struct launch_slurm *slurm, const char *avoided,
                        struct command_line *line, char excluded_out[EXCLUDED_BYTES]) {
    const char *own = "";
    for (const char *const *word = slurm->options; *word; word++) {
        bool is_short = strncmp(*word, "-x", 2) == 0, is_long = strcmp(*word, "--exclude") == 0;
        if (strncmp(*word, "--exclude=", 10) == 0)
            own = *word + 10;
        else if (is_short && (*word)[2])
            own = *word + 2;
        else if ((is_short || is_long) && word[1])
            own = *++word;
        else
            (void)command_line_add(line, *word);
    }
    int bytes = snprintf(excluded_out, EXCLUDED_BYTES, "%s%s%s", own,
                         own[0] && avoided[0] ? "," : "", avoided);
    return bytes < EXCLUDED_BYTES;
}

static enum status launch_slurm_submit(const struct launch_slurm *slurm,
                                       const struct launch_request *request, const char *script,
                                       const char *avoided, struct error *error) {
    struct command_line line = {.count = 0};
    char name[NAME_BYTES], nodes[16], answer[256], excluded[EXCLUDED_BYTES];
    launch_slurm_name_of(slurm, request->number, request->role, name);
    snprintf(nodes, sizeof nodes, "%u", request->nodes);
    const char *const words[] = {"sbatch",      "--parsable", "--job-name",   name,
                                 "--nodes",     nodes,        "--output",     request->log_path,
                                 "--open-mode", "append",     "--no-requeue", NULL};
    (void)command_line_add_all(&line, words);
    bool fits = add_options(slurm, avoided, &line, excluded);
    if (excluded[0]) (void)command_line_add(&line, "--exclude");
    if (excluded[0]) (void)command_line_add(&line, excluded);
    (void)command_line_add(&line, "--wrap");
    if (!command_line_add(&line, script) || !fits)
        return error_set(error, STATUS_TOO_LARGE, "too many options of sbatch");
    return child_process_run(&line, TIMEOUT_MS, answer, sizeof answer, error);
}

/* If no other node is available, a node that failed is used. */
static enum status slurm_start(void *self, const struct launch_request *request,
                               struct error *error) {
    const struct launch_slurm *slurm = self;
    char script[SCRIPT_BYTES];
    enum status status = launch_slurm_write_script(request, script, error);
    if (status) return status;
    status = launch_slurm_submit(slurm, request, script, slurm->avoided, error);
    return status && slurm->avoided[0] ? launch_slurm_submit(slurm, request, script, "", error)
                                       : status;
}

/* ---- polling ---- */

static bool launch_slurm_is_one_of(const char *word, const char *const *words) {
    while (*words && strcmp(word, *words))
        words++;
    return *words != NULL;
}

static bool was_ended(const struct launch_slurm *slurm, uint32_t number) {
    for (uint32_t i = 0; i < slurm->ended_count && i < ENDED_MAX; i++)
        if (slurm->ended[i] == number) return true;
    return false;
}

/* Excludes the nodes of a unit that failed soon after its start. Slurm itself excludes lost
 * nodes. */
static void shun(struct launch_slurm *slurm, uint32_t number, char *const fields[FIELDS]) {
    static const char *const failures[] = {"BOOT_FAIL", "FAILED", "OUT_OF_MEMORY", NULL};
    int64_t begun_s = strtoll(fields[5], NULL, 10), ended_s = strtoll(fields[6], NULL, 10);
    size_t bytes = strlen(slurm->avoided);
    if (!launch_slurm_is_one_of(fields[2], failures) || !fields[3][0] || was_ended(slurm, number))
        return;
    if (ended_s - begun_s >= SHUN_S || time(NULL) - ended_s >= SHUN_S) return;
    if (bytes + strlen(fields[3]) + 2 > AVOIDED_BYTES) return;
    snprintf(slurm->avoided + bytes, AVOIDED_BYTES - bytes, "%s%s", bytes ? "," : "", fields[3]);
}

/* Parses "17|fathom-a1b2c3-4-decode|RUNNING|n3|None|1764000000|N/A". Returns false if it is not a
 * unit of the fleet, or has ended. */
static bool read_job(struct launch_slurm *slurm, char *line, struct launched_unit *unit_out) {
    static const char *const over[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING",
                                       "DEADLINE",  "FAILED",    "NODE_FAIL", "OUT_OF_MEMORY",
                                       "PREEMPTED", "REVOKED",   "TIMEOUT",   NULL};
    char *fields[FIELDS], prefix[NAME_BYTES];
    for (int i = 0; i < FIELDS; i++)
        if (!(fields[i] = strsep(&line, "|"))) return false;
    int bytes = snprintf(prefix, sizeof prefix, "fathom-%s-", slurm->tag);
    if (strncmp(fields[1], prefix, (size_t)bytes) != 0) return false;
    char *role;
    unsigned long number = strtoul(fields[1] + bytes, &role, 10);
    bool is_prefill = strcmp(role, "-prefill") == 0, is_decode = strcmp(role, "-decode") == 0;
    if (!number || number > 0xffffff || (!is_prefill && !is_decode)) return false;
    if (launch_slurm_is_one_of(fields[2], over)) {
        shun(slurm, (uint32_t)number, fields);
        return false;
    }
    *unit_out = (struct launched_unit){.number = (uint32_t)number,
                                       .role = is_prefill ? UNIT_PREFILL : UNIT_DECODE,
                                       .pending = strcmp(fields[2], "PENDING") == 0};
    if (unit_out->pending)
        snprintf(unit_out->job, sizeof unit_out->job, "job %.16s waits: %.30s", fields[0],
                 fields[4]);
    else
        snprintf(unit_out->job, sizeof unit_out->job, "job %.16s on %.30s", fields[0], fields[3]);
    return true;
}

/* Lists jobs, including recently ended ones. */
static enum status slurm_list(void *self,
                              void (*visit)(void *context, const struct launched_unit *unit),
                              void *context, struct error *error) {
    static const char *const words[] = {
        "squeue",   "--noheader",           "--me", "--states", "all",
        "--format", "%i|%j|%T|%N|%r|%S|%e", NULL};
    struct launch_slurm *slurm = self;
    struct command_line line = {.count = 0};
    (void)command_line_add_all(&line, words);
    enum status status = child_process_run(&line, TIMEOUT_MS, slurm->answer, ANSWER_BYTES, error);
    if (status) return status;
    char *rest = slurm->answer;
    slurm->avoided[0] = 0;
    for (char *job; (job = strsep(&rest, "\n"));) {
        struct launched_unit unit;
        if (read_job(slurm, job, &unit)) visit(context, &unit);
    }
    return STATUS_OK;
}

/* ---- stopping ---- */

static void launch_slurm_cancel(const char *name, const char *how, const char *value) {
    struct command_line line = {.count = 0};
    char answer[256];
    struct error error;
    const char *const words[] = {"scancel", "--quiet", "--name", name, how, value, NULL};
    (void)command_line_add_all(&line, words);
    if (strcmp(how, "--signal") == 0) (void)command_line_add(&line, "--batch");
    if (child_process_run(&line, TIMEOUT_MS, answer, sizeof answer, &error))
        log_say(LOG_WARNING, "fleet", "a job could not be cancelled name=%s why=%s", name,
                error.text);
}

/* The role in a job's name is the one at its start. */
static void slurm_stop(void *self, uint32_t number, bool at_once) {
    struct launch_slurm *slurm = self;
    if (!was_ended(slurm, number)) slurm->ended[slurm->ended_count++ % ENDED_MAX] = number;
    for (int role = UNIT_PREFILL; role <= UNIT_DECODE; role++) {
        char name[NAME_BYTES];
        launch_slurm_name_of(slurm, number, (enum unit_role)role, name);
        launch_slurm_cancel(name, "--state", "PENDING");
        launch_slurm_cancel(name, "--signal", at_once ? "KILL" : "TERM");
    }
}

static void slurm_close(void *self) {
    struct launch_slurm *slurm = self;
    free(slurm->answer);
    free(slurm);
}

enum status launch_slurm_open(const char *tag, const char *const *options,
                              struct unit_launcher *launcher_out, struct error *error) {
    struct launch_slurm *slurm = calloc(1, sizeof *slurm);
    if (slurm) slurm->answer = malloc(ANSWER_BYTES);
    if (!slurm || !slurm->answer) {
        free(slurm);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a launcher");
    }
    snprintf(slurm->tag, sizeof slurm->tag, "%s", tag);
    slurm->options = options;
    setenv("SLURM_TIME_FORMAT", "%s",
           1); /* squeue prints times in seconds, regardless of the site's format */
    *launcher_out = (struct unit_launcher){.self = slurm,
                                           .name = "slurm",
                                           .list_delay_max_ns = LIST_DELAY_MAX_NS,
                                           .start = slurm_start,
                                           .list = slurm_list,
                                           .stop = slurm_stop,
                                           .close = slurm_close};
    return STATUS_OK;
}
