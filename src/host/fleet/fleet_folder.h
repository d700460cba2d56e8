/* SPDX-License-Identifier: Apache-2.0
 * The folder of a fleet's manager: a lock, since there is one manager; the state of units and the
 * operator's settings, for the next manager; orders that wait; the published status; and the load's
 * history.
 *
 *   lock         held by the manager that runs; the kernel frees it with the process
 *   book         the last number given, what is pinned, units with their roles
 *   orders/      a file an order, in the order of their names; taken and removed
 *   status.json, status.txt, metrics.prom     of the last look
 *   history.csv  a line for each 288th of a day
 *   logs/        what each unit prints
 *
 * A file is replaced as a whole, never half.
 */
#ifndef HOST_FLEET_FLEET_FOLDER_H
#define HOST_FLEET_FLEET_FOLDER_H

#include <sys/types.h>

#include "base/bytes.h"
#include "contract/record_fleet.h"
#include "serving/fleet/fleet_keeper.h"

#define FLEET_FOLDER_BYTES_MAX 300 /* of the folder's own path */
#define FLEET_PATH_BYTES 600       /* and a file's name of 255 bytes in a folder of it */

/* Makes what is missing of the folder. */
enum status fleet_folder_make(const char *folder, struct error *error) MUST_USE;

/* GONE: another manager has it; the message names its process. The lock is held until the process
 * ends. */
enum status fleet_folder_lock(const char *folder, struct error *error) MUST_USE;

/* The process that holds the lock; 0: none. */
pid_t fleet_folder_holder(const char *folder);

/* A book that is not there is empty. */
enum status fleet_folder_read_book(const char *folder, struct fleet_book *book_out,
                                   struct error *error) MUST_USE;
enum status fleet_folder_write_book(const char *folder, const struct fleet_book *book,
                                    struct error *error) MUST_USE;

/* Replaces a file of the folder. */
enum status fleet_folder_write(const char *folder, const char *name, struct bytes text,
                               struct error *error) MUST_USE;

/* Adds a line to a file of the folder. */
enum status fleet_folder_append(const char *folder, const char *name, const char *line,
                                struct error *error) MUST_USE;

/* A line of history.csv; false: it has no three numbers at its beginning. */
bool fleet_folder_read_history(const char *line, double *at_s_out, double rates_out[SCALE_SIDES]);

/* For the manager that runs, or the next one. */
enum status fleet_folder_order(const char *folder, const struct record_fleet_order *order,
                               struct error *error) MUST_USE;

/* Takes the oldest order that waits; false: there is none. One that is none is removed, and said;
 * one that cannot be removed gets another name, or is passed over where that fails, too. */
bool fleet_folder_take_order(const char *folder, struct record_fleet_order *order_out);

#endif
