/*
 * This library is preloaded into a worker. It behaves like libfuse from 3.18 on if it was built
 * without custom io: the function exists and fails.
 */
#include <errno.h>

struct fuse_session;
struct fuse_custom_io;

int fuse_session_custom_io(struct fuse_session *se, const struct fuse_custom_io *io, int fd);

int fuse_session_custom_io(struct fuse_session *se, const struct fuse_custom_io *io, int fd)
{
	return -ENOTSUP;
}
