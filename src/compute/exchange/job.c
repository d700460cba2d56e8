/* SPDX-License-Identifier: Apache-2.0
 * A job over UCX: one worker, tagged messages. The 64 bits of a tag are lane, tag and sender:
 *
 *   20 bits lane | 28 bits tag | 16 bits rank that sends
 *
 * Each epoch (job_rendezvous.h) has a worker of its own. So messages of the previous epoch reach no
 * worker, and an inbox in shared memory that is blocked, because its writer was killed, is not read
 * any more. The old worker is closed when the new epoch's roster is there: then no rank writes to
 * it.
 *
 * An endpoint is made when the first message goes to a rank. UCX 1.13 cannot tell in each case that
 * a peer over shared memory has died, so endpoints within a host do not ask for it, and the
 * launcher reports deaths. A failure before that waits for the launcher's report; without one this
 * process ends.
 *
 * A waiting rank yields its CPU: a rank with a CPU of its own yields after some polls. Where ranks
 * outnumber CPUs each look gives it up, and after some the rank sleeps until something comes: else
 * the many that wait take the time of the few for whom they wait.
 */
#include "compute/exchange/job.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/limits.h"
#include "compute/exchange/job_rendezvous.h"
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
#define LOOKS_A_RECEIVE 256 /* looks that found nothing, between two questions who is gone */
#define LOOKS_MOVED 64      /* that found something count as one that found nothing */
#define REGROUP_NS_MAX ((int64_t)30000000000)
#define LISTEN_MS 50                           /* to the launcher, between two looks at the clock */
#define EXPLAINED_NS_MAX ((int64_t)5000000000) /* from a failure to the launcher's word */
#define FORSAKEN_NS                                                                                \
    5000000 /* without a move, until what was begun to come has come as far as it will */
#define INBOX_MESSAGES                                                                             \
    "64"                 /* small ones, of 8 KiB each in shared memory; UCX's own 512 are 4 MiB */
#define LOOKS_CROWDED 20 /* each lets others run; so many before a rank sleeps */
#define DOZE_NS ((int64_t)10000000)
#define LOOKS_ALONE                                                                                \
    100000 /* a millisecond or two: so long a rank that has a CPU keeps it while it waits */

/* A send or a receive that UCX has begun and not ended. */
struct job_request {
    struct job_batch *batch; /* NULL: no caller waits for it any more */
    void *request;           /* UCX's; NULL: not known yet */
    uint32_t peer;
    enum job_channel channel;
    bool receives;
    bool is_over;                        /* of a worker that is about to be closed */
    struct job_request *before, *behind; /* among those that are open, or free */
};

static struct {
    bool begun, ending;
    bool broken;
    bool leaves; /* broken, and what was begun is not broken off yet */
    bool meets;  /* HERE was said, and the roster has not come */
    bool deaf;   /* the launcher has gone, or makes no sense */
    uint32_t epoch;
    uint32_t looks;    /* since the launcher was heard, as LOOKS_MOVED counts */
    uint32_t asked;    /* 1 + the rank from which a steering message is awaited; 0: none */
    int64_t failed_ns; /* time of a failure without an explanation; 0: none */
    ucs_status_t failure;
    bool *gone;                /* [count] */
    uint32_t row[LIMIT_RANKS]; /* those that live, when it was last asked for */
    char *received;            /* [received_room] a frame, of which received_bytes have come */
    size_t received_bytes, received_room;
    struct job_request *open, *spare;
    uint32_t rank, count;
    bool crowded; /* ranks outnumber the CPUs that they share */
    int rendezvous;
    const char *host; /* this rank's */
    ucp_context_h context;
    ucp_worker_h worker;
    int wakes;                   /* readable when something came to the worker since it was armed */
    ucp_worker_h last_worker;    /* the last epoch's, until the roster comes; NULL: there is none */
    struct job_request *of_last; /* what it had begun */
    ucp_ep_h *endpoints;         /* [count] NULL: none yet */
    char *members;               /* a frame */
    struct bytes *addresses;     /* [count] in it */
    const char **hosts;          /* [count] in it */
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

uint32_t job_rank_ahead(void) {
    uint32_t rank = job_reported(JOB_RENDEZVOUS_RANK, 0, LIMIT_RANKS - 1);
    return rank == UINT32_MAX ? 0 : rank;
}

bool job_returns(void) {
    return job_reported(JOB_RENDEZVOUS_RETURNS, 1, 1) == 1;
}

uint32_t job_rank(void) {
    return job.rank;
}
uint32_t job_count(void) {
    return job.count;
}

/* ---- meeting ---- */

static enum status job_failed(struct error *error, const char *what, ucs_status_t status) {
    return error_set(error, STATUS_IO, "rank %u cannot %s: %s", job.rank, what,
                     ucs_status_string(status));
}

static uint32_t job_cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
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
        job.crowded = here > job_cpus();
        return STATUS_OK;
    }
    job.rank = 0;
    job.count = 1;
    return error_set(error, STATUS_INVALID,
                     "the environment of this rank (" JOB_RENDEZVOUS_RANK ", " JOB_RENDEZVOUS_RANKS
                     ", " JOB_RENDEZVOUS_RANKS_HERE ", " JOB_RENDEZVOUS_HOST
                     ", " JOB_RENDEZVOUS_FILE ") is not as a launcher makes it");
}

