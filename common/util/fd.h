/*
 * fd: descriptors and what is read and written through them, whole or not at all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/beneath.h"
#include "common/util/clock.h"
#include "common/util/fd-close.h"
#include "common/util/pidfd.h"

/* All of size, or -errno (-EPIPE at an early end for fd_read_all). */
int fd_write_all(int fd, const void *data, size_t size);
int fd_read_all(int fd, void *data, size_t size);

/* The rest of fd, at most max bytes (-EFBIG beyond), NUL-terminated for convenience.
 * Caller frees *datap. */
int fd_read_file(int fd, size_t max, char **datap, size_t *sizep);

int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);

/* The same file or directory once more, with an offset, a mode of access and a read-ahead of its
 * own (O_CLOEXEC is added). fd may be an O_PATH. -errno. */
int fd_reopen(int fd, int flags);
