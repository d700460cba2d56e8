/* SPDX-License-Identifier: Apache-2.0
 * Ranks that are bound to NUMA nodes are launched node by node: processes inherit the CPU affinity
 * that the agent has when it starts them.
 */
#include "host/process/agent/agent.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "host/process/agent/agent_facts.h"
#include "host/process/agent/agent_lock.h"
#include "host/process/agent/agent_reach.h"
#include "host/process/agent/agent_stream.h"
#include "host/process/file_limit.h"
#include "host/process/log/log.h"
#include "host/process/numa_nodes.h"
#include "host/process/private_room.h"
#include "host/process/ranks/rank_health.h"
#include "host/process/ranks/rank_launch.h"
#include "serving/policy/place_ranks.h"
#include "serving/supervision/supervise_agent.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUBJECT "agent"
#define FILES_EACH 4

struct agent_part { /* a launch of all ranks here, or of those of a NUMA node */
    struct agent *agent;
    struct rank_launch *launch;
    struct event *event;
    uint32_t first, count, node;
};

struct agent {
    struct event_base *base;
    struct event *tick;
    struct agent_stream stream;
    struct private_room room;
    struct agent_lock lock;
    struct agent_reach *reach;
    struct supervise_agent machine;
    struct agent_part parts[NUMA_NODES_MAX];
    uint32_t part_count;
    struct agent_launch launch; /* the latest one */
    char *words;                /* words of its command line */
    const char *arguments[AGENT_WORDS_MAX + 2];
    struct rank_health health;
    struct agent_sign *signs; /* [machine.count] */
    cpu_set_t cpus;
};

static void send_frame(struct agent *agent, enum agent_kind kind, const void *body) {
    agent_stream_send(&agent->stream, kind, body, (struct bytes){NULL, 0});
}

/* ---- ranks ---- */

static void rank_here(void *context, struct bytes frame) {
    struct agent_part *part = context;
    agent_stream_send(&part->agent->stream, AGENT_JOIN, NULL, frame);
}

/* Returns NULL if the rank is not on this host. */
static struct agent_part *part_of(struct agent *agent, uint32_t rank) {
    for (uint32_t i = 0; i < agent->part_count; i++) {
        struct agent_part *part = &agent->parts[i];
        if (rank >= part->first && rank - part->first < part->count) return part;
    }
    return NULL;
}

static void agent_send_signs(struct agent *agent) {
    const struct agent_signs head = {agent->machine.number, agent->machine.count};
    for (uint32_t i = 0; i < head.count; i++) {
        uint32_t rank = agent->machine.first + i;
        struct rank_line *line = &agent->health.lines[rank];
        const struct agent_part *part = part_of(agent, rank);
        int64_t pid = part ? rank_launch_pid(part->launch, rank) : 0;
        agent->signs[i] = (struct agent_sign){.tiles = atomic_load(&line->heartbeat.tiles),
                                              .moved = atomic_load(&line->heartbeat.moved),
                                              .peer = atomic_load(&line->heartbeat.peer),
                                              .ran = pid ? rank_health_run_ns(pid) : 0,
                                              .pid = pid ? pid : atomic_load(&line->pid),
                                              .cpu_ns = pid ? rank_health_cpu_ns(pid) : 0,
                                              .state = atomic_load(&line->heartbeat.state),
                                              .place = atomic_load(&line->heartbeat.place),
                                              .role = atomic_load(&line->role),
                                              .epoch = atomic_load(&line->epoch)};
    }
    agent_stream_send(
        &agent->stream, AGENT_SIGNS, &head,
        (struct bytes){(const char *)agent->signs, head.count * sizeof *agent->signs});
}

static void agent_report(struct agent *agent, struct supervise_agent_report report) {
    if (report.signs) agent_send_signs(agent);
    for (uint32_t i = 0; i < report.count; i++) {
        const struct agent_ended ended = {
            agent->machine.number, report.rank + i,
            report.how.by_signal ? report.how.number : report.how.number << 8, 0};
        send_frame(agent, AGENT_ENDED, &ended);
    }
}

static void rank_ended(void *context, uint32_t rank, int status) {
    struct agent *agent = ((struct agent_part *)context)->agent;
    const struct supervise_how how = {.by_signal = WIFSIGNALED(status),
                                      .number = WIFSIGNALED(status) ? WTERMSIG(status)
                                                                    : WEXITSTATUS(status)};
    agent_report(agent, supervise_agent_ended(rank, how));
}

