/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/emulated/device_boxes.h"

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
    uint64_t bytes; /* of the piece */
    char piece[PIECE_BYTES];
};

struct device_link {
    uint32_t count, own;
    int file; /* of the first, which keeps it; -1: another's */
    size_t mapped;
    uint64_t opened, closed; /* groups */
    _Atomic bool *here;      /* [count] where the file begins */
    char *boxes;             /* [count][count] from, to */
};

static size_t boxes_at(uint32_t count) {
    return round_up(count * sizeof(_Atomic bool), BOX_ALIGN);
}

static size_t device_boxes_box_bytes(void) {
    return round_up(sizeof(struct link_box), BOX_ALIGN);
}

static size_t file_bytes(uint32_t count) {
    return boxes_at(count) + (size_t)count * count * device_boxes_box_bytes();
}

enum status device_boxes_name(uint32_t count, struct device_link_name *name_out,
                              struct error *error) {
    struct shared_file is;
    if (shared_file_make(file_bytes(count), &is) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a link of %u emulated devices",
                         count);
    *name_out = (struct device_link_name){{0}};
    memcpy(name_out, &is, sizeof is);
    return STATUS_OK;
}

enum status device_boxes_open(const struct device_link_name *name, uint32_t count, uint32_t own,
                              struct device_link **link_out, struct error *error) {
    struct device_link *link = calloc(1, sizeof *link);
    struct shared_file is;
    check(own < count);
    memcpy(&is, name, sizeof is);
    size_t mapped = file_bytes(count);
    int file = own ? shared_file_open(&is, mapped) : (int)is.file;
    char *memory = link && file >= 0
                       ? mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (file >= 0 && (own || memory == MAP_FAILED)) close(file);
    if (memory == MAP_FAILED) {
        free(link);
        return error_set(
            error, STATUS_IO,
            "an emulated device's link cannot be opened: who named it has ended, or is "
            "on another machine; --experiment device-rows=host does without links");
    }
    *link = (struct device_link){.count = count,
                                 .own = own,
                                 .file = own ? -1 : file,
                                 .mapped = mapped,
                                 .here = (_Atomic bool *)(void *)memory,
                                 .boxes = memory + boxes_at(count)};
    atomic_store(&link->here[own], true);
    *link_out = link;
    return STATUS_OK;
}

void device_boxes_close(struct device_link *link) {
    munmap((void *)link->here, link->mapped);
    if (link->file >= 0) close(link->file);
    free(link);
}

bool device_boxes_is_whole(const struct device_link *link) {
    for (uint32_t i = 0; i < link->count; i++)
        if (!atomic_load(&link->here[i])) return false;
    return true;
}

static struct link_box *box_of(const struct device_link *link,
                               const struct device_message *message) {
    size_t from = message->receives ? message->peer : link->own;
    size_t to = message->receives ? link->own : message->peer;
    char *box = link->boxes + (from * link->count + to) * device_boxes_box_bytes();
    return (struct link_box *)(void *)box;
}

bool device_boxes_may_move(const struct device_link *link, const struct device_message *message) {
    if (message->is_over) return false;
    return atomic_load(&box_of(link, message)->is_full) == message->receives;
}

static void put(struct link_box *box, struct device_message *message) {
    size_t left = message->bytes - message->done, bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    box->message_bytes = message->bytes;
    box->bytes = bytes;
    memcpy(box->piece, message->memory + message->done, bytes);
    message->done += bytes;
    atomic_store(&box->is_full, true);
}

bool device_boxes_move(struct device_link *link, struct device_message *message) {
    struct link_box *box = box_of(link, message);
    if (!device_boxes_may_move(link, message)) return true;
    if (!message->receives) {
        if (message->done == message->bytes)
            message->is_over = true; /* the last piece has been taken */
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

void device_boxes_rest(void) {
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
}

/* ---- groups ---- */

const char *device_boxes_fault(const struct device_link *link, const struct device_transfer *list,
                               uint32_t count) {
    if (!device_boxes_is_whole(link)) return "over a link that has not settled";
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].peer >= link->count || list[i].peer == link->own)
            return "to a device that is not another of the link";
        if (!list[i].bytes) return "of no bytes";
    }
    return NULL;
}

struct device_group *device_boxes_group_open(struct device_link *link,
                                             const struct device_transfer *list, uint32_t count) {
    struct device_group *group = calloc(1, sizeof *group + count * sizeof *group->messages);
    check(group); /* some bytes for each peer */
    group->turn = link->opened++;
    group->count = count;
    for (uint32_t i = 0; i < count; i++)
        group->messages[i] = (struct device_message){.memory = list[i].memory,
                                                     .bytes = list[i].bytes,
                                                     .peer = list[i].peer,
                                                     .receives = list[i].receives};
    return group;
}

void device_boxes_group_close(struct device_link *link, struct device_group *group) {
    if (link) link->closed++;
    free(group);
}

bool device_boxes_group_is_over(const struct device_group *group) {
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

static bool device_boxes_may_move_each(const struct device_link *link,
                                       const struct device_group *group, uint32_t index) {
    return device_boxes_may_move(link, &group->messages[index]) && !is_behind(group, index);
}

bool device_boxes_group_may_move(const struct device_link *link, const struct device_group *group) {
    if (group->turn != link->closed) return false;
    for (uint32_t i = 0; i < group->count; i++)
        if (device_boxes_may_move_each(link, group, i)) return true;
    return device_boxes_group_is_over(group);
}

struct device_message *device_boxes_group_next(const struct device_link *link,
                                               struct device_group *group, uint32_t index) {
    for (uint32_t i = 0; i < group->count && !device_boxes_may_move_each(link, group, index); i++)
        index = (index + 1) % group->count;
    return &group->messages[index];
}
