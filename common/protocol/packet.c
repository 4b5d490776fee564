#include "common/protocol/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util/cleanup.h"

union control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int) * PACKET_MAX_FDS)];
};

int packet_receive(int sock, void *data, size_t size, int *fds, size_t *n_fdsp, int flags)
{
	union control control;
	struct iovec iov = { .iov_base = data, .iov_len = size };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = *n_fdsp ? sizeof(control.buf) : 0 };
	int came[PACKET_MAX_FDS];
	struct cmsghdr *c;
	size_t n_fds = 0;
	ssize_t n;

	n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC | flags);
	if (n < 0)
		return errno == EINTR || errno == ECONNRESET ? -EAGAIN : -errno;
	for (c = CMSG_FIRSTHDR(&hdr); c; c = CMSG_NXTHDR(&hdr, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(came, CMSG_DATA(c), n_fds * sizeof(int));
	}
	if (n == (ssize_t)size && n_fds <= *n_fdsp && !(hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		memcpy(fds, came, n_fds * sizeof(int));
		*n_fdsp = n_fds;
		return 1;
	}
	for (size_t i = 0; i < n_fds; i++)
		fd_closep(&came[i]);
	return n == 0 && n_fds == 0 ? 0 : -EPROTO;
}

int packet_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds, int flags)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (n_fds > PACKET_MAX_FDS)
		return -EINVAL;
	if (n_fds) {
		hdr.msg_control = control.buf;
		hdr.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&hdr);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	while (sendmsg(sock, &hdr, MSG_NOSIGNAL | flags) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}