/* A person's UCX_TLS is left alone; UCX complains of settings of transports that it does not use. A
 * rank that stood still within a connect, to a host that does not answer, would look like one that
 * was stopped. */
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

/* UCX complains of ranks that have ended, and of messages that never left, to stdout, where a
 * result may be wanted. Failures that matter are returned as a status, and we report them. */
static ucs_log_func_rc_t say_nothing(const char *file, unsigned line, const char *function,
                                     ucs_log_level_t level,
                                     const ucs_log_component_config_t *component,
                                     const char *message, va_list arguments) {
    return level > UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

static enum status open_context(struct error *error) {
    if (!getenv("UCX_LOG_LEVEL")) ucs_log_push_handler(say_nothing);
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

static void listen_to_launcher(short events) {
    struct pollfd file = {job.rendezvous, events, 0};
    poll(&file, 1, LISTEN_MS);
}

/* All of it, or nothing: false if the launcher is gone. */
static bool job_say(const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t sent = write(job.rendezvous, at, bytes);
        if (sent < 0 && errno == EAGAIN) listen_to_launcher(POLLOUT);
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
    if (found != UCS_OK) return job_failed(error, "tell its address", found);
    static char frame[JOB_JOIN_BYTES_MAX];
    check(bytes <= JOB_ADDRESS_BYTES_MAX);
    size_t whole = job_rendezvous_frame_join(frame, job.rank, job.epoch, job.host,
                                             (struct bytes){(const char *)address, bytes});
    ucp_worker_release_address(job.worker, address);
    if (job_say(frame, whole)) return STATUS_OK;
    return error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
}

/* ---- messages ---- */

static ucp_tag_t job_tag_of(enum job_channel channel, uint32_t tag, uint32_t from) {
    check(tag < 1u << TAG_BITS);
    return ((ucp_tag_t)channel << TAG_BITS | tag) << RANK_BITS | from;
}

static void (*says_end)(uint32_t rank, const char *what, const char *why);

void job_says_end(void (*says)(uint32_t rank, const char *what, const char *why)) {
    says_end = says;
}

void job_give_up(const char *what, const char *why) {
    if (says_end) says_end(job.rank, what, why);
    _exit(1);
}

/* Nothing can go on without that rank. */
static void end_broken(const char *what, ucs_status_t status) {
    job_give_up(what, ucs_status_string(status));
}

/* A failure between ranks means that a rank has died: the launcher will report which. */
static void job_note_failure(ucs_status_t status) {
    if (!job.failed_ns) job.failed_ns = clock_now_ns();
    job.failure = status;
}

static void note_broken(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    job_note_failure(status);
}

bool job_shares_host(uint32_t rank) {
    return strcmp(job.hosts[rank], job.host) == 0;
}

/* NULL: it cannot be reached, which was noted. */
static ucp_ep_h endpoint_to(uint32_t rank) {
    check(job.begun && rank < job.count && rank != job.rank);
    if (job.endpoints[rank]) return job.endpoints[rank];
    bool near = job_shares_host(rank);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)job.addresses[rank].data,
        .err_mode = near ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = note_broken},
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
        job.spare = it->behind;
    else
        it = malloc(sizeof *it);
    check(it); /* some dozens of bytes: without them, nothing goes on */
    *it = (struct job_request){
        .batch = batch, .peer = peer, .channel = channel, .receives = receives, .behind = job.open};
    if (job.open) job.open->before = it;
    job.open = it;
    batch->open++;
    return it;
}

static void job_forget(struct job_request *it) {
    if (it->batch) it->batch->open--;
    it->batch = NULL;
}

