/*
 * The requests of a manager that an attacker has taken over to the keeper, which is root:
 * privileged operations with any content, with or without descriptors. No system call of the keeper
 * reaches the kernel. Each call is compared with what root may do at all, and the input decides
 * whether it succeeds or fails.
 */
#include "tests/fuzz/privops-input.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/protocol/keeper-helper.h"
#include "daemon/keeper/keeper.h"

#include "stage-build.h"

#define MANAGER 4710
#define SYSTEM_UID 490
#define CHILD 4711
#define SHOWN_GID 77 /* of what stands somewhere */
#define MAX_FDS 256
#define TARGET "/proc/self/fd/"

enum { OF_CGROUP = 1, OF_ROOT = 2, OF_PATH = 4, OF_NEW = 8 };

static bool
	inside; /* of a privileged operation; what libFuzzer and its runtime call is their own */
static struct keeper k;
static const struct privop *privop;
static const struct call *call;
static uint32_t luck;
static unsigned known[MAX_FDS]; /* what was seen of a descriptor */
static bool is_child, is_looked_at, is_namespace, is_free;
static uid_t shown_uid;	  /* of the process that was looked at */
static uid_t shown_owner; /* by the mark that was read in this privileged operation; 0: none was */
static unsigned shown_job, n_detached;

/* clang-format off */
#define WRAP(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)
/* clang-format on */

static bool draw(void)
{
	luck = luck >> 1 | luck << 31;
	return luck >> 31;
}

int __real_open64(const char *path, int flags, ...);
DIR *__real_opendir(const char *path);
ssize_t __real_pwrite64(int fd, const void *buf, size_t size, off_t offset);

static int fail(int error)
{
	errno = error;
	return -1;
}

/* A descriptor of nothing. */
static int give(unsigned what)
{
	int fd = draw() ? __real_open64("/dev/null", O_RDWR | O_CLOEXEC)
			: fail(draw() ? EMFILE : ENOENT);

	if (fd >= 0 && fd < MAX_FDS)
		known[fd] = what;
	return fd;
}

static int give_bytes(const char *text, size_t size)
{
	int fd = draw() || draw() ? memfd_create("text", MFD_CLOEXEC) : fail(ENOENT);

	if (fd >= 0)
		FUZZ_CHECK(__real_pwrite64(fd, text, size, 0) == (ssize_t)size);
	if (fd >= 0 && fd < MAX_FDS)
		known[fd] = 0; /* a number that was another's */
	return fd;
}

static int give_text(const char *text)
{
	return give_bytes(text, strlen(text));
}

static int succeed(void)
{
	return draw() ? 0 : fail(draw() ? EEXIST : draw() ? EISDIR : EIO);
}

static bool is_known(int fd, unsigned what)
{
	return fd >= 0 && fd < MAX_FDS && (known[fd] & what) == what;
}

/* Names of the list: nothing that leads elsewhere. */
static bool is_listed(const char *name)
{
	const char *base = strncmp(name, RUNDIR_MOUNTS "/", 2) ? name : name + 2;

	return base[strspn(base, ".")] &&
	       !base[strspn(base, "abcdefghijklmnopqrstuvwxyz0123456789.-")];
}

/* One that leads down and no way else. */
static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static bool has_end(const char *name, const char *end, const char *other)
{
	const size_t n = strlen(name), k1 = strlen(end), k2 = strlen(other);

	return (n >= k1 && !strcmp(name + n - k1, end)) ||
	       (n >= k2 && !strcmp(name + n - k2, other));
}

static bool is_of_group(void)
{
	return privop->kind == PRIVOP_HOLD_GROUP || privop->kind == PRIVOP_REMOVE_GROUP ||
	       privop->kind == PRIVOP_JOIN_GROUP;
}

/* A job's keeper names nothing of another job, and makes nothing where one that is over is cleaned
 * up. */
