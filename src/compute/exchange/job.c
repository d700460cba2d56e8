/* SPDX-License-Identifier: Apache-2.0
 * A job over UCX: one worker per rank, and tagged messages. The 64 bits of a tag are:
 *
 *   20 bits channel | 28 bits tag | 16 bits sender
 *
 * Each epoch (job_rendezvous.h) has a new worker. So no message of an earlier epoch arrives, and a
 * shared memory inbox that is blocked, because its sender was killed while it wrote, is no longer
 * read. The old worker is closed when the new epoch's MEMBERS frame has arrived, since no rank
 * writes to it then.
 *
 * An endpoint is created with the first message to a rank. UCX 1.13 does not always detect that a
 * peer over shared memory has died. So endpoints within a host do not use UCX's error handling, and
 * the launcher reports deaths. After a UCX error the rank waits for the launcher's report; if none
 * comes the process ends.
 *
 * A rank that waits yields its CPU. With a CPU of its own it yields only after many polls. If ranks
 * outnumber CPUs it yields after each poll, and sleeps after some, because the many waiting ranks
 * would otherwise take CPU time from the few that compute.
 */
#include "compute/exchange/job.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/heartbeat.h"
#include "base/limits.h"
#include "compute/exchange/job_rendezvous.h"
#include "compute/exchange/peer_watch.h"
#include "compute/exchange/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#define RANK_BITS 16
#define TAG_BITS 28
_Static_assert(LIMIT_RANKS < 1 << RANK_BITS, "a tag has room for every rank");
#define POLLS_PER_CHECK 256 /* polls without progress between two reads from the launcher */
#define POLL_WEIGHT_IDLE 64 /* polls with progress that count as one without */
#define REGROUP_NS_MAX ((int64_t)30000000000)
#define LAUNCHER_POLL_MS 50                  /* how long one wait for the launcher lasts */
#define FAILURE_NS_MAX ((int64_t)5000000000) /* from a UCX error to the launcher's report */
#define CANCEL_IDLE_NS 5000000 /* without progress, after which a matched receive is abandoned */
#define INBOX_MESSAGES                                                                             \
    "64" /* messages in a shared memory inbox, of 8 KiB each; UCX's default of 512 takes 4 MiB */
#define POLLS_BEFORE_SLEEP 20 /* each yields; then the rank sleeps */
#define SLEEP_NS ((int64_t)10000000)
#define POLLS_BEFORE_YIELD                                                                         \
    100000 /* one or two milliseconds; then a rank with a CPU of its own yields */

/* A send or a receive in progress. */
struct job_request {
    struct job_batch *batch; /* NULL: no caller waits for it */
    void *request;           /* UCX's; NULL: none yet */
    uint32_t peer;
    enum job_channel channel;
    bool receives;
    bool is_orphaned;                    /* belongs to a worker that is being closed */
    struct job_request *previous, *next; /* in the list of open or of free requests */
};

static struct {
    bool begun, ending;
    bool broken;
    bool cancelling;    /* broken, and the requests are not cancelled yet */
    bool joining;       /* JOIN was sent, and MEMBERS has not arrived */
    bool launcher_lost; /* the launcher's socket is closed or sent a malformed frame */
    uint32_t epoch;
    uint32_t polls;    /* weighted by POLL_WEIGHT_IDLE, since the last read from the launcher */
    uint32_t awaited;  /* 1 + the rank from which a control message is awaited; 0: none */
    int64_t failed_ns; /* time of a UCX error that the launcher has not explained; 0: none */
    ucs_status_t failure;
    bool *gone;                /* [count] */
    uint32_t row[LIMIT_RANKS]; /* the result of job_alive_ranks */
    char *received;            /* [received_room] a frame, received_bytes of it so far */
    size_t received_bytes, received_room;
    struct job_request *open, *spare;
    uint32_t rank, count;
    bool crowded; /* ranks outnumber the CPUs */
    int rendezvous;
    const char *host; /* of this rank */
    ucp_context_h context;
    ucp_worker_h worker;
    int wakes;                /* readable after an event on the armed worker */
    ucp_worker_h last_worker; /* of the previous epoch, until MEMBERS arrives; NULL: none */
    struct job_request *last_requests; /* its requests */
    ucp_ep_h *endpoints;               /* [count] NULL: none yet */
    char *members;                     /* the last MEMBERS frame */
    struct bytes *addresses;           /* [count] in it */
    const char **hosts;                /* [count] in it */
} job = {.count = 1, .rendezvous = -1};

