/*
 * Preloaded into a worker: libfuse as it is built from 3.18 on, without custom io. The function is
 * there, and fails.
 */
#include <errno.h>

struct fuse_session;
struct fuse_custom_io;

int fuse_session_custom_io(struct fuse_session *se, const struct fuse_custom_io *io, int fd);

int fuse_session_custom_io(struct fuse_session *se, const struct fuse_custom_io *io, int fd)
{
	return -ENOTSUP;
}
