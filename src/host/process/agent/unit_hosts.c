/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/agent/unit_hosts.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/agent/agent_facts.h"
#include "host/process/agent/agent_link.h"
#include "host/process/child_process.h"
#include "host/process/configuration/host_list.h"
#include "host/process/log/log.h"
#include "host/process/ranks/rank_launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUBJECT "supervisor"
#define FAREWELL_NS ((int64_t)2000000000) /* limit for an agent to end */
#define SETTINGS_BYTES_MAX 65536

extern char **environ;

struct host {
    struct unit_hosts *hosts;
    struct unit_host is;
    struct agent_link *link; /* NULL: there is none */
    struct agent_facts facts;
    char why[AGENT_LINK_WHY]; /* reason why the link ended */
};

struct unit_hosts {
    struct unit_hosts_options options;
    struct unit_hosts_unit is;
    struct supervise_unit *unit; /* the unit's machine */
    struct host *list;           /* [unit->host_count] */
    struct agent_facts own;
    char program[RANK_LAUNCH_PATH_BYTES];
    char name[32];
    const struct unit_host_file *files; /* [file_count] */
    uint32_t file_count;
    struct error why;
    bool has_role; /* the unit reported `role` in its last run */
    enum unit_role role;
    struct job_members *members;
    struct rank_line *lines; /* [unit->watch.rank_count] */
};

static struct bytes nothing(void) {
    return (struct bytes){NULL, 0};
}

static uint32_t index_of(const struct host *host) {
    return (uint32_t)(host - host->hosts->list);
}

static const struct supervise_host *unit_hosts_ranks(const struct host *host) {
    return &host->hosts->unit->hosts[index_of(host)];
}

static void unit_hosts_send(struct host *host, enum agent_kind kind, const void *body,
                            struct bytes tail) {
    if (unit_hosts_ranks(host)->is_linked) agent_link_send(host->link, kind, body, tail);
}

static void unit_hosts_send_all(struct unit_hosts *hosts, enum agent_kind kind, const void *body,
                                struct bytes tail) {
    for (uint32_t i = 0; i < hosts->unit->host_count; i++)
        unit_hosts_send(&hosts->list[i], kind, body, tail);
}

/* ---- checking ---- */

static void unit_hosts_ask(struct host *host) {
    struct agent_check check = host->hosts->options.check;
    check.timeout_ns = host->hosts->unit->timeout.wall_ns;
    check.count = unit_hosts_ranks(host)->count;
    check.total = host->hosts->unit->watch.rank_count;
    /* two names may be of one machine */
    snprintf(check.unit, sizeof check.unit, "%.24s.%u", host->hosts->name,
             index_of(host) % HOST_LIST_MAX);
    if (!getcwd(check.folder, sizeof check.folder)) check.folder[0] = 0;
    unit_hosts_send(host, AGENT_CHECK, &check, nothing());
}

static void take_facts(struct host *host, const struct agent_frame *frame) {
    memcpy(&host->facts, frame->body, sizeof host->facts);
    snprintf(host->facts.host, sizeof host->facts.host, "%s", host->is.name);
    supervise_unit_answered(host->hosts->unit, index_of(host), host->facts.reach_port != 0);
}

static void unit_hosts_verify(struct unit_hosts *hosts) {
    char text[512];
    hosts->why.text[0] = 0;
    for (uint32_t i = 0; i < hosts->unit->host_count; i++) {
        struct host *host = &hosts->list[i];
        bool is_right = agent_facts_verify(&host->facts, &hosts->own, &hosts->list[0].facts, text);
        const char *other =
            hosts->options.machines
                ? unit_machines_note(hosts->options.machines, host->is.name, host->facts.machine)
                : NULL;
        if (is_right && other)
            snprintf(text, sizeof text,
                     "it is the machine that %.120s names, too, and ranks of both would share its "
                     "devices; name it once, with all of its ranks (%.120s:8)",
                     other, other);
        is_right = is_right && !other;
        if (!is_right)
            log_say(LOG_ERROR, SUBJECT, "a host cannot run its ranks host=%s why=%s", host->is.name,
                    text);
        if (!is_right && !hosts->why.text[0])
            status_error_write(&hosts->why, "host %s: %.400s", host->is.name, text);
        supervise_unit_verified(hosts->unit, i, is_right, clock_now_ns());
    }
}

