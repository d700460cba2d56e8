/* SPDX-License-Identifier: Apache-2.0
 * The public functions of the KV transport, and its thread. The thread drives UCX and tends links
 * and tickets. When idle it sleeps until UCX's file or its own is readable.
 */
#include "host/transfer/kv_transport.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <ucs/debug/log_def.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "host/transfer/kv_transport_state.h"

#define SECOND INT64_C(1000000000)
#define FAREWELL_NS SECOND     /* closing: time limit to send queued messages */
#define BURIAL_NS (5 * SECOND) /* closing: time limit for UCX to end its messages */
#define PROGRESS_TURNS 64
#define FETCH_BYTES_RDMA 8192
/* Each slice is sent in one segment, so that it is copied only once. UCX's default of 8 KiB makes
 * segments that the receiver must first reassemble. */
#define TCP_SEGMENT "128k"

static bool has_rdma(void) {
    DIR *devices = opendir("/sys/class/infiniband");
    bool any = false;
    if (!devices) return false;
    for (struct dirent *entry; !any && (entry = readdir(devices));)
        any = entry->d_name[0] != '.';
    closedir(devices);
    return any;
}

struct kv_transport_options kv_transport_defaults(void) {
    return (struct kv_transport_options){
        .grant_count = LIMIT_TRANSFERS,
        .queue_bytes_max = (uint64_t)256 << 20,
        .fetch_bytes_min = has_rdma() ? FETCH_BYTES_RDMA : UINT64_MAX,
        .connect_ns_max = 2 * SECOND,
        .connect_attempts = 3,
        .drain_ns_max = SECOND,
        .early_ns_max = SECOND / 2,
    };
}

/* ---- the thread ---- */

static void ring(int file) {
    uint64_t one = 1;
    check(write(file, &one, sizeof one) == sizeof one);
}

static void hush(int file) {
    uint64_t count;
    if (read(file, &count, sizeof count) < 0) check(errno == EAGAIN || errno == EINTR);
}

/* Notifies the thread that there is work. Called with the lock held. */
static void kick(struct kv_transport *transport) {
    transport->kicked = true;
    if (transport->asleep) ring(transport->wake_file);
    transport->asleep = false;
}

static void kv_transport_notify_owner(struct kv_transport *transport) {
    pthread_mutex_lock(&transport->lock);
    bool report = transport->announced;
    transport->announced = false;
    pthread_mutex_unlock(&transport->lock);
    if (report) ring(transport->file);
}

/* Sleeps until kick(), an event of UCX, or wake_ns. */
static void sleep_until(struct kv_transport *transport, int64_t wake_ns) {
    pthread_mutex_lock(&transport->lock);
    bool kicked = transport->kicked;
    transport->kicked = false;
    transport->asleep = !kicked;
    pthread_mutex_unlock(&transport->lock);
    if (kicked) return;
    if (ucp_worker_arm(transport->worker) == UCS_OK) {
        struct pollfd files[2] = {{transport->ucx_file, POLLIN, 0},
                                  {transport->wake_file, POLLIN, 0}};
        int64_t wait_ns = wake_ns - clock_now_ns();
        struct timespec wait = {wait_ns / SECOND, wait_ns % SECOND};
        if (wait_ns > 0) ppoll(files, 2, wake_ns == INT64_MAX ? NULL : &wait, NULL);
        if (files[1].revents) hush(transport->wake_file);
    }
    pthread_mutex_lock(&transport->lock);
    transport->asleep = transport->kicked = false;
    pthread_mutex_unlock(&transport->lock);
}

/* Returns true when the thread must end. */
static bool tend_finishing(struct kv_transport *transport, int64_t now_ns, int64_t *finishing_ns) {
    pthread_mutex_lock(&transport->lock);
    bool finishing = transport->finishing;
    if (finishing && *finishing_ns == 0) {
        *finishing_ns = now_ns;
        transfer_ledger_end_all(&transport->ledger, TRANSFER_CANCELLED, "the transport closes");
    }
    pthread_mutex_unlock(&transport->lock);
    if (!finishing) return false;
    bool late = now_ns - *finishing_ns > FAREWELL_NS;
    return kv_transport_link_close_all(transport, late) || now_ns - *finishing_ns > BURIAL_NS;
}

