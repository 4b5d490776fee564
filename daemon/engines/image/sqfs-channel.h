/*
 * sqfs-channel: the descriptor from which a server thread reads requests and to which it writes
 * answers. Each thread may have its own descriptor, a clone of the session's; the kernel expects
 * the answer on the descriptor that the request came from.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/image/sqfs-pipe.h"

struct fuse_session;

/* Makes the session, whose descriptor is fd, use the threads' own descriptors. Returns 0 or
 * -errno. */
int sqfs_channel_attach(struct fuse_session *se, int fd);
/* Sets the descriptor that the calling thread reads from and writes to. */
void sqfs_channel_use(int fd);
/* Makes another descriptor for the same mount, O_CLOEXEC. Returns it or -errno; then the threads
 * share the first one. */
int sqfs_channel_clone(int fd);

/*
 * Answers this thread's current read request with spans of file fd, if check returns 0
 * (sqfs-pipe.h). Returns 0: the request is answered, or its reader has gone. After an error, it
 * must still be answered: -EOPNOTSUPP: not possible here; -EIO: the file is shorter; or the error
 * of check.
 */
int sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n_spans,
			   sqfs_check_fn check, void *arg);
