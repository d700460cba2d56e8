/* SPDX-License-Identifier: Apache-2.0
 * A disk whose power can be cut, as SQLite sees it (a VFS over the usual one). It remembers what
 * each file had when it was synced last, and every write and truncation since. The power goes at a
 * chosen call that changes the disk: from then on every call fails, and nothing is written any
 * more. What is then left is drawn by a seed: of each sector of 512 bytes any state since the last
 * sync, independent of all others (so writes are lost, torn and reordered); sizes alike; files that
 * were made or deleted without a sync of their folder are there or not; and the shared memory
 * beside a database is trash.
 *
 * Synced is what SQLite syncs. No call really waits for a disk. One folder at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* SQLite's default from now on. */
void cut_disk_install(void);

/* What lies in files now is durable, except for empty ones. `call`: 1 for the first one that
 * changes the disk; 0: the power stays. `lies`: syncs do nothing, to see that somebody notices. */
void cut_disk_begin(uint64_t call, bool lies);

bool cut_disk_is_cut(void);

/* Writes what is left of all files into another folder, under their own names. Of each four seeds
 * one loses all that was not synced, and one keeps it all. */
void cut_disk_leave(const char *folder, uint64_t seed);

/* This process is killed (-9) at that call of SQLite's, counted from now on: reads, locks and
 * shared memory as well. What it has written stays, as the machine lives on. 0: at none. */
void cut_disk_kill_at(uint64_t call);

/* Forgets everything. All files are closed. */
void cut_disk_end(void);
