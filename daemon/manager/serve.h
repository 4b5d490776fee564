/*
 * serve: the manager of a running job. This header is shared by its loop (serve.c), the requests of
 * stagingd (serve-verbs.c), and the operations on the job that both use (serve-job.c).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-verbs.h"
#include "common/protocol/rundir.h"
#include "daemon/manager/groups.h"
#include "daemon/manager/state.h"
#include "daemon/manager/watch.h"

struct manager;
struct privops_spawn;

#define SERVE_CLASS_DAEMON KEEPER_N_CLASSES
#define LOG_MAX_SIZE (4 * 1024 * 1024) /* of what a job's processes say and ask for in the log */

struct serve {
	struct manager *k;
	int sock;
	int log_rd, log_wr;
	size_t log_size; /* bytes by the children in the log, what they can't have a kilobyte each
			  */
	/* What the processes on record are, by their index there. */
	struct {
		uint32_t id;
		int class;
	} children[STATE_MAX_PROCS];
	bool memory_known;   /* and told */
	bool memory_charged; /* there is a group of the job's for it, and its limit is known */
	bool memory_is_late; /* Slurm makes groups, and has not made the job's or written its limit
			      */
	struct groups_one groups[PRIVOP_N_GROUPS];
	uint64_t groups_end_ms; /* when others come no more; 0: there is none yet */
	uint64_t begin_ms;
	bool slots[RUNDIR_MAX_SLOTS]; /* mounted */
	struct watch watch;
	uint64_t next_look_ms;
	uint64_t end_ms; /* when to end, 0: not yet */
	bool ended;
};

/* Reads one packet from stagingd and performs its request. There may be more packets. */
bool serve_verb(struct serve *s);

/* serve-job.c: */

/* Sends a packet to stagingd, if it runs, with n_fds descriptors. If stagingd does not read, it is
 * given up. */
void serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds);
/* stagingd is gone, or what it says makes no sense: it and the writers are ended. */
void serve_lose_daemon(struct serve *s, const char *why);
/* Signals a child: 0, -ESRCH. */
int serve_kill(pid_t pid, int sig);
/* Starts a child, recorded before it does anything. Its pid, or -errno. */
pid_t serve_start(struct serve *s, const struct privops_spawn *spawn, uint32_t id, int class);
/* Looks for the job's cgroups, and reports the job's memory to stagingd as soon as it is known. */
void serve_look_for_memory(struct serve *s);
/* Milliseconds until the next look; -1: there is nothing to look at. */
int serve_get_tick(const struct serve *s);
/* The job may be in a mount namespace that was made before this mount. */
void serve_repeat_in_job(struct manager *k, uint32_t name);
