/*
 * conn: SOCK_SEQPACKET connections. A packet has one kv, and may have file descriptors. There is no
 * state: a connection is its fd. stagingd, workers and clients use it.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/protocol/kv.h"

struct error;

#define CONN_MAX_FDS 32

/* Makes a connected pair; both ends are O_CLOEXEC. */
int conn_pair(int fds[static 2]);

/* Connects to the socket at path and checks by SO_PEERCRED that the caller's uid or root serves it.
 * Returns an fd (O_CLOEXEC, blocking) or -errno: -ENOENT or -ECONNREFUSED if there is no daemon,
 * -EPERM if another user serves it. */
int conn_connect(const char *path, struct error *err);

/* Unlinks path, then binds to it with mode 0600 and listens. Returns the fd (nonblocking). */
int conn_listen(const char *path, struct error *err);

/* Gets uid and pid of the other end. Returns 0 or -errno. */
int conn_get_peer(int fd, uid_t *uidp, pid_t *pidp);
/*
 * Checks that this user made the connection, by connect() or socketpair(). Returns 0, -EPERM or
 * -errno. A program that follows requests of the other end must check this, because stage-manager,
 * which is another user, could pass any socket to a program that it has started as the job's user.
 */
int conn_check_own(int fd);

/* Sends one packet; never raises SIGPIPE. Returns 0, -EAGAIN if nonblocking and full, or -errno. */
int conn_send(int fd, const struct kv *kv);
int conn_send_fds(int fd, const struct kv *kv, const int *fds, size_t n_fds);

/*
 * Receives one packet and erases its bytes, except for the copy in *kvp. Returns 1: *kvp is a
 * message; 0: the other end has closed the connection; -EAGAIN; -EPROTO: the packet is malformed,
 * too big, or has more fds than expected; -errno. If fds is NULL, descriptors that arrive are
 * closed and the result is -EPROTO. *n_fdsp: the number of descriptors; the caller owns them, and
 * they are O_CLOEXEC.
 */
int conn_recv(int fd, struct kv **kvp);
int conn_recv_fds(int fd, struct kv **kvp, int *fds, size_t max_fds, size_t *n_fdsp);