bool job_built(void) {
    return true;
}

static uint32_t job_reported(const char *name, uint32_t least, uint32_t most) {
    const char *text = getenv(name);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || value < least || value > most) return UINT32_MAX;
    return (uint32_t)value;
}

bool job_exists(void) {
    return getenv(JOB_RENDEZVOUS_FILE) != NULL;
}

uint32_t job_rank_assigned(void) {
    uint32_t rank = job_reported(JOB_RENDEZVOUS_RANK, 0, LIMIT_RANKS - 1);
    return rank == UINT32_MAX ? 0 : rank;
}

bool job_rejoins(void) {
    return job_reported(JOB_RENDEZVOUS_RETURNS, 1, 1) == 1;
}

uint32_t job_rank(void) {
    return job.rank;
}
uint32_t job_count(void) {
    return job.count;
}

/* ---- joining ---- */

static enum status job_failed(struct error *error, const char *what, ucs_status_t status) {
    return error_set(error, STATUS_IO, "rank %u cannot %s: %s", job.rank, what,
                     ucs_status_string(status));
}

static enum status read_environment(struct error *error) {
    job.rank = job_reported(JOB_RENDEZVOUS_RANK, 0, LIMIT_RANKS - 1);
    job.count = job_reported(JOB_RENDEZVOUS_RANKS, 1, LIMIT_RANKS);
    uint32_t here = job_reported(JOB_RENDEZVOUS_RANKS_HERE, 1, INT32_MAX);
    const char *host = getenv(JOB_RENDEZVOUS_HOST);
    job.host = host ? host : "";
    uint32_t file = job_reported(JOB_RENDEZVOUS_FILE, 0, INT32_MAX);
    if (job.count != UINT32_MAX && job.rank < job.count && here != UINT32_MAX &&
        file != UINT32_MAX && strlen(job.host) < JOB_HOST_BYTES) {
        job.rendezvous = (int)file;
        job.crowded = here > cpus_usable();
        return STATUS_OK;
    }
    job.rank = 0;
    job.count = 1;
    return error_set(error, STATUS_INVALID,
                     "the environment of this rank (" JOB_RENDEZVOUS_RANK ", " JOB_RENDEZVOUS_RANKS
                     ", " JOB_RENDEZVOUS_RANKS_HERE ", " JOB_RENDEZVOUS_HOST
                     ", " JOB_RENDEZVOUS_FILE ") is not as a launcher makes it");
}

/* Chooses UCX's transports unless the user has set UCX_TLS; UCX warns of settings of transports
 * that it does not use. Connects do not block: a rank that blocks in a connect to an unreachable
 * host would look like a stopped process. */
static ucs_status_t choose_transports(ucp_config_t *config) {
    if (getenv("UCX_TLS")) return UCS_OK;
    ucs_status_t status = ucp_config_modify(config, "MM_FIFO_SIZE", INBOX_MESSAGES);
    if (status == UCS_OK) status = ucp_config_modify(config, "MM_RX_BUFS_GROW", INBOX_MESSAGES);
    if (status != UCS_OK) return status;
    if (job.host[0]) return ucp_config_modify(config, "CONN_NB", "y");
    return ucp_config_modify(config, "TLS", "posix,cma,self");
}

