/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/unit_hosts.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/agent/agent_facts.h"
#include "host/process/agent/agent_link.h"
#include "host/process/configuration/host_list.h"
#include "host/process/log/log.h"
#include "host/process/ranks/rank_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBJECT "supervisor"
#define WORDS_MAX 64
#define CONNECT_NS_MAX ((int64_t)30000000000) /* for an agent to say what it finds */
#define FAREWELL_NS ((int64_t)2000000000)     /* for an agent to end */
#define SETTINGS_BYTES_MAX 65536

extern char **environ;

struct host {
    struct unit_hosts *hosts;
    struct unit_host is;
    struct agent_link *link; /* NULL: there is none */
    bool has_answered;
    struct agent_facts facts;
};

struct unit_hosts {
    struct unit_hosts_options options;
    struct host *list; /* [options.host_count] */
    struct agent_facts own;
    char program[RANK_LAUNCH_PATH_BYTES];
    char name[32];
    const struct unit_host_file *files; /* [file_count] */
    uint32_t file_count;
    bool is_checking;
    bool has_launched;                     /* then hosts have reached one another */
    uint32_t reach_round, reaches_awaited; /* of this round */
    struct error reach_error;
    struct job_members *members;
    struct rank_line *lines; /* [rank_count] */
};

static struct bytes nothing(void) {
    return (struct bytes){NULL, 0};
}

static void unit_hosts_send_all(struct unit_hosts *hosts, enum agent_kind kind, const void *body,
                                struct bytes tail) {
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        if (hosts->list[i].link) agent_link_send(hosts->list[i].link, kind, body, tail);
}

/* ---- checking ---- */

static void end_check(struct unit_hosts *hosts, const struct error *error) {
    hosts->options.checked(hosts->options.context, error->text[0] ? error : NULL);
}

/* Whether each host reaches each other one, before ranks try for the first time. */
static void ask_who_reaches_whom(struct unit_hosts *hosts) {
    const uint32_t count = hosts->options.host_count;
    hosts->reach_round++;
    hosts->reach_error.text[0] = 0;
    hosts->reaches_awaited = 0;
    for (uint32_t i = 0; i < count && !hosts->has_launched; i++)
        for (uint32_t k = 0; k < count; k++) {
            const struct agent_facts *to = &hosts->list[k].facts;
            struct agent_place place = {
                .port = to->reach_port, .host = k, .round = hosts->reach_round};
            if (i == k || !to->reach_port || !hosts->list[i].link) continue;
            memcpy(place.address, to->address, sizeof place.address);
            agent_link_send(hosts->list[i].link, AGENT_REACH, &place, nothing());
            hosts->reaches_awaited++;
        }
    if (!hosts->reaches_awaited) end_check(hosts, &hosts->reach_error);
}

/* Without an interface ranks may find another way than that of the first addresses. */
static void take_reached(struct host *host, const struct agent_frame *frame) {
    struct unit_hosts *hosts = host->hosts;
    const char *interface = hosts->options.check.interface;
    struct agent_reached it;
    memcpy(&it, frame->body, sizeof it);
    if (it.round != hosts->reach_round || !hosts->reaches_awaited ||
        it.host >= hosts->options.host_count)
        return;
    if (it.error) {
        const struct host *other = &hosts->list[it.host];
        log_say(interface[0] ? LOG_ERROR : LOG_WARNING, SUBJECT,
                "a host does not reach another host=%s other=%s address=%s port=%u why=%s "
                "cure=%s",
                host->is.name, other->is.name, other->facts.address, other->facts.reach_port,
                strerror(it.error),
                "open all ports between hosts there, or choose another --interface");
        if (interface[0] && !hosts->reach_error.text[0])
            status_error_write(
                &hosts->reach_error,
                "host %s does not reach host %s at %s over %s: %s; is there a firewall? Between "
                "the hosts of a unit all ports have to be open",
                host->is.name, other->is.name, other->facts.address, interface, strerror(it.error));
    }
    if (--hosts->reaches_awaited == 0) end_check(hosts, &hosts->reach_error);
}

static void unit_hosts_verify(struct unit_hosts *hosts) {
    struct error error = {""};
    char text[512];
    hosts->is_checking = false;
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct host *host = &hosts->list[i];
        if (agent_facts_verify(&host->facts, &hosts->own, &hosts->list[0].facts, text)) continue;
        log_say(LOG_ERROR, SUBJECT, "a host cannot run its ranks host=%s why=%s", host->is.name,
                text);
        if (!error.text[0]) status_error_write(&error, "host %s: %.400s", host->is.name, text);
        host->has_answered = false; /* it is asked again before the next start */
    }
    if (error.text[0])
        end_check(hosts, &error);
    else
        ask_who_reaches_whom(hosts);
}

