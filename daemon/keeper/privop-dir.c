/*
 * Operations on directories of root: those of jobs, and disk tiers. All names in them are from the
 * list in this file and are made of numbers. Only empty directories are removed.
 */
#include "daemon/keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/protocol/tier-name.h"
#include "common/util/cleanup.h"
#include "common/util/root-path.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define DIR_PATH_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)
#define NEVER (-1)
#define LOCK_NUMBERS (2 * sizeof(int64_t))
#define LOCK_FLAGS (O_RDWR | O_NOFOLLOW | O_CLOEXEC)

/* flags: how the file is opened for writing from its beginning; NEVER: it is not written */
struct file {
	const char *name;
	int flags;
	mode_t mode;
};

void privop_print_name(char buf[static 64], uint32_t name, const int64_t *n)
{
	/* clang-format off */
	static const char *const formats[PRIVOP_N_NAMES] = {
		[PRIVOP_NAME_SOCK] = RUNDIR_SOCK,       [PRIVOP_NAME_FAILED] = RUNDIR_FAILED,
		[PRIVOP_NAME_STATE] = RUNDIR_STATE,     [PRIVOP_NAME_STATE_NEW] = RUNDIR_STATE_TMP,
		[PRIVOP_NAME_LOCK] = RUNDIR_LOCK,       [PRIVOP_NAME_MOUNTS] = RUNDIR_MOUNTS,
		[PRIVOP_NAME_MEMORY] = RUNDIR_MEMORY,   [PRIVOP_NAME_SLOT] = RUNDIR_MOUNTS "/%u",
		[PRIVOP_NAME_CRASHES] = RUNDIR_CRASHES, [PRIVOP_NAME_BREAKER] = RUNDIR_BREAKER,
		[PRIVOP_NAME_JOB] = "%u",               [PRIVOP_NAME_JOB_ASIDE] = "%u.%llu",
		[PRIVOP_NAME_TIER] = TIER_NAME_JOB "%u", [PRIVOP_NAME_TIER_ASIDE] = TIER_NAME_JOB "%u.%llu",
		[PRIVOP_NAME_KEEP] = TIER_NAME_KEEP "%u",
	};
	/* clang-format on */

	buf[0] = '\0';
	if (name < PRIVOP_N_NAMES)
		snprintf(buf, 64, formats[name], (uint32_t)n[0], (unsigned long long)n[1]);
}

/* Attack: a manager lists a directory of root into memory that a FUSE server backs. So it gets
 * descriptors that cannot be used for listing, except for a tier, in which a child makes all
 * changes. */
static int take_dir(struct keeper *k, struct call *c, uint32_t number, int fd)
{
	_cleanup_(fd_closep) int own = fd;
	const bool is_tier = number == PRIVOP_DIR_TIER;
	int r = fd < 0 ? -errno
		       : privop_give(c, is_tier ? fcntl(fd, F_DUPFD_CLOEXEC, 3)
						: openat(fd, ".", DIR_PATH_FLAGS));

	if (r < 0)
		return r;
	fd_closep(&k->dirs[number]);
	k->dirs[number] = steal_fd(&own);
	return 0;
}

/* Opens a directory if all directories and links of its path belong to root. */
static int open_roots(struct keeper *k, struct call *c, uint32_t number, const char *path)
{
	_cleanup_(fd_closep) int fd = root_path_open(path);

	return fd < 0 ? fd : take_dir(k, c, number, openat(fd, ".", DIR_FLAGS));
}

/* Returns true if the tier contains one of our names, which only root can have created. */
static bool has_ours(int tier)
{
	int fd = openat(tier, ".", DIR_FLAGS);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool has = false;

	if (!dir)
		fd_closep(&fd);
	while (dir && !has && (e = readdir(dir)))
		has = fnmatch(TIER_NAME_JOB "[0-9]*", e->d_name, 0) == 0 ||
		      fnmatch(TIER_NAME_KEEP "[0-9]*", e->d_name, 0) == 0;
	return has;
}

/*
 * A user who may list a directory can do so into memory that his FUSE server backs. The kernel
 * holds the directory's lock until that server has answered, and until then root could create,
 * rename and remove nothing in it. So nobody may list these directories, even if they exist with
 * another mode. They are opened before mkdir() is tried, because mkdir() would take the lock
 * of /run.
 */