static enum status job_open_worker(struct error *error) {
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status = ucp_worker_create(job.context, &params, &job.worker);
    if (status != UCS_OK) job.worker = NULL;
    if (status == UCS_OK) status = ucp_worker_get_efd(job.worker, &job.wakes);
    return status == UCS_OK ? STATUS_OK : job_failed(error, "open a UCX worker", status);
}

/* Drops UCX's log lines, which report dead ranks and unsent messages on stdout, where a result may
 * be printed. Errors that matter are returned as a status, and we report them. */
static ucs_log_func_rc_t drop_log_line(const char *file, unsigned line, const char *function,
                                       ucs_log_level_t level,
                                       const ucs_log_component_config_t *component,
                                       const char *message, va_list arguments) {
    return level > UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

static enum status open_context(struct error *error) {
    if (!getenv("UCX_LOG_LEVEL")) ucs_log_push_handler(drop_log_line);
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                           .estimated_num_eps = job.count,
                           .estimated_num_ppn = job.count};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return job_failed(error, "read UCX's configuration", status);
    status = choose_transports(config);
    if (status == UCS_OK) status = ucp_init(&params, config, &job.context);
    ucp_config_release(config);
    return status == UCS_OK ? STATUS_OK : job_failed(error, "start UCX", status);
}

static void poll_launcher(short events) {
    struct pollfd file = {job.rendezvous, events, 0};
    poll(&file, 1, LAUNCHER_POLL_MS);
}

/* Writes all bytes. False: the launcher is gone. */
static bool write_launcher(const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t sent = write(job.rendezvous, at, bytes);
        if (sent < 0 && errno == EAGAIN) poll_launcher(POLLOUT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (sent <= 0) return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static enum status send_join(struct error *error) {
    ucp_address_t *address;
    size_t bytes;
    ucs_status_t found = ucp_worker_get_address(job.worker, &address, &bytes);
    if (found != UCS_OK) return job_failed(error, "send its address", found);
    const struct shared_file signs = peer_watch_address();
    static char frame[JOB_JOIN_BYTES_MAX], both[JOB_ADDRESS_BYTES_MAX];
    check(sizeof signs + bytes <= JOB_ADDRESS_BYTES_MAX);
    memcpy(both, &signs, sizeof signs);
    memcpy(both + sizeof signs, address, bytes);
    ucp_worker_release_address(job.worker, address);
    size_t whole = job_rendezvous_frame_join(frame, job.rank, job.epoch, job.host,
                                             (struct bytes){both, sizeof signs + bytes});
    if (write_launcher(frame, whole)) return STATUS_OK;
    return error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
}

/* ---- messages ---- */

static ucp_tag_t job_tag_of(enum job_channel channel, uint32_t tag, uint32_t from) {
    check(tag < 1u << TAG_BITS);
    return ((ucp_tag_t)channel << TAG_BITS | tag) << RANK_BITS | from;
}

static void (*on_abort)(uint32_t rank, const char *what, const char *why);

void job_on_abort(void (*callback)(uint32_t rank, const char *what, const char *why)) {
    on_abort = callback;
}

void job_abort(const char *what, const char *why) {
    if (on_abort) on_abort(job.rank, what, why);
    _exit(1);
}

/* Ends the process: it cannot continue without another rank. */
static void abort_broken(const char *what, ucs_status_t status) {
    job_abort(what, ucs_status_string(status));
}

/* Notes a UCX error. It means that a rank has died; the launcher will report which. */
static void job_note_failure(ucs_status_t status) {
    if (!job.failed_ns) job.failed_ns = clock_now_ns();
    job.failure = status;
}

static void note_endpoint_failure(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    job_note_failure(status);
}

bool job_is_same_host(uint32_t rank) {
    return strcmp(job.hosts[rank], job.host) == 0;
}

/* The endpoint of a rank; NULL: an error, which was noted. */
static ucp_ep_h endpoint_to(uint32_t rank) {
    check(job.begun && rank < job.count && rank != job.rank);
    if (job.endpoints[rank]) return job.endpoints[rank];
    bool same_host = job_is_same_host(rank);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)job.addresses[rank].data,
        .err_mode = same_host ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = note_endpoint_failure},
    };
    ucs_status_t status = ucp_ep_create(job.worker, &params, &job.endpoints[rank]);
    if (status == UCS_OK) return job.endpoints[rank];
    job_note_failure(status);
    return job.endpoints[rank] = NULL;
}

