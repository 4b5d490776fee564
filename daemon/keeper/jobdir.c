#include "daemon/keeper/jobdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/rundir.h"
#include "daemon/keeper/proc.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void jobdir_unlock(struct jobdir *d)
{
	if (d->lock_fd < 0)
		return;
	proc_set_private_fd(-1);
	fd_closep(&d->lock_fd);
	d->lock_fd = -1;
}

void jobdir_deinit(struct jobdir *d)
{
	jobdir_unlock(d);
	fd_closep(&d->fd);
	fd_closep(&d->base_fd);
	d->base_fd = d->fd = -1;
}

int jobdir_open_base(const char *sub, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), STAGE_RUN_DIR "%s%s", sub ? "/" : "", sub ? sub : "");
	if (mkdir(path, sub ? 0700 : 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", path);
	fd = open(path, DIR_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open %s", path);
	if (st.st_uid != 0 || st.st_mode & 022)
		return error_set(err, EPERM, "%s: must belong to root and be writable by nobody else", path);
	return steal_fd(&fd);
}

int jobdir_create(struct jobdir *d, int base_fd, const char *name, struct error *err)
{
	if (mkdirat(base_fd, name, 0711) < 0)
		return error_errno(err, errno, "make %s/%s", STAGE_RUN_DIR, name);
	return jobdir_open(d, base_fd, name, err);
}

int jobdir_open(struct jobdir *d, int base_fd, const char *name, struct error *err)
{
	int fd = openat(base_fd, name, DIR_FLAGS);

	if (fd < 0)
		return errno == ENOENT ? JOBDIR_E_GONE
				       : error_errno(err, errno, "open %s/%s", STAGE_RUN_DIR, name);
	*d = (struct jobdir){ fcntl(base_fd, F_DUPFD_CLOEXEC, 3), fd, .lock_fd = -1 };
	snprintf(d->name, sizeof(d->name), "%s", name);
	return 0;
}

int jobdir_check_place(const struct jobdir *d, struct error *err)
{
	struct stat a, b;

	if (fstat(d->fd, &a) < 0 || fstatat(d->base_fd, d->name, &b, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? JOBDIR_E_GONE
				       : error_errno(err, errno, "look at %s", d->name);
	return a.st_ino == b.st_ino ? 0 : JOBDIR_E_GONE;
}

int jobdir_lock(struct jobdir *d, uint64_t deadline_ms, struct error *err)
{
	int r;

	if (d->lock_fd < 0)
		d->lock_fd = openat(d->fd, RUNDIR_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
				    0600);
	if (d->lock_fd < 0)
		return errno == ENOENT ? JOBDIR_E_GONE : error_errno(err, errno, "open lock");
	while (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_errno(err, errno, "lock %s", d->name);
		r = jobdir_check_place(d, err);
		if (r != 0)
			return r;
		if (clock_ms() >= deadline_ms)
			return error_set(err, EBUSY, "job %s: its keeper lives", d->name);
		proc_sleep_ms(10);
	}
	proc_set_private_fd(d->lock_fd);
	return jobdir_check_place(d, err);
}

int jobdir_trash(struct jobdir *d, struct error *err)
{
	_cleanup_(fd_closep) int trash = jobdir_open_base(RUNDIR_TRASH, err);
	char name[sizeof(d->name)];
	int r = trash < 0 ? trash : jobdir_check_place(d, err);

	if (r != 0)
		return r < 0 ? r : 0;
	snprintf(name, sizeof(name), "%.20s.%llu", d->name, (unsigned long long)clock_ms());
	if (renameat(d->base_fd, d->name, trash, name) < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "move %s to %s", d->name, RUNDIR_TRASH);
	fd_closep(&d->base_fd);
	d->base_fd = steal_fd(&trash);
	strcpy(d->name, name);
	return 0;
}

int jobdir_for_each(int (*fn)(void *arg, int base_fd, const char *name), void *arg,
		    struct error *err)
{
	static const char *const subs[] = { NULL, RUNDIR_TRASH };
	static const char *const letters[] = { "0123456789", "0123456789." };
	struct dirent *e;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(subs); i++) {
		int fd = jobdir_open_base(subs[i], err);
		_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

		r = fd < 0 ? fd : dir ? 0 : -errno;
		while (dir && r >= 0 && (errno = 0, e = readdir(dir)))
			if (e->d_name[0] != '.' && !e->d_name[strspn(e->d_name, letters[i])])
				r = fn(arg, fd, e->d_name);
		r = dir && r >= 0 && errno ? -errno : r;
	}
	return r < 0 ? r : 0;
}

/* It stands in .trash, has its t yet, and is locked. */
static int look_for_memory(void *arg, int base_fd, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[96];

	snprintf(path, sizeof(path), "%.64s/" RUNDIR_MEMORY, name);
	if (!strchr(name, '.') || faccessat(base_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	snprintf(path, sizeof(path), "%.64s/" RUNDIR_LOCK, name);
	fd = openat(base_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 ? -EBUSY : 0;
}

bool jobdir_is_freeing(void)
{
	return jobdir_for_each(look_for_memory, NULL, NULL) == -EBUSY;
}