static void on_launch(evutil_socket_t file, short what, void *context) {
    struct agent_part *part = context;
    rank_launch_tend(part->launch);
}

static void close_parts(struct agent *agent) {
    for (uint32_t i = 0; i < agent->part_count; i++) {
        struct agent_part *part = &agent->parts[i];
        if (part->event) event_free(part->event);
        rank_launch_close(part->launch);
    }
    agent->part_count = 0;
    rank_health_close(&agent->health);
    free(agent->signs);
    agent->signs = NULL;
}

static cpu_set_t nodes[NUMA_NODES_MAX];

/* Binds processes that are started from now on to a node. */
static void bind_to(const struct agent *agent, uint32_t node) {
    const cpu_set_t *cpus = node == PLACE_NO_NODE ? &agent->cpus : &nodes[node];
    sched_setaffinity(0, sizeof *cpus, cpus);
}

static enum status open_part(struct agent *agent, uint32_t node, uint32_t from, uint32_t count,
                             struct error *error) {
    const struct agent_launch *launch = &agent->launch;
    const uint32_t first = launch->first + from;
    struct agent_part *part = &agent->parts[agent->part_count++];
    *part = (struct agent_part){.agent = agent, .first = first, .count = count, .node = node};
    const struct rank_launch_options options = {
        .arguments = agent->arguments,
        .first = first,
        .count = count,
        .total = launch->total,
        .sharing = (uint32_t)divide_up((size_t)launch->sharing * count, launch->count),
        .before = launch->before + from,
        .host = launch->host[0] ? launch->host : NULL,
        .context = part,
        .here = rank_here,
        .ended = rank_ended};
    enum status status = rank_launch_open(&options, &part->launch, error);
    if (status) return status;
    part->event = event_new(agent->base, rank_launch_file(part->launch), EV_READ | EV_PERSIST,
                            on_launch, part);
    check(part->event);
    event_add(part->event, NULL);
    return STATUS_OK;
}

/* Consecutive ranks of one node form a part. */
static enum status agent_open_parts(struct agent *agent, struct error *error) {
    const struct agent_launch *launch = &agent->launch;
    uint32_t node_count = numa_nodes_read("/sys", &agent->cpus, nodes);
    enum status status = STATUS_OK;
    for (uint32_t from = 0, to; !status && from < launch->count; from = to) {
        uint32_t node = place_ranks_node(from, launch->count, node_count);
        for (to = from + 1; to < launch->count; to++)
            if (place_ranks_node(to, launch->count, node_count) != node) break;
        bind_to(agent, node);
        status = open_part(agent, node, from, to - from, error);
    }
    bind_to(agent, PLACE_NO_NODE);
    return status;
}

static enum status make_health(struct agent *agent, struct error *error) {
    const struct agent_launch *launch = &agent->launch;
    char path[512];
    snprintf(path, sizeof path, "%s/%u", agent->room.path, launch->number - 1);
    private_room_remove(path); /* left from the last start */
    snprintf(path, sizeof path, "%s/%u", agent->room.path, launch->number);
    private_room_remove(path);
    if (mkdir(path, 0700))
        return error_set(error, STATUS_IO, "cannot make %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/%u/board", agent->room.path, launch->number);
    agent->signs = calloc(launch->count, sizeof *agent->signs);
    if (!agent->signs) return error_set(error, STATUS_NO_MEMORY, "no memory for signs of life");
    return rank_health_create(path, launch->total, &agent->health, error);
}

static void take_settings(struct bytes words) {
    while (words.count) {
        char setting[1024];
        snprintf(setting, sizeof setting, "%s", agent_frame_next_word(&words));
        char *equals = strchr(setting, '=');
        if (!equals) continue;
        *equals = 0;
        setenv(setting, equals + 1, 1);
    }
}

/* Stores the words while ranks run, because ranks may be restarted. */
static void keep_words(struct agent *agent, uint32_t arguments, struct bytes tail) {
    static char self[RANK_LAUNCH_PATH_BYTES];
    uint32_t count = 0;
    free(agent->words);
    agent->words = malloc(tail.count + 1);
    check(agent->words); /* some kilobytes */
    memcpy(agent->words, tail.data, tail.count);
    struct bytes words = {agent->words, tail.count};
    agent->arguments[count++] = rank_launch_self(self) ? self : NULL;
    while (count <= arguments)
        agent->arguments[count++] = agent_frame_next_word(&words);
    agent->arguments[count] = NULL;
    take_settings(words);
}