static void end(struct job_request *it) {
    job_forget(it);
    if (it->is_over) return; /* its worker is being closed, and it with all the others */
    if (it->before) it->before->behind = it->behind;
    if (it->behind) it->behind->before = it->before;
    if (job.open == it) job.open = it->behind;
    it->behind = job.spare;
    job.spare = it;
}

/* A batch without its bytes stays open until the launcher reports the reason. */
static void end_or_wait(struct job_request *it, ucs_status_t status) {
    if (status == UCS_OK || !it->batch) {
        end(it);
    } else {
        it->request = NULL;
        job_note_failure(status);
    }
}

static void job_note_sent(void *request, ucs_status_t status, void *argument) {
    ucp_request_free(request);
    end_or_wait(argument, status);
}

static void job_note_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                              void *argument) {
    check(status != UCS_ERR_MESSAGE_TRUNCATED);
    ucp_request_free(request);
    end_or_wait(argument, status);
}

/* UCX has begun it; `request` is what it returned. NULL: it is done. */
static void note_begun(struct job_request *it, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request))
        end_or_wait(it, UCS_PTR_STATUS(request));
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

/* ---- ranks that die, and come back ---- */

static void free_requests(struct job_request *list) {
    while (list) {
        struct job_request *behind = list->behind;
        free(list);
        list = behind;
    }
}

/* Whatever it had begun ends with it. */
static void close_last_worker(void) {
    if (job.last_worker) ucp_worker_destroy(job.last_worker);
    free_requests(job.of_last);
    job.last_worker = NULL;
    job.of_last = NULL;
}

/* Whether UCX may still write to the memory of a receive. */
static bool any_receives(void) {
    for (const struct job_request *it = job.open; it; it = it->behind)
        if (it->receives && it->request) return true;
    return false;
}

static void end_those_without_request(void) {
    for (struct job_request *it = job.open; it;) {
        struct job_request *behind = it->behind;
        job_forget(it);
        if (!it->request) end(it);
        it = behind;
    }
}

/* The set of living ranks has changed. In the rendezvous this rank joins the new epoch, with a
 * worker that has exchanged no message. */
static void job_note_change(const struct job_frame *head) {
    struct error error;
    if (head->rank == 0 && head->rank != job.rank && job.begun && !job.ending)
        _exit(1); /* who launched it tells */
    if (head->kind == JOB_FRAME_GONE) job.gone[head->rank] = true;
    job.epoch = head->epoch;
    job.failed_ns = 0;
    if (!job.meets)
        job.broken = job.leaves = true;
    else if (send_join(&error))
        job.deaf = true;
}

/* Its bytes are kept: the ranks' places lie in them. */
static void job_take_members(struct bytes frame) {
    const char *host;
    size_t at = 0;
    for (uint32_t rank = 0; rank < job.count; rank++) {
        if (!job_rendezvous_frame_place(frame, &at, &host, &job.addresses[rank])) {
            job.deaf = true;
            return;
        }
        job.hosts[rank] = host;
        job.gone[rank] = job.addresses[rank].count == 0;
    }
    free(job.members);
    job.members = job.received;
    job.received = NULL;
    job.received_room = 0;
    job.meets = job.broken = false;
}

