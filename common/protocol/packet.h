/*
 * packet: sends one struct, and descriptors with it, over a SOCK_SEQPACKET, completely or not at
 * all.
 */
#pragma once

#include <stddef.h>

#define PACKET_MAX_FDS 16

/*
 * Receives a packet of exactly `size` bytes with at most *n_fdsp descriptors. The caller owns the
 * descriptors, which are O_CLOEXEC; *n_fdsp becomes their number. flags: MSG_DONTWAIT or 0. Returns
 * 1; 0: the other end has closed the socket; -EAGAIN: no packet now; -EPROTO: wrong size, or too
 * many descriptors, which are closed; -errno. -EAGAIN also means that a signal came, or that the
 * other end closed without reading everything, which the kernel reports once, before the packets of
 * that end: call again. If *n_fdsp is 0, no descriptor is installed and closed again, because a
 * close() can wait for the answer of a FUSE server.
 */
int packet_receive(int sock, void *data, size_t size, int *fds, size_t *n_fdsp, int flags);

/* Sends a packet. The descriptors stay the caller's. Returns 0, -EAGAIN or -errno. */
int packet_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds, int flags);
