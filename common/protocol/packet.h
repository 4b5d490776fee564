/*
 * packet: sends one struct, and descriptors with it, over a SOCK_SEQPACKET, completely or not at
 * all.
 */
#pragma once

#include <stddef.h>

#define PACKET_MAX_FDS 16

/*
 * Receives a packet of exactly that size with at most *n_fdsp descriptors, which the caller owns
 * and which are O_CLOEXEC. *n_fdsp is then their number. flags: MSG_DONTWAIT or 0. 1; 0: the other
 * end is gone; -EAGAIN: nothing now, a signal came, or the other end has ended with something
 * unread, which the kernel says once and before what that end has sent: ask again; -EPROTO: another
 * size, or more descriptors, which are closed then. With *n_fdsp 0 no descriptor is installed that
 * would have to be closed. A close() asks a FUSE server and waits for its answer.
 */
int packet_receive(int sock, void *data, size_t size, int *fds, size_t *n_fdsp, int flags);

/* The descriptors stay the caller's. 0, -EAGAIN or -errno. */
int packet_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds, int flags);
