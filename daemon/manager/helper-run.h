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
/* Waits for the helper and closes its descriptors. Returns as helper_ask() does. */
int helper_end(struct helper_running *running, void *answer, size_t size);

/* Starts the helper and waits for it. Copies its answer, which begins with an int32_t, and returns
 * that number. -ETIMEDOUT: it hangs and is not waited for any longer; -EINTR: it was killed or
 * stopped. If it cannot be started, the reason, or -ENOEXEC, but never -ENOENT. */
int helper_ask(const struct helper *h, void *answer, size_t size);

/* The same for tasks that answer with a number only. A helper that is killed or stopped is started
 * again, because its user may kill or stop it, and must not keep the job's data in this way. */
int helper_do(const struct helper *h);

/* The settings of the configuration that a helper has looked up for root. 0, or -errno: then
 * site->text has the reason, if it is not "". */
int helper_get_site(struct helper_site *site);

/* From now on, log lines are also written to the site's LogFile. Root opens it once, so later calls
 * have the same result: 0, or -errno; -1 if the site has none. */
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

/* Waits until root knows the account of the job's user, which may take long. known: the user has an
 * account. -ECANCELED: the keeper was asked to end. */
int helper_wait_user(bool *knownp);

/* How it is spawned, for one that is started otherwise. */
void helper_prepare(const struct helper *h, struct privops_spawn *s);

/* Signals a process that is on record: 0, -ESRCH. Does it run yet? A zombie does not. */
int helper_signal(const struct state_proc *p, int sig);
bool helper_is_alive(const struct state_proc *p);
/* Is it stopped, or a manager that it has started? */
bool helper_is_stopped(const struct state_proc *p);
/* The keeper itself, as it is written to the record. 0 or -ESRCH. */
int helper_get_keeper(struct state_proc *p);
/* Kills all children of the keeper but us, until there are none or the deadline. */
void helper_end_all(uint64_t deadline_ms);