static void verify_if_all_answered(struct unit_hosts *hosts) {
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        if (!hosts->list[i].has_answered) return;
    if (hosts->is_checking) unit_hosts_verify(hosts);
}

static void take_facts(struct host *host, const struct agent_frame *frame) {
    memcpy(&host->facts, frame->body, sizeof host->facts);
    snprintf(host->facts.host, sizeof host->facts.host, "%s", host->is.name);
    host->has_answered = true;
    verify_if_all_answered(host->hosts);
}

static void unit_hosts_ask(struct host *host) {
    const struct unit_hosts_options *options = &host->hosts->options;
    struct agent_check check = options->check;
    check.timeout_ns = options->timeout_ns;
    check.count = host->is.count;
    check.total = options->rank_count;
    /* two names may be one machine */
    snprintf(check.unit, sizeof check.unit, "%.24s.%u", host->hosts->name,
             (uint32_t)(host - host->hosts->list) % HOST_LIST_MAX);
    if (!getcwd(check.folder, sizeof check.folder)) check.folder[0] = 0;
    agent_link_send(host->link, AGENT_CHECK, &check, nothing());
}

/* ---- what agents say ---- */

static void unit_hosts_notify_members(struct unit_hosts *hosts) {
    struct bytes frame;
    while (hosts->members && (frame = job_rendezvous_members_next(hosts->members)).count)
        unit_hosts_send_all(hosts, AGENT_REPORT, NULL, frame);
}

static void unit_hosts_take_join(struct unit_hosts *hosts, struct bytes frame) {
    if (hosts->members && job_rendezvous_members_add(hosts->members, frame))
        unit_hosts_notify_members(hosts);
}

static void unit_hosts_take_signs(struct host *host, const struct agent_frame *frame) {
    struct unit_hosts *hosts = host->hosts;
    struct agent_signs head;
    memcpy(&head, frame->body, sizeof head);
    if (head.count != host->is.count) return;
    bool is_first = host->is.first == 0 && atomic_load(&hosts->lines[0].pid) == 0;
    for (uint32_t i = 0; i < head.count; i++) {
        struct agent_sign sign;
        uint32_t rank = host->is.first + i;
        struct rank_line *line = &hosts->lines[rank];
        memcpy(&sign, frame->tail.data + i * sizeof sign, sizeof sign);
        const struct supervise_signs signs = {.state = (enum heartbeat_state)sign.state,
                                              .tiles = sign.tiles,
                                              .moved = sign.moved,
                                              .peer = sign.peer,
                                              .ran = sign.ran,
                                              .cpu_ns = sign.cpu_ns};
        if (!hosts->options.sign(hosts->options.context, head.number, rank, &signs)) return;
        atomic_store(&line->heartbeat.state, sign.state);
        atomic_store(&line->heartbeat.tiles, sign.tiles);
        atomic_store(&line->heartbeat.place, sign.place);
        atomic_store(&line->pid, sign.pid);
        atomic_store(&line->role, sign.role);
        atomic_store(&line->epoch, sign.epoch);
    }
    if (is_first && hosts->options.launched) hosts->options.launched(hosts->options.context);
}

static void unit_hosts_take_end(struct host *host, const struct agent_frame *frame) {
    struct unit_hosts *hosts = host->hosts;
    struct agent_ended ended;
    memcpy(&ended, frame->body, sizeof ended);
    bool is_its = ended.rank >= host->is.first && ended.rank - host->is.first < host->is.count;
    if (is_its)
        hosts->options.ended(hosts->options.context, ended.number, ended.rank, ended.status);
}

static void on_frame(void *context, const struct agent_frame *frame) {
    struct host *host = context;
    switch (frame->kind) {
    case AGENT_FACTS:
        take_facts(host, frame);
        break;
    case AGENT_REACHED:
        take_reached(host, frame);
        break;
    case AGENT_JOIN:
        unit_hosts_take_join(host->hosts, frame->tail);
        break;
    case AGENT_SIGNS:
        unit_hosts_take_signs(host, frame);
        break;
    case AGENT_ENDED:
        unit_hosts_take_end(host, frame);
        break;
    default:
        break;
    }
}

static void unit_hosts_on_lost(void *context, const char *why) {
    struct host *host = context;
    struct unit_hosts *hosts = host->hosts;
    host->has_answered = false;
    hosts->options.lost(hosts->options.context, (uint32_t)(host - hosts->list), why);
}

/* ---- starting ---- */

static size_t unit_hosts_add_words(const char **words, size_t count, const char *const *more) {
    for (; more && *more && count + 1 < WORDS_MAX; more++)
        words[count++] = *more;
    words[count] = NULL;
    return count;
}

