/* SPDX-License-Identifier: Apache-2.0
 * A job over UCX: one worker, tagged messages. The 64 bits of a tag are lane, tag and sender:
 *
 *   4 bits lane | 28 bits tag | 32 bits rank that sends
 *
 * An endpoint is made when the first message goes to a rank. UCX 1.13 cannot tell that a peer over
 * shared memory has died, so endpoints within a host ask for no such word, and a death is told by
 * the launcher; between hosts they do, and a broken connection ends this process.
 *
 * Whoever waits lets others run: first a few looks, then the CPU is given up at each look, and where
 * ranks outnumber CPUs the rank sleeps for a moment after a while.
 */
#include "compute/exchange/job.h"

#include "base/check.h"
#include "base/limits.h"
#include "compute/exchange/job_meeting.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define RANK_BITS 32
#define TAG_BITS 28
#define INBOX_MESSAGES                                                                             \
    "64" /* small ones, of 8 KiB each in shared memory; UCX's own 512 are 4 MiB */
#define LOOKS_ALONE                                                                                \
    100000 /* a millisecond or two: so long a rank that has a CPU keeps it while it waits */

static struct {
    bool begun;
    uint32_t rank, count;
    bool crowded; /* ranks outnumber the CPUs that they share */
    int meeting;
    const char *host; /* this rank's */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *endpoints;     /* [count] NULL: none yet */
    char *roster;            /* a frame */
    struct bytes *addresses; /* [count] in it */
    const char **hosts;      /* [count] in it */
} job = {.count = 1, .meeting = -1};

bool job_built(void) {
    return true;
}

static uint32_t told(const char *name, uint32_t least, uint32_t most) {
    const char *text = getenv(name);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || value < least || value > most) return UINT32_MAX;
    return (uint32_t)value;
}

bool job_exists(void) {
    return getenv(JOB_MEETING_FILE) != NULL;
}

uint32_t job_rank_ahead(void) {
    uint32_t rank = told(JOB_MEETING_RANK, 0, LIMIT_RANKS - 1);
    return rank == UINT32_MAX ? 0 : rank;
}

uint32_t job_rank(void) {
    return job.rank;
}
uint32_t job_count(void) {
    return job.count;
}

/* ---- meeting ---- */

static enum status failed(struct error *error, const char *what, ucs_status_t status) {
    return error_set(error, STATUS_IO, "rank %u cannot %s: %s", job.rank, what,
                     ucs_status_string(status));
}

static uint32_t cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static enum status read_environment(struct error *error) {
    job.rank = told(JOB_MEETING_RANK, 0, LIMIT_RANKS - 1);
    job.count = told(JOB_MEETING_RANKS, 1, LIMIT_RANKS);
    uint32_t here = told(JOB_MEETING_RANKS_HERE, 1, INT32_MAX);
    const char *host = getenv(JOB_MEETING_HOST);
    job.host = host ? host : "";
    uint32_t file = told(JOB_MEETING_FILE, 0, INT32_MAX);
    if (job.count != UINT32_MAX && job.rank < job.count && here != UINT32_MAX &&
        file != UINT32_MAX && strlen(job.host) < JOB_HOST_BYTES) {
        job.meeting = (int)file;
        job.crowded = here > cpus();
        return STATUS_OK;
    }
    job.rank = 0;
    job.count = 1;
    return error_set(error, STATUS_INVALID,
                     "the environment of this rank (" JOB_MEETING_RANK ", " JOB_MEETING_RANKS
                     ", " JOB_MEETING_RANKS_HERE ", " JOB_MEETING_HOST ", " JOB_MEETING_FILE
                     ") is not as a launcher makes it");
}

/* A person's UCX_TLS is left alone; UCX complains of settings of transports that it does not use. */
static ucs_status_t choose_transports(ucp_config_t *config) {
    if (getenv("UCX_TLS")) return UCS_OK;
    ucs_status_t status = ucp_config_modify(config, "MM_FIFO_SIZE", INBOX_MESSAGES);
    if (status == UCS_OK) status = ucp_config_modify(config, "MM_RX_BUFS_GROW", INBOX_MESSAGES);
    if (status != UCS_OK || job.host[0]) return status;
    return ucp_config_modify(config, "TLS", "posix,cma,self");
}

static enum status open_worker(struct error *error) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
                           .features = UCP_FEATURE_TAG,
                           .estimated_num_eps = job.count,
                           .estimated_num_ppn = job.count};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return failed(error, "read UCX's configuration", status);
    status = choose_transports(config);
    if (status == UCS_OK) status = ucp_init(&params, config, &job.context);
    ucp_config_release(config);
    if (status != UCS_OK) return failed(error, "start UCX", status);
    status = ucp_worker_create(job.context, &worker, &job.worker);
    return status == UCS_OK ? STATUS_OK : failed(error, "open a UCX worker", status);
}

