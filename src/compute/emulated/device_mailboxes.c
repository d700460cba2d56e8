/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/emulated/device_mailboxes.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/shared_file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)16 << 10)
#define BOX_ALIGN 4096
#define REST_NS 20000

struct link_box {
    _Atomic bool is_full;
    uint64_t message_bytes;
    uint64_t bytes; /* bytes of the piece */
    char piece[PIECE_BYTES];
};

struct device_comm {
    uint32_t count, own;
    int file; /* of the device that made the file; -1: of another device */
    size_t mapped;
    uint64_t opened, closed; /* groups so far */
    _Atomic bool *here;      /* [count] where the file begins */
    char *boxes;             /* [count][count] from, to */
};

static size_t boxes_at(uint32_t count) {
    return round_up(count * sizeof(_Atomic bool), BOX_ALIGN);
}

static size_t device_mailboxes_box_bytes(void) {
    return round_up(sizeof(struct link_box), BOX_ALIGN);
}

static size_t file_bytes(uint32_t count) {
    return boxes_at(count) + (size_t)count * count * device_mailboxes_box_bytes();
}

enum status device_mailboxes_name(uint32_t count, struct device_comm_id *id_out,
                                  struct error *error) {
    struct shared_file is;
    if (shared_file_create(file_bytes(count), &is) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a link of %u emulated devices",
                         count);
    *id_out = (struct device_comm_id){{0}};
    memcpy(id_out, &is, sizeof is);
    return STATUS_OK;
}

enum status device_mailboxes_open(const struct device_comm_id *id, uint32_t count, uint32_t own,
                                  struct device_comm **comm_out, struct error *error) {
    struct device_comm *comm = calloc(1, sizeof *comm);
    struct shared_file is;
    check(own < count);
    memcpy(&is, id, sizeof is);
    size_t mapped = file_bytes(count);
    int file = own ? shared_file_open(&is, mapped) : (int)is.file;
    char *memory = comm && file >= 0
                       ? mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (file >= 0 && (own || memory == MAP_FAILED)) close(file);
    if (memory == MAP_FAILED) {
        free(comm);
        return error_set(
            error, STATUS_IO,
            "an emulated device's link cannot be opened: the process that created it has ended, or "
            "is on another machine; --experiment device-rows=host needs no links");
    }
    *comm = (struct device_comm){.count = count,
                                 .own = own,
                                 .file = own ? -1 : file,
                                 .mapped = mapped,
                                 .here = (_Atomic bool *)(void *)memory,
                                 .boxes = memory + boxes_at(count)};
    atomic_store(&comm->here[own], true);
    *comm_out = comm;
    return STATUS_OK;
}

void device_mailboxes_close(struct device_comm *comm) {
    munmap((void *)comm->here, comm->mapped);
    if (comm->file >= 0) close(comm->file);
    free(comm);
}

bool device_mailboxes_is_whole(const struct device_comm *comm) {
    for (uint32_t i = 0; i < comm->count; i++)
        if (!atomic_load(&comm->here[i])) return false;
    return true;
}

static struct link_box *box_of(const struct device_comm *comm,
                               const struct device_message *message) {
    size_t from = message->receives ? message->peer : comm->own;
    size_t to = message->receives ? comm->own : message->peer;
    char *box = comm->boxes + (from * comm->count + to) * device_mailboxes_box_bytes();
    return (struct link_box *)(void *)box;
}

bool device_mailboxes_may_move(const struct device_comm *comm,
                               const struct device_message *message) {
    if (message->is_over) return false;
    return atomic_load(&box_of(comm, message)->is_full) == message->receives;
}

static void put(struct link_box *box, struct device_message *message) {
    size_t left = message->bytes - message->done, bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    box->message_bytes = message->bytes;
    box->bytes = bytes;
    memcpy(box->piece, message->memory + message->done, bytes);
    message->done += bytes;
    atomic_store(&box->is_full, true);
}

bool device_mailboxes_move(struct device_comm *comm, struct device_message *message) {
    struct link_box *box = box_of(comm, message);
    if (!device_mailboxes_may_move(comm, message)) return true;
    if (!message->receives) {
        if (message->done == message->bytes)
            message->is_over = true; /* whether the last piece has been received */
        else
            put(box, message);
        return true;
    }
    if (box->message_bytes != message->bytes) return false;
    memcpy(message->memory + message->done, box->piece, box->bytes);
    message->done += box->bytes;
    message->is_over = message->done == message->bytes;
    atomic_store(&box->is_full, false);
    return true;
}

void device_mailboxes_rest(void) {
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

/* ---- groups ---- */

const char *device_mailboxes_fault(const struct device_comm *comm,
                                   const struct device_transfer *list, uint32_t count) {
    if (!device_mailboxes_is_whole(comm)) return "over a link that has not settled";
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].peer >= comm->count || list[i].peer == comm->own)
            return "to a device that is not another of the link";
        if (!list[i].bytes) return "of no bytes";
    }
    return NULL;
}

struct device_group *device_mailboxes_group_open(struct device_comm *comm,
                                                 const struct device_transfer *list,
                                                 uint32_t count) {
    struct device_group *group = calloc(1, sizeof *group + count * sizeof *group->messages);
    check(group); /* some bytes for each peer */
    group->turn = comm->opened++;
    group->count = count;
    for (uint32_t i = 0; i < count; i++)
        group->messages[i] = (struct device_message){.memory = list[i].memory,
                                                     .bytes = list[i].bytes,
                                                     .peer = list[i].peer,
                                                     .receives = list[i].receives};
    return group;
}

void device_mailboxes_group_close(struct device_comm *comm, struct device_group *group) {
    if (comm) comm->closed++;
    free(group);
}

bool device_mailboxes_group_is_over(const struct device_group *group) {
    for (uint32_t i = 0; i < group->count; i++)
        if (!group->messages[i].is_over) return false;
    return true;
}

static bool is_behind(const struct device_group *group, uint32_t index) {
    const struct device_message *message = &group->messages[index];
    for (uint32_t i = 0; i < index; i++) {
        const struct device_message *before = &group->messages[i];
        if (!before->is_over && before->peer == message->peer &&
            before->receives == message->receives)
            return true;
    }
    return false;
}

static bool device_mailboxes_may_move_each(const struct device_comm *comm,
                                           const struct device_group *group, uint32_t index) {
    return device_mailboxes_may_move(comm, &group->messages[index]) && !is_behind(group, index);
}

bool device_mailboxes_group_may_move(const struct device_comm *comm,
                                     const struct device_group *group) {
    if (group->turn != comm->closed) return false;
    for (uint32_t i = 0; i < group->count; i++)
        if (device_mailboxes_may_move_each(comm, group, i)) return true;
    return device_mailboxes_group_is_over(group);
}

struct device_message *device_mailboxes_group_next(const struct device_comm *comm,
                                                   struct device_group *group, uint32_t index) {
    for (uint32_t i = 0; i < group->count && !device_mailboxes_may_move_each(comm, group, index);
         i++)
        index = (index + 1) % group->count;
    return &group->messages[index];
}