static enum status connect_host(struct host *host, struct error *error) {
    struct unit_hosts *hosts = host->hosts;
    const char *words[WORDS_MAX];
    char self[RANK_LAUNCH_PATH_BYTES]; /* here another build may lie under the name by now */
    bool is_known = host->is.is_here && rank_launch_self(self);
    size_t count = 0;
    if (!host->is.is_here && strpbrk(hosts->program, " \t'\"\\$`;&|<>()*?[]{}#~!"))
        return error_set(error, STATUS_INVALID,
                         "a remote shell would take the path of this program apart: %.300s",
                         hosts->program);
    if (!host->is.is_here) {
        count = unit_hosts_add_words(words, count, hosts->options.remote_shell);
        count = unit_hosts_add_words(words, count, (const char *const[]){host->is.name, NULL});
    }
    const char *program = is_known ? self : hosts->program;
    count = unit_hosts_add_words(words, count, (const char *const[]){program, "agent", NULL});
    unit_hosts_add_words(words, count, hosts->options.agent_options);
    const struct agent_link_options options = {.base = hosts->options.base,
                                               .command = words,
                                               .timeout_ns = hosts->options.timeout_ns,
                                               .first_ns = CONNECT_NS_MAX,
                                               .context = host,
                                               .take = on_frame,
                                               .lost = unit_hosts_on_lost};
    return agent_link_open(&options, &host->link, error);
}

void unit_hosts_check(struct unit_hosts *hosts) {
    struct error error;
    hosts->is_checking = true;
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct host *host = &hosts->list[i];
        if (host->link && agent_link_is_lost(host->link)) {
            agent_link_close(host->link, 0);
            host->link = NULL;
        }
        if (!host->link && connect_host(host, &error)) {
            hosts->is_checking = false;
            hosts->options.checked(hosts->options.context, &error);
            return;
        }
        if (!host->has_answered) unit_hosts_ask(host);
    }
    verify_if_all_answered(hosts);
}

/* Settings of this process that ranks elsewhere need as well. */
static bool is_handed_on(const char *setting) {
    return strncmp(setting, "UCX_", 4) == 0;
}

struct tail {
    char *text; /* [bytes] */
    size_t bytes;
    uint32_t words;
};

static void add_word(struct tail *tail, const char *word) {
    size_t bytes = strlen(word) + 1;
    char *text = realloc(tail->text, tail->bytes + bytes);
    check(text); /* some kilobytes */
    memcpy(text + tail->bytes, word, bytes);
    tail->text = text;
    tail->bytes += bytes;
    tail->words++;
}

static uint32_t add_settings(struct tail *tail) {
    uint32_t before = tail->words;
    for (char **at = environ; *at && tail->bytes < SETTINGS_BYTES_MAX; at++)
        if (is_handed_on(*at)) add_word(tail, *at);
    return tail->words - before;
}

static enum status launch_host(struct unit_hosts *hosts, uint32_t index, uint32_t number,
                               struct error *error) {
    struct host *host = &hosts->list[index];
    const struct agent_facts *first = &hosts->list[0].facts;
    char folder[300];
    struct tail tail = {NULL, 0, 0};
    snprintf(folder, sizeof folder, "%s/%u", host->facts.room, number);
    const struct unit_host_start start = {.host = index,
                                          .ranks = host->is.count,
                                          .cpus = host->facts.cpus,
                                          .room = host->facts.room,
                                          .folder = folder,
                                          .address = host->facts.address,
                                          .first_address = first->address,
                                          .first_port = first->port};
    const char **words = hosts->options.words(hosts->options.context, &start);
    if (!words) return error_set(error, STATUS_NO_MEMORY, "no memory for a command line");
    for (const char **word = words + 1; *word; word++)
        add_word(&tail, *word);
    free(words);
    struct agent_launch launch = {.first = host->is.first,
                                  .count = host->is.count,
                                  .total = hosts->options.rank_count,
                                  .sharing = host->is.sharing,
                                  .before = host->is.before,
                                  .arguments = tail.words,
                                  .number = number};
    launch.settings = add_settings(&tail);
    if (hosts->options.host_count > 1)
        snprintf(launch.host, sizeof launch.host, "%s", host->is.name);
    for (uint32_t i = 0; i < hosts->file_count; i++) {
        struct agent_file file = {""};
        snprintf(file.name, sizeof file.name, "%s", hosts->files[i].name);
        agent_link_send(host->link, AGENT_FILE, &file, hosts->files[i].text);
    }
    agent_link_send(host->link, AGENT_LAUNCH, &launch, (struct bytes){tail.text, tail.bytes});
    free(tail.text);
    for (uint32_t i = 0; i < host->is.count; i++)
        snprintf(hosts->lines[host->is.first + i].host, sizeof hosts->lines->host, "%s",
                 host->is.name);
    return STATUS_OK;
}