static void agent_launch(struct agent *agent, const struct agent_frame *frame) {
    struct agent_launch *it = &agent->launch;
    struct error error;
    memcpy(it, frame->body, sizeof *it);
    close_parts(agent);
    supervise_agent_launch(&agent->machine, it->number, it->first, it->count);
    keep_words(agent, it->arguments, frame->tail);
    file_limit_raise(64 + FILES_EACH * (uint64_t)it->count);
    enum status status = agent->arguments[0]
                             ? STATUS_OK
                             : error_set(&error, STATUS_IO, "cannot find this program's file");
    if (!status) status = make_health(agent, &error);
    if (!status) status = agent_open_parts(agent, &error);
    if (status) {
        log_say(LOG_ERROR, SUBJECT, "ranks cannot be started why=%s", error.text);
        close_parts(agent);
    }
    agent_report(agent, supervise_agent_launched(&agent->machine, !status));
}

static void launch_again(struct agent *agent, const struct agent_frame *frame) {
    struct agent_again it;
    struct error error;
    memcpy(&it, frame->body, sizeof it);
    if (!supervise_agent_restarts(&agent->machine, it.number, it.rank)) return;
    const struct agent_part *part = part_of(agent, it.rank);
    rank_health_clear(&agent->health, it.rank);
    bind_to(agent, part->node);
    enum status status = rank_launch_again(part->launch, it.rank, &error);
    bind_to(agent, PLACE_NO_NODE);
    if (status) log_say(LOG_ERROR, SUBJECT, "a rank cannot be started why=%s", error.text);
    agent_report(agent, supervise_agent_restarted(it.rank, !status));
}

/* ---- frames ---- */

static void agent_check_host(struct agent *agent, const struct agent_frame *frame) {
    struct agent_check check;
    struct agent_facts facts;
    struct error error;
    char directory[256], devices[256];
    bool was_held = false;
    memcpy(&check, frame->body, sizeof check);
    agent->machine.timeout_ns = check.timeout_ns;
    if (chdir(check.folder)) /* so that relative paths mean the same as for the supervisor */
        log_say(LOG_DEBUG, SUBJECT, "its supervisor's folder is not here path=%s", check.folder);
    if (check.interface[0]) {
        agent_facts_name_devices("/sys", check.interface, devices);
        setenv("UCX_NET_DEVICES", devices, 0);
    }
    enum status status =
        agent->room.path[0] ? STATUS_OK : private_room_open(NULL, &agent->room, &error);
    if (!status && agent->lock.file < 0) {
        snprintf(directory, sizeof directory, "%s", agent->room.path);
        *strrchr(directory, '/') = 0;
        status = agent_lock_take(directory, check.unit, &agent->lock, &was_held, &error);
    }
    if (was_held) log_say(LOG_WARNING, SUBJECT, "ended the unit's last agent on this host");
    agent_facts_take(&check, &facts);
    if (status) snprintf(facts.lacks, sizeof facts.lacks, "%.400s", error.text);
    snprintf(facts.room, sizeof facts.room, "%s", agent->room.path);
    if (check.count < check.total) /* otherwise no other host must connect to this one */
        facts.reach_port = agent_reach_listen(agent->reach, facts.address);
    send_frame(agent, AGENT_FACTS, &facts);
}

static void agent_try_to_reach(struct agent *agent, const struct agent_frame *frame) {
    struct agent_place place;
    memcpy(&place, frame->body, sizeof place);
    agent_reach_try(agent->reach, &place);
}

static void report_reached(void *context, const struct agent_reached *reached) {
    send_frame(context, AGENT_REACHED, reached);
}

static void keep_file(const struct agent *agent, const struct agent_frame *frame) {
    struct agent_file it;
    char path[512];
    memcpy(&it, frame->body, sizeof it);
    snprintf(path, sizeof path, "%s/%s", agent->room.path, it.name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, frame->tail.data, frame->tail.count) != (ssize_t)frame->tail.count)
        log_say(LOG_ERROR, SUBJECT, "cannot write a file path=%s why=%s", path, strerror(errno));
    if (file >= 0) close(file);
}

