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
#include "common/slurm/job-cgroup.h"
#include "daemon/manager/cgroup-join.h"
#include "daemon/manager/state.h"
#include "daemon/manager/fuse-watch.h"

struct manager;
struct privops_spawn;

#define SERVE_CLASS_DAEMON KEEPER_N_CLASSES
#define LOG_MAX_SIZE (4 * 1024 * 1024) /* limit of struct serve's log_size */

struct serve {
	struct manager *k;
	int sock;
	size_t n_unread_fds; /* descriptors sent to stagingd since it had read everything */
	int log_rd, log_wr;
	size_t log_size; /* bytes that the children logged; each refused request adds 1 KiB */
	/* The id and class of each process in the record, at the same index. */
	struct {
		uint32_t id;
		int class;
	} children[STATE_MAX_PROCS];
	bool memory_known;   /* the job's memory was reported to stagingd */
	bool memory_charged; /* the job's memory cgroup exists, and its limit is known */
	bool memory_is_late; /* Slurm makes cgroups, but not yet this job's, or without its limit */
	struct cgroup_joined cgroups[PRIVOP_N_GROUPS];
	struct job_cgroup_mounts mounts;
	uint64_t cgroups_end_ms; /* no cgroups are expected after this time; 0: none found yet */
	uint64_t begin_ms;
	bool slots[RUNDIR_MAX_SLOTS]; /* mounted */
	struct fuse_watch watch;
	uint64_t next_look_ms;
	uint64_t end_ms; /* when the loop ends; 0: the job is not over */
	bool ended;
};

/* Reads one packet from stagingd and performs its request. There may be more packets. */
bool serve_verb(struct serve *s);

/* Functions of serve-job.c: */

/* Sends a packet with n_fds descriptors to stagingd, if stagingd runs. If stagingd does not read,
 * calls serve_lose_daemon(). */
void serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds);
/* Returns true while stagingd has not read many descriptors that it was sent. Then no request is
 * read. */
bool serve_has_unread_fds(struct serve *s);
/* Closes the connection to stagingd, and kills stagingd and all writers. why: how stagingd failed,
 * for the log. */
void serve_lose_daemon(struct serve *s, const char *why);
/* Signals a child. Returns 0 or -ESRCH. */
int serve_kill(pid_t pid, int sig);
/* Starts a child, which is recorded before it does anything. Returns its pid or -errno. */
pid_t serve_start(struct serve *s, const struct privops_spawn *spawn, uint32_t id, int class);
/* Looks for the job's cgroups, and reports the job's memory to stagingd as soon as it is known. */
void serve_look_for_memory(struct serve *s);
/* Returns the timeout for poll(2) in milliseconds; -1: there is nothing to look for. */
int serve_get_tick(struct serve *s);
/* Repeats the mount in the job's mount namespace, which may be older than the mount. */
void serve_repeat_in_job(struct manager *k, uint32_t name);
