/* SPDX-License-Identifier: Apache-2.0
 * NCCL is loaded at its first use, so a program needs it only if ranks of several hosts have GPUs.
 * Communicators are nonblocking: joining, and the connections of a first group, progress while
 * device_nccl_ready is polled, and the caller can give up.
 */
#include "compute/device/device_nccl.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"
_Static_assert(sizeof(ncclUniqueId) == sizeof(struct device_comm_id), "a name is NCCL's");

struct nccl_comm { /* struct device_comm * points to it */
    ncclComm_t communicator;
    ncclResult_t failure; /* the first error of a group */
};

static struct nccl_comm *nccl_of(struct device_comm *comm) {
    return (struct nccl_comm *)(void *)comm;
}

/* Filled by the first load, before any other call. */
static struct {
    pthread_mutex_t lock;
    bool is_loaded;
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    ncclResult_t (*init_rank)(ncclComm_t *communicator, int count, ncclUniqueId id, int rank,
                              ncclConfig_t *config);
    ncclResult_t (*abort)(ncclComm_t communicator);
    ncclResult_t (*get_async_error)(ncclComm_t communicator, ncclResult_t *state);
    ncclResult_t (*send)(const void *from, size_t count, ncclDataType_t type, int peer,
                         ncclComm_t communicator, cudaStream_t stream);
    ncclResult_t (*receive)(void *to, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t communicator, cudaStream_t stream);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    const char *(*error_text)(ncclResult_t result);
} nccl = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *library, const char *name, void *function_out) {
    void *address = dlsym(library, name);
    memcpy(function_out, &address, sizeof address);
    return address != NULL;
}

static bool find_all(void *library) {
    return find(library, "ncclGetUniqueId", &nccl.get_unique_id) &&
           find(library, "ncclCommInitRankConfig", &nccl.init_rank) &&
           find(library, "ncclCommAbort", &nccl.abort) &&
           find(library, "ncclCommGetAsyncError", &nccl.get_async_error) &&
           find(library, "ncclSend", &nccl.send) && find(library, "ncclRecv", &nccl.receive) &&
           find(library, "ncclGroupStart", &nccl.group_start) &&
           find(library, "ncclGroupEnd", &nccl.group_end) &&
           find(library, "ncclGetErrorString", &nccl.error_text);
}

enum status device_nccl_load(struct error *error) {
    pthread_mutex_lock(&nccl.lock);
    void *library = nccl.is_loaded ? NULL : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library) nccl.is_loaded = find_all(library);
    bool is_loaded = nccl.is_loaded;
    pthread_mutex_unlock(&nccl.lock);
    if (is_loaded) return STATUS_OK;
    return error_set(
        error, STATUS_IO,
        "ranks of several hosts pass rows from GPU to GPU by NCCL, but " LIBRARY
        " cannot be loaded (%s): install it on each host (LD_LIBRARY_PATH says where), "
        "or do without, on all: --experiment device-rows=host",
        library ? "functions are missing" : "it is not found");
}

static enum status failed(ncclResult_t result, const char *what, struct error *error) {
    return error_set(error, STATUS_IO, "%s: NCCL says '%s'", what, nccl.error_text(result));
}

static bool device_nccl_is_bad(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
}

enum status device_nccl_name(struct device_comm_id *id_out, struct error *error) {
    ncclUniqueId id;
    ncclResult_t result = nccl.get_unique_id(&id);
    if (device_nccl_is_bad(result)) return failed(result, "a link's name", error);
    memcpy(id_out, &id, sizeof id);
    return STATUS_OK;
}

enum status device_nccl_open(const struct device_comm_id *id, uint32_t count, uint32_t own,
                             struct device_comm **comm_out, struct error *error) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    struct nccl_comm *comm = calloc(1, sizeof *comm);
    if (!comm) return error_set(error, STATUS_NO_MEMORY, "no memory for a communicator");
    memcpy(&unique, id, sizeof unique);
    config.blocking = 0;
    ncclResult_t result =
        nccl.init_rank(&comm->communicator, (int)count, unique, (int)own, &config);
    if (device_nccl_is_bad(result)) {
        if (comm->communicator) nccl.abort(comm->communicator);
        free(comm);
        return failed(result, "a communicator", error);
    }
    *comm_out = (struct device_comm *)(void *)comm;
    return STATUS_OK;
}

/* Aborts in any case: an orderly end would wait for ranks that may be dead. */
void device_nccl_close(struct device_comm *comm) {
    nccl.abort(nccl_of(comm)->communicator);
    free(comm);
}

enum status device_nccl_ready(struct device_comm *comm, bool *ready_out, struct error *error) {
    ncclResult_t state = nccl_of(comm)->failure;
    if (state == ncclSuccess) {
        ncclResult_t asked = nccl.get_async_error(nccl_of(comm)->communicator, &state);
        if (asked != ncclSuccess) state = asked;
    }
    if (device_nccl_is_bad(state)) return failed(state, "a link to other ranks", error);
    *ready_out = state == ncclSuccess;
    return STATUS_OK;
}

static void device_nccl_note(struct nccl_comm *comm, ncclResult_t result) {
    if (device_nccl_is_bad(result) && comm->failure == ncclSuccess) comm->failure = result;
}

void device_nccl_transfer(void *stream, struct device_comm *comm,
                          const struct device_transfer *list, uint32_t count) {
    struct nccl_comm *of = nccl_of(comm);
    device_nccl_note(of, nccl.group_start());
    for (uint32_t i = 0; i < count; i++) {
        const struct device_transfer *one = &list[i];
        device_nccl_note(of, one->receives ? nccl.receive(one->memory, one->bytes, ncclInt8,
                                                          (int)one->peer, of->communicator, stream)
                                           : nccl.send(one->memory, one->bytes, ncclInt8,
                                                       (int)one->peer, of->communicator, stream));
    }
    device_nccl_note(of, nccl.group_end());
}
