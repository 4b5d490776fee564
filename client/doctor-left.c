/*
 * Finds what earlier jobs have left: run directories whose lock nobody holds, and mounts below
 * them. Checks whether the timer that removes them is enabled. Mounts are found in mountinfo and
 * never looked into: a dead FUSE mount answers with an error, a hung one not at all.
 */
#include "client/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/run-dir.h"
#include "common/config/conf.h"
#include "common/protocol/rundir.h"
#include "common/protocol/tier-name.h"
#include "common/slurm/job-cgroup.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"
#include "common/util/mountinfo.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "stage-build.h"

#define TIMER "stage-data-reap.timer"
#define REAP "run '" STAGE_LIBEXEC_DIR "/stage-keeper reap' as root, or wait for the timer"
#define SYSTEMCTL_MS 3000

/* Returns whether no process holds the directory's lock, or whether root sees no lock file. Root
 * can open all of them. */
static bool is_abandoned(const char *dir, const char *job)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/" RUNDIR_LOCK, dir, job);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && geteuid() == 0) {
		snprintf(path, sizeof(path), "%s/%s", dir, job);
		return access(path, F_OK) == 0; /* it may have been removed since it was listed */
	}
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Returns the number of mounts at or below dir. */
static unsigned count_mounts(const char *dir)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mountinfo m;
	unsigned n = 0;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0)
		n += mountinfo_parse(&m, line) == 0 && path_is_beneath(m.target, dir);
	return n;
}

/* Returns whether the job has a process here. The owner of the socket is the job's user. */
static bool is_running(const char *job, uint32_t job_id)
{
	char path[PATH_MAX];
	struct job_cgroup_job id = { .job_id = job_id };
	struct stat st;

	snprintf(path, sizeof(path), STAGE_RUN_DIR "/%s/" RUNDIR_SOCK, job);
	if (lstat(path, &st) < 0)
		return false;
	id.uid = st.st_uid;
	return job_cgroup_is_populated(&id) > 0;
}

static bool has_keeper(uint32_t job_id)
{
	char job[16];

	snprintf(job, sizeof(job), "%u", job_id);
	return access(STAGE_RUN_DIR, X_OK) == 0 && !is_abandoned(STAGE_RUN_DIR, job);
}

static void tell_abandoned(struct doctor *d, const char *job, uint32_t job_id)
{
	char path[PATH_MAX];
	unsigned n_mounts;

	snprintf(path, sizeof(path), "%s/%s", STAGE_RUN_DIR, job);
	n_mounts = count_mounts(path);
	if (is_running(job, job_id))
		doctor_tell(d, DOCTOR_WARN,
			    "look for 'stage-keeper' in the log; all goes when the job ends",
			    "job %u runs and its keeper is dead: it has what was staged, and gets "
			    "no more",
			    job_id);
	else
		doctor_tell(d, DOCTOR_WARN, REAP, "job %u left its run directory and %u %s", job_id,
			    n_mounts, count_word(n_mounts, "mount", "mounts"));
}

static void check_rundirs(struct doctor *d)
{
	_cleanup_(dir_closep) DIR *dir = opendir(STAGE_RUN_DIR);
	static uint32_t idle[DOCTOR_MAX_JOBS];
	unsigned n_jobs = 0, n_found = 0;
	const struct dirent *e;
	size_t n_idle = 0;
	uint32_t job_id;

	if (!dir && errno == EACCES) {
		doctor_tell(d, DOCTOR_OK, NULL, "%s is root's to look at", STAGE_RUN_DIR);
		return;
	}
	while (dir && (e = readdir(dir))) {
		if (parse_uint32(e->d_name, &job_id) < 0)
			continue;
		n_jobs++;
		if (is_abandoned(STAGE_RUN_DIR, e->d_name)) {
			n_found++;
			tell_abandoned(d, e->d_name, job_id);
		} else if (geteuid() == 0 && n_idle < DOCTOR_MAX_JOBS &&
			   !is_running(e->d_name, job_id)) {
			idle[n_idle++] = job_id;
		}
	}
	n_found += doctor_check_keepers(d, idle, n_idle, has_keeper);
	if (!n_found)
		doctor_tell(d, DOCTOR_OK, NULL, "%u %s with datasets, nothing left over", n_jobs,
			    count_word(n_jobs, "job", "jobs"));
}

/* Looks for data in memory that killed runs of `stagectl run` of this user have left. */
static void check_user_dir(struct doctor *d)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	const struct dirent *e;
	char path[PATH_MAX];
	struct stat st;
	unsigned n = 0;

	if (run_dir_path(path, sizeof(path), geteuid(), "") < 0)
		return;
	path[strlen(path) - 1] = '\0'; /* lstat() of "x/" would follow a link x */
	/* Another user can take the name in /dev/shm. Then nothing below it belongs to this
	 * user. */
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' && is_abandoned(path, e->d_name))
			n++;
	if (n)
		doctor_tell(d, DOCTOR_WARN, "the next 'stagectl run' removes it",
			    "%u killed %s of this user left data in %s", n,
			    count_word(n, "run", "runs"), path);
}

