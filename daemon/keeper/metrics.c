/*
 * The sums are numbers in a file of root's, one process at a time: root parses nothing here, and not
 * the text of the last time either. The text is stage-hand's, who gets two open files and writes it
 * as nobody. It gets its name when it is whole: whoever is killed on the way leaves the old one.
 */
#include "daemon/keeper/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "daemon/keeper/keeper.h"

#define METRICS_MS 30000 /* for all of them that end now */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NEW_FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

static int lock(int fd, uint64_t deadline_ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || clock_ms() >= deadline_ms)
			return -errno;
		proc_sleep_ms(10);
	}
	return 0;
}

/* Whatever jobs say, a sum stays a number that can be read: beyond 2^63 it begins anew. */
static int add(int fd, const uint64_t *counts)
{
	uint64_t sums[COUNT_N] = { 0 };

	if (pread(fd, sums, sizeof(sums), 0) < 0)
		return -errno;
	for (size_t i = 0; i < COUNT_N; i++)
		sums[i] = (sums[i] + counts[i]) & INT64_MAX;
	return pwrite(fd, sums, sizeof(sums), 0) == sizeof(sums) ? 0 : -EIO;
}

static int write_text(int sums, int text, uint64_t deadline_ms)
{
	const struct hand h = { .argv = { "stage-hand", "metrics", NULL }, .uid = HAND_UID,
				.gid = HAND_UID, .dir = sums };
	_cleanup_(fd_closep) int go = -1;
	struct launch_user user;
	struct launch l;
	int r = hand_prepare(&h, &l, &user);

	if (r < 0)
		return r;
	l.fds[0] = text;
	r = launch_start(&l, &go);
	if (r < 0 || fd_write_all(go, "g", 1) < 0)
		return r < 0 ? r : -EIO;
	r = proc_wait(r, deadline_ms);
	return r == 0 || r == -ETIMEDOUT ? r : -EIO;
}

static int replace(const char *path, int sums, uint64_t deadline_ms)
{
	_cleanup_(fd_closep) int dir = -1, text = -1;
	const char *name = strrchr(path, '/') + 1; /* absolute: conf_check_textfile() */
	char tmp[PATH_MAX];
	struct stat st;
	int r;

	snprintf(tmp, sizeof(tmp), "%.*s", (int)(name - path), path);
	dir = open(tmp, DIR_FLAGS);
	if (dir < 0 || fstat(dir, &st) < 0)
		return -errno;
	if (st.st_uid != 0 || st.st_mode & 022)
		return -EPERM;
	snprintf(tmp, sizeof(tmp), "%.200s.tmp", name);
	if (unlinkat(dir, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	text = openat(dir, tmp, NEW_FLAGS, 0644);
	if (text < 0)
		return -errno;
	r = write_text(sums, text, deadline_ms);
	return r < 0 ? r : renameat(dir, tmp, dir, name) < 0 ? -errno : 0;
}

void metrics_add(struct keeper *k)
{
	const uint64_t deadline_ms = clock_ms() + METRICS_MS;
	_cleanup_(fd_closep) int base = -1, sums = -1;
	int r;

	if (k->site.metrics[0] != '/')
		return;
	k->counts[COUNT_JOBS] = 1;
	k->counts[COUNT_JOBS_NOT_SET_UP] = k->st.failed;
	base = jobdir_open_base(NULL, NULL);
	sums = openat(base, RUNDIR_METRICS, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = sums < 0 ? -errno : lock(sums, deadline_ms);
	if (r == 0)
		r = add(sums, k->counts);
	if (r == 0)
		r = replace(k->site.metrics, sums, deadline_ms);
	if (r < 0)
		log_warning("metrics: %s: %s%s", k->site.metrics, strerror(-r),
			    r == -EPERM ? "; its directory must be root's and writable by nobody else" : "");
}
