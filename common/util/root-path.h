/*
 * root-path: opens a directory by a path from somebody else, if all parts of the path belong to
 * root.
 *
 * Each component is opened by itself, without following it, and looked at by its descriptor: it is
 * a directory of root's that nobody else may write to (a sticky one is not enough), or a link of
 * root's, whose text is walked in the same way from the caller's own root. So the kernel follows
 * nothing, magic links of /proc least of all, and what is at the end can't be exchanged by anybody
 * but root. No server of a user's file system is asked, and a FUSE file system that a user has
 * mounted is refused: its server would say that it is root's.
 */
#pragma once

#include <stdbool.h>

/* Returns an O_PATH descriptor, or -EPERM: a part of the path does not belong to root or is
 * writable by others, or the path is not absolute or contains ".." (links of root may contain it);
 * -ENOTDIR, -ENOENT, -ELOOP, …. */
int root_path_open(const char *path);

/* Does the same for the directory that contains a file. *namep: the file's name, a part of path.
 * Returns -EPERM if path has no such part. */
int root_path_open_above(const char *path, const char **namep);

/* Returns whether path contains ".." after its first name. */
bool root_path_climbs(const char *path);
