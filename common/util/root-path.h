/*
 * root-path: opens a directory by a path that another process has sent, if all parts of the path
 * belong to root.
 *
 * Each component is opened by itself, without following it, and checked by its descriptor. It must
 * be a directory of root to which nobody else may write (the sticky bit is not enough), or a link
 * of root, whose text is walked in the same way from the caller's root directory. So the kernel
 * follows no link, also no magic link of /proc, and only root can replace the result. A FUSE file
 * system that a user has mounted is refused, because its server could report root as the owner. No
 * such server is asked.
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