static void signal_ranks(struct agent *agent, const struct agent_frame *frame) {
    struct agent_signal it;
    memcpy(&it, frame->body, sizeof it);
    const struct agent_part *one = part_of(agent, it.rank);
    if (one) rank_launch_signal(one->launch, it.rank, it.number);
    for (uint32_t i = 0; it.rank == AGENT_ALL_RANKS && i < agent->part_count; i++)
        rank_launch_signal_all(agent->parts[i].launch, it.number);
}

static void agent_take_each(struct agent *agent, const struct agent_frame *frame) {
    switch (frame->kind) {
    case AGENT_CHECK:
        agent_check_host(agent, frame);
        break;
    case AGENT_LAUNCH:
        if (agent->room.path[0]) agent_launch(agent, frame);
        break;
    case AGENT_REACH:
        agent_try_to_reach(agent, frame);
        break;
    case AGENT_AGAIN:
        launch_again(agent, frame);
        break;
    case AGENT_FILE:
        if (agent->room.path[0]) keep_file(agent, frame);
        break;
    case AGENT_REPORT:
        for (uint32_t i = 0; i < agent->part_count; i++)
            rank_launch_report(agent->parts[i].launch, frame->tail);
        break;
    case AGENT_SIGNAL:
        signal_ranks(agent, frame);
        break;
    case AGENT_PING:
        send_frame(agent, AGENT_PONG, NULL);
        break;
    default:
        check(false); /* agent_frame_read rejects frames of agents */
    }
}

static void agent_on_readable(int file, short what, void *context) {
    struct agent *agent = context;
    struct agent_frame frame;
    agent_stream_tend(&agent->stream);
    while (agent_stream_next(&agent->stream, &frame))
        agent_take_each(agent, &frame);
    agent->machine.hearing.received_ns = clock_now_ns();
    if (agent->stream.is_over) event_base_loopbreak(agent->base);
}

/* ---- time ---- */

static uint32_t count_changes(const struct agent *agent) {
    uint32_t changes = 0;
    for (uint32_t i = 0; i < agent->machine.count; i++) {
        struct rank_line *line = &agent->health.lines[agent->machine.first + i];
        changes += atomic_load(&line->pid) != 0;
        changes += atomic_load(&line->heartbeat.state) != HEARTBEAT_STARTS;
        changes += atomic_load(&line->epoch);
    }
    return changes;
}

static void agent_on_tick(evutil_socket_t file, short what, void *context) {
    struct agent *agent = context;
    const struct supervise_agent_next next =
        supervise_agent_look(&agent->machine, count_changes(agent), clock_now_ns());
    if (next.signs) agent_send_signs(agent);
    event_add(agent->tick, &(struct timeval){.tv_usec = next.wait_ns / 1000});
    if (!next.silent_ns) return;
    log_say(LOG_ERROR, SUBJECT, "its supervisor is not heard, the ranks end silent_s=%.1f",
            (double)next.silent_ns * 1e-9);
    event_base_loopbreak(agent->base);
}

enum status agent_run(int in, int out, struct error *error) {
    struct agent agent = {.lock = {.file = -1}, .base = event_base_new()};
    if (!agent.base) return error_set(error, STATUS_NO_MEMORY, "no memory for an agent");
    signal(SIGPIPE, SIG_IGN);
    CPU_ZERO(&agent.cpus);
    sched_getaffinity(0, sizeof agent.cpus, &agent.cpus);
    supervise_agent_open(&agent.machine, clock_now_ns());
    enum status status = agent_stream_open(&agent.stream, agent.base, in, out, false,
                                           agent_on_readable, &agent, error);
    if (!status) {
        const struct agent_reach_options reach = {agent.base, &agent, report_reached};
        agent.reach = agent_reach_open(&reach);
        check(agent.reach);
        agent.tick = evtimer_new(agent.base, agent_on_tick, &agent);
        check(agent.tick);
        event_add(agent.tick, &(struct timeval){.tv_usec = SUPERVISE_TICK_NS / 1000});
        event_base_dispatch(agent.base);
        close_parts(&agent);
        free(agent.words);
        event_free(agent.tick);
        agent_reach_close(agent.reach);
        agent_stream_close(&agent.stream);
    }
    private_room_close(&agent.room);
    agent_lock_drop(&agent.lock);
    event_base_free(agent.base);
    return status;
}