static void unit_hosts_reach(struct unit_hosts *hosts, const struct supervise_order *order) {
    const struct agent_facts *to = &hosts->list[order->other].facts;
    struct agent_place place = {
        .port = to->reach_port, .host = order->other, .round = order->round};
    memcpy(place.address, to->address, sizeof place.address);
    unit_hosts_send(&hosts->list[order->host], AGENT_REACH, &place, nothing());
}

/* Without a chosen interface a failed test is only a warning: ranks may use other addresses. */
static void take_reached(struct host *host, const struct agent_frame *frame) {
    struct unit_hosts *hosts = host->hosts;
    const char *interface = hosts->options.check.interface;
    struct agent_reached it;
    memcpy(&it, frame->body, sizeof it);
    if (it.host >= hosts->unit->host_count) return;
    if (it.error) {
        const struct host *other = &hosts->list[it.host];
        log_say(interface[0] ? LOG_ERROR : LOG_WARNING, SUBJECT,
                "a host does not reach another host=%s other=%s address=%s port=%u why=%s "
                "cure=%s",
                host->is.name, other->is.name, other->facts.address, other->facts.reach_port,
                strerror(it.error),
                "open all ports between hosts there, or choose another --interface");
        if (interface[0] && !hosts->why.text[0])
            status_error_write(
                &hosts->why,
                "host %s does not reach host %s at %s over %s: %s; is there a firewall? Between "
                "the hosts of a unit all ports have to be open",
                host->is.name, other->is.name, other->facts.address, interface, strerror(it.error));
    }
    supervise_unit_reached(hosts->unit, it.round, !it.error || !interface[0], clock_now_ns());
}

/* ---- frames of agents ---- */

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
    if (head.count != unit_hosts_ranks(host)->count) return;
    for (uint32_t i = 0; i < head.count; i++) {
        struct agent_sign sign;
        uint32_t rank = unit_hosts_ranks(host)->first + i;
        struct rank_line *line = &hosts->lines[rank];
        memcpy(&sign, frame->tail.data + i * sizeof sign, sizeof sign);
        const struct supervise_signs signs = {.state = (enum heartbeat_state)sign.state,
                                              .tiles = sign.tiles,
                                              .moved = sign.moved,
                                              .peer = sign.peer,
                                              .ran = sign.ran,
                                              .cpu_ns = sign.cpu_ns};
        if (!supervise_unit_sign(hosts->unit, head.number, rank, &signs)) return;
        atomic_store(&line->heartbeat.state, sign.state);
        atomic_store(&line->heartbeat.tiles, sign.tiles);
        atomic_store(&line->heartbeat.place, sign.place);
        atomic_store(&line->pid, sign.pid);
        atomic_store(&line->role, sign.role);
        atomic_store(&line->epoch, sign.epoch);
    }
}

static void unit_hosts_take_end(struct host *host, const struct agent_frame *frame) {
    struct agent_ended it;
    memcpy(&it, frame->body, sizeof it);
    const struct supervise_how how = {.by_signal = WIFSIGNALED(it.status),
                                      .number = WIFSIGNALED(it.status) ? WTERMSIG(it.status)
                                                                       : WEXITSTATUS(it.status)};
    supervise_unit_ended(host->hosts->unit, index_of(host), it.number, it.rank, how,
                         clock_now_ns());
}

static void on_frame(void *context, const struct agent_frame *frame) {
    struct host *host = context;
    if (!supervise_unit_received(host->hosts->unit, index_of(host), clock_now_ns())) return;
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
    default: /* PONG */
        break;
    }
    unit_hosts_obey(host->hosts);
}

