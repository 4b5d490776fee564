/*
 * A manager whose keeper is in the same process: what it asks for is done at once. For tests of
 * both that come in between two calls.
 */
#pragma once

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "daemon/keeper/keeper.h"
#include "daemon/manager/privops.h"

static struct keeper unit_keeper = KEEPER_INIT;

static inline int unit_privop_here(struct privop *a, int *out, size_t *n_outp)
{
	struct call c = { .a = a };
	size_t n = 0;

	privop_do(&unit_keeper, &c);
	for (size_t i = 0; i < c.n_out; i++) {
		if (n < *n_outp)
			out[n++] = c.out[i];
		else
			fd_closep(&c.out[i]);
	}
	*n_outp = n;
	return a->r;
}
