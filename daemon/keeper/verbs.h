/*
 * verbs: packets of common/keeper-verbs.h on the keeper's end of the socket. Never blocks.
 */
#pragma once

#include <stddef.h>

#include "common/keeper-verbs.h"

#define VERBS_MAX_FDS 16

/*
 * Takes one packet and at most one descriptor beside it (*fdp, the caller's; -1: none).
 * 1: *msg is one; 0: the other end is gone; -EAGAIN; -EPROTO: the wrong size, or too many
 * descriptors, which are closed.
 */
int verbs_receive(int sock, struct keeper_msg *msg, int *fdp);

/* Sends one packet with n_fds descriptors, which stay the caller's. 0, -EAGAIN or -errno. */
int verbs_send(int sock, const struct keeper_msg *msg, const int *fds, size_t n_fds);