static void lose_host(struct host *host, const char *why) {
    snprintf(host->why, sizeof host->why, "%.255s", why);
    supervise_unit_lose_host(host->hosts->unit, index_of(host), clock_now_ns());
}

static void unit_hosts_on_lost(void *context, const char *why) {
    struct host *host = context;
    lose_host(host, why);
    unit_hosts_obey(host->hosts);
}

static void say_lost(struct unit_hosts *hosts, const struct supervise_order *order) {
    struct host *host = &hosts->list[order->host];
    if (order->ns)
        snprintf(host->why, sizeof host->why, "nothing was heard from it for %.1f s",
                 (double)order->ns * 1e-9);
    log_say(LOG_ERROR, SUBJECT, "a host is lost, its unit starts again job=%u host=%s why=%s",
            hosts->is.number, host->is.name, host->why);
    status_error_write(&hosts->why, "host %s: %s", host->is.name, host->why);
}

/* ---- starting ---- */

static enum status connect_host(struct host *host, struct error *error) {
    struct unit_hosts *hosts = host->hosts;
    struct command_line line = {.count = 0};
    char self[RANK_LAUNCH_PATH_BYTES]; /* the file at `program` may have been replaced */
    bool is_known = host->is.is_here && rank_launch_self(self);
    if (!host->is.is_here) {
        command_line_add_all(&line, hosts->options.remote_shell);
        command_line_add(&line, host->is.name);
    }
    command_line_add(&line, is_known ? self : hosts->program);
    command_line_add(&line, "agent");
    command_line_add_all(&line, hosts->options.agent_options);
    const struct agent_link_options options = {.base = hosts->options.base,
                                               .command = line.words,
                                               .context = host,
                                               .take = on_frame,
                                               .lost = unit_hosts_on_lost};
    return agent_link_open(&options, &host->link, error);
}

static void unit_hosts_connect(struct host *host) {
    struct error error;
    agent_link_close(host->link, 0);
    host->link = NULL;
    if (connect_host(host, &error)) lose_host(host, error.text);
}

/* Environment variables that ranks on other hosts need, too. */
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

static void launch_host(struct host *host, uint32_t number) {
    struct unit_hosts *hosts = host->hosts;
    const struct supervise_host *ranks = unit_hosts_ranks(host);
    const struct agent_facts *first = &hosts->list[0].facts;
    char folder[300];
    struct tail tail = {NULL, 0, 0};
    snprintf(folder, sizeof folder, "%s/%u", host->facts.room, number);
    const struct unit_host_start start = {.unit = hosts->is.number,
                                          .ranks = ranks->count,
                                          .is_here = host->is.is_here,
                                          .is_spread = hosts->unit->host_count > 1,
                                          .has_role = hosts->has_role,
                                          .role = hosts->role,
                                          .cpus = host->facts.cpus,
                                          .room = host->facts.room,
                                          .folder = folder,
                                          .address = host->facts.address,
                                          .first_address = first->address,
                                          .first_port = first->port};
    const char **words = hosts->options.command(hosts->options.context, &start);
    check(words); /* some hundred kilobytes */
    for (const char **word = words + 1; *word; word++)
        add_word(&tail, *word);
    free(words);
    struct agent_launch launch = {.first = ranks->first,
                                  .count = ranks->count,
                                  .total = hosts->unit->watch.rank_count,
                                  .sharing = host->is.sharing,
                                  .before = host->is.before,
                                  .arguments = tail.words,
                                  .number = number};
    launch.settings = add_settings(&tail);
    if (hosts->unit->host_count > 1) snprintf(launch.host, sizeof launch.host, "%s", host->is.name);
    for (uint32_t i = 0; i < hosts->file_count; i++) {
        struct agent_file file = {""};
        snprintf(file.name, sizeof file.name, "%s", hosts->files[i].name);
        unit_hosts_send(host, AGENT_FILE, &file, hosts->files[i].text);
    }
    unit_hosts_send(host, AGENT_LAUNCH, &launch, (struct bytes){tail.text, tail.bytes});
    free(tail.text);
    for (uint32_t i = 0; i < ranks->count; i++)
        snprintf(hosts->lines[ranks->first + i].host, sizeof hosts->lines->host, "%s",
                 host->is.name);
}