static void check_breaker(struct doctor *d)
{
	static const char path[] = STAGE_RUN_DIR "/" RUNDIR_BREAKER;

	if (access(path, F_OK) < 0)
		doctor_tell(d, DOCTOR_OK, NULL, "no keeper has crashed often");
	else
		doctor_tell(d, DOCTOR_FAIL,
			    "look for 'stage-keeper' in the log; then rm " STAGE_RUN_DIR
			    "/" RUNDIR_BREAKER " " STAGE_RUN_DIR "/" RUNDIR_CRASHES,
			    "%s: keepers have crashed, nothing is staged on this node for an hour",
			    path);
}

/* Looks for directories of jobs that are over, whose removal a keeper began and did not finish. */
static void check_trash(struct doctor *d)
{
	static const char trash[] = STAGE_RUN_DIR "/" RUNDIR_TRASH;
	_cleanup_(dir_closep) DIR *dir = opendir(trash);
	const struct dirent *e;
	unsigned n = 0;

	while (dir && (e = readdir(dir)))
		n += e->d_name[0] != '.' && is_abandoned(trash, e->d_name);
	if (n)
		doctor_tell(d, DOCTOR_WARN, REAP,
			    "%u director%s in %s whose removal was interrupted", n,
			    n == 1 ? "y" : "ies", trash);
}

/* Returns whether there is a record of the job, which lists its directories in tiers. */
static bool has_record(uint32_t job_id)
{
	char path[PATH_MAX];
	glob_t g;
	int r;

	if (rundir_path(path, sizeof(path), job_id, NULL) < 0 || access(path, F_OK) == 0)
		return true;
	snprintf(path, sizeof(path), STAGE_RUN_DIR "/" RUNDIR_TRASH "/%u.*", job_id);
	r = glob(path, 0, NULL, &g);
	if (r == 0)
		globfree(&g);
	return r == 0;
}

/* Gets attributes without asking the server of a mount, which may belong to a user and never
 * answer. A look-up inside a mount, or access() to it, would ask the server. */
static int look_at(int dirfd, const char *name, struct statx *st)
{
	return statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, st) <
			       0
		       ? -errno
		       : 0;
}

/* Returns whether the directory has the user's data. If root cannot look at it, or if it is in
 * another file system, the user has mounted something on it. */
static bool is_users(int dirfd, const char *name)
{
	char data[NAME_MAX + sizeof("/" TIER_NAME_DATA)];
	struct statx tier, st;
	int r = look_at(dirfd, name, &st);

	if (r < 0 || look_at(dirfd, ".", &tier) < 0)
		return r != -ENOENT;
	if (st.stx_dev_major != tier.stx_dev_major || st.stx_dev_minor != tier.stx_dev_minor ||
	    st.stx_uid != 0)
		return true;
	snprintf(data, sizeof(data), "%s/" TIER_NAME_DATA, name);
	return look_at(dirfd, data, &st) != -ENOENT;
}

/* Looks for leftovers in a tier. Data that users keep for their next jobs (job 0) is not a
 * leftover. */
static void look_at_tier(struct doctor *d, const struct conf_tier *t)
{
	_cleanup_(dir_closep) DIR *dir = opendir(t->path);
	const struct dirent *e;
	struct stat st;
	uint32_t job_id;
	unsigned n = 0;

	/* If others can make names in the tier, root does not remove anything, and the names may be
	 * forged. */
	if (!dir || fstat(dirfd(dir), &st) < 0 || st.st_uid != 0 || st.st_mode & 022)
		return;
	while ((e = readdir(dir)))
		n += tier_name_parse(e->d_name, &job_id) == 0 && job_id && !has_record(job_id) &&
		     is_users(dirfd(dir), e->d_name);
	if (n)
		doctor_tell(d, DOCTOR_WARN, REAP,
			    "tier %s: %u director%s in %s of jobs that are over", t->name, n,
			    n == 1 ? "y" : "ies", t->path);
}

/* Checks the tiers. Only root can read the records. */
static void check_tiers(struct doctor *d)
{
	if (geteuid() != 0 || !d->conf)
		return;
	for (size_t i = 0; i < d->conf->n_tiers; i++)
		if (d->conf->tiers[i].kind != CONF_TIER_SHARED && *d->conf->tiers[i].path &&
		    !d->conf->tiers[i].provided_by_site && !strchr(d->conf->tiers[i].path, '%'))
			look_at_tier(d, &d->conf->tiers[i]);
}

static bool systemctl_says(const char *verb)
{
	const char *const argv[] = { "systemctl", verb, TIMER, NULL };
	_cleanup_(freep) char *text = NULL;

	return capture_run(argv, SYSTEMCTL_MS, &text) == 0;
}

static void check_timer(struct doctor *d)
{
	if (access("/run/systemd/system", F_OK) < 0)
		return;
	if (!systemctl_says("is-enabled"))
		doctor_tell(d, DOCTOR_WARN, "systemctl enable --now " TIMER,
			    TIMER " is not enabled: what a crash leaves stays until the next job");
	else if (!systemctl_says("is-active"))
		doctor_tell(d, DOCTOR_WARN, "systemctl start " TIMER,
			    TIMER " is enabled and does not run: what a crash leaves stays until "
				  "the next boot");
	else
		doctor_tell(d, DOCTOR_OK, NULL, TIMER " is enabled");
}

const struct doctor_check doctor_left_checks[] = {
	{ "breaker", check_breaker },
	{ "leftovers", check_rundirs },
	{ "leftovers", check_trash },
	{ "leftovers", check_tiers },
	{ "leftovers", check_user_dir },
	{ "timer", check_timer },
	{ NULL, NULL },
};