static _Thread_local bool in_transport;

static void *run(void *argument) {
    struct kv_transport *transport = argument;
    int64_t finishing_ns = 0;
    in_transport = true;
    for (;;) {
        bool busy = false;
        for (int turn = 0; turn < PROGRESS_TURNS && ucp_worker_progress(transport->worker); turn++)
            busy = true;
        int64_t now_ns = clock_now_ns(), wake_ns = INT64_MAX;
        busy |= kv_transport_receive_tend(transport, now_ns, &wake_ns);
        busy |= kv_transport_link_tend(transport, now_ns, &wake_ns);
        kv_transport_notify_owner(transport);
        if (tend_finishing(transport, now_ns, &finishing_ns)) return NULL;
        if (finishing_ns && now_ns + SECOND / 100 < wake_ns) wake_ns = now_ns + SECOND / 100;
        if (!busy) sleep_until(transport, wake_ns);
    }
}

/* ---- opening and closing ---- */

/* UCX logs lost peers to stdout. This is muted: the ends of tickets report the failures. */
static ucs_log_func_rc_t mute_ucx_log(const char *file, unsigned line, const char *function,
                                      ucs_log_level_t level,
                                      const ucs_log_component_config_t *component,
                                      const char *message, va_list arguments) {
    return in_transport && level > UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_STOP
                                                       : UCS_LOG_FUNC_RC_CONTINUE;
}

static void install_ucx_log(void) {
    ucs_log_push_handler(mute_ucx_log);
}

static enum status kv_transport_failed(struct error *error, const char *what, ucs_status_t status) {
    return error_set(error, STATUS_IO, "the KV transport cannot %s: %s", what,
                     ucs_status_string(status));
}

/* Finds the network interface with this address; "" if there is none. */
static void find_interface(const struct sockaddr_storage *address, char name[IF_NAMESIZE]) {
    struct ifaddrs *all;
    name[0] = 0;
    if (getifaddrs(&all)) return;
    for (struct ifaddrs *one = all; one && !name[0]; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != address->ss_family) continue;
        bool six = address->ss_family == AF_INET6;
        const void *theirs = six ? (void *)&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr
                                 : (void *)&((struct sockaddr_in *)one->ifa_addr)->sin_addr;
        const void *ours = six ? (void *)&((struct sockaddr_in6 *)address)->sin6_addr
                               : (void *)&((struct sockaddr_in *)address)->sin_addr;
        if (memcmp(theirs, ours, six ? sizeof(struct in6_addr) : sizeof(struct in_addr)) == 0)
            format_text(name, IF_NAMESIZE, "%s", one->ifa_name);
    }
    freeifaddrs(all);
}

/* Restricts UCX to the interface of the transport's address. Over TCP, UCX would otherwise try to
 * connect every local interface to every remote one, even without a route. RDMA devices have other
 * names, and the operator's own setting takes precedence. */
static ucs_status_t choose_interface(const struct kv_transport *transport, ucp_config_t *config) {
    char name[IF_NAMESIZE];
    if (has_rdma() || getenv("UCX_NET_DEVICES")) return UCS_OK;
    find_interface(&transport->host, name);
    return name[0] ? ucp_config_modify(config, "NET_DEVICES", name) : UCS_OK;
}

