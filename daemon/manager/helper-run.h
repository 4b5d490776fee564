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
	const char *argv[HELPER_MAX_ARGS]; /* begins with "stage-helper", ends with NULL */
	bool system;			   /* runs as the system user; otherwise as uid and gid */
	uid_t uid;
	gid_t gid;
	int dir; /* becomes fd 4 of the helper; -1: none */
	int nice;
	uint64_t deadline_ms;
};

/* Starts the helper, which ends with the keeper, and waits for it. Copies its answer, which begins
 * with an int32_t, and returns that number. Other results: -ETIMEDOUT: it did not end in time;
 * -EINTR: it was killed or stopped; or why it could not be started, which is never -ENOENT
 * (-ENOEXEC instead). */
int helper_ask(const struct helper *h, void *answer, size_t size);

/* Does the same for tasks that answer with a number only. Starts a killed or stopped helper again:
 * its user may kill or stop it, but must not be able to keep the job's data in this way. */
int helper_do(const struct helper *h);

/* Reads the settings of the configuration that a helper has looked up for root. Returns 0 or
 * -errno; after a failure, site->text has the reason, or is "". -ETIMEDOUT: there was no answer
 * within timeout_ms. -ECANCELED: the keeper was asked to end. */
int helper_get_site(struct helper_site *site, uint64_t timeout_ms);

/* Makes log lines go to the site's LogFile, too. Root opens it once, so later calls have the same
 * result. Returns 0 or -errno; -1 if the site has no LogFile. */
int helper_open_log(const struct helper_site *site);
/* Reads the settings and opens the log. Ignores failures. */
void helper_get_site_and_log(struct helper_site *site);

/*
 * The job for which helper_find_path() expands a path of the configuration. which: the number of a
 * tier, such as "3", or HELPER_NAMESPACE. job_id 0: any job; node NULL: the host's name. Returns 0
 * or -errno.
 */
struct helper_job {
	uint32_t job_id;
	uid_t uid;
	gid_t gid;
	const char *node;
};
int helper_find_path(const char *which, const struct helper_job *job, struct helper_path *path);
/* Opens a disk tier. which: its name, as for helper_find_path(), by which root looks up the path;
 * -1: the tier must contain one of our directories. Returns an fd or -errno. -EPERM: a directory or
 * link of the path does not belong to root; -ENOENT: root does not accept the tier. */
int helper_open_tier(const char *path, int64_t which);

/* Waits until root has looked up the account of the job's user, which may take long. *knownp: the
 * user has an account. Returns 0 or -errno. -ECANCELED: the keeper was asked to end. */
int helper_wait_user(bool *knownp);

/* Fills s, for callers that start the helper themselves. */
void helper_prepare(const struct helper *h, struct privops_spawn *s);

/* For a process of the record, not a helper. state_proc_signal() returns 0 or -ESRCH;
 * state_proc_is_alive() returns false for a zombie. */
int state_proc_signal(const struct state_proc *p, int sig);
bool state_proc_is_alive(const struct state_proc *p);
/* Returns true if the process is stopped, or is a keeper whose manager is stopped. */
bool state_proc_is_stopped(const struct state_proc *p);
/* Sets *p to our keeper, for the record. Returns 0 or -ESRCH. */
int helper_get_keeper(struct state_proc *p);
/* Kills all children of the keeper except the caller, until there are none or the deadline is
 * over. */
void helper_end_all(uint64_t deadline_ms);