static struct job_request *begin(struct job_batch *batch, enum job_channel channel, uint32_t peer,
                                 bool receives) {
    struct job_request *it = job.spare;
    if (it)
        job.spare = it->next;
    else
        it = malloc(sizeof *it);
    check(it); /* some dozen bytes */
    *it = (struct job_request){
        .batch = batch, .peer = peer, .channel = channel, .receives = receives, .next = job.open};
    if (job.open) job.open->previous = it;
    job.open = it;
    batch->open++;
    return it;
}

static void detach_batch(struct job_request *it) {
    if (it->batch) it->batch->open--;
    it->batch = NULL;
}

static void end(struct job_request *it) {
    detach_batch(it);
    if (it->is_orphaned) return; /* closing the worker ends all its requests */
    if (it->previous) it->previous->next = it->next;
    if (it->next) it->next->previous = it->previous;
    if (job.open == it) job.open = it->next;
    it->next = job.spare;
    job.spare = it;
}

/* Ends a request. After an error the batch stays open until the launcher reports the reason. */
static void end_or_keep(struct job_request *it, ucs_status_t status) {
    if (status == UCS_OK || !it->batch) {
        end(it);
    } else {
        it->request = NULL;
        job_note_failure(status);
    }
}

static void job_note_sent(void *request, ucs_status_t status, void *argument) {
    ucp_request_free(request);
    end_or_keep(argument, status);
}

static void job_note_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                              void *argument) {
    check(status != UCS_ERR_MESSAGE_TRUNCATED);
    ucp_request_free(request);
    end_or_keep(argument, status);
}

/* Notes the result of beginning a request; NULL: it is done already. */
static void note_begun(struct job_request *it, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request))
        end_or_keep(it, UCS_PTR_STATUS(request));
    else if (!request)
        end(it);
    else
        it->request = request;
}

void job_send_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag, uint32_t to,
                    const void *data, size_t bytes) {
    check(job.begun && to < job.count && to != job.rank);
    if (job.broken || job.gone[to]) return;
    struct job_request *it = begin(batch, channel, to, false);
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = job_note_sent,
                                       .user_data = it};
    ucp_ep_h endpoint = endpoint_to(to);
    if (endpoint)
        note_begun(it, ucp_tag_send_nbx(endpoint, data, bytes, job_tag_of(channel, tag, job.rank),
                                        &param));
}

void job_receive_begin(struct job_batch *batch, enum job_channel channel, uint32_t tag,
                       uint32_t from, void *data, size_t bytes) {
    check(job.begun && from < job.count && from != job.rank);
    if (job.broken || job.gone[from]) return;
    struct job_request *it = begin(batch, channel, from, true);
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.recv = job_note_received,
                                       .user_data = it};
    note_begun(it, ucp_tag_recv_nbx(job.worker, data, bytes, job_tag_of(channel, tag, from),
                                    UINT64_MAX, &param));
}

/* ---- ranks that die and come back ---- */

static void free_requests(struct job_request *list) {
    while (list) {
        struct job_request *next = list->next;
        free(list);
        list = next;
    }
}

/* Closes the previous epoch's worker, which ends all its requests. */
static void close_last_worker(void) {
    if (job.last_worker) ucp_worker_destroy(job.last_worker);
    free_requests(job.last_requests);
    job.last_worker = NULL;
    job.last_requests = NULL;
}

/* Whether UCX may still write to the memory of a receive. */
static bool any_receives(void) {
    for (const struct job_request *it = job.open; it; it = it->next)
        if (it->receives && it->request) return true;
    return false;
}

