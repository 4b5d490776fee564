/*
 * run-session: from "nothing there" to a leased daemon, and back.
 *
 * The task with local id 0 starts the daemon of its node, the others find it by the socket that
 * appears in the run directory. Whoever is last to leave waits until everything is gone.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include "client/rpc.h"
#include "client/run-dir.h"
#include "client/run-place.h"

struct run_session {
	const struct run_place *place;
	struct run_dir dir;
	struct rpc *lease; /* held open; the daemon counts them */
	struct rpc *rpc;   /* for everything else */
	int report_fd;	   /* of a cleaner we started, -1: another did */
	sigset_t old_mask; /* the command's; while open, INT, TERM and HUP are blocked */
};

#define RUN_SESSION_NONE                                                                           \
	{                                                                                          \
		.dir = RUN_DIR_NONE, .report_fd = -1                                               \
	}

/* spec: text of common/config/spec.h, for the case that we are the one to start. Blocks until there
 * is a daemon that has taken our lease, half a minute at most. */
int run_session_open(struct run_session *s, const struct run_place *place, const char *spec,
		     struct error *err);

/* Gives the lease back; the last of the node waits for the end of the clean-up. Twice is fine. */
void run_session_close(struct run_session *s);

/* The daemon is gone: what it said last, if it was ours, instead of what stands in err. */
void run_session_explain(const struct run_session *s, struct error *err);