void unit_hosts_give_files(struct unit_hosts *hosts, const struct unit_host_file *files,
                           uint32_t count) {
    hosts->files = files;
    hosts->file_count = count;
}

enum status unit_hosts_launch(struct unit_hosts *hosts, uint32_t number, struct error *error) {
    const uint32_t ranks = hosts->options.rank_count;
    enum status status = STATUS_OK;
    memset(hosts->lines, 0, ranks * sizeof *hosts->lines);
    job_rendezvous_members_close(hosts->members);
    hosts->members = NULL;
    hosts->has_launched = true;
    if (ranks > 1) status = job_rendezvous_members_open(ranks, &hosts->members, error);
    for (uint32_t i = 0; !status && i < hosts->options.host_count; i++)
        status = launch_host(hosts, i, number, error);
    return status;
}

/* ---- while they run ---- */

void unit_hosts_again(struct unit_hosts *hosts, uint32_t number, uint32_t rank) {
    const struct agent_again again = {number, rank};
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        struct host *host = &hosts->list[i];
        if (!host->link || rank < host->is.first || rank - host->is.first >= host->is.count)
            continue;
        agent_link_send(host->link, AGENT_AGAIN, &again, nothing());
    }
}

uint32_t unit_hosts_epoch(const struct unit_hosts *hosts) {
    return hosts->members ? job_rendezvous_members_epoch(hosts->members) : 0;
}

bool unit_hosts_has(const struct unit_hosts *hosts, uint32_t rank) {
    return !hosts->members || job_rendezvous_members_lives(hosts->members, rank);
}

void unit_hosts_signal(struct unit_hosts *hosts, uint32_t rank, int number) {
    const struct agent_signal signal = {rank, number};
    unit_hosts_send_all(hosts, AGENT_SIGNAL, &signal, nothing());
}

void unit_hosts_report_gone(struct unit_hosts *hosts, uint32_t rank) {
    if (hosts->members) job_rendezvous_members_leave(hosts->members, rank);
    unit_hosts_notify_members(hosts);
}

void unit_hosts_abandon(struct unit_hosts *hosts, uint32_t host) {
    agent_link_close(hosts->list[host].link, 0);
    hosts->list[host].link = NULL;
    hosts->list[host].has_answered = false;
}

const struct rank_line *unit_hosts_lines(const struct unit_hosts *hosts) {
    return hosts->lines;
}

bool unit_hosts_received(const struct unit_hosts *hosts, int64_t ns) {
    const int64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < hosts->options.host_count; i++) {
        const struct agent_link *link = hosts->list[i].link;
        if (link && agent_link_silent_ns(link, now_ns) > ns) return false;
    }
    return true;
}

void unit_hosts_tick(struct unit_hosts *hosts, int64_t now_ns) {
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        if (hosts->list[i].link) agent_link_tick(hosts->list[i].link, now_ns);
}

void unit_hosts_tend(struct unit_hosts *hosts) {
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        if (hosts->list[i].link) agent_link_tend(hosts->list[i].link);
}

/* ---- life ---- */

enum status unit_hosts_open(const struct unit_hosts_options *options, struct unit_hosts **hosts_out,
                            struct error *error) {
    const uint32_t ranks = options->rank_count;
    struct unit_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts) {
        hosts->options = *options;
        hosts->list = calloc(options->host_count, sizeof *hosts->list);
        hosts->lines = aligned_alloc(_Alignof(struct rank_line), ranks * sizeof *hosts->lines);
    }
    if (!hosts || !hosts->list || !hosts->lines) {
        if (hosts) hosts->options.host_count = 0;
        unit_hosts_close(hosts);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a unit's hosts");
    }
    memset(hosts->lines, 0, ranks * sizeof *hosts->lines);
    for (uint32_t i = 0; i < options->host_count; i++)
        hosts->list[i] = (struct host){.hosts = hosts, .is = options->hosts[i]};
    agent_facts_name_program(&hosts->own);
    snprintf(hosts->name, sizeof hosts->name, "%s", options->name);
    if (rank_launch_self(hosts->program)) {
        *hosts_out = hosts;
        return STATUS_OK;
    }
    unit_hosts_close(hosts);
    return error_set(error, STATUS_NOT_FOUND, "cannot find this program's own file");
}

void unit_hosts_close(struct unit_hosts *hosts) {
    if (!hosts) return;
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        if (hosts->list[i].link) agent_link_hang_up(hosts->list[i].link);
    for (uint32_t i = 0; i < hosts->options.host_count; i++)
        agent_link_close(hosts->list[i].link, FAREWELL_NS);
    job_rendezvous_members_close(hosts->members);
    free(hosts->list);
    free(hosts->lines);
    free(hosts);
}
