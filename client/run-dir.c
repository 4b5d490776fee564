/*
 * Everything hangs on two descriptors: that of /dev/shm/stage-data-<uid>, or below
 * another base (run_dir_set_base()), which is looked at closely once (/dev/shm is everybody's: the
 * name may have been taken by another), and that of the key below it. Names in /dev/shm itself are
 * not used again after that.
 *
 * A directory can be removed between the moment it is made or found and the moment it is owned, by
 * its owner or by somebody's sweep; so who gets the lock looks whether the directory is still the
 * one of that name.
 */
#include "client/run-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/manifest.h"
#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/fusermount.h"
#include "common/util/rmtree.h"

#define USERS "users"
#define OWNER "owner"
#define MAX_TRIES 100
#define DEFAULT_BASE "/dev/shm"
#define MAX_BASE 48 /* a socket's path has 107 bytes; this is the rest */

static char base_dir[PATH_MAX] = DEFAULT_BASE;

/* Refuses a base in which other users could replace our directory. */
static int check_base(const char *path, struct error *err)
{
	struct stat st;

	if (*path != '/')
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s: name an absolute path", path);
	if (stat(path, &st) < 0)
		return error_errno(err, errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return error_errno(err, ENOTDIR, "%s", path);
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return error_exit(
			err, STAGE_EXIT_FAILED, EPERM,
			"%s can be written by others, who could replace what is staged there; "
			"name a directory of your own by --dir",
			path);
	if (access(path, R_OK | W_OK | X_OK) < 0)
		return error_errno(err, errno, "%s", path);
	return 0;
}

int run_dir_set_base(const char *dir, struct error *err)
{
	const char *tmp = getenv("TMPDIR");
	int r;

	if (!dir && access(DEFAULT_BASE, R_OK | W_OK | X_OK) == 0)
		return 0;
	if (!dir && (!tmp || !*tmp))
		return error_exit(err, STAGE_EXIT_FAILED, EACCES,
				  DEFAULT_BASE
				  " is not writable (%s); name another directory of this node "
				  "by --dir or TMPDIR",
				  strerror(errno));
	r = check_base(dir ? dir : tmp, err);
	if (r < 0) {
		if (!dir)
			error_prefix(err, DEFAULT_BASE " is not writable, and TMPDIR");
		return r;
	}
	if (snprintf(base_dir, sizeof(base_dir), "%s", dir ? dir : tmp) >= MAX_BASE)
		return error_exit(
			err, STAGE_EXIT_FAILED, ENAMETOOLONG,
			"%s: a socket below it would have too long a name; name a shorter path by "
			"--dir",
			base_dir);
	return 0;
}

int run_dir_path(char *buf, size_t size, uid_t uid, const char *key)
{
	int n = snprintf(buf, size, "%s/stage-data-%u/%s", base_dir, (unsigned)uid, key);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : n;
}

/* Opens a directory that belongs to this user only and is not a link. Returns an fd or -errno. */
static int open_own_dir(int parent_fd, const char *name, const char *shown, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", shown);
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT; /* removed in between */
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "%s is there and no directory of ours", shown);
	/* the umask or chmod has removed the owner's rights */
	if (st.st_uid == geteuid() && !(st.st_mode & 077) && (st.st_mode & 0700) != 0700 &&
	    fchmod(fd, 0700) < 0)
		return error_errno(err, errno, "chmod %s", shown);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return error_exit(
			err, STAGE_EXIT_FAILED, EPERM,
			"%s is there and not yours alone (uid %u, mode %03o); ask for its "
			"removal",
			shown, (unsigned)st.st_uid, (unsigned)(st.st_mode & 0777));
	return steal_fd(&fd);
}

/* Returns whether a stagingd is running there. If its cleaner was killed, it is ending and must not
 * be disturbed. */
static bool has_daemon(int dir_fd)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, RUNDIR_LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* Becomes the owner of a directory. Returns an fd; -EAGAIN: it has an owner; -ESTALE: the name no
 * longer belongs to this directory. */
