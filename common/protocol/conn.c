#include "common/protocol/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"

int conn_pair(int fds[static 2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 ? -errno : 0;
}

/* Makes a socket, and the address for path. Returns the socket or an error with err set. */
static int make_socket(struct sockaddr_un *addr, const char *path, int flags, struct error *err)
{
	int fd;

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr->sun_path))
		return error_set(err, ENAMETOOLONG, "socket path %s is too long", path);
	strcpy(addr->sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	return fd < 0 ? error_errno(err, errno, "socket") : fd;
}

int conn_connect(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un addr;
	uid_t uid = 0;
	int r;

	fd = make_socket(&addr, path, 0, err);
	if (fd < 0)
		return fd;
	do {
		r = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r < 0)
		return error_errno(err, -r, "connect %s", path);
	r = conn_get_peer(fd, &uid, NULL);
	if (r < 0)
		return error_errno(err, -r, "peer of %s", path);
	if (uid != geteuid() && uid != 0 && geteuid() != 0)
		return error_set(err, EPERM, "%s is served by uid %u", path, (unsigned)uid);
	return steal_fd(&fd);
}

int conn_listen(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un addr;
	mode_t old;
	int r;

	fd = make_socket(&addr, path, SOCK_NONBLOCK, err);
	if (fd < 0)
		return fd;
	if (unlink(path) < 0 && errno != ENOENT)
		return error_errno(err, errno, "unlink %s", path);
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return error_errno(err, -r, "bind %s", path);
	if (listen(fd, SOMAXCONN) < 0)
		return error_errno(err, errno, "listen on %s", path);
	return steal_fd(&fd);
}

/* The credentials are those at the time of connect() or listen() (unix(7)). */
int conn_get_peer(int fd, uid_t *uidp, pid_t *pidp)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	if (uidp)
		*uidp = cred.uid;
	if (pidp)
		*pidp = cred.pid;
	return 0;
}

int conn_check_own(int fd)
{
	uid_t uid = 0;
	int r = conn_get_peer(fd, &uid, NULL);

	if (r < 0)
		return r;
	return uid == geteuid() ? 0 : -EPERM;
}

int conn_send(int fd, const struct kv *kv)
{
	return conn_send_fds(fd, kv, NULL, 0);
}

int conn_send_fds(int fd, const struct kv *kv, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * CONN_MAX_FDS)];
	} control;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	const void *data;
	ssize_t n;
	int r;

	if (n_fds > CONN_MAX_FDS)
		return -EINVAL;
	r = kv_get_data(kv, &data, &iov.iov_len);
	if (r)
		return r < 0 ? r : -EMSGSIZE;
	iov.iov_base = (void *)data;
	if (n_fds > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, sizeof(int) * n_fds);
	}
	do {
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int conn_recv(int fd, struct kv **kvp)
{
	return conn_recv_fds(fd, kvp, NULL, 0, NULL);
}

/* Takes the descriptors in *msg and closes those beyond max_fds. Returns the number of all. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t max_fds)
{
	size_t total = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++, total++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (total < max_fds)
				fds[total] = got;
			else
				close(got);
		}
	}
	return total;
}

int conn_recv_fds(int fd, struct kv **kvp, int *fds, size_t max_fds, size_t *n_fdsp)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * CONN_MAX_FDS)];
	} control;
	_cleanup_(freep) char *data = malloc(KV_MAX_SIZE + 1);
	struct iovec iov = { .iov_base = data, .iov_len = KV_MAX_SIZE + 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	size_t n_fds;
	ssize_t n;
	int r;

	if (!data)
		return -ENOMEM;
	/* If the peer ended without reading everything, ECONNRESET is reported once, before the
	 * peer's own messages (sk_err of unix_release_sock() in Linux's net/unix/af_unix.c). The
	 * messages can still be received. */
	do {
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	n_fds = take_fds(&msg, fds, max_fds);
	if (n == 0 && n_fds == 0)
		return 0;
	r = n_fds > max_fds || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		    ? KV_E_MALFORMED
		    : kv_new_from_data(kvp, data, (size_t)n);
	explicit_bzero(data, (size_t)n);
	if (r != 0) {
		for (size_t i = 0; i < n_fds && i < max_fds; i++)
			close(fds[i]);
		return r < 0 ? r : -EPROTO;
	}
	if (n_fdsp)
		*n_fdsp = n_fds;
	return 1;
}
