/*
 * beneath: opens a path below a directory, and never follows a link.
 */
#pragma once

#include <dirent.h>
#include <sys/types.h>

/*
 * Uses openat2() with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS (Linux 5.6).
 * Without openat2(), opens one component at a time with O_NOFOLLOW, and refuses ".." (-EXDEV).
 * O_CLOEXEC is added. Returns a descriptor or -errno.
 */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* Opens the directory `name` in dirfd, or dirfd itself for ".". Reading starts at the first entry,
 * even if another reader uses dirfd. Links are not followed. The caller closes it (dir_closep).
 * Returns NULL with errno on failure. */
DIR *fd_open_dir(int dirfd, const char *name);
