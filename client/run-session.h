/*
 * run-session: starts or finds the daemon of `stagectl run`, and holds a lease on it.
 *
 * The task with local id 0 starts the daemon of its node. The others wait for its socket in the run
 * directory. The last one that ends waits until everything is removed.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/rpc.h"
#include "client/run-dir.h"
#include "client/run-place.h"

struct run_session {
	const struct run_place *place;
	struct run_dir dir;
	struct rpc *lease; /* stays open: the daemon counts these connections */
	struct rpc *rpc;   /* for all other requests */
	int report_fd;	   /* of a cleaner that this process has started; -1: another process has */
	bool is_masked;	   /* INT, TERM, HUP, USR1 and USR2 are blocked */
	sigset_t old_mask; /* if is_masked: the signal mask for the command */
};

#define RUN_SESSION_NONE                                                                           \
	{                                                                                          \
		.dir = RUN_DIR_NONE, .report_fd = -1                                               \
	}

/* Blocks until a daemon has accepted the lease, for at most half a minute. spec: text of
 * common/config/spec.h, used if this process starts the daemon. Also blocks signals, until
 * run_session_close(), which discards those that are pending. */
int run_session_open(struct run_session *s, const struct run_place *place, const char *spec,
		     struct error *err);

/* Gives the lease back. The last process of the node waits for the end of the clean-up. May be
 * called twice. */
void run_session_close(struct run_session *s);

/* Called when the daemon has ended. If this process started it, replaces err by its last
 * message. */
void run_session_explain(const struct run_session *s, struct error *err);