/* True: a whole frame is there. */
static bool receive_frame(size_t *bytes_out) {
    while (!job.deaf) {
        const struct bytes received = {job.received, job.received_bytes};
        if (!job_rendezvous_frame_measure(received, job.count, bytes_out)) break;
        size_t wanted = *bytes_out ? *bytes_out : sizeof(struct job_frame);
        if (*bytes_out && job.received_bytes == wanted) return true;
        if (job.received_room < wanted)
            job.received = realloc(job.received, job.received_room = wanted);
        check(job.received); /* a roster, at most */
        ssize_t got =
            read(job.rendezvous, job.received + job.received_bytes, wanted - job.received_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
        if (got <= 0) break;
        job.received_bytes += (size_t)got;
    }
    job.deaf = true;
    return false;
}

/* Reports the rank for which this one waits: that of the oldest message, except moves of experts,
 * for which no rank waits. */
static void report_awaited(void) {
    uint32_t peer = job.asked;
    for (const struct job_request *it = job.open; it; it = it->behind)
        if (it->batch && it->channel != JOB_CHANNEL_MOVES) peer = it->peer + 1;
    heartbeat_await(peer);
}

/* All that the launcher has said. */
static void receive_launcher(void) {
    struct job_frame head;
    size_t bytes;
    job.looks = 0;
    if (job.failed_ns && clock_now_ns() - job.failed_ns > EXPLAINED_NS_MAX)
        end_broken("the connection to another rank broke", job.failure);
    while (receive_frame(&bytes)) {
        memcpy(&head, job.received, sizeof head);
        job.received_bytes = 0;
        if (head.kind != JOB_FRAME_MEMBERS)
            job_note_change(&head);
        else if (job.meets && head.epoch == job.epoch)
            job_take_members((struct bytes){job.received, bytes});
    }
}

/* Ends the waiting. A receive that no message has matched ends at once. One that is matched is
 * seen to its end, or as far as it comes. Its memory is left alone afterwards, since its worker is
 * never looked at again. */
static void job_break_off(void) {
    int64_t moved_ns = clock_now_ns();
    for (struct job_request *it = job.open; it;) {
        struct job_request *behind = it->behind; /* cancelling ends no other */
        if (it->receives && it->request) {
            job_forget(it);
            ucp_request_cancel(job.worker, it->request);
        }
        it = behind;
    }
    end_those_without_request();
    while (any_receives() && clock_now_ns() - moved_ns < FORSAKEN_NS)
        if (ucp_worker_progress(job.worker))
            moved_ns = clock_now_ns();
        else
            sched_yield();
    end_those_without_request();
    job.leaves = false;
}

/* Returns when all living ranks are there, each with a worker that has exchanged no message. */
static enum status meet(struct error *error) {
    const int64_t began_ns = clock_now_ns();
    check(fcntl(job.rendezvous, F_SETFL, O_NONBLOCK) == 0);
    job.meets = true;
    enum status status = send_join(error);
    while (!status && job.meets) {
        listen_to_launcher(POLLIN);
        receive_launcher();
        if (job.meets && job.deaf)
            status = error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
        else if (job.meets && job.begun && clock_now_ns() - began_ns > REGROUP_NS_MAX)
            status = error_set(error, STATUS_GONE,
                               "rank %u: the ranks that live do not come "
                               "together again",
                               job.rank);
    }
    return status;
}

bool job_progress(void) {
    bool moved = ucp_worker_progress(job.worker) > 0;
    job.looks += moved ? 1 : LOOKS_MOVED; /* something may move for ever, too */
    if (moved) heartbeat_moved();
    if (job.looks >= LOOKS_A_RECEIVE * LOOKS_MOVED) {
        report_awaited();
        receive_launcher();
    }
    if (job.leaves) job_break_off();
    return moved;
}

bool job_look(void) {
    if (!job.begun) return false;
    receive_launcher();
    if (job.leaves) job_break_off();
    return job.broken;
}

bool job_broken(void) {
    return job.broken;
}

bool job_lives(uint32_t rank) {
    return !job.begun || !job.gone[rank];
}

uint32_t job_epoch(void) {
    return job.epoch;
}

uint32_t job_node_ranks(void) {
    const char *hosts[LIMIT_RANKS];
    uint32_t here = job_reported(JOB_RENDEZVOUS_RANKS_HERE, 1, INT32_MAX);
    uint32_t count = job_reported(JOB_RENDEZVOUS_RANKS, 1, LIMIT_RANKS);
    if (!job.begun) return job_returns() && here <= count && count % here == 0 ? here : 0;
    for (uint32_t rank = 0; rank < job.count; rank++)
        hosts[rank] = job.gone[rank] ? NULL : job.hosts[rank];
    return placement_node_ranks(hosts, job.count);
}

bool job_is_here(void) {
    const char *named = getenv(JOB_RENDEZVOUS_HOST);
    if (!job_exists()) return false;
    if (!named || !named[0]) return true;
    for (uint32_t rank = 0; rank < job.count && job.begun; rank++)
        if (!job.gone[rank] && strcmp(job.hosts[rank], named) != 0) return false;
    return job.begun;
}

uint32_t job_place_here(void) {
    uint32_t place = job_reported(JOB_RENDEZVOUS_PLACE, 0, INT32_MAX);
    return place == UINT32_MAX ? 0 : place;
}

uint32_t job_row(const uint32_t **ranks_out, uint32_t *own_out) {
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
    if (job.leaves) job_break_off();
    close_last_worker();
    for (struct job_request *it = job.open; it; it = it->behind)
        it->is_over = true;
    job.of_last = job.open;
    job.open = NULL;
    job.last_worker = job.worker;
    memset(job.endpoints, 0, job.count * sizeof(ucp_ep_h));
    enum status status = job_open_worker(&error);
    if (!status) status = meet(&error);
    if (status) job_give_up("it does not come together with the others", error.text);
    close_last_worker();
}

/* ---- beginning and ending ---- */

/* Where a rank has died just now, UCX holds what never went to it: the end of the process frees it.
 * */
static void job_leave(void) {
    bool whole = !job.broken && !job.last_worker;
    if (job.worker && whole) ucp_worker_destroy(job.worker);
    if (job.context && whole) ucp_cleanup(job.context);
    if (job.rendezvous >= 0) close(job.rendezvous);
    free_requests(job.spare);
    free_requests(job.open);
    free_requests(job.of_last);
    free(job.gone);
    free(job.endpoints);
    free(job.addresses);
    free(job.hosts);
    free(job.members);
    free(job.received);
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
    if (!status) status = open_context(error);
    if (!status) status = job_open_worker(error);
    if (!status) status = meet(error);
    if (status)
        job_leave();
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
    job_leave();
}

/* ---- waiting ---- */

void job_doze(int64_t ns_max) {
    struct pollfd files[] = {{job.wakes, POLLIN, 0}, {job.deaf ? -1 : job.rendezvous, POLLIN, 0}};
    const struct timespec most = {ns_max / 1000000000, ns_max % 1000000000};
    if (job.broken || ucp_worker_arm(job.worker) != UCS_OK) return;
    report_awaited();
    ppoll(files, 2, &most, NULL);
    receive_launcher();
}

void job_rest(uint32_t *looks, int64_t ns_max) {
    ++*looks;
    if (job.crowded && *looks > LOOKS_CROWDED)
        job_doze(ns_max);
    else if (job.crowded || *looks > LOOKS_ALONE)
        sched_yield();
}

bool job_done(const struct job_batch *batch) {
    uint32_t looks = 0;
    if (batch->open && !job_progress()) job_rest(&looks, DOZE_NS);
    return batch->open == 0;
}

void job_wait(const struct job_batch *batch) {
    uint32_t looks = 0;
    while (batch->open)
        if (!job_progress()) job_rest(&looks, DOZE_NS);
}

void job_wait_until(bool (*over)(void *context), void *context) {
    uint32_t looks = 0;
    while (!over(context))
        if (!job_progress()) job_rest(&looks, DOZE_NS);
}

/* ---- steering ---- */

void job_send(uint32_t to, const void *data, size_t bytes) {
    struct job_batch batch = {0};
    job_send_begin(&batch, JOB_CHANNEL_STEERING, 0, to, data, bytes);
    job_wait(&batch);
}

bool job_ready(uint32_t from, size_t *bytes_out) {
    ucp_tag_recv_info_t info;
    job_progress();
    if (job.broken || !ucp_tag_probe_nb(job.worker, job_tag_of(JOB_CHANNEL_STEERING, 0, from),
                                        UINT64_MAX, 0, &info))
        return false;
    *bytes_out = info.length;
    return true;
}

bool job_await(uint32_t from, size_t *bytes_out) {
    uint32_t looks = 0;
    bool is_ready;
    if (job.rank == 0) job.asked = from + 1; /* the others always wait for orders */
    while (!(is_ready = job_ready(from, bytes_out)) && !job.broken && !job.gone[from])
        job_rest(&looks, DOZE_NS);
    job.asked = 0;
    return is_ready;
}

size_t job_receive(uint32_t from, void *data, size_t bytes) {
    struct job_batch batch = {0};
    size_t length;
    if (!job_await(from, &length)) return 0;
    check(length <= bytes);
    job_receive_begin(&batch, JOB_CHANNEL_STEERING, 0, from, data, length);
    job_wait(&batch);
    return job.broken ? 0 : length;
}

/* In rounds: after the k-th, each rank knows that 2^k ranks before it in the row have come. */
void job_barrier(void) {
    const uint32_t *row;
    uint32_t round = 0, own = 0, count = job_row(&row, &own);
    for (uint32_t step = 1; step < count; step *= 2, round++) {
        struct job_batch batch = {0};
        job_receive_begin(&batch, JOB_CHANNEL_BARRIER, round, row[(own + count - step) % count],
                          NULL, 0);
        job_send_begin(&batch, JOB_CHANNEL_BARRIER, round, row[(own + step) % count], NULL, 0);
        job_wait(&batch);
    }
}

void job_swap(const char *out, char *in, size_t bytes) {
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

void job_shift(const char *out, char *in, size_t bytes, uint32_t by, uint32_t ring) {
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