int privop_open_base(struct keeper *k, struct call *c)
{
	const char *path = c->a->dir ? STAGE_RUN_DIR "/" RUNDIR_TRASH : STAGE_RUN_DIR;
	const mode_t mode = c->a->dir ? 0700 : 0711;
	int r = c->a->dir > PRIVOP_DIR_TRASH ? -EINVAL : open_roots(k, c, c->a->dir, path);

	if (r == -ENOENT)
		r = mkdir(path, mode) < 0 && errno != EEXIST ? -errno
							     : open_roots(k, c, c->a->dir, path);
	/* A failure of fchmod() is ignored, for example on a read-only file system. Otherwise the
	 * caller would get no descriptor. */
	return r < 0 || fchmod(k->dirs[c->a->dir], mode) < 0 ? r : 0;
}

/*
 * An attacker in the manager could ask for any directory of root, to make directories in it. A
 * clean-up also needs tiers that the configuration no longer names, and has their paths only from
 * records. Such a tier must contain one of our names, because otherwise there is nothing to clean
 * up. For the first job that uses a tier, root has looked up the path itself.
 */
static int find_tier(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = root_path_open(c->a->text);
	int r = fd < 0 ? fd : privop_give(c, openat(fd, ".", DIR_FLAGS));

	return r < 0 ? r : !has_ours(fd);
}

int privop_open_tier(struct keeper *k, struct call *c)
{
	int r = child_do(k, c, find_tier);
	_cleanup_(fd_closep) int fd = c->n_out ? c->out[--c->n_out] : -1;

	if (r == 1)
		r = ask_tier(k, c->a->n[0], c->a->text);
	return r < 0 ? r : take_dir(k, c, PRIVOP_DIR_TIER, steal_fd(&fd));
}

/* Only root's mark tells the owner. A file or directory of the user could be under a mount of his,
 * which shows any uid. */
uid_t dir_find_owner(int dir, struct rundir_mark *mark)
{
	_cleanup_(fd_closep) int fd = openat(dir, RUNDIR_LOCK, LOCK_FLAGS);

	if (pread(fd, mark, sizeof(*mark), 0) != sizeof(*mark))
		*mark = (struct rundir_mark){ 0 };
	return mark->uid;
}

int privop_open_dir(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = -1;
	int i = PRIVOP_DIR_FREE, r;
	struct stat st;

	if (c->a->name != PRIVOP_NAME_JOB && c->a->name != PRIVOP_NAME_JOB_ASIDE)
		return -EPERM;
	while (i < PRIVOP_N_DIRS && k->dirs[i] >= 0)
		i++;
	if (i == PRIVOP_N_DIRS)
		return -EMFILE;
	fd = openat(c->dir, c->name, DIR_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != 0 || st.st_mode & 022)
		return -EPERM;
	c->a->uid = dir_find_owner(fd, &k->marks[i]);
	c->a->gid = k->marks[i].gid;
	r = take_dir(k, c, (uint32_t)i, steal_fd(&fd));
	if (r < 0)
		return r;
	k->jobs[i] = (uint32_t)c->a->n[0];
	/* A directory that was moved aside may belong to another user's job with this number. */
	if (k->uid && c->a->dir == PRIVOP_DIR_TRASH && k->marks[i].uid != k->uid)
		k->jobs[i] = 0;
	alarm(0); /* from here on, a clean-up finds us (spank/keeper-call.c) */
	return i;
}

int privop_close_dir(struct keeper *k, struct call *c)
{
	if (c->dir < 0)
		return 0;
	fd_closep(&k->dirs[c->a->dir]);
	fd_closep(&k->locks[c->a->dir]);
	return 0;
}

int privop_list(struct keeper *k, struct call *c)
{
	long n;

	if (c->a->dir > PRIVOP_DIR_TRASH)
		return -EPERM;
	if (c->a->n[0])
		(void)lseek(c->dir, 0, SEEK_SET);
	n = syscall(SYS_getdents64, c->dir, c->a->text, sizeof(c->a->text));
	return n < 0 ? -errno : (int)n;
}

