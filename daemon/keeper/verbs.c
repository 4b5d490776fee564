#include "daemon/keeper/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"

union control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int) * VERBS_MAX_FDS)];
};

int verbs_receive(int sock, struct keeper_msg *msg, int *fdp)
{
	union control control;
	struct iovec iov = { .iov_base = msg, .iov_len = sizeof(*msg) };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	size_t n_fds = 0;
	int fds[VERBS_MAX_FDS];
	ssize_t n;

	*fdp = -1;
	n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0)
		return errno == ECONNRESET ? 0 : errno == EINTR ? -EAGAIN : -errno;
	for (c = CMSG_FIRSTHDR(&hdr); c; c = CMSG_NXTHDR(&hdr, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
	}
	if (n == sizeof(*msg) && n_fds <= 1 && !(hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		if (n_fds)
			*fdp = fds[0];
		return 1;
	}
	for (size_t i = 0; i < n_fds; i++)
		fd_closep(&fds[i]);
	return n == 0 && n_fds == 0 ? 0 : -EPROTO;
}

int verbs_send(int sock, const struct keeper_msg *msg, const int *fds, size_t n_fds)
{
	union control control = { 0 };
	struct iovec iov = { .iov_base = (void *)msg, .iov_len = sizeof(*msg) };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (n_fds) {
		hdr.msg_control = control.buf;
		hdr.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&hdr);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	return sendmsg(sock, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}