static void check_is_ours(int dirfd, const char *name)
{
	const size_t n = strcspn(name, "0123456789");
	const unsigned number = (unsigned)strtoul(name + n, NULL, 10);

	if (!k.job || is_of_group() || privop->kind == PRIVOP_TEXT ||
	    privop->kind == PRIVOP_CHECK_DIR || !*name)
		return;
	for (int i = PRIVOP_DIR_FREE; i < PRIVOP_N_DIRS; i++)
		if (k.dirs[i] >= 0 && k.dirs[i] == dirfd && k.jobs[i] != k.job)
			FUZZ_CHECK(privop->kind == PRIVOP_OPEN_FILE ||
				   privop->kind == PRIVOP_OPEN_DIR ||
				   (privop->kind == PRIVOP_LOCK &&
				    (privop->n[0] == PRIVOP_LOCK_LOOK ||
				     privop->n[0] == PRIVOP_LOCK_READ)) ||
				   k.marks[i].uid == k.uid);
	if (strncmp(name, "stage-keep-", 11) == 0)
		FUZZ_CHECK(number == k.uid);
	else if (name[n] && strncmp(name, RUNDIR_MOUNTS "/", 2) != 0)
		FUZZ_CHECK(number == k.job || strchr(name, '.'));
}

/* Whose name may stand in that directory. */
static void check_named(int dirfd, const char *name)
{
	check_is_ours(dirfd, name);
	if (is_of_group())
		FUZZ_CHECK(is_known(dirfd, OF_CGROUP));
	else if (privop->kind == PRIVOP_TEXT)
		FUZZ_CHECK(is_known(dirfd, OF_ROOT) && is_name(name) &&
			   has_end(name, privop->n[0] ? ".prom" : ".tmp", ".prom.tmp"));
	else
		FUZZ_CHECK(is_listed(name) || !*name ||
			   (privop->kind == PRIVOP_MEMORY && !strcmp(name, ".stage/tmp")));
}

static int open_stat(const char *path)
{
	char line[256];
	int pid;

	if (strncmp(path, "/proc/self/fdinfo/", 18) == 0)
		return give_text("mnt_id:	7\n");
	FUZZ_CHECK(sscanf(path, "/proc/%d/stat", &pid) == 1 && pid > 0);
	if (strstr(path, "/status")) {
		shown_uid = draw() ? 0 : draw() ? 1000 : draw() ? SYSTEM_UID : 1001;
		snprintf(line, sizeof(line), "Name:	x\nUid:	%u	%u	%u	%u\n",
			 shown_uid, shown_uid, shown_uid, draw() || draw() ? shown_uid : 5);
		return give_text(line);
	}
	if (strstr(path, "/cmdline")) {
		shown_job = draw() ? 7 : 8;
		return give_bytes(line, (size_t)snprintf(line, sizeof(line),
							 "/x/stage-keeper%crun%c--job%c%u", 0, 0, 0,
							 shown_job) +
						1);
	}
	snprintf(line, sizeof(line), "%d (x) %c %d 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 %d",
		 pid,
		 draw()	  ? 'S'
		 : draw() ? 'Z'
			  : 'T',
		 draw() ? getpid() : 1, draw() ? 777 : 7);
	return give_text(line);
}

