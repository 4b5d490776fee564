/*
 * SIGKILL leaves a run directory with a free lock, and manifests that list what exists. Workers and
 * image servers end when their socket is closed. Dead mounts, trees on disk and the directory
 * remain. The next `stagectl run` of this user removes them, because it looks at all of the user's
 * run directories. A stagingd that is started in the same directory removes them here.
 */
#include "daemon/stagingd/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/manifest-cleanup.h"

/* a process that checks whether stagingd lives holds the lock for a moment */
#define LOCK_WAIT_MS 2000

static int check_rundir(const char *rundir, struct error *err)
{
	struct stat st;

	if (lstat(rundir, &st) < 0)
		return error_errno(err, errno, "%s", rundir);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, EPERM, "%s is not a directory of ours with mode 0700",
				 rundir);
	return 0;
}

static int make_dirs(const char *rundir, struct error *err)
{
	static const char *const names[] = { RUNDIR_MEMORY, RUNDIR_PRIVATE, RUNDIR_TMP, RUNDIR_DATA,
					     RUNDIR_MOUNTS };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[4096];

		if (snprintf(path, sizeof(path), "%s/%s", rundir, names[i]) >= (int)sizeof(path))
			return error_set(err, ENAMETOOLONG, "%s is too long", rundir);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return error_errno(err, errno, "make %s", path);
	}
	return 0;
}

static int open_lock(const char *rundir, int flags)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/" RUNDIR_LOCK, rundir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	flags = open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	return flags < 0 ? -errno : flags;
}

static int take_lock(const char *rundir, int *fdp, struct error *err)
{
	_cleanup_(fd_closep) int fd = open_lock(rundir, O_CREAT);
	const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
	uint64_t deadline = clock_ms() + LOCK_WAIT_MS;

	if (fd < 0)
		return error_errno(err, -fd, "open the lock in %s", rundir);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || clock_ms() >= deadline)
			return error_errno(err, EBUSY, "another stagingd works in %s", rundir);
		nanosleep(&pause, NULL);
	}
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return error_errno(err, errno, "write the lock in %s", rundir);
	*fdp = steal_fd(&fd);
	return 0;
}

int local_prepare(const char *rundir, int *lock_fdp, struct error *err)
{
	struct error left = ERROR_INIT;
	int r;

	r = check_rundir(rundir, err);
	if (r == 0)
		r = make_dirs(rundir, err);
	if (r == 0)
		r = take_lock(rundir, lock_fdp, err);
	if (r < 0)
		return r;
	if (manifest_cleanup_release_all(rundir, &left) < 0)
		log_warning("left by an earlier run: %s", left.text);
	return 0;
}
