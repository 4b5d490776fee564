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

/* Transfer all of `size`. Return 0 or -errno: -EPIPE if fd_read_all() meets an early end, -EIO if a
 * write accepts no byte. */
int fd_write_all(int fd, const void *data, size_t size);
int fd_read_all(int fd, void *data, size_t size);

/* Do the same at an offset. fd_pread_all() returns the number of bytes, which is less than size
 * only at the end of the file, or -errno. */
int fd_pwrite_all(int fd, const void *data, size_t size, uint64_t offset);
ssize_t fd_pread_all(int fd, void *data, size_t size, uint64_t offset);

/* Reads the rest of fd, at most max bytes, or returns -EFBIG. Adds a NUL. The caller frees
 * *datap. */
int fd_read_file(int fd, size_t max, char **datap, size_t *sizep);

/* Set or clear O_NONBLOCK or FD_CLOEXEC. Return 0 or -errno. */
int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);

/* Opens those of stdin, stdout and stderr that the parent has closed, so that no other file gets
 * their numbers. As with a closed descriptor, a read of stdin fails, and so does a write to the
 * others. */
void fd_fill_standard(void);

/* Opens the file or directory of fd again, with another offset, access mode and read-ahead state
 * (O_CLOEXEC is added). fd may be O_PATH. Returns an fd or -errno. */
int fd_reopen(int fd, int flags);

/* Raises the number of descriptors that this process may have, to its hard limit or to 65,536.
 * Never lowers it. */
void fd_raise_limit(void);

/* Closes all descriptors from `from` on: with close_range(2), else by /proc/self/fd, else up to the
 * limit. */
void fd_close_from(int from);

/* Open a process with pidfd_open (Linux 5.3) and signal it with pidfd_send_signal (5.1). Return
 * -ENOSYS on older kernels. */
int fd_pidfd_open(pid_t pid);
int fd_pidfd_kill(int pidfd, int sig);