static void end_without_request(void) {
    for (struct job_request *it = job.open; it;) {
        struct job_request *next = it->next;
        detach_batch(it);
        if (!it->request) end(it);
        it = next;
    }
}

/* A new epoch: the set of living ranks has changed. A rank that is joining joins the new epoch; its
 * worker has exchanged no message yet. */
static void job_note_change(const struct job_frame *head) {
    struct error error;
    if (head->rank == 0 && head->rank != job.rank && job.begun && !job.ending)
        _exit(1); /* the launcher reports the reason */
    if (head->kind == JOB_FRAME_GONE) job.gone[head->rank] = true;
    job.epoch = head->epoch;
    job.failed_ns = 0;
    if (!job.joining)
        job.broken = job.cancelling = true;
    else if (send_join(&error))
        job.launcher_lost = true;
}

/* Maps the signs of a rank of this host. Their address precedes UCX's. */
static void job_take_address(uint32_t rank) {
    struct bytes *address = &job.addresses[rank];
    struct shared_file signs;
    check(address->count >= sizeof signs);
    memcpy(&signs, address->data, sizeof signs);
    *address = (struct bytes){address->data + sizeof signs, address->count - sizeof signs};
    if (rank != job.rank && job_is_same_host(rank)) peer_watch_map(rank, &signs, job.epoch);
}

/* Reads MEMBERS and keeps the frame, since the addresses lie in it. */
static void job_take_members(struct bytes frame) {
    const char *host;
    size_t at = 0;
    for (uint32_t rank = 0; rank < job.count; rank++) {
        if (!job_rendezvous_frame_address(frame, &at, &host, &job.addresses[rank])) {
            job.launcher_lost = true;
            return;
        }
        job.hosts[rank] = host;
        job.gone[rank] = job.addresses[rank].count == 0;
        if (!job.gone[rank]) job_take_address(rank);
    }
    free(job.members);
    job.members = job.received;
    job.received = NULL;
    job.received_room = 0;
    job.joining = job.broken = false;
}