static int lock_dir(int base_fd, const char *key, int dir_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat mine, there;

	fd = openat(dir_fd, OWNER, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (has_daemon(dir_fd))
		return -EAGAIN;
	if (fstat(dir_fd, &mine) < 0 || fstatat(base_fd, key, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
		return -ESTALE;
	return steal_fd(&fd);
}

static int release(const char *path, struct error *err)
{
	char manifest[PATH_MAX];

	if (snprintf(manifest, sizeof(manifest), "%s/" RUNDIR_MANIFEST, path) >=
	    (int)sizeof(manifest))
		return -ENAMETOOLONG;
	return manifest_release(manifest, fusermount_unmount, err);
}

/* Removes a directory that the caller owns. Returns the first error. */
static int remove_dir(int base_fd, const char *key, const char *path, struct error *err)
{
	int r = release(path, err), q;

	q = rmtree_at(base_fd, key, NULL, r < 0 ? NULL : err);
	return r < 0 ? r : q;
}

/* Removes other directories that have no owner. */
static void sweep(const struct run_dir *d)
{
	_cleanup_(dir_closep) DIR *dir = fd_open_dir(d->base_fd, ".");
	const struct dirent *e;
	char path[PATH_MAX];

	while (dir && (e = readdir(dir))) {
		_cleanup_(fd_closep) int dir_fd = -1;
		_cleanup_(fd_closep) int lock_fd = -1;

		if (e->d_name[0] == '.' || !strcmp(e->d_name, d->key))
			continue;
		dir_fd = openat(d->base_fd, e->d_name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir_fd < 0)
			continue;
		lock_fd = lock_dir(d->base_fd, e->d_name, dir_fd);
		if (lock_fd >= 0 && run_dir_path(path, sizeof(path), geteuid(), e->d_name) > 0)
			remove_dir(d->base_fd, e->d_name, path, NULL);
	}
}

int run_dir_open(struct run_dir *d, const char *key, struct error *err)
{
	char base[PATH_MAX + 64], name[32];
	_cleanup_(fd_closep) int shm = open(base_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (shm < 0)
		return error_errno(err, errno, "open %s", base_dir);
	snprintf(name, sizeof(name), "stage-data-%u", (unsigned)geteuid());
	snprintf(base, sizeof(base), "%s/%s", base_dir, name);
	snprintf(d->key, sizeof(d->key), "%s", key);
	if (run_dir_path(d->path, sizeof(d->path), geteuid(), key) < 0)
		return error_set(err, ENAMETOOLONG, "%s is too long", key);
	for (int i = 0; i < MAX_TRIES; i++) {
		d->base_fd = open_own_dir(shm, name, base, err);
		if (d->base_fd >= 0)
			d->fd = open_own_dir(d->base_fd, key, d->path, err);
		if (d->base_fd >= 0 && d->fd >= 0) {
			sweep(d);
			return 0;
		}
		if (d->base_fd != -ENOENT && d->fd != -ENOENT)
			return d->base_fd < 0 ? d->base_fd : d->fd;
		run_dir_close(d);
	}
	return error_set(err, EBUSY, "%s is removed again and again", d->path);
}

void run_dir_close(struct run_dir *d)
{
	int *fds[] = { &d->users_fd, &d->lock_fd, &d->fd, &d->base_fd };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* Removes what a daemon and its workers make: their datasets, these names, and in.*. Other files
 * stay, such as the owner's. The old daemon's lock goes too: a sweep would take it for a sign that
 * the directory is dead. */
static int empty(struct run_dir *d, struct error *err)
{
	static const char *const names[] = { RUNDIR_LOCK, RUNDIR_SOCK, USERS, RUNDIR_MEMORY,
					     RUNDIR_MOUNTS };
	_cleanup_(dir_closep) DIR *dir = NULL;
	const struct dirent *e;
	int r;

	r = release(d->path, err);
	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
		r = rmtree_at(d->fd, names[i], NULL, err);
	dir = fd_open_dir(d->fd, ".");
	while (r == 0 && dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, "in.", 3))
			unlinkat(d->fd, e->d_name, 0);
	return r;
}

int run_dir_try_own(struct run_dir *d, struct error *err)
{
	int r = lock_dir(d->base_fd, d->key, d->fd);

	if (r == -EAGAIN || r == -ESTALE)
		return 0;
	if (r < 0)
		return error_errno(err, -r, "lock %s", d->path);
	d->lock_fd = r;
	r = empty(d, err);
	if (r < 0) {
		error_prefix(err, "remove what an earlier run left");
		return r;
	}
	return 1;
}

int run_dir_remove(struct run_dir *d, struct error *err)
{
	char base[PATH_MAX + 64];
	int r = remove_dir(d->base_fd, d->key, d->path, err);

	snprintf(base, sizeof(base), "%s/stage-data-%u", base_dir, (unsigned)geteuid());
	rmdir(base); /* fails if it is not empty */
	return r;
}

int run_dir_join(struct run_dir *d)
{
	_cleanup_(fd_closep) int fd = -1;

	fd = openat(d->fd, USERS, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -EAGAIN;
	d->users_fd = steal_fd(&fd);
	return 0;
}

/* flock() releases a shared lock before it takes the exclusive one. If two processes try at the
 * same time, at least one of them succeeds, which is enough. */
bool run_dir_leave(struct run_dir *d)
{
	bool last;

	if (d->users_fd < 0)
		return false;
	last = flock(d->users_fd, LOCK_EX | LOCK_NB) == 0;
	if (!last) {
		close(d->users_fd);
		d->users_fd = -1;
	}
	return last;
}

static void on_alarm(int sig)
{
}

bool run_dir_wait_gone(const struct run_dir *d, unsigned timeout_s)
{
	struct sigaction act = { .sa_handler = on_alarm }, old;
	_cleanup_(fd_closep) int fd = -1;
	sigset_t alarms, mask;
	int r;

	fd = openat(d->fd, OWNER, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return true;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigaction(SIGALRM, &act, &old);
	sigprocmask(SIG_UNBLOCK, &alarms, &mask); /* the parent may have blocked it */
	alarm(timeout_s);
	r = flock(fd, LOCK_EX);
	alarm(0);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGALRM, &old, NULL);
	return r == 0;
}

void run_dir_check_in(const struct run_dir *d, uint32_t local_id)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "in.%u", local_id);
	fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static uint32_t count_checked_in(const struct run_dir *d)
{
	_cleanup_(dir_closep) DIR *dir = fd_open_dir(d->fd, ".");
	const struct dirent *e;
	uint32_t n = 0;

	while (dir && (e = readdir(dir)))
		n += !strncmp(e->d_name, "in.", 3);
	return n;
}

void run_dir_wait_checked_in(const struct run_dir *d, uint32_t n, uint64_t timeout_ms)
{
	_cleanup_(fd_closep) int fd = inotify_init1(IN_CLOEXEC);
	uint64_t until = clock_ms() + timeout_ms, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char events[4096];

	if (fd < 0 || inotify_add_watch(fd, d->path, IN_CREATE) < 0)
		return;
	while (count_checked_in(d) < n && (now = clock_ms()) < until) {
		if (poll(&p, 1, (int)(until - now)) <= 0)
			return;
		if (read(fd, events, sizeof(events)) < 0)
			return;
	}
}