/* All of it, or nothing: false if the launcher is gone. */
static bool say(const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t sent = write(job.meeting, at, bytes);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static bool hear(void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        ssize_t got = read(job.meeting, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static enum status say_address(struct error *error) {
    ucp_address_t *address;
    size_t bytes;
    ucs_status_t found = ucp_worker_get_address(job.worker, &address, &bytes);
    if (found != UCS_OK) return failed(error, "tell its address", found);
    static char frame[JOB_HERE_BYTES_MAX];
    check(bytes <= JOB_ADDRESS_BYTES_MAX);
    size_t whole =
        job_frame_here(frame, job.rank, job.host, (struct bytes){(const char *)address, bytes});
    ucp_worker_release_address(job.worker, address);
    bool said = say(frame, whole);
    if (said) return STATUS_OK;
    return error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
}

/* Frames before the roster tell of ranks that ended at the start: then no roster comes, and who
 * launched them ends the others. */
static enum status hear_roster(struct error *error) {
    struct job_frame head;
    size_t bytes, at = 0;
    do {
        if (!hear(&head, sizeof head))
            return error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
        if (!job_frame_measure((struct bytes){(const char *)&head, sizeof head}, job.count, &bytes))
            return error_set(error, STATUS_INVALID, "rank %u: its launcher makes no sense",
                             job.rank);
    } while (head.kind != JOB_FRAME_ROSTER);
    job.roster = malloc(bytes);
    if (!job.roster) return error_set(error, STATUS_NO_MEMORY, "no memory for the ranks' roster");
    memcpy(job.roster, &head, sizeof head);
    if (!hear(job.roster + sizeof head, bytes - sizeof head))
        return error_set(error, STATUS_GONE, "rank %u: its launcher is gone", job.rank);
    for (uint32_t rank = 0; rank < job.count; rank++)
        if (!job_frame_place((struct bytes){job.roster, bytes}, &at, &job.hosts[rank],
                             &job.addresses[rank]))
            return error_set(error, STATUS_INVALID, "rank %u: the ranks' roster makes no sense",
                             job.rank);
    return STATUS_OK;
}

static void leave(void) {
    if (job.worker) ucp_worker_destroy(job.worker);
    if (job.context) ucp_cleanup(job.context);
    if (job.meeting >= 0) close(job.meeting);
    free(job.endpoints);
    free(job.addresses);
    free(job.hosts);
    free(job.roster);
    memset(&job, 0, sizeof job);
    job.count = 1;
    job.meeting = -1;
}

enum status job_begin(struct error *error) {
    check(!job.begun);
    enum status status = read_environment(error);
    if (status) return status;
    job.endpoints = calloc(job.count, sizeof(ucp_ep_h));
    job.addresses = calloc(job.count, sizeof *job.addresses);
    job.hosts = calloc(job.count, sizeof *job.hosts);
    if (!job.endpoints || !job.addresses || !job.hosts)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a job of %u ranks", job.count);
    if (!status) status = open_worker(error);
    if (!status) status = say_address(error);
    if (!status) status = hear_roster(error);
    if (status)
        leave();
    else
        job.begun = true;
    return status;
}

void job_end(void) {
    if (!job.begun) return;
    ucp_request_param_t none = {0};
    job_barrier();
    ucs_status_ptr_t flush = ucp_worker_flush_nbx(job.worker, &none);
    while (UCS_PTR_IS_PTR(flush) && ucp_request_check_status(flush) == UCS_INPROGRESS)
        job_progress();
    if (UCS_PTR_IS_PTR(flush)) ucp_request_free(flush);
    leave();
}

/* ---- messages ---- */

static ucp_tag_t tag_of(enum job_lane lane, uint32_t tag, uint32_t from) {
    check(tag < 1u << TAG_BITS);
    return ((ucp_tag_t)lane << TAG_BITS | tag) << RANK_BITS | from;
}

/* Nothing can go on without that rank. */
static void end_broken(const char *what, ucs_status_t status) {
    fprintf(stderr, "fathom: rank %u ends, %s: %s\n", job.rank, what, ucs_status_string(status));
    _exit(1);
}

static void note_broken(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    end_broken("the connection to another rank broke", status);
}

static ucp_ep_h endpoint_to(uint32_t rank) {
    check(job.begun && rank < job.count && rank != job.rank);
    if (job.endpoints[rank]) return job.endpoints[rank];
    bool near = strcmp(job.hosts[rank], job.host) == 0;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)job.addresses[rank].data,
        .err_mode = near ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = note_broken},
    };
    ucs_status_t status = ucp_ep_create(job.worker, &params, &job.endpoints[rank]);
    if (status != UCS_OK) end_broken("another rank cannot be reached", status);
    return job.endpoints[rank];
}

