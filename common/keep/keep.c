#include "common/keep/keep-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/protocol/tier-name.h"
#include "common/util/clock.h"
#include "common/util/beneath.h"

#define POLL_US 5000
#define NAME_MAX_SIZE (KEEP_NAME_SIZE + 8)

static char *get_place(char name[static TIER_NAME_SIZE])
{
	snprintf(name, TIER_NAME_SIZE, TIER_NAME_KEEP "%u", geteuid());
	return name;
}

int keep_open(struct keep *k, int tier_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	char name[TIER_NAME_SIZE];
	struct stat st;

	fd = openat(tier_fd, get_place(name), KEEP_DIR_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 0777) != 0700)
		return -EPERM;
	*k = (struct keep){ steal_fd(&fd), STAGE_RUN_DIR };
	return 0;
}

int keep_shut(int tier_fd)
{
	char name[TIER_NAME_SIZE];

	return fchmodat(tier_fd, get_place(name), 0700, 0) < 0 ? -errno : 0;
}

void keep_close(struct keep *k)
{
	fd_closep(&k->fd);
}

/* Waits until the deadline. The lock is normally held for moments only; a process that holds it
 * longer was stopped by the user. */
static int lock_fd(int fd, uint64_t deadline_ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (clock_ms() >= deadline_ms)
			return -ETIMEDOUT;
		usleep(POLL_US);
	}
	return 0;
}

int keep_lock(const struct keep *k, uint64_t deadline_ms)
{
	return lock_fd(k->fd, deadline_ms);
}

void keep_unlock(const struct keep *k)
{
	(void)flock(k->fd, LOCK_UN);
}

/* ---- names ---- */

bool keep_is_sum(const char *name)
{
	return strlen(name) == KEEP_NAME_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == KEEP_NAME_SIZE - 1;
}

int keep_for_each_name(const struct keep *k, int (*fn)(void *arg, const char *name), void *arg)
{
	_cleanup_(dir_closep) DIR *dir = fd_open_dir(k->fd, ".");
	struct dirent *d;
	int r, result = 0;

	if (!dir)
		return -errno;
	while ((errno = 0, d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		r = fn(arg, d->d_name);
		result = result ? result : r;
	}
	return result ? result : -errno;
}

static void make_name(char buf[static NAME_MAX_SIZE], const char *prefix, const char *name)
{
	snprintf(buf, NAME_MAX_SIZE, "%s%.64s", prefix, name);
}

bool keep_entry_has_name(const struct keep *k, const struct keep_entry *e, const char *name)
{
	struct stat a, b;

	return fstat(e->fd, &a) == 0 && fstatat(k->fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

int keep_discard(const struct keep *k, const char *name)
{
	static unsigned n;
	char old[96];

	snprintf(old, sizeof(old), KEEP_OLD "%llu-%d-%u", (unsigned long long)clock_ms(),
		 (int)getpid(), n++);
	return renameat(k->fd, name, k->fd, old) < 0 && errno != ENOENT ? -errno : 0;
}

int keep_begin(const struct keep *k, const char *name, int *fdp)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[NAME_MAX_SIZE];

	make_name(path, KEEP_NEW, name);
	fd = openat(k->fd, path, KEEP_DIR_FLAGS);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* left by a killed process, or another object with this name */
	if (fd >= 0 || errno != ENOENT)
		(void)keep_discard(k, path);
	fd_closep(&fd);
	if (mkdirat(k->fd, path, 0700) < 0)
		return -errno;
	fd = openat(k->fd, path, KEEP_DIR_FLAGS);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	*fdp = steal_fd(&fd);
	return 0;
}

int keep_finish(const struct keep *k, const char *name)
{
	char path[NAME_MAX_SIZE];

	/* RENAME_NOREPLACE, which some file systems lack, is not needed, because the directory is
	 * locked. */
	if (faccessat(k->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	make_name(path, KEEP_NEW, name);
	return renameat(k->fd, path, k->fd, name) < 0 ? -errno : 0;
}

struct each {
	const struct keep *keep;
	int (*fn)(void *arg, const char *name, const struct keep_entry *e);
	void *arg;
};

static int show_entry(void *arg, const char *name)
{
	const struct each *each = arg;
	struct keep_entry e;
	int r;

	if (!keep_is_sum(name) || keep_entry_open(each->keep, name, &e) < 0)
		return 0;
	r = each->fn(each->arg, name, &e);
	keep_entry_deinit(&e);
	return r;
}

int keep_for_each(const struct keep *k,
		  int (*fn)(void *arg, const char *name, const struct keep_entry *e), void *arg)
{
	struct each each = { k, fn, arg };

	return keep_for_each_name(k, show_entry, &each);
}
