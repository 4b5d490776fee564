/*
 * beneath: opens what lies beneath a directory, wherever links in the path may lead.
 */
#pragma once

#include <dirent.h>
#include <sys/types.h>

/*
 * Uses openat2() with RESOLVE_BENEATH
 * RESOLVE_NO_SYMLINKS
 * RESOLVE_NO_MAGICLINKS if the kernel has it (5.6), or else opens each component with O_NOFOLLOW
 * ("..": -EXDEV). Returns an fd (O_CLOEXEC is added) or -errno.
 */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* Opens the directory `name` in dirfd, or dirfd itself for ".". Reading starts at the first entry,
 * even if another reader uses dirfd. Links are not followed. The caller closes it (dir_closep).
 * Returns NULL with errno on failure. */
DIR *fd_open_dir(int dirfd, const char *name);