void unit_hosts_give_files(struct unit_hosts *hosts, const struct unit_host_file *files,
                           uint32_t count) {
    hosts->files = files;
    hosts->file_count = count;
}

/* Launches the ranks, with the unit's last role if it had one. */
static void unit_hosts_launch(struct unit_hosts *hosts, uint32_t number) {
    const uint32_t ranks = hosts->unit->watch.rank_count;
    struct error error;
    const struct rank_health health = {hosts->lines, ranks};
    if (rank_health_read_role(&health, &hosts->role)) hosts->has_role = true;
    memset(hosts->lines, 0, ranks * sizeof *hosts->lines);
    job_rendezvous_members_close(hosts->members);
    hosts->members = NULL;
    if (ranks > 1)
        check(!job_rendezvous_members_open(ranks, &hosts->members, &error)); /* some kilobytes */
    for (uint32_t i = 0; i < hosts->unit->host_count; i++)
        launch_host(&hosts->list[i], number);
}

/* ---- while they run ---- */

static void unit_hosts_start_again(struct unit_hosts *hosts, const struct supervise_order *order) {
    const struct agent_again again = {order->number, order->rank};
    unit_hosts_send_all(hosts, AGENT_AGAIN, &again, nothing()); /* only one host has the rank */
}

static void send_signal(struct unit_hosts *hosts, uint32_t rank, int number) {
    const struct agent_signal signal = {rank, number};
    unit_hosts_send_all(hosts, AGENT_SIGNAL, &signal, nothing());
}

static void report_gone(struct unit_hosts *hosts, uint32_t rank) {
    if (hosts->members) job_rendezvous_members_leave(hosts->members, rank);
    unit_hosts_notify_members(hosts);
}

static void unit_hosts_abandon(struct unit_hosts *hosts) {
    log_say(LOG_WARNING, SUBJECT,
            "a killed rank does not go away, its unit starts without it job=%u", hosts->is.number);
    for (uint32_t i = 0; i < hosts->unit->host_count; i++) {
        if (!hosts->unit->hosts[i].is_abandoned) continue;
        agent_link_close(hosts->list[i].link, 0);
        hosts->list[i].link = NULL;
    }
}

/* Executes an order. Returns false if it is for the owner. */
static bool unit_hosts_perform(struct unit_hosts *hosts, const struct supervise_order *order) {
    switch (order->kind) {
    case SUPERVISE_CONNECT:
        unit_hosts_connect(&hosts->list[order->host]);
        return true;
    case SUPERVISE_ASK:
        unit_hosts_ask(&hosts->list[order->host]);
        return true;
    case SUPERVISE_REACH:
        unit_hosts_reach(hosts, order);
        return true;
    case SUPERVISE_PING:
        unit_hosts_send_all(hosts, AGENT_PING, NULL, nothing());
        return true;
    case SUPERVISE_ABANDON:
        unit_hosts_abandon(hosts);
        return true;
    case SUPERVISE_VERIFY:
        unit_hosts_verify(hosts);
        return true;
    case SUPERVISE_LAUNCH:
        unit_hosts_launch(hosts, order->number);
        return true;
    case SUPERVISE_REPORT_GONE:
        report_gone(hosts, order->rank);
        return true;
    case SUPERVISE_KILL:
        send_signal(hosts, order->rank, SIGKILL);
        return true;
    case SUPERVISE_FINISH: /* rank 0 ends the others */
        send_signal(hosts, 0, SIGTERM);
        return true;
    case SUPERVISE_AGAIN:
        unit_hosts_start_again(hosts, order);
        return true;
    case SUPERVISE_SAY_LOST:
        say_lost(hosts, order);
        return true;
    default:
        return false;
    }
}