static enum status kv_transport_open_worker(struct kv_transport *transport, struct error *error) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return kv_transport_failed(error, "read UCX's configuration", status);
    status = ucp_config_modify(config, "TCP_TX_SEG_SIZE", TCP_SEGMENT);
    if (status == UCS_OK) status = ucp_config_modify(config, "TCP_RX_SEG_SIZE", TCP_SEGMENT);
    if (status == UCS_OK) status = choose_interface(transport, config);
    if (status == UCS_OK) status = ucp_init(&params, config, &transport->context);
    ucp_config_release(config);
    if (status != UCS_OK) return kv_transport_failed(error, "start UCX", status);
    status = ucp_worker_create(transport->context, &worker_params, &transport->worker);
    if (status != UCS_OK) return kv_transport_failed(error, "open a UCX worker", status);
    status = ucp_worker_get_efd(transport->worker, &transport->ucx_file);
    if (status != UCS_OK) return kv_transport_failed(error, "sleep on UCX", status);
    status = kv_transport_receive_open(transport);
    if (status != UCS_OK) return kv_transport_failed(error, "receive with UCX", status);
    ucp_mem_map_params_t map = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = transport->pages.memory,
        .length = transport->pages.mapped_bytes,
    };
    status = ucp_mem_map(transport->context, &map, &transport->memory);
    return status == UCS_OK ? STATUS_OK
                            : kv_transport_failed(error, "register the KV pages", status);
}

static enum status parse_host(const char *host, uint16_t port, struct sockaddr_storage *out,
                              socklen_t *bytes_out, struct error *error) {
    struct sockaddr_in *four = (void *)out;
    struct sockaddr_in6 *six = (void *)out;
    *out = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        *bytes_out = sizeof *four;
        return STATUS_OK;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        *bytes_out = sizeof *six;
        return STATUS_OK;
    }
    return error_set(error, STATUS_INVALID,
                     "'%.60s' is not an address that the KV transport can listen at; expected "
                     "digits, as 10.0.0.7 or fd00::7",
                     host);
}

static enum status open_listener(struct kv_transport *transport, struct error *error) {
    const char *host = transport->options.host;
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {.addr = (const struct sockaddr *)&transport->host,
                     .addrlen = transport->host_bytes},
        .conn_handler = {.cb = kv_transport_link_accept, .arg = transport},
    };
    ucs_status_t status = ucp_listener_create(transport->worker, &params, &transport->listener);
    if (status != UCS_OK)
        return error_set(error, STATUS_IO, "the KV transport cannot listen at %.60s port %u: %s",
                         host, transport->options.port, ucs_status_string(status));
    ucp_listener_attr_t attributes = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    status = ucp_listener_query(transport->listener, &attributes);
    if (status != UCS_OK) return kv_transport_failed(error, "ask where it listens", status);
    bool six = attributes.sockaddr.ss_family == AF_INET6;
    uint16_t port = six ? ((struct sockaddr_in6 *)&attributes.sockaddr)->sin6_port
                        : ((struct sockaddr_in *)&attributes.sockaddr)->sin_port;
    format_text(transport->address, sizeof transport->address, six ? "[%s]:%u" : "%s:%u", host,
                ntohs(port));
    return STATUS_OK;
}

