/*
 * helper-run: starts stage-helper for tasks that are done as the user or may take long
 * (common/protocol/keeper-helper.h). It also has the other requests to the keeper about processes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-helper.h"
#include "daemon/manager/privops.h"

struct state_proc;

#define HELPER_MAX_ARGS 10

struct helper {
	const char *argv[HELPER_MAX_ARGS]; /* from "stage-helper" on, NULL at the end */
	bool system;			   /* as the system user; else: */
	uid_t uid;
	gid_t gid;
	int dir; /* becomes its fd 4; -1: none */
	int nice;
	bool stops; /* -ECANCELED when the keeper learns that the job is over */
	uint64_t deadline_ms;
};

/* One that was begun and whose answer nobody has taken; ends with the keeper. */
struct helper_running {
	pid_t pid;
	int fd; /* -1: none was begun */
	bool stops;
	uint64_t deadline_ms;
};

#define HELPER_RUNNING_INIT ((struct helper_running){ .pid = -1, .fd = -1 })

/* 0 or -errno. */
int helper_begin(const struct helper *h, struct helper_running *running);
/* Waits for it, and closes what it has. As helper_ask(). */
int helper_end(struct helper_running *running, void *answer, size_t size);

/* Both. Copies its answer, which begins with an int32_t, and returns that. -ETIMEDOUT: it hangs and
 * is left behind; -EINTR: it was killed, or stopped; where it can't be started why, at worst
 * -ENOEXEC, never -ENOENT. */
int helper_ask(const struct helper *h, void *answer, size_t size);

/* The same for what answers with a number alone. One that is killed or stopped is begun again: its
 * user may do that, and his processes elsewhere don't keep what the job had by it. */
int helper_do(const struct helper *h);

/* What the configuration says, as root has had it looked up. 0, or -errno: then site->text says
 * why, if it is not "". */
int helper_get_site(struct helper_site *site);

/* What is logged goes to the site's LogFile as well from now on. Root opens it once, so later calls
 * get the same answer: 0, or -errno; -1 where the site has none. */
int helper_open_log(const struct helper_site *site);
/* Both, as far as they are there. */
void helper_get_site_and_log(struct helper_site *site);

/* Where the path of a tier ("3") or HELPER_NAMESPACE leads for the job; a job_id of 0: for any.
 * node NULL: the host's name. */
struct helper_job {
	uint32_t job_id;
	uid_t uid;
	gid_t gid;
	const char *node;
};
int helper_find_path(const char *which, const struct helper_job *job, struct helper_path *path);
/* Opens a disk tier: an fd, or -errno, -EPERM where it is not root's all the way. which: as above,
 * by which root knows it; -1: there is something of ours in it, else -ENOENT. */
int helper_open_tier(const char *path, int64_t which);

/* Waits until root knows what the account of the job's user gives, which may take long. known:
 * there is one. -ECANCELED: the keeper is told to end. */
int helper_wait_user(bool *knownp);

/* How it is spawned, for one that is started otherwise. */
void helper_prepare(const struct helper *h, struct privops_spawn *s);

/* Signals a process that is on record: 0, -ESRCH. Does it run yet? A zombie does not. */
int helper_signal(const struct state_proc *p, int sig);
bool helper_is_alive(const struct state_proc *p);
/* Is it stopped, or a manager that it has started? */
bool helper_is_stopped(const struct state_proc *p);
/* The keeper itself, as it goes on record. 0 or -ESRCH. */
int helper_get_keeper(struct state_proc *p);
/* Kills all children of the keeper but us, until there are none or the deadline. */
void helper_end_all(uint64_t deadline_ms);