/* Reads from the launcher. True: a complete frame has arrived. */
static bool receive_frame(size_t *bytes_out) {
    while (!job.launcher_lost) {
        const struct bytes received = {job.received, job.received_bytes};
        if (!job_rendezvous_frame_measure(received, job.count, bytes_out)) break;
        size_t wanted = *bytes_out ? *bytes_out : sizeof(struct job_frame);
        if (*bytes_out && job.received_bytes == wanted) return true;
        if (job.received_room < wanted)
            job.received = realloc(job.received, job.received_room = wanted);
        check(job.received); /* at most a MEMBERS frame */
        ssize_t got =
            read(job.rendezvous, job.received + job.received_bytes, wanted - job.received_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
        if (got <= 0) break;
        job.received_bytes += (size_t)got;
    }
    job.launcher_lost = true;
    return false;
}

/* Reports to the heartbeat for which rank this one waits: the peer of the oldest message, except
 * moves of experts, for which no rank waits. Returns it; without one, rank 0. */
static uint32_t report_awaited(void) {
    uint32_t peer = job.awaited;
    for (const struct job_request *it = job.open; it; it = it->next)
        if (it->batch && it->channel != JOB_CHANNEL_MOVES) peer = it->peer + 1;
    heartbeat_await(peer);
    return peer ? peer - 1 : 0;
}

/* Handles all frames that the launcher has sent. */
static void receive_launcher(void) {
    struct job_frame head;
    size_t bytes;
    job.polls = 0;
    if (job.failed_ns && clock_now_ns() - job.failed_ns > FAILURE_NS_MAX)
        abort_broken("the connection to another rank broke", job.failure);
    while (receive_frame(&bytes)) {
        memcpy(&head, job.received, sizeof head);
        job.received_bytes = 0;
        if (head.kind != JOB_FRAME_MEMBERS)
            job_note_change(&head);
        else if (job.joining && head.epoch == job.epoch)
            job_take_members((struct bytes){job.received, bytes});
    }
}

/* Cancels all requests. A receive without a matching message ends at once. A matched receive is
 * continued until it ends, or stops making progress. Its memory is not written to afterwards,
 * because the worker makes no more progress. */
static void cancel_requests(void) {
    int64_t moved_ns = clock_now_ns();
    for (struct job_request *it = job.open; it;) {
        struct job_request *next = it->next; /* cancelling one ends no other */
        if (it->receives && it->request) {
            detach_batch(it);
            ucp_request_cancel(job.worker, it->request);
        }
        it = next;
    }
    end_without_request();
    while (any_receives() && clock_now_ns() - moved_ns < CANCEL_IDLE_NS)
        if (ucp_worker_progress(job.worker))
            moved_ns = clock_now_ns();
        else
            sched_yield();
    end_without_request();
    job.cancelling = false;
}

/* Joins the epoch. Returns when all living ranks have joined, each with a worker that has exchanged
 * no message. */
static enum status join_epoch(struct error *error) {
    const int64_t began_ns = clock_now_ns();
    check(fcntl(job.rendezvous, F_SETFL, O_NONBLOCK) == 0);
    job.joining = true;
    enum status status = send_join(error);
    while (!status && job.joining) {
        poll_launcher(POLLIN);
        receive_launcher();
        if (job.joining && job.launcher_lost)
            status = error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
        else if (job.joining && job.begun && clock_now_ns() - began_ns > REGROUP_NS_MAX)
            status = error_set(error, STATUS_GONE,
                               "rank %u: the surviving ranks did not regroup in time", job.rank);
    }
    return status;
}

bool job_progress(void) {
    bool moved = ucp_worker_progress(job.worker) > 0;
    job.polls += moved ? 1 : POLL_WEIGHT_IDLE; /* counted too: there may always be progress */
    if (moved) heartbeat_moved();
    if (job.polls >= POLLS_PER_CHECK * POLL_WEIGHT_IDLE) {
        uint32_t peer = report_awaited();
        if (!moved && job.begun && !job.crowded) peer_watch_look(peer, job.epoch);
        receive_launcher();
    }
    if (job.cancelling) cancel_requests();
    return moved;
}

bool job_poll(void) {
    if (!job.begun) return false;
    receive_launcher();
    if (job.cancelling) cancel_requests();
    return job.broken;
}

bool job_broken(void) {
    return job.broken;
}

bool job_is_alive(uint32_t rank) {
    return !job.begun || !job.gone[rank];
}

uint32_t job_epoch(void) {
    return job.epoch;
}

uint32_t job_node_ranks(void) {
    const char *hosts[LIMIT_RANKS];
    uint32_t here = job_reported(JOB_RENDEZVOUS_RANKS_HERE, 1, INT32_MAX);
    uint32_t count = job_reported(JOB_RENDEZVOUS_RANKS, 1, LIMIT_RANKS);
    if (!job.begun) return job_rejoins() && here <= count && count % here == 0 ? here : 0;
    for (uint32_t rank = 0; rank < job.count; rank++)
        hosts[rank] = job.gone[rank] ? NULL : job.hosts[rank];
    return placement_node_ranks(hosts, job.count);
}

bool job_is_one_host(void) {
    const char *named = getenv(JOB_RENDEZVOUS_HOST);
    if (!job_exists()) return false;
    if (!named || !named[0]) return true;
    for (uint32_t rank = 0; rank < job.count && job.begun; rank++)
        if (!job.gone[rank] && strcmp(job.hosts[rank], named) != 0) return false;
    return job.begun;
}

uint32_t job_local_rank(void) {
    uint32_t place = job_reported(JOB_RENDEZVOUS_PLACE, 0, INT32_MAX);
    return place == UINT32_MAX ? 0 : place;
}

uint32_t job_alive_ranks(const uint32_t **ranks_out, uint32_t *own_out) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < job.count && job.begun; rank++) {
        if (rank == job.rank) *own_out = count;
        if (!job.gone[rank]) job.row[count++] = rank;
    }
    if (!job.begun) *own_out = 0;
    *ranks_out = job.row;
    return job.begun ? count : 1;
}

