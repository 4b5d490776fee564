/* A record in a file of a test's. */
#pragma once

#include <stdlib.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "daemon/manager/state.h"

static inline int unit_write_state(int fd, const struct state *st)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	int r = state_print(st, &text, &size);

	return r < 0 ? r : fd_write_all(fd, text, size);
}
