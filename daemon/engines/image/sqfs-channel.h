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

/* Makes the session, which has fd, use the threads' own. 0 or -errno. */
int sqfs_channel_attach(struct fuse_session *se, int fd);
/* Sets what the calling thread reads and writes. */
void sqfs_channel_use(int fd);
/* Another descriptor for the same mount, O_CLOEXEC, or -errno: then threads share the first. */
int sqfs_channel_clone(int fd);

/*
 * Answers the read that this thread has in hand with spans of file fd, if check says so
 * (sqfs-pipe.h). 0: it is answered, or nobody waits for it any more. -EOPNOTSUPP: not possible
 * here; -EIO: the file is shorter; what check says; then it is still to be answered.
 */
int sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n_spans,
			   sqfs_check_fn check, void *arg);