void unit_hosts_obey(struct unit_hosts *hosts) {
    struct supervise_order order;
    while (supervise_unit_next(hosts->unit, &order))
        if (!unit_hosts_perform(hosts, &order)) hosts->is.report(hosts->is.context, &order);
}

int64_t unit_hosts_tick(struct unit_hosts *hosts) {
    struct supervise_epochs epochs = {.said = atomic_load(&hosts->lines[0].epoch)};
    for (uint32_t rank = 1; rank < hosts->unit->watch.rank_count; rank++)
        if (!hosts->members || job_rendezvous_members_is_alive(hosts->members, rank))
            supervise_unit_came(hosts->unit, rank);
    if (hosts->members) epochs.reported = job_rendezvous_members_epoch(hosts->members);
    int64_t wait_ns = supervise_unit_tick(hosts->unit, epochs, clock_now_ns());
    unit_hosts_obey(hosts);
    return wait_ns;
}

const struct rank_line *unit_hosts_lines(const struct unit_hosts *hosts) {
    return hosts->lines;
}

const char *unit_hosts_why(const struct unit_hosts *hosts) {
    return hosts->why.text;
}

void unit_hosts_tend(struct unit_hosts *hosts) {
    for (uint32_t i = 0; i < hosts->unit->host_count; i++)
        if (hosts->list[i].link) agent_link_tend(hosts->list[i].link);
}

/* ---- life ---- */

static enum status verify_path(const struct unit_hosts *hosts, struct error *error) {
    for (uint32_t i = 0; i < hosts->unit->host_count; i++)
        if (!hosts->list[i].is.is_here && strpbrk(hosts->program, " \t'\"\\$`;&|<>()*?[]{}#~!"))
            return error_set(error, STATUS_INVALID,
                             "a remote shell would split the path of this program: %.300s",
                             hosts->program);
    return STATUS_OK;
}

enum status unit_hosts_open(const struct unit_hosts_options *options,
                            const struct unit_hosts_unit *unit, struct unit_hosts **hosts_out,
                            struct error *error) {
    const uint32_t ranks = unit->machine->watch.rank_count, count = unit->machine->host_count;
    struct unit_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts) {
        hosts->options = *options;
        hosts->is = *unit;
        hosts->unit = unit->machine;
        hosts->list = calloc(count, sizeof *hosts->list);
        hosts->lines = aligned_alloc(_Alignof(struct rank_line), ranks * sizeof *hosts->lines);
    }
    if (!hosts || !hosts->list || !hosts->lines) {
        unit_hosts_close(hosts);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a unit's hosts");
    }
    memset(hosts->lines, 0, ranks * sizeof *hosts->lines);
    for (uint32_t i = 0; i < count; i++)
        hosts->list[i] = (struct host){.hosts = hosts, .is = unit->hosts[i]};
    agent_facts_name_program(&hosts->own);
    snprintf(hosts->name, sizeof hosts->name, "%s", unit->name);
    enum status status =
        rank_launch_self(hosts->program)
            ? verify_path(hosts, error)
            : error_set(error, STATUS_NOT_FOUND, "cannot find this program's own file");
    if (status)
        unit_hosts_close(hosts);
    else
        *hosts_out = hosts;
    return status;
}

void unit_hosts_close(struct unit_hosts *hosts) {
    if (!hosts) return;
    for (uint32_t i = 0; hosts->list && i < hosts->unit->host_count; i++)
        if (hosts->list[i].link) agent_link_hang_up(hosts->list[i].link);
    for (uint32_t i = 0; hosts->list && i < hosts->unit->host_count; i++)
        agent_link_close(hosts->list[i].link, hosts->unit->hosts[i].is_linked ? FAREWELL_NS : 0);
    job_rendezvous_members_close(hosts->members);
    free(hosts->list);
    free(hosts->lines);
    free(hosts);
}