/* The flags of root_path_open(), which no other privileged operation uses. */
static bool is_walk(int flags)
{
	return flags == (O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

WRAP(int, open64, const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	if (!inside)
		return __real_open64(path, flags, mode);
	FUZZ_CHECK(flags & O_CLOEXEC && !(flags & (O_TRUNC | O_CREAT)));
	if (!strcmp(path, "/")) { /* where root_path_open() begins */
		FUZZ_CHECK(flags & O_PATH && flags & O_NOFOLLOW);
		return give(OF_PATH);
	}
	if (strncmp(path, "/proc/self/fdinfo/", 18) == 0)
		return open_stat(path);
	switch (privop->kind) {
	case PRIVOP_SLOT:
		FUZZ_CHECK(!strcmp(path, "/dev/fuse"));
		break;
	case PRIVOP_OPEN_PROC:
		FUZZ_CHECK(!strcmp(path, "/proc") && flags & O_PATH);
		break;
	case PRIVOP_OPEN_WAITING:
	case PRIVOP_ABORT:
		FUZZ_CHECK(!strcmp(path, "/sys/fs/fuse/connections") && flags & O_PATH);
		break;
	default:
		FUZZ_CHECK((flags & O_ACCMODE) == O_RDONLY);
		return open_stat(path);
	}
	return give(0);
}

static bool is_of_connection(void)
{
	return privop->kind == PRIVOP_OPEN_WAITING || privop->kind == PRIVOP_ABORT;
}

/* Goes down from a directory of root's on its own mount (privop_open_below()), by any text. */
static bool is_below(void)
{
	return privop->kind == PRIVOP_DETACH_BELOW ||
	       (privop->kind == PRIVOP_REMOVE && privop->dir == PRIVOP_DIR_TIER);
}

/* Looks which mount is on one of the fixed names. */
static bool is_unmounting(void)
{
	return privop->kind == PRIVOP_DETACH || privop->kind == PRIVOP_SLOT;
}

WRAP(int, openat64, int dirfd, const char *name, int flags, ...)
{
	FUZZ_CHECK(inside && flags & O_CLOEXEC);
	/* each name on the way is looked up in a directory of root's alone */
	if (is_walk(flags) && !is_below() && !is_unmounting()) {
		FUZZ_CHECK((is_name(name) || !strcmp(name, ".")) && is_known(dirfd, OF_ROOT));
		return give(OF_PATH);
	}
	/* what the manager gets of a directory of root's: it can't list by that */
	if ((privop->kind == PRIVOP_OPEN_BASE || privop->kind == PRIVOP_OPEN_DIR) &&
	    flags == (O_PATH | O_DIRECTORY | O_CLOEXEC)) {
		FUZZ_CHECK(!strcmp(name, "."));
		return give(OF_PATH);
	}
	if (is_of_connection() && *name && *name != *RUNDIR_MOUNTS)
		FUZZ_CHECK(strspn(name, "0123456789") &&
			   !strcmp(name + strspn(name, "0123456789"),
				   privop->kind == PRIVOP_ABORT ? "/abort" : "/waiting"));
	else if (is_below() && is_walk(flags & ~O_DIRECTORY))
		FUZZ_CHECK((is_name(name) || is_listed(name) || !*name || !strcmp(name, ".")) &&
			   flags & O_PATH && flags & O_NOFOLLOW);
	else if (privop->kind == PRIVOP_OPEN_BASE ||
		 privop->kind == PRIVOP_OPEN_TIER) /* what root_path_open() gave */
		FUZZ_CHECK(!strcmp(name, ".") && is_known(dirfd, OF_ROOT) && flags & O_DIRECTORY);
	else if (privop->kind == PRIVOP_REPEAT &&
		 !(flags & O_PATH)) /* never a device or a pipe, which it could wait for */
		FUZZ_CHECK(is_namespace && is_name(name) && is_known(dirfd, OF_ROOT) &&
			   flags & O_NOFOLLOW && flags & O_NONBLOCK);
	else if (privop->kind == PRIVOP_REPEAT)
		FUZZ_CHECK(!strcmp(name, ".") || !strcmp(name, RUNDIR_MOUNTS));
	else
		check_named(dirfd, name);
	if (flags & (O_CREAT | O_TRUNC | O_WRONLY) && !is_of_connection())
		FUZZ_CHECK(flags & O_NOFOLLOW);
	if (privop->kind == PRIVOP_OPEN_LOG || (privop->kind == PRIVOP_TEXT && dirfd >= 0))
		return give(OF_NEW);
	if (dirfd < 0)
		return fail(EBADF);
	if (is_of_group() && flags & O_DIRECTORY) /* the job's group, or one in it */
		return give(OF_PATH | OF_CGROUP);
	if (privop->kind == PRIVOP_REMOVE_GROUP) /* 0: of another pid namespace */
		return give_text(draw() ? "4712\n4713\n" : "4712\n0\n");
	return give(flags & O_PATH ? OF_PATH : 0);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
	FUZZ_CHECK(inside && privop->kind == PRIVOP_OPEN_BASE && !(mode & 022) &&
		   !strncmp(path, STAGE_RUN_DIR, strlen(STAGE_RUN_DIR)));
	return succeed();
}

WRAP(int, fchmod, int fd, mode_t mode)
{
	FUZZ_CHECK(inside);
	if (mode == 0600) /* the file for a helper's answer */
		return draw() ? 0 : fail(EPERM);
	FUZZ_CHECK(privop->kind == PRIVOP_OPEN_BASE && !(mode & ~0711U) &&
		   fd == k.dirs[privop->dir]);
	return succeed();
}

/* The socket, while it is root's. */
WRAP(int, fchmodat, int dirfd, const char *name, mode_t mode, int flags)
{
	FUZZ_CHECK(inside && privop->kind == PRIVOP_BIND && mode == 0600 &&
		   !strcmp(name, RUNDIR_SOCK));
	return dirfd < 0 ? fail(EBADF) : succeed();
}

WRAP(int, mkdirat, int dirfd, const char *name, mode_t mode)
{
	check_named(dirfd, name);
	FUZZ_CHECK(!(mode & ~0755U) && (!is_of_group() || !strcmp(name, JOB_CGROUP_OURS)));
	return dirfd < 0 ? fail(EBADF) : *name ? succeed() : fail(ENOENT);
}

WRAP(int, renameat, int fromfd, const char *from, int tofd, const char *to)
{
	check_named(fromfd, from);
	check_named(tofd, to);
	return fromfd < 0 || tofd < 0 ? fail(EBADF) : succeed();
}

WRAP(int, unlinkat, int dirfd, const char *name, int flags)
{
	check_named(dirfd, name);
	if (is_of_group())
		FUZZ_CHECK(flags == AT_REMOVEDIR && (!strcmp(name, JOB_CGROUP_OURS) ||
						     (privop->n[1] && !strncmp(name, "job_", 4))));
	return dirfd < 0 ? fail(EBADF) : succeed();
}

/* Nothing becomes a user's but the socket and what is made for him in a tier. */
WRAP(int, fchownat, int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
	FUZZ_CHECK(uid == k.uid && gid == k.gid && flags & AT_SYMLINK_NOFOLLOW);
	if (privop->kind == PRIVOP_BIND)
		FUZZ_CHECK(!strcmp(name, RUNDIR_SOCK));
	else if (privop->kind == PRIVOP_MEMORY)
		FUZZ_CHECK(uid && (!strcmp(name, "data") || !strncmp(name, ".stage", 6)));
	else if (strcmp(name, "data") != 0)
		FUZZ_CHECK(uid && dirfd == k.dirs[PRIVOP_DIR_TIER] &&
			   !strncmp(name, "stage-keep-", 11));
	else
		FUZZ_CHECK(uid && privop->name == PRIVOP_NAME_TIER);
	return dirfd < 0 ? fail(EBADF) : succeed();
}

WRAP(int, flock, int fd, int how)
{
	FUZZ_CHECK(inside && privop->kind == PRIVOP_LOCK && how & LOCK_NB);
	return draw() ? 0 : fail(EWOULDBLOCK);
}

WRAP(ssize_t, pwrite64, int fd, const void *buf, size_t size, off_t offset)
{
	if (!inside)
		return __real_pwrite64(fd, buf, size, offset);
	FUZZ_CHECK(privop->kind == PRIVOP_LOCK && size == 16 &&
		   offset == sizeof(struct rundir_mark));
	return draw() ? (ssize_t)size : fail(ENOSPC);
}

/* Root's mark whose a job's directory is. */
WRAP(ssize_t, pread64, int fd, void *buf, size_t size, off_t offset)
{
	struct rundir_mark mark = { draw() ? 1000 : 1001, SHOWN_GID, "" };

	if (!inside)
		return __real_pread64(fd, buf, size, offset);
	if (privop->kind == PRIVOP_LOCK)
		return 0;
	FUZZ_CHECK(size == sizeof(mark) && offset == 0);
	if (fd < 0 || draw())
		return 0;
	memcpy(buf, &mark, size);
	shown_owner = mark.uid;
	return (ssize_t)size;
}

WRAP(int, access, const char *path, int mode)
{
	return inside ? succeed() : __real_access(path, mode);
}

static int tell_stat(int fd, struct stat *st)
{
	const bool safe = draw();

	*st = (struct stat){ .st_uid = !safe && draw(),
			     .st_mode = S_IFDIR | (safe ? 0755 : 0777),
			     .st_ino = draw() };
	if (fd >= 0 && fd < MAX_FDS && safe)
		known[fd] |= OF_ROOT;
	return draw() ? 0 : fail(ENOENT);
}

WRAP(int, fstat64, int fd, struct stat *st)
{
	return inside ? fd < 0 ? fail(EBADF) : tell_stat(fd, st) : __real_fstat64(fd, st);
}

WRAP(int, lstat64, const char *path, struct stat *st)
{
	return inside ? tell_stat(-1, st) : __real_lstat64(path, st);
}

WRAP(int, fstatat64, int fd, const char *name, struct stat *st, int flags)
{
	FUZZ_CHECK(inside && flags & AT_SYMLINK_NOFOLLOW);
	return fd < 0 ? fail(EBADF) : tell_stat(-1, st);
}

WRAP(int, statx, int fd, const char *name, int flags, unsigned mask, struct statx *st)
{
	const bool safe = draw() || draw();
	int r;

	FUZZ_CHECK(inside && flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) &&
		   flags & AT_STATX_DONT_SYNC);
	*st = (struct statx){ .stx_dev_minor = draw() ? 0 : 5 };
	st->stx_uid = safe || draw() ? 0 : 1000;
	st->stx_gid = SHOWN_GID;
	st->stx_mode = S_IFDIR | (safe ? 0755 : 0777);
	r = fd < 0 ? fail(EBADF) : draw() || draw() ? 0 : fail(ENOENT);
	if (r == 0 && flags & AT_EMPTY_PATH && safe && fd < MAX_FDS)
		known[fd] |= OF_ROOT;
	is_free = r == 0 && st->stx_dev_minor == 0;
	return r;
}

WRAP(int, fstatfs64, int fd, struct statfs *fs)
{
	FUZZ_CHECK(inside);
	fs->f_type = draw() ? CGROUP_SUPER_MAGIC : draw() ? NSFS_MAGIC : TMPFS_MAGIC;
	fs->f_blocks = fs->f_type == TMPFS_MAGIC;
	is_namespace = fs->f_type == NSFS_MAGIC;
	if (fs->f_type == CGROUP_SUPER_MAGIC && fd >= 0 && fd < MAX_FDS)
		known[fd] |= OF_CGROUP;
	return 0;
}

WRAP(ssize_t, readlink, const char *path, char *buf, size_t size)
{
	int pid;

	if (!inside)
		return __real_readlink(path, buf, size);
	if (privop->kind == PRIVOP_LOOK) { /* the program of a process */
		FUZZ_CHECK(sscanf(path, "/proc/%d/exe", &pid) == 1 && pid > 0);
		return draw() ? snprintf(buf, size, "/sbin/slurmstepd") : fail(ENOENT);
	}
	FUZZ_CHECK(!strncmp(path, TARGET, strlen(TARGET)) && size == PATH_MAX - 1);
	memset(buf, 'x', size);
	buf[0] = '/';
	return draw() ? (ssize_t)size : draw() ? 4 : fail(ENOENT);
}

static void check_target(const char *path)
{
	int fd = -1, n = 0;

	FUZZ_CHECK(sscanf(path, TARGET "%d%n", &fd, &n) == 1 && !path[n] && is_known(fd, OF_PATH));
}

/* Not more than there is, and not 0, which is no limit. */
static void check_size(const char *options)
{
	const char *size = strstr(options, "size=");
	struct sysinfo si;

	FUZZ_CHECK(size && sysinfo(&si) == 0);
	FUZZ_CHECK(strtoull(size + 5, NULL, 10) > 0);
	FUZZ_CHECK(strtoull(size + 5, NULL, 10) <= (unsigned long long)si.totalram * si.mem_unit);
}

WRAP(int, mount, const char *source, const char *path, const char *type, unsigned long flags,
     const void *data)
{
	const char *options = data;

	check_target(path);
	FUZZ_CHECK(flags & MS_NOSUID && flags & MS_NODEV);
	FUZZ_CHECK(!options[strspn(options, "abcdefghijklmnopqrstuvwxyz_0123456789=,")]);
	if (!type)
		FUZZ_CHECK(flags & MS_REMOUNT && privop->kind == PRIVOP_RESIZE);
	else
		FUZZ_CHECK(
			k.uid && is_free &&
			!strcmp(type, privop->kind == PRIVOP_MEMORY ? "tmpfs" : "fuse.stage-data"));
	if (privop->kind != PRIVOP_SLOT)
		check_size(options);
	return draw() ? 0 : fail(draw() ? EINVAL : ENOMEM);
}

/* Not what holds the directory itself, nor what is beside it. */
WRAP(int, umount2, const char *path, int flags)
{
	int fd, n = 0;

	FUZZ_CHECK(flags == (MNT_DETACH | UMOUNT_NOFOLLOW));
	FUZZ_CHECK(sscanf(path, TARGET "%d/%n", &fd, &n) == 1);
	FUZZ_CHECK(n &&
		   (privop->kind == PRIVOP_DETACH_BELOW ? is_name(path + n) : is_listed(path + n)));
	return draw() && ++n_detached % 8 ? 0 : fail(EINVAL);
}

WRAP(int, ioctl, int fd, unsigned long request, ...)
{
	FUZZ_CHECK(inside && privop->kind == PRIVOP_SLOT);
	return draw() ? 0 : fail(EINVAL);
}

WRAP(int, bind, int fd, const struct sockaddr *addr, socklen_t size)
{
	const char *path = ((const struct sockaddr_un *)addr)->sun_path;

	FUZZ_CHECK(privop->kind == PRIVOP_BIND && !strncmp(path, TARGET, strlen(TARGET)) &&
		   strstr(path, "/" RUNDIR_SOCK));
	return call->dir < 0 ? fail(ENOENT) : succeed();
}

/* The job's user, in a clean-up that of a job whose directory is held. */
static bool is_users(uid_t uid)
{
	if (k.uid)
		return uid == k.uid;
	for (int i = PRIVOP_DIR_FREE; i < PRIVOP_N_DIRS; i++)
		if (k.dirs[i] >= 0 && k.marks[i].uid == uid)
			return uid && uid != SYSTEM_UID;
	return uid && uid == shown_owner; /* who was not known when the directory was opened */
}

/* Of such a user; or a keeper whose job's directory is held. */
static bool is_fair(void)
{
	if (shown_uid)
		return is_users(shown_uid);
	for (int i = PRIVOP_DIR_FREE; i < PRIVOP_N_DIRS; i++)
		if (k.dirs[i] >= 0 && k.jobs[i] == shown_job && (!k.job || shown_job == k.job))
			return true;
	return false;
}

/* Not everybody, no group, not the manager; no child that it is not known to be. */
WRAP(int, kill, pid_t pid, int sig)
{
	FUZZ_CHECK(inside && pid > 1 && pid != MANAGER);
	if (privop->kind == PRIVOP_KILL)
		FUZZ_CHECK(privop->n[1] ? is_looked_at && is_fair() : is_child);
	else
		FUZZ_CHECK(sig == SIGKILL);
	return draw() ? 0 : fail(ESRCH);
}

WRAP(int, waitid, idtype_t type, id_t id, siginfo_t *info, int options)
{
	FUZZ_CHECK(type == P_PID && options & WNOWAIT);
	is_child = draw();
	return is_child ? 0 : fail(ECHILD);
}

WRAP(int, fd_pidfd_open, pid_t pid)
{
	FUZZ_CHECK(pid > 1);
	is_looked_at = true;
	return draw() ? give(0) : draw() ? -ENOSYS : -ESRCH;
}

WRAP(int, fd_pidfd_kill, int fd, int sig)
{
	FUZZ_CHECK(privop->kind == PRIVOP_KILL && is_fair());
	return 0;
}

WRAP(DIR *, opendir, const char *path)
{
	return inside ? draw() ? __real_opendir("/") : NULL : __real_opendir(path);
}

WRAP(DIR *, fdopendir, int fd)
{
	if (!inside)
		return __real_fdopendir(fd);
	FUZZ_CHECK(privop->kind == PRIVOP_OPEN_TIER);
	if (!draw())
		return NULL;
	close(fd);
	return __real_opendir("/");
}

WRAP(struct dirent *, readdir64, DIR *dir)
{
	static const char *const names[] = { "..",   "1",    "-5",	    "0",
					     "4710", "4711", "99999999999", "stage-data-7" };
	static struct dirent e;
	static size_t i;

	if (!inside)
		return __real_readdir64(dir);
	i = (i + 1) % (sizeof(names) / sizeof(*names));
	strcpy(e.d_name, names[i]);
	return i ? &e : NULL;
}

/* It waits for a descriptor from outside. */
WRAP(pid_t, child_start, struct keeper *keeper, struct call *c, privop_fn fn)
{
	FUZZ_CHECK(privop->kind == PRIVOP_PLACE);
	return draw() ? privop_give(c, give(0)) ?: CHILD : -EAGAIN;
}

WRAP(long, syscall, long number, ...)
{
	FUZZ_CHECK(inside);
	if (number == SYS_getdents64) {
		FUZZ_CHECK(privop->kind == PRIVOP_LIST && privop->dir <= PRIVOP_DIR_TRASH);
		return draw() ? 0 : fail(EBADF);
	}
	if (number == 437) /* openat2; else the way is walked */
		return draw() ? give(OF_PATH) : fail(is_below() && draw() ? ENOSYS : EXDEV);
	FUZZ_CHECK(privop->kind == PRIVOP_REPEAT || privop->kind == PRIVOP_OPEN_PROC ||
		   is_of_connection());
	/* move_mount and fsconfig; all others return a descriptor */
	return number == 429 || number == 431 ? succeed() : give(OF_PATH);
}

WRAP(int, setns, int fd, int type)
{
	FUZZ_CHECK(inside && privop->kind == PRIVOP_REPEAT && is_namespace && type == CLONE_NEWNS);
	return draw() ? 0 : fail(EPERM);
}

WRAP(int, poll, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	return inside ? 0 : __real_poll(fds, n, timeout_ms);
}

WRAP(unsigned, alarm, unsigned seconds)
{
	FUZZ_CHECK(!inside || seconds == 0);
	return inside ? 0 : __real_alarm(seconds);
}

WRAP(int, sched_setaffinity, pid_t pid, size_t size, const cpu_set_t *set)
{
	FUZZ_CHECK(pid == 0 && size <= PRIVOP_TEXT_SIZE);
	return succeed();
}

WRAP(pid_t, process_start, struct process *l, int *gop)
{
	size_t n = 0;

	FUZZ_CHECK(l->user->uid && l->program >= 0 && l->n_fds <= PROCESS_MAX_FDS && l->argv[0]);
	/* What comes from outside is the child's to take. */
	FUZZ_CHECK(l->output == -1 && l->n_fds <= 1 && (!l->sock || privop->kind == PRIVOP_SPAWN));
	while (l->argv[n])
		FUZZ_CHECK(strlen(l->argv[n]) < PRIVOP_TEXT_SIZE && ++n <= PRIVOP_MAX_ARGS + 2);
	/* The site's configuration is the one that root was started with. */
	if (!strcmp(l->argv[0], "stage-helper") &&
	    (!strcmp(l->argv[1], "path") || !strcmp(l->argv[1], "over")))
		FUZZ_CHECK(l->argv[2] && !*l->argv[2]);
	FUZZ_CHECK(l->n_groups <= PRIVOP_N_GROUPS);
	for (size_t i = 0; i < l->n_groups; i++)
		FUZZ_CHECK(l->groups[i] == -1 || is_known(l->groups[i], OF_CGROUP));
	FUZZ_CHECK(l->program == k.programs[PRIVOP_PROGRAM_HELPER] ||
		   (l->user->uid == k.uid && l->user->gid == k.gid));
	if (privop->kind == PRIVOP_SPAWN && l->user->uid != SYSTEM_UID && !is_users(l->user->uid))
		FUZZ_CHECK(!k.uid &&
			   (!strcmp(l->argv[1], "over") || !strncmp(l->argv[1], "tier-", 5)) &&
			   strcmp(l->argv[1], "tier-make"));
	if (privop->kind == PRIVOP_SPAWN && is_users(l->user->uid))
		FUZZ_CHECK(l->user->gid == (k.uid ? k.gid : SHOWN_GID));
	FUZZ_CHECK(l->user->n_groups >= 1 && l->user->groups[l->user->n_groups - 1] != 0xdeadU);
	for (n = 0; l->user->env[n]; n++)
		FUZZ_CHECK(n < ARRAY_SIZE(l->user->env) &&
			   strlen(l->user->env[n]) < PATH_MAX + 1024);
	*gop = draw() ? give(0) : -1;
	return *gop >= 0 ? CHILD : -EAGAIN;
}

WRAP(int, process_join, int group, pid_t pid)
{
	FUZZ_CHECK(is_known(group, OF_CGROUP) && pid > 1 && pid != MANAGER);
	return succeed() < 0 ? -errno : 0;
}

/* What a child does is checked as well. Where none can be made, root unmounts by itself. */
WRAP(pid_t, fork, void)
{
	return inside ? fail(EAGAIN) : __real_fork();
}

WRAP(int, child_do, struct keeper *keeper, struct call *c, privop_fn fn)
{
	return fn(keeper, c);
}

static void do_privop(struct privop *a)
{
	struct call c = { .a = a };
	const uint32_t kind = a->kind;

	privop = a;
	call = &c;
	is_child = is_looked_at = is_namespace = is_free = false;
	shown_uid = SYSTEM_UID;
	shown_owner = 0;
	shown_job = 0;
	inside = true;
	privop_do(&k, &c);
	inside = false;
	FUZZ_CHECK(a->kind == kind && a->r > -4096 && c.n_out <= PRIVOP_MAX_FDS);
	FUZZ_CHECK(a->r >= 0 || c.n_out == 0);
	for (size_t i = 0; i < c.n_out; i++) {
		FUZZ_CHECK(c.out[i] < MAX_FDS && !is_known(c.out[i], OF_NEW));
		FUZZ_CHECK(close(c.out[i]) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct privop a;
	const uint8_t *end = data + size;
	int before;

	before = fuzz_count_fds();
	k = (struct keeper)KEEPER_INIT;
	k.manager = MANAGER;
	k.system_uid = k.system_gid = SYSTEM_UID;
	k.uid = size && data[0] & 1 ? 1000 : 0;
	k.gid = k.uid;
	for (int i = 0; i < PRIVOP_N_PROGRAMS; i++)
		k.programs[i] = 1000 + i;
	data += size > 0;
	memset(known, 0, sizeof(known));
	k.job = k.uid ? 7 : 0;
	k.site = k.account = (struct ask){ .pid = 1,
					   .fd = -1,
					   .r = data < end && data[0] & 2 ? 0 : -EINPROGRESS };
	k.user = (struct process_user){ k.uid, k.gid, &k.gid, 1, { "HOME=/" } };
	for (int i = 0; i < PRIVOPS_INPUT_MAX && data < end; i++) {
		privops_input_read(&data, end, &a, &luck);
		do_privop(&a);
	}
	for (int i = 0; i < PRIVOP_N_DIRS; i++) {
		fd_closep(&k.dirs[i]);
		fd_closep(&k.locks[i]);
	}
	for (int i = 0; i < RUNDIR_MAX_SLOTS; i++)
		fd_closep(&k.slots[i].fd);
	fd_closep(&k.control_fd);
	fd_closep(&k.path.fd);
	for (int i = 0; i < PRIVOP_N_GROUPS; i++)
		fd_closep(&k.groups[i]);
	fd_closep(&k.go_fd);
	FUZZ_CHECK(fuzz_count_fds() == before);
	return 0;
}
