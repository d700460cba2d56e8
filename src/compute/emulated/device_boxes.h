/* SPDX-License-Identifier: Apache-2.0
 * The link between emulated devices of several processes: an anonymous file in memory, with a box
 * for each ordered pair of devices. A message goes through its box in pieces, and is sent when the
 * receiver has taken the last: nothing is buffered, as a GPU promises no buffer. All processes are
 * on one machine, also if their hosts have different names. Private to device_emulated.c.
 */
#ifndef COMPUTE_EMULATED_DEVICE_BOXES_H
#define COMPUTE_EMULATED_DEVICE_BOXES_H

#include "compute/device/device.h"

/* A message under way. */
struct device_message {
    char *memory;
    size_t bytes, done;
    uint32_t peer;
    bool receives;
    bool is_over;
};

/* Messages that move at the same time, but for those between the same two devices: one follows the
 * other. */
struct device_group {
    uint64_t turn; /* among the link's groups */
    uint32_t count;
    struct device_message messages[];
};

/* The file lives as long as the first device that opens it. */
enum status device_boxes_name(uint32_t count, struct device_link_name *name_out,
                              struct error *error) MUST_USE;
/* STATUS_IO: who named it has ended, or closed it. */
enum status device_boxes_open(const struct device_link_name *name, uint32_t count, uint32_t own,
                              struct device_link **link_out, struct error *error) MUST_USE;
void device_boxes_close(struct device_link *link);

bool device_boxes_is_whole(const struct device_link *link); /* all have opened it */
/* Whether device_boxes_move would do anything. */
bool device_boxes_may_move(const struct device_link *link, const struct device_message *message);
/* Moves a piece, or ends the message. False: the other side's message is of another size. */
bool device_boxes_move(struct device_link *link, struct device_message *message);
/* Until peers are looked at again. */
void device_boxes_rest(void);

/* The fault of a list; NULL: none. */
const char *device_boxes_fault(const struct device_link *link, const struct device_transfer *list,
                               uint32_t count);
/* The link's next. */
struct device_group *device_boxes_group_open(struct device_link *link,
                                             const struct device_transfer *list, uint32_t count);
/* It is over, and the next one's turn; `link` is NULL if it was closed. */
void device_boxes_group_close(struct device_link *link, struct device_group *group);
bool device_boxes_group_is_over(const struct device_group *group);
/* It is its turn, and a message may move or all are over. */
bool device_boxes_group_may_move(const struct device_link *link, const struct device_group *group);
/* One that may move, if any may: the first from `index` on. */
struct device_message *device_boxes_group_next(const struct device_link *link,
                                               struct device_group *group, uint32_t index);

#endif
