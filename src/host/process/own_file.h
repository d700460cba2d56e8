/* SPDX-License-Identifier: Apache-2.0
 * Opens files and folders for writing so that no other user can redirect the writes. A folder to
 * which another user can write may contain links in place of this program's files, or files that
 * the other user keeps writing to. So a folder must belong to this user or root. A file in it must
 * be regular, have one name, and belong to this user or the folder's owner. A link in place of a
 * file is not followed.
 *
 * The folders above the named one are trusted as the operator named them; links there are followed.
 */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"

/* Returns STATUS_INVALID if users other than its owner may write to a folder. The error names its
 * mode and the cure. */
enum status own_file_check_mode(int folder, const char *path, struct error *error) MUST_USE;

/* Returns STATUS_INVALID if users other than this one and root can create files in an open folder.
 * The error names its owner or mode, and the cure. A folder of root with the sticky bit, such as
 * /tmp, is accepted, because files in it are checked one by one. If the file system assigns this
 * user's files to another user (NFS that squashes root), folders of that user are accepted. */
enum status own_file_check_folder(int folder, const char *path, struct error *error) MUST_USE;

/* Opens a file as openat does, for writing or reading; `name` is without a folder. Returns -1 with
 * errno: ELOOP if the name is a link, EPERM if the file is not regular, has several names, or
 * belongs to another user. With O_TRUNC a file is checked before it is truncated. */
int own_file_openat(int folder, const char *name, int flags, mode_t mode);

/* own_file_openat for a path; without a folder in it, in the current one. */
int own_file_open(const char *path, int flags, mode_t mode);

/* Opens a file for writing at a path that the operator named. `how`: O_TRUNC to replace a file,
 * which keeps its mode, O_EXCL to fail with EEXIST if the name is taken. Returns NULL with errno on
 * failure. A link of this user or root is followed (/dev/stdout), and a file that is not regular is
 * written to as it is. */
FILE *own_file_named(const char *path, int how, mode_t mode);

/* own_file_named for a report, which is replaced and which others may read. */
FILE *own_file_report(const char *path);

/* strerror, with texts for the two values that own_file_openat sets itself. */
const char *own_file_why(int number);
