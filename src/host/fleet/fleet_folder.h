/* SPDX-License-Identifier: Apache-2.0
 * The folder of a fleet manager: a lock, because a fleet has one manager; the state of units and
 * the operator's settings, for the next manager; pending commands; the published status; the
 * history of the load.
 *
 *   lock         held by the running manager; the kernel releases it with the process
 *   book         the last number assigned, pinned counts, units with their roles
 *   orders/      one file per command, in the order of names; read and removed
 *   status.json, status.txt, metrics.prom     of the last round
 *   history.csv  one line for each 288th of a day
 *   logs/        output of each unit
 *
 * Files are replaced atomically.
 */
#pragma once

#include <sys/types.h>

#include "base/bytes.h"
#include "contract/record_fleet.h"
#include "serving/fleet/fleet_keeper.h"

#define FLEET_FOLDER_BYTES_MAX 300 /* limit of the folder's path */
#define FLEET_PATH_BYTES 600       /* the folder's path and a file name of 255 bytes */

/* Creates the folder, as far as it is missing. */
enum status fleet_folder_make(const char *folder, struct error *error) MUST_USE;

/* Locks the folder until the process ends. Returns GONE if another manager has the lock; the
 * message names its process. */
enum status fleet_folder_lock(const char *folder, struct error *error) MUST_USE;

/* The process that holds the lock; 0: none. */
pid_t fleet_folder_holder(const char *folder);

/* Reads the book. A missing book is empty. */
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

/* Parses a line of history.csv. Returns false if it does not begin with three numbers. */
bool fleet_folder_read_history(const char *line, double *at_s_out, double rates_out[SCALE_SIDES]);

/* Writes a command for the running manager, or for the next one. */
enum status fleet_folder_write_command(const char *folder,
                                       const struct record_fleet_command *command,
                                       struct error *error) MUST_USE;

/* Takes the oldest pending command; false if there is none. An invalid one is removed and logged. A
 * file that cannot be removed is renamed, or skipped if that fails, too. */
bool fleet_folder_take_command(const char *folder, struct record_fleet_command *command_out);
