/* SPDX-License-Identifier: Apache-2.0
 * Files and folders that we write to, opened so that no other user can choose what is written to. A
 * folder that another user owns, or where others may write, can have links in the place of our
 * files, and files that others go on writing to. So a folder has to be ours or root's. A file in
 * it has to be regular, to have one name, and to be ours or the folder owner's. No link is
 * followed to a file.
 *
 * Names of folders above the one that is named are the operator's word, and are followed.
 */
#ifndef HOST_PROCESS_OWN_FILE_H
#define HOST_PROCESS_OWN_FILE_H

#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"

/* STATUS_INVALID where others than the folder's owner may write to it; the error names its mode and
 * the cure. */
enum status own_file_check_mode(int folder, const char *path, struct error *error) MUST_USE;

/* Is an open folder one that only we (or root) can put files into? STATUS_INVALID names its owner or
 * its mode, and the cure. A folder with the sticky bit, such as /tmp, is good if it is root's: files in
 * it are looked at one by one. Where the file system gives our files to another user (NFS that squashes
 * root), that user's folders are ours. */
enum status own_file_check_folder(int folder, const char *path, struct error *error) MUST_USE;

/* Opens a file as openat does, for writing or reading; `name` has no folder in it. -1 with errno:
 * ELOOP where the name is a link, EPERM where the file is not regular, has another name too, or is
 * another user's. A file that is cut (O_TRUNC) is looked at before. */
int own_file_openat(int folder, const char *name, int flags, mode_t mode);

/* Does own_file_openat in the folder that the path names (none: the current one). */
int own_file_open(const char *path, int flags, mode_t mode);

/* For a report or the like that the operator names, over an old one or into a new one; NULL with
 * errno. A link is followed if it is ours or root's (/dev/stdout), and what is no regular file is
 * written to as it is. */
FILE *own_file_report(const char *path);

/* strerror, but for the two that own_file_openat sets on its own account. */
const char *own_file_why(int number);

#endif