static enum status kv_transport_open_ledger(struct kv_transport *transport, struct error *error) {
    struct transfer_limits limits = {transport->options.grant_count, transport->pages.page_count,
                                     transport->pages.format.slice_count};
    size_t bytes = transfer_ledger_bytes(&limits);
    struct arena arena;
    transport->ledger_memory = malloc(bytes);
    if (!transport->ledger_memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the books of KV transfers");
    arena_over(&arena, transport->ledger_memory, bytes);
    return transfer_ledger_open(&transport->ledger, &arena, &limits);
}

static void write_hello(struct kv_transport *transport) {
    struct kv_wire_hello *hello = &transport->hello;
    *hello = (struct kv_wire_hello){
        .version = KV_WIRE_VERSION,
        .block_version = KV_BLOCK_VERSION,
        .shape = kv_shape_of(&transport->pages.format),
    };
    memcpy(hello->magic, KV_WIRE_MAGIC, sizeof hello->magic);
    memcpy(hello->model_id, transport->options.model_id, sizeof hello->model_id);
    format_text(hello->numerics_id, sizeof hello->numerics_id, "%s",
                transport->options.numerics_id);
}

static void discard(struct kv_transport *transport) {
    if (transport->listener) ucp_listener_destroy(transport->listener);
    if (transport->memory) ucp_mem_unmap(transport->context, transport->memory);
    if (transport->worker) ucp_worker_destroy(transport->worker);
    if (transport->context) ucp_cleanup(transport->context);
    if (transport->wake_file >= 0) close(transport->wake_file);
    if (transport->file >= 0) close(transport->file);
    pthread_mutex_destroy(&transport->lock);
    free(transport->ledger_memory);
    free(transport);
}

enum status kv_transport_open(const struct kv_transport_options *options,
                              struct kv_transport **transport_out, struct error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct kv_transport *transport = calloc(1, sizeof *transport);
    if (!transport) return error_set(error, STATUS_NO_MEMORY, "no memory for a KV transport");
    transport->options = *options;
    transport->pages = *options->pages;
    transport->wake_file = transport->file = -1;
    pthread_mutex_init(&transport->lock, NULL);
    pthread_once(&once, install_ucx_log);
    write_hello(transport);
    in_transport = true; /* mutes messages of UCX about devices that are not found */
    enum status status =
        parse_host(options->host, options->port, &transport->host, &transport->host_bytes, error);
    if (status == STATUS_OK) status = kv_transport_open_ledger(transport, error);
    if (status == STATUS_OK) status = kv_transport_open_worker(transport, error);
    if (status == STATUS_OK) status = open_listener(transport, error);
    in_transport = false;
    if (status == STATUS_OK) {
        transport->wake_file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        transport->file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (transport->wake_file < 0 || transport->file < 0 ||
            pthread_create(&transport->thread, NULL, run, transport))
            status = error_set(error, STATUS_NO_MEMORY, "cannot start the KV transport's thread");
    }
    if (status != STATUS_OK) {
        discard(transport);
        return status;
    }
    pthread_setname_np(transport->thread, "kv-transport");
    *transport_out = transport;
    return STATUS_OK;
}

/* Frees messages that are left when the thread ends. The worker closes the remaining links. */
static void free_rest(struct kv_transport *transport) {
    for (struct outgoing *next; transport->sent; transport->sent = next) {
        next = transport->sent->next;
        free(transport->sent);
    }
    for (struct incoming *next; transport->received; transport->received = next) {
        next = transport->received->next;
        free(transport->received);
    }
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        for (struct outgoing *next, *message = transport->links[i].first; message; message = next) {
            next = message->next;
            free(message);
        }
}

void kv_transport_close(struct kv_transport *transport) {
    if (!transport) return;
    pthread_mutex_lock(&transport->lock);
    transport->finishing = true;
    kick(transport);
    pthread_mutex_unlock(&transport->lock);
    pthread_join(transport->thread, NULL);
    in_transport = true;
    ucp_listener_destroy(transport->listener);
    transport->listener = NULL;
    ucp_mem_unmap(transport->context, transport->memory);
    transport->memory = NULL;
    ucp_worker_destroy(transport->worker);
    transport->worker = NULL;
    free_rest(transport);
    discard(transport);
    in_transport = false;
}

const char *kv_transport_address(const struct kv_transport *transport) {
    return transport->address;
}

int kv_transport_file(const struct kv_transport *transport) {
    return transport->file;
}

/* ---- public functions ---- */

enum status kv_transport_expect(struct kv_transport *transport, struct transfer_grant grant,
                                const struct transfer_block *blocks, uint32_t count,
                                int64_t deadline_ns, struct error *error) {
    pthread_mutex_lock(&transport->lock);
    enum status status =
        transfer_ledger_expect(&transport->ledger, grant, blocks, count, deadline_ns, error);
    if (status == STATUS_OK) kick(transport); /* for the deadline and for early messages */
    pthread_mutex_unlock(&transport->lock);
    return status;
}

bool kv_transport_layers(struct kv_transport *transport, struct transfer_grant grant,
                         uint32_t *layers_out) {
    pthread_mutex_lock(&transport->lock);
    bool open = transfer_ledger_layers(&transport->ledger, grant, layers_out);
    pthread_mutex_unlock(&transport->lock);
    return open;
}

enum status kv_transport_offer(struct kv_transport *transport, struct transfer_grant grant,
                               const char *address, int64_t deadline_ns, struct error *error) {
    enum status status;
    pthread_mutex_lock(&transport->lock);
    struct link *link = kv_transport_link_to(transport, address, &status, error);
    if (link)
        status = transfer_ledger_offer(&transport->ledger, grant, link->id, deadline_ns, error);
    kick(transport);
    pthread_mutex_unlock(&transport->lock);
    return status;
}

enum status kv_transport_push(struct kv_transport *transport, struct transfer_grant grant,
                              uint32_t block, uint32_t slice, const void *rows,
                              uint32_t row_count) {
    struct outgoing message = {
        .kind = KV_WIRE_SLICE,
        .rows = rows,
        .bytes = kv_format_filled_bytes(&transport->pages.format, row_count),
    };
    enum status status = STATUS_OK;
    check(row_count > 0 && row_count <= KV_BLOCK_TOKENS);
    message.header.slice = (struct kv_wire_slice){
        .grant = grant,
        .block = block,
        .slice = slice,
        .rows = row_count,
        .bytes = (uint32_t)message.bytes,
    };
    pthread_mutex_lock(&transport->lock);
    uint64_t queued_bytes = transport->counters.queued_bytes;
    if (queued_bytes && queued_bytes + message.bytes > transport->options.queue_bytes_max) {
        transport->starved = true;
        status = STATUS_FULL;
    } else if (!transfer_ledger_hold(&transport->ledger, grant, &message.slot)) {
        status = STATUS_GONE;
    } else {
        uint64_t peer = transfer_ledger_peer(&transport->ledger, message.slot);
        struct link *link = kv_transport_link_of(transport, peer);
        check(link);
        if (!kv_transport_link_put(transport, link, &message, false)) {
            transfer_ledger_release(&transport->ledger, message.slot);
            status = STATUS_FULL;
        } else if (!link->first->next) {
            kick(transport);
        }
    }
    pthread_mutex_unlock(&transport->lock);
    return status;
}

enum status kv_transport_finish(struct kv_transport *transport, struct transfer_grant grant,
                                const void *summary, uint32_t summary_bytes) {
    struct outgoing message = {.kind = KV_WIRE_FINISH, .slot = TRANSFER_NONE};
    enum status status = STATUS_GONE;
    check(summary_bytes <= TRANSFER_SUMMARY_BYTES);
    struct kv_wire_finish *finish = &message.header.finish;
    *finish = (struct kv_wire_finish){.grant = grant, .summary_bytes = summary_bytes};
    if (summary_bytes) memcpy(finish->summary, summary, summary_bytes);
    pthread_mutex_lock(&transport->lock);
    uint64_t peer;
    if (transfer_ledger_finish_sending(&transport->ledger, grant, &peer, &finish->slice_count)) {
        struct link *link = kv_transport_link_of(transport, peer);
        check(link);
        status = STATUS_OK;
        if (!kv_transport_link_put(transport, link, &message, false))
            transfer_ledger_end(&transport->ledger, TRANSFER_OUT, grant, TRANSFER_CANCELLED,
                                "no memory for the end of a transfer");
        kick(transport);
    }
    pthread_mutex_unlock(&transport->lock);
    return status;
}

bool kv_transport_cancel(struct kv_transport *transport, enum transfer_side side,
                         struct transfer_grant grant) {
    pthread_mutex_lock(&transport->lock);
    bool ended =
        transfer_ledger_end(&transport->ledger, side, grant, TRANSFER_CANCELLED, "cancelled");
    if (ended) kick(transport);
    pthread_mutex_unlock(&transport->lock);
    return ended;
}

bool kv_transport_next(struct kv_transport *transport, struct transfer_ended *ended_out) {
    pthread_mutex_lock(&transport->lock);
    bool any = transfer_ledger_take(&transport->ledger, ended_out);
    if (!any) hush(transport->file);
    pthread_mutex_unlock(&transport->lock);
    return any;
}

void kv_transport_get_state(struct kv_transport *transport, struct kv_transport_state *state_out) {
    pthread_mutex_lock(&transport->lock);
    *state_out = transport->counters;
    state_out->counts = transport->ledger.counts;
    state_out->grants = transport->ledger.used_count;
    state_out->pages = transport->ledger.page_count;
    pthread_mutex_unlock(&transport->lock);
}