static void note_sent(void *request, ucs_status_t status, void *argument) {
    struct job_batch *batch = argument;
    if (status != UCS_OK) end_broken("bytes cannot be sent", status);
    batch->open--;
    ucp_request_free(request);
}

static void note_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                          void *argument) {
    struct job_batch *batch = argument;
    check(status != UCS_ERR_MESSAGE_TRUNCATED);
    if (status != UCS_OK) end_broken("bytes cannot be received", status);
    batch->open--;
    ucp_request_free(request);
}

static void count_in(struct job_batch *batch, ucs_status_ptr_t request, const char *what) {
    if (UCS_PTR_IS_ERR(request)) end_broken(what, UCS_PTR_STATUS(request));
    if (request) batch->open++; /* else it is done */
}

void job_send_begin(struct job_batch *batch, enum job_lane lane, uint32_t tag, uint32_t to,
                    const void *data, size_t bytes) {
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = note_sent,
                                       .user_data = batch};
    count_in(batch,
             ucp_tag_send_nbx(endpoint_to(to), data, bytes, tag_of(lane, tag, job.rank), &param),
             "bytes cannot be sent");
}

void job_receive_begin(struct job_batch *batch, enum job_lane lane, uint32_t tag, uint32_t from,
                       void *data, size_t bytes) {
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.recv = note_received,
                                       .user_data = batch};
    check(job.begun && from < job.count && from != job.rank);
    count_in(batch,
             ucp_tag_recv_nbx(job.worker, data, bytes, tag_of(lane, tag, from), UINT64_MAX, &param),
             "bytes cannot be received");
}

bool job_progress(void) {
    return ucp_worker_progress(job.worker) > 0;
}

/* Called at each look that found nothing. */
static void rest(uint32_t *looks) {
    if (job.crowded || ++*looks > LOOKS_ALONE) sched_yield();
}

bool job_done(const struct job_batch *batch) {
    uint32_t looks = 0;
    if (batch->open && !job_progress()) rest(&looks);
    return batch->open == 0;
}

void job_wait(const struct job_batch *batch) {
    uint32_t looks = 0;
    while (batch->open)
        if (!job_progress()) rest(&looks);
}

/* ---- steering ---- */

void job_send(uint32_t to, const void *data, size_t bytes) {
    struct job_batch batch = {0};
    job_send_begin(&batch, JOB_LANE_STEERING, 0, to, data, bytes);
    job_wait(&batch);
}

bool job_ready(uint32_t from, size_t *bytes_out) {
    ucp_tag_recv_info_t info;
    job_progress();
    if (!ucp_tag_probe_nb(job.worker, tag_of(JOB_LANE_STEERING, 0, from), UINT64_MAX, 0, &info))
        return false;
    *bytes_out = info.length;
    return true;
}

size_t job_receive(uint32_t from, void *data, size_t bytes) {
    struct job_batch batch = {0};
    size_t length;
    uint32_t looks = 0;
    while (!job_ready(from, &length))
        rest(&looks);
    check(length <= bytes);
    job_receive_begin(&batch, JOB_LANE_STEERING, 0, from, data, length);
    job_wait(&batch);
    return length;
}

/* In rounds: after the k-th, each rank knows that 2^k ranks before it have come. */
void job_barrier(void) {
    uint32_t round = 0;
    for (uint32_t step = 1; step < job.count; step *= 2, round++) {
        struct job_batch batch = {0};
        uint32_t from = (job.rank + job.count - step) % job.count;
        job_receive_begin(&batch, JOB_LANE_BARRIER, round, from, NULL, 0);
        job_send_begin(&batch, JOB_LANE_BARRIER, round, (job.rank + step) % job.count, NULL, 0);
        job_wait(&batch);
    }
}

void job_swap(const char *out, char *in, size_t bytes) {
    struct job_batch batch = {0};
    for (uint32_t i = 1; i < job.count; i++) {
        uint32_t rank = (job.rank + i) % job.count;
        job_receive_begin(&batch, JOB_LANE_ACTIVATIONS, (1u << TAG_BITS) - 1, rank,
                          in + rank * bytes, bytes);
    }
    for (uint32_t i = 1; i < job.count; i++) {
        uint32_t rank = (job.rank + i) % job.count;
        job_send_begin(&batch, JOB_LANE_ACTIVATIONS, (1u << TAG_BITS) - 1, rank, out + rank * bytes,
                       bytes);
    }
    job_wait(&batch);
}
