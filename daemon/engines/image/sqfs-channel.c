/*
 * libfuse uses cloned descriptors only inside its own loop, which creates and ends a thread for
 * nearly each request. With its custom io, we can have our own loop and one descriptor for each
 * thread. The answer to INIT passes through here, too, and gets a bit that libfuse never sends,
 * whatever options it gets (seen in 3.14): without FUSE_PARALLEL_DIROPS the kernel looks up the
 * names of one directory one after the other.
 *
 * From 3.18 on libfuse may be built without custom io. The function is there and fails, so this can
 * change under an installed program. Then the session is used as libfuse made it: all threads share
 * its descriptor, the answer to INIT is libfuse's, and an answer is copied instead of spliced.
 */
#define FUSE_USE_VERSION 314
#include "daemon/engines/image/sqfs-channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fuse_lowlevel.h>
#include <linux/fuse.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-pipe.h"

static bool channel_is_shared;	 /* libfuse does not support functions for reading and writing */
static int channel_session = -1; /* each process serves only one mount */
static _Thread_local int channel_fd = -1;
static _Thread_local uint64_t channel_unique; /* number of this thread's current request */
static _Thread_local uint64_t channel_init;   /* number of an INIT request that offers parallel
					       * look-ups */

static void channel_note_init(const void *buf, size_t size)
{
	struct fuse_in_header in;
	struct fuse_init_in init;

	if (size < sizeof(in) + offsetof(struct fuse_init_in, flags) + sizeof(init.flags))
		return;
	memcpy(&in, buf, sizeof(in));
	memset(&init, 0, sizeof(init));
	size -= sizeof(in);
	memcpy(&init, (const char *)buf + sizeof(in), size < sizeof(init) ? size : sizeof(init));
	if (in.opcode == FUSE_INIT && init.flags & FUSE_PARALLEL_DIROPS)
		channel_init = in.unique;
}

static int channel_get_fd(void)
{
	return channel_fd >= 0 ? channel_fd : channel_session;
}

static ssize_t channel_read(int fd, void *buf, size_t size, void *userdata)
{
	ssize_t n = read(channel_get_fd(), buf, size);
	const struct fuse_in_header *in = buf;

	if (n < (ssize_t)sizeof(*in))
		return n;
	channel_unique = in->unique;
	if (in->opcode == FUSE_INIT)
		channel_note_init(buf, (size_t)n);
	return n;
}

static void channel_add_flag(struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	struct fuse_init_out *init;

	if (count < 2 || iov[0].iov_len != sizeof(*out) || out->unique != channel_init)
		return;
	channel_init = 0;
	init = iov[1].iov_base;
	if (out->error == 0 &&
	    iov[1].iov_len >= offsetof(struct fuse_init_out, flags) + sizeof(init->flags))
		init->flags |= FUSE_PARALLEL_DIROPS;
}

static ssize_t channel_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	if (channel_init != 0)
		channel_add_flag(iov, count);
	return writev(channel_get_fd(), iov, count);
}

int sqfs_channel_attach(struct fuse_session *se, int fd)
{
	static const struct fuse_custom_io io = { .read = channel_read, .writev = channel_writev };

	int r;

	channel_session = fd;
	r = fuse_session_custom_io(se, &io, fd);
	channel_is_shared = r == -ENOTSUP;
	return channel_is_shared ? 0 : r;
}

void sqfs_channel_use(int fd)
{
	channel_fd = fd;
}

int sqfs_channel_clone(int fd)
{
	_cleanup_(fd_closep) int clone = -1;
	uint32_t master = (uint32_t)fd;

	if (channel_is_shared)
		return -EOPNOTSUPP;
	clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (clone < 0)
		return -errno;
	if (ioctl(clone, FUSE_DEV_IOC_CLONE, &master) < 0)
		return -errno;
	return steal_fd(&clone);
}

/* ENOENT: the reader was interrupted; ENODEV: the mount is gone. */
int sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n_spans,
			   sqfs_check_fn check, void *arg)
{
	struct fuse_out_header out = { .unique = channel_unique };
	size_t size = sizeof(out);
	int r;

	if (channel_is_shared)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < n_spans; i++) {
		if (spans[i].size > UINT32_MAX - size)
			return -EOPNOTSUPP;
		size += spans[i].size;
	}
	out.len = (uint32_t)size;
	r = sqfs_pipe_send(channel_get_fd(), &out, sizeof(out), fd, spans, n_spans, check, arg);
	return r == -ENOENT || r == -ENODEV ? 0 : r;
}
