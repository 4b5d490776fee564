/*
 * fd: descriptors. Reads and writes through them are complete or fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/beneath.h"
#include "common/util/clock.h"

/* All of size, or -errno (-EPIPE at an early end for fd_read_all; -EIO where a write takes
 * nothing). */
int fd_write_all(int fd, const void *data, size_t size);
int fd_read_all(int fd, void *data, size_t size);

/* The same at an offset. fd_pread_all() returns less than size only at the end of the file, or
 * -errno. */
int fd_pwrite_all(int fd, const void *data, size_t size, uint64_t offset);
ssize_t fd_pread_all(int fd, void *data, size_t size, uint64_t offset);

/* The rest of fd, at most max bytes (-EFBIG beyond), NUL-terminated for convenience.
 * Caller frees *datap. */
int fd_read_file(int fd, size_t max, char **datap, size_t *sizep);

int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);

/* The same file or directory once more, with an offset, a mode of access and a read-ahead of its
 * own (O_CLOEXEC is added). fd may be an O_PATH. -errno. */
int fd_reopen(int fd, int flags);

/* As many descriptors as this process may have: up to 65,536, or as many as it has already. */
void fd_raise_limit(void);

/* Closes every fd >= from: close_range(2), else /proc/self/fd, else up to the limit. */
void fd_close_from(int from);

/* A process held by a descriptor: pidfd_open (5.3) / pidfd_send_signal (5.1) or -ENOSYS. */
int fd_pidfd_open(pid_t pid);
int fd_pidfd_kill(int pidfd, int sig);
