/*
 * beneath: opens what lies beneath a directory, wherever links in the path may lead.
 */
#pragma once

#include <dirent.h>
#include <sys/types.h>

/* openat2() with RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS where the kernel
 * has it (5.6), else component by component with O_NOFOLLOW ("..": -EXDEV).
 * Returns an fd (O_CLOEXEC is added) or -errno. */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* The directory name beneath dirfd, or dirfd itself for ".". Its names are read from the first one
 * on, also if another reader uses dirfd. Links are not followed. Caller closes it (dir_closep).
 * NULL with errno. */
DIR *fd_open_dir(int dirfd, const char *name);