void job_regroup(void) {
    struct error error;
    if (!job.broken) return;
    if (job.cancelling) cancel_requests();
    close_last_worker();
    for (struct job_request *it = job.open; it; it = it->next)
        it->is_orphaned = true;
    job.last_requests = job.open;
    job.open = NULL;
    job.last_worker = job.worker;
    memset(job.endpoints, 0, job.count * sizeof(ucp_ep_h));
    enum status status = job_open_worker(&error);
    if (!status) status = join_epoch(&error);
    if (status) job_abort("it does not come together with the others", error.text);
    close_last_worker();
}

/* ---- beginning and ending ---- */

/* Frees everything. If a rank has just died, UCX still holds messages to it, and freeing is left to
 * the end of the process. */
static void job_release(void) {
    bool whole = !job.broken && !job.last_worker;
    if (job.worker && whole) ucp_worker_destroy(job.worker);
    if (job.context && whole) ucp_cleanup(job.context);
    if (job.rendezvous >= 0) close(job.rendezvous);
    free_requests(job.spare);
    free_requests(job.open);
    free_requests(job.last_requests);
    free(job.gone);
    free(job.endpoints);
    free(job.addresses);
    free(job.hosts);
    free(job.members);
    free(job.received);
    peer_watch_close();
    memset(&job, 0, sizeof job);
    job.count = 1;
    job.rendezvous = -1;
}

enum status job_begin(struct error *error) {
    check(!job.begun);
    enum status status = read_environment(error);
    if (status) return status;
    job.gone = calloc(job.count, sizeof *job.gone);
    job.endpoints = calloc(job.count, sizeof(ucp_ep_h));
    job.addresses = calloc(job.count, sizeof *job.addresses);
    job.hosts = calloc(job.count, sizeof *job.hosts);
    if (!job.gone || !job.endpoints || !job.addresses || !job.hosts)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a job of %u ranks", job.count);
    if (!status) status = peer_watch_open(job.count, error);
    if (!status) status = open_context(error);
    if (!status) status = job_open_worker(error);
    if (!status) status = join_epoch(error);
    if (status)
        job_release();
    else
        job.begun = true;
    return status;
}

void job_end(void) {
    if (!job.begun) return;
    ucp_request_param_t none = {0};
    job.ending = true;
    job_barrier();
    ucs_status_ptr_t flush = job.broken ? NULL : ucp_worker_flush_nbx(job.worker, &none);
    while (UCS_PTR_IS_PTR(flush) && !job.broken &&
           ucp_request_check_status(flush) == UCS_INPROGRESS)
        job_progress();
    if (UCS_PTR_IS_PTR(flush)) ucp_request_free(flush);
    job_release();
}

/* ---- waiting ---- */

void job_sleep(int64_t ns_max) {
    struct pollfd files[] = {{job.wakes, POLLIN, 0},
                             {job.launcher_lost ? -1 : job.rendezvous, POLLIN, 0}};
    const struct timespec most = {ns_max / 1000000000, ns_max % 1000000000};
    if (job.broken || ucp_worker_arm(job.worker) != UCS_OK) return;
    report_awaited();
    ppoll(files, 2, &most, NULL);
    receive_launcher();
}

void job_backoff(uint32_t *polls, int64_t ns_max) {
    ++*polls;
    if (job.crowded && *polls > POLLS_BEFORE_SLEEP)
        job_sleep(ns_max);
    else if (job.crowded || *polls > POLLS_BEFORE_YIELD)
        sched_yield();
}

bool job_done(const struct job_batch *batch) {
    uint32_t polls = 0;
    if (batch->open && !job_progress()) job_backoff(&polls, SLEEP_NS);
    return batch->open == 0;
}

