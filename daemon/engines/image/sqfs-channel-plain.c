/*
 * For libfuse before 3.14, which has no custom io: all threads share the session's descriptor, and
 * libfuse decides the answer to INIT.
 */
#include "daemon/engines/image/sqfs-channel.h"

#include <errno.h>

int sqfs_channel_attach(struct fuse_session *se, int fd)
{
	return 0;
}

void sqfs_channel_use(int fd)
{
}

int sqfs_channel_clone(int fd)
{
	return -EOPNOTSUPP;
}

int sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n_spans,
			   sqfs_check_fn check, void *arg)
{
	return -EOPNOTSUPP;
}
