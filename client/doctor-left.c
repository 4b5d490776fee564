/*
 * What earlier jobs left: run directories whose lock nobody holds, mounts below them, and
 * whether something is there to take them away. Mounts are found in mountinfo and never looked
 * into: a dead FUSE mount answers with an error, a hung one not at all.
 */
#include "client/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/capture.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/path.h"
#include "common/rundir.h"
#include "stage-build.h"

#define TIMER "stage-data-reap.timer"
#define SYSTEMCTL_MS 3000

/* true: there is a lock and nobody holds it. */
static bool is_abandoned(const char *dir, const char *job)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/" RUNDIR_LOCK, dir, job);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Number of mounts at or below dir. */
static unsigned count_mounts(const char *dir)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	unsigned n = 0;
	size_t size = 0;
	char target[PATH_MAX];

	while (f && getline(&line, &size, f) > 0)
		if (sscanf(line, "%*s %*s %*s %*[^ ] %4095[^ ]", target) == 1)
			n += path_is_beneath(target, dir);
	return n;
}

static void check_rundirs(struct doctor *d)
{
	_cleanup_(dir_closep) DIR *dir = opendir(STAGE_RUN_DIR);
	unsigned n_jobs = 0, n_abandoned = 0;
	const struct dirent *e;
	char path[PATH_MAX];
	uint32_t job_id;

	if (!dir && errno == EACCES) {
		doctor_tell(d, DOCTOR_OK, NULL, "%s is root's to look at", STAGE_RUN_DIR);
		return;
	}
	while (dir && (e = readdir(dir))) {
		if (parse_uint32(e->d_name, &job_id) < 0)
			continue;
		n_jobs++;
		if (!is_abandoned(STAGE_RUN_DIR, e->d_name))
			continue;
		n_abandoned++;
		snprintf(path, sizeof(path), "%s/%s", STAGE_RUN_DIR, e->d_name);
		doctor_tell(d, DOCTOR_WARN, "run 'stage-keeper reap' as root, or wait for the "
			    "timer", "job %u left its run directory and %u mounts", job_id,
			    count_mounts(path));
	}
	if (!n_abandoned)
		doctor_tell(d, DOCTOR_OK, NULL, "%u jobs with datasets, nothing left over", n_jobs);
}

/* What killed runs of `stagectl run` of this user left in memory. */
static void check_user_dir(struct doctor *d)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	const struct dirent *e;
	char path[PATH_MAX];
	unsigned n = 0;

	if (rundir_user_path(path, sizeof(path), geteuid(), "") < 0)
		return;
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' && is_abandoned(path, e->d_name))
			n++;
	if (n)
		doctor_tell(d, DOCTOR_WARN, "the next 'stagectl run' takes it away",
			    "%u killed run%s of this user left data in %s", n, n == 1 ? "" : "s",
			    path);
}

static void check_timer(struct doctor *d)
{
	static const char *const argv[] = { "systemctl", "is-enabled", TIMER, NULL };
	_cleanup_(freep) char *text = NULL;
	int r;

	if (access("/run/systemd/system", F_OK) < 0)
		return;
	r = capture_run(argv, SYSTEMCTL_MS, &text);
	if (r == 0)
		doctor_tell(d, DOCTOR_OK, NULL, TIMER " is enabled");
	else
		doctor_tell(d, DOCTOR_WARN, "systemctl enable --now " TIMER,
			    TIMER " is not enabled: what a crash leaves stays until the next job");
}

const struct doctor_check doctor_left_checks[] = {
	{ "leftovers", check_rundirs },
	{ "leftovers", check_user_dir },
	{ "timer", check_timer },
	{ NULL, NULL },
};
