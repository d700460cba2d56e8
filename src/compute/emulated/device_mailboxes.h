/* SPDX-License-Identifier: Apache-2.0
 * The communicator of emulated devices in several processes: an anonymous shared file with a
 * mailbox for each ordered pair of devices. A message passes through its mailbox in pieces, and is
 * sent when the receiver has taken the last one; nothing is buffered, because a GPU guarantees no
 * buffer. All processes are on one machine, even if their hosts have different names. Private to
 * device_emulated.c.
 */
#pragma once

#include "compute/device/device.h"

/* A message in progress. */
struct device_message {
    char *memory;
    size_t bytes, done;
    uint32_t peer;
    bool receives;
    bool is_over;
};

/* Messages of a group progress at the same time, except that those between the same two devices are
 * in order. */
struct device_group {
    uint64_t turn; /* number among the communicator's groups */
    uint32_t count;
    struct device_message messages[];
};

/* The file exists until the device that made the id closes it. */
enum status device_mailboxes_name(uint32_t count, struct device_comm_id *id_out,
                                  struct error *error) MUST_USE;
/* STATUS_IO: the process that made the id has ended, or closed it. */
enum status device_mailboxes_open(const struct device_comm_id *id, uint32_t count, uint32_t own,
                                  struct device_comm **comm_out, struct error *error) MUST_USE;
void device_mailboxes_close(struct device_comm *comm);

bool device_mailboxes_is_whole(
    const struct device_comm *comm); /* whether all devices have opened it */
/* Whether device_mailboxes_move would make progress. */
bool device_mailboxes_may_move(const struct device_comm *comm,
                               const struct device_message *message);
/* Moves a piece, or ends the message. False: the other side's message has another size. */
bool device_mailboxes_move(struct device_comm *comm, struct device_message *message);
/* Sleeps before the next poll of the peers. */
void device_mailboxes_rest(void);

/* The error in a list; NULL: none. */
const char *device_mailboxes_fault(const struct device_comm *comm,
                                   const struct device_transfer *list, uint32_t count);
/* Opens the communicator's next group. */
struct device_group *device_mailboxes_group_open(struct device_comm *comm,
                                                 const struct device_transfer *list,
                                                 uint32_t count);
/* Closes a group, so that the next one can run; `comm` is NULL if it was closed. */
void device_mailboxes_group_close(struct device_comm *comm, struct device_group *group);
bool device_mailboxes_group_is_over(const struct device_group *group);
/* Whether it is the group's turn and it can progress or end. */
bool device_mailboxes_group_may_move(const struct device_comm *comm,
                                     const struct device_group *group);
/* A message that can progress, if any: the first from `index` on. */
struct device_message *device_mailboxes_group_next(const struct device_comm *comm,
                                                   struct device_group *group, uint32_t index);
