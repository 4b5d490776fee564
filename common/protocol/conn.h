/*
 * conn: SOCK_SEQPACKET connections. A packet has one kv, and may have file descriptors. There is no
 * state: a connection is its fd. Used by daemon, workers, keeper and clients alike.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/protocol/kv.h"

struct error;

#define CONN_MAX_FDS 32

/* A connected pair, both O_CLOEXEC. */
int conn_pair(int fds[static 2]);

/* Connects to the socket at path and checks by SO_PEERCRED that it is served by the caller's
 * own uid or root. Returns an fd (O_CLOEXEC, blocking) or -errno (-ENOENT, -ECONNREFUSED:
 * no daemon there; -EPERM: served by somebody else). */
int conn_connect(const char *path, struct error *err);

/* Binds and listens; path is unlinked first, mode 0600. Returns the fd (nonblocking). */
int conn_listen(const char *path, struct error *err);

/* uid of the other end, or -errno. */
int conn_get_peer(int fd, uid_t *uidp, pid_t *pidp);
/* Has this user made the connection, by connect() or by socketpair()? 0, -EPERM or -errno. A
 * program that follows requests of the other end must check this, because stage-manager, which is
 * another user, could pass any socket to a program that it has started as the job's user. */
int conn_check_own(int fd);

/* Sends one packet, never raises SIGPIPE. 0, -EAGAIN if nonblocking and full, or -errno. */
int conn_send(int fd, const struct kv *kv);
int conn_send_fds(int fd, const struct kv *kv, const int *fds, size_t n_fds);

/*
 * Receives one packet. Its bytes are erased, except for the copy in *kvp. 1: *kvp is a message; 0:
 * the other end is gone; -EAGAIN; -EPROTO: not a message of ours (malformed, too big, or with more
 * fds than asked for); -errno. fds may be NULL: then descriptors that arrive are closed and -EPROTO
 * is returned. On return, *n_fdsp is the number of descriptors; the caller owns them, and they are
 * O_CLOEXEC.
 */
int conn_recv(int fd, struct kv **kvp);
int conn_recv_fds(int fd, struct kv **kvp, int *fds, size_t max_fds, size_t *n_fdsp);