void job_wait(const struct job_batch *batch) {
    uint32_t polls = 0;
    while (batch->open)
        if (!job_progress()) job_backoff(&polls, SLEEP_NS);
}

void job_wait_until(bool (*over)(void *context), void *context) {
    uint32_t polls = 0;
    while (!over(context))
        if (!job_progress()) job_backoff(&polls, SLEEP_NS);
}

/* ---- control messages ---- */

void job_send(uint32_t to, const void *data, size_t bytes) {
    struct job_batch batch = {0};
    job_send_begin(&batch, JOB_CHANNEL_CONTROL, 0, to, data, bytes);
    job_wait(&batch);
}

bool job_probe(uint32_t from, size_t *bytes_out) {
    ucp_tag_recv_info_t info;
    job_progress();
    if (job.broken || !ucp_tag_probe_nb(job.worker, job_tag_of(JOB_CHANNEL_CONTROL, 0, from),
                                        UINT64_MAX, 0, &info))
        return false;
    *bytes_out = info.length;
    return true;
}

bool job_wait_message(uint32_t from, size_t *bytes_out) {
    uint32_t polls = 0;
    bool is_ready;
    if (job.rank == 0) job.awaited = from + 1; /* the other ranks always wait for rank 0 */
    while (!(is_ready = job_probe(from, bytes_out)) && !job.broken && !job.gone[from])
        job_backoff(&polls, SLEEP_NS);
    job.awaited = 0;
    return is_ready;
}

size_t job_receive(uint32_t from, void *data, size_t bytes) {
    struct job_batch batch = {0};
    size_t length;
    if (!job_wait_message(from, &length)) return 0;
    check(length <= bytes);
    job_receive_begin(&batch, JOB_CHANNEL_CONTROL, 0, from, data, length);
    job_wait(&batch);
    return job.broken ? 0 : length;
}

/* A dissemination barrier: after round k each rank knows that the 2^k ranks before it have come. */
void job_barrier(void) {
    const uint32_t *row;
    uint32_t round = 0, own = 0, count = job_alive_ranks(&row, &own);
    for (uint32_t step = 1; step < count; step *= 2, round++) {
        struct job_batch batch = {0};
        job_receive_begin(&batch, JOB_CHANNEL_BARRIER, round, row[(own + count - step) % count],
                          NULL, 0);
        job_send_begin(&batch, JOB_CHANNEL_BARRIER, round, row[(own + step) % count], NULL, 0);
        job_wait(&batch);
    }
}

void job_all_to_all(const char *out, char *in, size_t bytes) {
    struct job_batch batch = {0};
    for (uint32_t i = 1; i < job.count; i++) {
        uint32_t rank = (job.rank + i) % job.count;
        job_receive_begin(&batch, JOB_CHANNEL_ACTIVATIONS, (1u << TAG_BITS) - 1, rank,
                          in + rank * bytes, bytes);
    }
    for (uint32_t i = 1; i < job.count; i++) {
        uint32_t rank = (job.rank + i) % job.count;
        job_send_begin(&batch, JOB_CHANNEL_ACTIVATIONS, (1u << TAG_BITS) - 1, rank,
                       out + rank * bytes, bytes);
    }
    job_wait(&batch);
}

void job_ring_shift(const char *out, char *in, size_t bytes, uint32_t by, uint32_t ring) {
    const uint32_t tag = (1u << TAG_BITS) - 1;
    const uint32_t place = job.rank % ring, first = job.rank - place;
    struct job_batch batch = {0};
    by %= ring;
    if (by == 0) return;
    job_receive_begin(&batch, JOB_CHANNEL_ACTIVATIONS, tag, first + (place + ring - by) % ring, in,
                      bytes);
    job_send_begin(&batch, JOB_CHANNEL_ACTIVATIONS, tag, first + (place + by) % ring, out, bytes);
    job_wait(&batch);
}