int privop_check_dir(struct keeper *k, struct call *c)
{
	struct stat a, b;

	if (fstat(c->dir2, &a) < 0 || fstatat(c->dir, c->name, &b, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	return a.st_ino != b.st_ino || a.st_dev != b.st_dev;
}

/* Makes a job's directory with root's mark in its lock file. If a clean-up has made the lock file
 * in between, this fails as if the directory had existed. */
static int make_job(const struct keeper *k, const struct call *c)
{
	struct rundir_mark mark = { k->uid, k->gid, "" };
	_cleanup_(fd_closep) int dir = -1, fd = -1;

	if (k->sluid && sluid_is_valid(k->sluid))
		strcpy(mark.sluid, k->sluid);
	if (mkdirat(c->dir, c->name, 0711) < 0)
		return -errno;
	dir = openat(c->dir, c->name, DIR_FLAGS);
	fd = dir < 0 ? -1 : openat(dir, RUNDIR_LOCK, LOCK_FLAGS | O_CREAT | O_EXCL, 0600);
	errno = fd < 0 ? errno : ENOSPC; /* for a short write(), which sets no errno */
	return fd < 0 || write(fd, &mark, sizeof(mark)) != sizeof(mark) ? -errno : 0;
}

/* This directory belongs to root and contains the user's directory, so no user can mount on it, or
 * rename an entry of it. */
static int make_tier(const struct keeper *k, const struct call *c)
{
	_cleanup_(fd_closep) int top = -1;

	if (mkdirat(c->dir, c->name, 0711) < 0)
		return -errno;
	top = openat(c->dir, c->name, DIR_FLAGS);
	if (top < 0 || mkdirat(top, TIER_NAME_DATA, 0700) < 0)
		return -errno;
	return fchownat(top, TIER_NAME_DATA, k->uid, k->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* In a directory of root, nobody else can replace it before it is given to the user. A keeper may
 * have died before that. A directory that is not empty, or has a mount on it, is left as it is. */
static int make_keep(const struct keeper *k, const struct call *c)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;
	struct statx st;

	if (statx(c->dir, c->name, flags, STATX_UID, &st) == 0 && st.stx_uid)
		return 0;
	if ((unlinkat(c->dir, c->name, AT_REMOVEDIR) < 0 && errno != ENOENT) ||
	    mkdirat(c->dir, c->name, 0700) < 0)
		return -errno;
	return fchownat(c->dir, c->name, k->uid, k->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* No other name may be a directory. A directory with the name of a file could not be removed at the
 * job's end, and the job's memory would not be freed. */
int privop_make_dir(struct keeper *k, struct call *c)
{
	if (c->a->name == PRIVOP_NAME_JOB && c->a->dir == PRIVOP_DIR_RUN)
		return *c->name ? make_job(k, c) : -ENOENT;
	if (c->a->name == PRIVOP_NAME_MOUNTS)
		return mkdirat(c->dir, c->name, 0711) < 0 ? -errno : 0;
	if (k->uid && c->a->name == PRIVOP_NAME_TIER)
		return make_tier(k, c);
	return k->uid && c->a->name == PRIVOP_NAME_KEEP ? make_keep(k, c) : -EPERM;
}

/* Returns true if the rename is allowed: a new record replaces the old one, and a directory may get
 * the name of a leftover. */
static bool may_become(const struct privop *a)
{
	if (a->name2 == PRIVOP_NAME_STATE)
		return a->name == PRIVOP_NAME_STATE_NEW && a->dir == a->dir2;
	if (a->name2 == PRIVOP_NAME_JOB_ASIDE)
		return a->name == PRIVOP_NAME_JOB || a->name == PRIVOP_NAME_JOB_ASIDE;
	return a->name2 == PRIVOP_NAME_TIER_ASIDE && a->name == PRIVOP_NAME_TIER;
}

int privop_rename(struct keeper *k, struct call *c)
{
	char to[64];

	if (!may_become(c->a) || !privop_is_place(c->a->dir2, c->a->name2))
		return -EPERM;
	privop_print_name(to, c->a->name2, c->a->n);
	return renameat(c->dir, c->name, c->dir2, to) < 0 ? -errno : 0;
}

int privop_remove(struct keeper *k, struct call *c)
{
	const bool is_job = c->a->name == PRIVOP_NAME_TIER || c->a->name == PRIVOP_NAME_TIER_ASIDE;
	_cleanup_(fd_closep) int top = c->a->dir == PRIVOP_DIR_TIER && is_job
					       ? privop_open_below(c->dir, c->name)
					       : -1;

	if (top >= 0) /* if this fails, the directory stays, too */
		(void)unlinkat(top, TIER_NAME_DATA, AT_REMOVEDIR);
	if (unlinkat(c->dir, c->name, 0) == 0)
		return 0;
	return errno == EISDIR && unlinkat(c->dir, c->name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

/* Returns the file that the call names; NULL: it may not be opened in this way. */
static const struct file *find_file(const struct keeper *k, const struct privop *a, bool write)
{
	/* clang-format off */
	static const struct file files[PRIVOP_N_FILES] = {
		[PRIVOP_FILE_STATE] = { RUNDIR_STATE, NEVER, 0 },
		[PRIVOP_FILE_STATE_NEW] = { RUNDIR_STATE_TMP, O_TRUNC, 0600 },
		[PRIVOP_FILE_FAILED] = { RUNDIR_FAILED, O_TRUNC, 0644 },
		[PRIVOP_FILE_CRASHES] = { RUNDIR_CRASHES, O_APPEND, 0600 },
		[PRIVOP_FILE_BREAKER] = { RUNDIR_BREAKER, O_EXCL, 0644 },
		[PRIVOP_FILE_METRICS] = { RUNDIR_METRICS, 0, 0600 },
	};
	/* clang-format on */
	const uint32_t i = a->name;

	if (i >= PRIVOP_N_FILES)
		return NULL;
	if (i < PRIVOP_FILE_CRASHES ? a->dir < PRIVOP_DIR_FREE : a->dir != PRIVOP_DIR_RUN)
		return NULL;
	if (!write)
		return &files[i];
	if (files[i].flags == NEVER || privop_is_others(k, a->dir))
		return NULL;
	/* By writing these files, a job's manager could turn staging off for all jobs of the
	 * node. */
	if (k->uid && (i == PRIVOP_FILE_CRASHES || i == PRIVOP_FILE_BREAKER))
		return NULL;
	return &files[i];
}

int privop_open_file(struct keeper *k, struct call *c)
{
	const struct file *f = find_file(k, c->a, false);

	if (!f)
		return -EPERM;
	return privop_give(c, openat(c->dir, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

/* The manager gets no descriptor for writing, because it could pass one to a process that has no
 * limits. */
int privop_write(struct keeper *k, struct call *c)
{
	const struct file *f = find_file(k, c->a, true);
	const int64_t size = c->a->n[0];
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int flags;

	if (!f || size < 0 || size > PRIVOP_TEXT_SIZE)
		return -EPERM;
	flags = c->a->n[1] && f->flags == O_TRUNC ? O_APPEND : f->flags;
	fd = openat(c->dir, f->name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, f->mode);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size + size > PRIVOP_MAX_RECORD)
		return -EFBIG;
	errno = ENOSPC; /* for a short write(), which sets no errno */
	return write(fd, c->a->text, (size_t)size) != size ? -errno : 0;
}

static int try_lock(int fd, int how)
{
	if (flock(fd, how | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

/* Each try uses the file that was opened first. A new file would be in a directory that another
 * process removes: the removal would fail, and the process with the new file would assume that
 * everything was removed. */
static int take_lock(struct keeper *k, const struct call *c)
{
	int *const fdp = &k->locks[c->a->dir];

	if (*fdp < 0)
		*fdp = openat(c->dir, RUNDIR_LOCK, LOCK_FLAGS | O_CREAT, 0600);
	return *fdp < 0 ? -errno : try_lock(*fdp, LOCK_EX);
}

/* No descriptor of the file leaves root: a process that had one could hold the lock, and the job's
 * memory with it, for ever. */
int privop_lock(struct keeper *k, struct call *c)
{
	int64_t *const n = c->a->n;
	_cleanup_(fd_closep) int fd = -1;

	if (c->a->dir < PRIVOP_DIR_FREE || c->dir < 0)
		return -EPERM;
	if (n[0] != PRIVOP_LOCK_LOOK && n[0] != PRIVOP_LOCK_READ && privop_is_others(k, c->a->dir))
		return -EPERM;
	if (n[0] == PRIVOP_LOCK_TAKE)
		return take_lock(k, c);
	if (n[0] == PRIVOP_LOCK_FREE) {
		fd_closep(&k->locks[c->a->dir]);
		return 0;
	}
	fd = openat(c->dir, RUNDIR_LOCK, LOCK_FLAGS);
	if (fd < 0)
		return -errno;
	if (n[0] == PRIVOP_LOCK_LOOK)
		return try_lock(fd, LOCK_SH);
	if (n[0] == PRIVOP_LOCK_WRITE)
		return pwrite(fd, n + 1, LOCK_NUMBERS, sizeof(struct rundir_mark)) < 0 ? -errno : 0;
	n[1] = n[2] = 0;
	return pread(fd, n + 1, LOCK_NUMBERS, sizeof(struct rundir_mark)) < 0 ? -errno : 0;
}

/* Root binds the socket in root's directory, so no other user can bind this name. stagingd calls
 * listen(), so that SO_PEERCRED shows the job's user to clients. */
int privop_bind(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
					     0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (c->a->dir < PRIVOP_DIR_FREE || !k->uid || !privop_is_ours(k, c->a))
		return -EPERM;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" RUNDIR_SOCK, c->dir);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(c->dir, RUNDIR_SOCK, 0600, 0) < 0 ||
	    fchownat(c->dir, RUNDIR_SOCK, k->uid, k->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return privop_give(c, steal_fd(&fd));
}
