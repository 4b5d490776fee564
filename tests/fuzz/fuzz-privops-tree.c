/*
 * The privileged operations of fuzz-privops.c, by a keeper with a file system below it: what they
 * do to names, files and owners is done, in a file system of the target's own (scratch-tree.h)
 * whose top is "/" to the keeper. After each input it is read again: a table says what may have
 * been made, removed, moved or written (privops-tree.c). All else, as of other jobs, of the site,
 * or of users, is as before.
 *
 * Mounts, processes and programs are fuzz-privops.c's: here they fail or do nothing. A call that
 * would leave the scratch tree is a finding before it is done.
 */
#include "tests/fuzz/privops-input.h"
#include "tests/fuzz/privops-tree.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "common/protocol/keeper-helper.h"
#include "daemon/keeper/keeper.h"

#include "stage-build.h"

#define MANAGER 4710
#define SELF_FD "/proc/self/fd/"

static bool inside; /* of a privileged operation */
static struct keeper k;
static uint32_t luck;
static int top;
static dev_t top_dev;
static unsigned n_detached;

/* ---- the keeper's calls ---- */

/* clang-format off */
#define WRAP(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)
/* clang-format on */

static bool begins(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

static bool draw(void)
{
	luck = luck >> 1 | luck << 31;
	return luck >> 31;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

int __real_openat64(int dirfd, const char *name, int flags, ...);
int __real_fstat64(int fd, struct stat *st);

/* A name in the scratch tree that does not climb. What is no descriptor fails by itself. */
static void check_stays(int dirfd, const char *name)
{
	struct stat st;

	FUZZ_CHECK(*name != '/' && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 &&
		   !strstr(name, "/.."));
	FUZZ_CHECK(fstat(dirfd, &st) < 0 || st.st_dev == top_dev);
}

/* Of an O_PATH descriptor in the scratch tree: where it is there, "" if nowhere. */
static void find_path_of(int fd, char path[static PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), SELF_FD "%d", fd);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
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
	FUZZ_CHECK(!(flags & (O_CREAT | O_TRUNC)));
	if (strcmp(path, "/") == 0)
		return __real_openat64(top, ".", flags);
	if (strcmp(path, "/dev/fuse") == 0)
		return __real_openat64(top, path + 1, flags);
	if (begins(path, "/proc/self/fdinfo/"))
		return __real_open64(path, flags);
	FUZZ_CHECK(begins(path, "/proc") || strcmp(path, "/sys/fs/fuse/connections") == 0);
	return fail(ENOENT);
}

WRAP(int, openat64, int dirfd, const char *name, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, int) : 0;
	va_end(ap);
	if (inside)
		check_stays(dirfd, name);
	return __real_openat64(dirfd, name, flags, mode);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
	if (!inside)
		return __real_mkdir(path, mode);
	FUZZ_CHECK(begins(path, STAGE_RUN_DIR));
	return mkdirat(top, path + 1, mode);
}

WRAP(int, mkdirat, int dirfd, const char *name, mode_t mode)
{
	if (inside)
		check_stays(dirfd, name);
	return __real_mkdirat(dirfd, name, mode);
}

WRAP(int, renameat, int fromfd, const char *from, int tofd, const char *to)
{
	check_stays(fromfd, from);
	check_stays(tofd, to);
	return __real_renameat(fromfd, from, tofd, to);
}

WRAP(int, unlinkat, int dirfd, const char *name, int flags)
{
	if (inside)
		check_stays(dirfd, name);
	return __real_unlinkat(dirfd, name, flags);
}

WRAP(int, fchownat, int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
	if (inside)
		check_stays(dirfd, name);
	return __real_fchownat(dirfd, name, uid, gid, flags);
}

/* What is below a directory of groups is one of them, and /ns has namespaces. */
WRAP(int, fstatfs64, int fd, struct statfs *fs)
{
	char path[PATH_MAX];

	find_path_of(fd, path);
	*fs = (struct statfs){ .f_type = TMPFS_MAGIC, .f_blocks = 1 };
	if (begins(path, PRIVOPS_TREE_GROUPS))
		fs->f_type = CGROUP_SUPER_MAGIC;
	else if (begins(path, "/ns/"))
		fs->f_type = NSFS_MAGIC;
	return 0;
}

/* Nothing is mounted: the directory below it is seen. */
WRAP(int, mount, const char *source, const char *target, const char *type, unsigned long flags,
     const void *data)
{
	char path[PATH_MAX];
	unsigned long job;
	const char *below;
	bool aside;

	FUZZ_CHECK(begins(target, SELF_FD));
	find_path_of(atoi(target + strlen(SELF_FD)), path);
	below = privops_tree_find_in_job(path, &job, &aside);
	FUZZ_CHECK(below && (job == k.job || (!k.job && !type)));
	FUZZ_CHECK(strcmp(below, "/t") == 0 ||
		   (type && begins(below, "/m/") && !strchr(below + 3, '/')));
	return draw() ? 0 : fail(draw() ? EINVAL : ENOMEM);
}

/* In a job's directory, or in what a job has in a tier. */
WRAP(int, umount2, const char *target, int flags)
{
	char path[PATH_MAX], *slash;
	unsigned long job;
	const char *below;
	bool aside;

	FUZZ_CHECK(begins(target, SELF_FD) && strchr(target + strlen(SELF_FD), '/'));
	find_path_of(atoi(target + strlen(SELF_FD)), path);
	if (!*path)
		return fail(ENOENT);
	below = privops_tree_find_in_job(path, &job, &aside);
	slash = strchr(target + strlen(SELF_FD), '/') + 1;
	/* A name may have dots in it. */
	FUZZ_CHECK(*slash && strcmp(slash, ".") != 0 && strcmp(slash, "..") != 0 &&
		   !strstr(slash, "/.."));
	if (!strstr(path, "/stage-data-") && !strstr(path, "/stage-keep-") &&
	    !begins(slash, "stage-"))
		FUZZ_CHECK(below && *below == '\0' && (!k.job || job == k.job || aside));
	return draw() && ++n_detached % 8 ? 0 : fail(EINVAL);
}

WRAP(int, ioctl, int fd, unsigned long request, ...)
{
	return draw() ? 0 : fail(EINVAL);
}

WRAP(int, bind, int fd, const struct sockaddr *addr, socklen_t size)
{
	const char *path = ((const struct sockaddr_un *)addr)->sun_path, *name = strrchr(path, '/');

	FUZZ_CHECK(begins(path, SELF_FD) && strcmp(name, "/" RUNDIR_SOCK) == 0);
	check_stays(atoi(path + strlen(SELF_FD)), name + 1);
	return __real_bind(fd, addr, size);
}

/* The new calls for mounts are fuzz-privops.c's; openat2() is the keeper's own way down. */
WRAP(long, syscall, long number, ...)
{
	va_list ap;
	long a[5]; /* fsconfig() has as many */

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!inside || number == 437)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
	return fail(ENOSYS);
}

/* Processes and programs: there are none. */
WRAP(DIR *, opendir, const char *path)
{
	return inside ? NULL : __real_opendir(path);
}

WRAP(int, kill, pid_t pid, int sig)
{
	FUZZ_CHECK(inside && pid > 1 && pid != MANAGER);
	return 0;
}

WRAP(int, waitid, idtype_t type, id_t id, siginfo_t *info, int options)
{
	return draw() ? 0 : fail(ECHILD);
}

WRAP(int, fd_pidfd_open, pid_t pid)
{
	return -ESRCH;
}

WRAP(int, fd_pidfd_kill, int fd, int sig)
{
	return -ESRCH;
}

WRAP(pid_t, child_start, struct keeper *keeper, struct call *c, privop_fn fn)
{
	return -EAGAIN;
}

WRAP(unsigned, alarm, unsigned seconds)
{
	return inside ? 0 : __real_alarm(seconds);
}

WRAP(int, sched_setaffinity, pid_t pid, size_t size, const cpu_set_t *set)
{
	return inside ? 0 : __real_sched_setaffinity(pid, size, set);
}

WRAP(pid_t, process_start, struct process *l, int *gop)
{
	return -EAGAIN;
}

WRAP(int, process_join, int group, pid_t pid)
{
	check_stays(group, "");
	return 0;
}

/* ---- inputs ---- */

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

	inside = true;
	privop_do(&k, &c);
	inside = false;
	if (a->kind == PRIVOP_KILL_CHILDREN)
		FUZZ_CHECK(a->r == 0);
	for (size_t i = 0; i < c.n_out; i++)
		fd_closep(&c.out[i]);
}

/* As a stage-helper of the system user answers. */
static void tell_site(void)
{
	static struct helper_site site = { .log_file = PRIVOPS_TREE_LOG,
					   .metrics = PRIVOPS_TREE_FIGURES };
	const int fd = memfd_create("answer", MFD_CLOEXEC);

	FUZZ_CHECK(write(fd, &site, sizeof(site)) == sizeof(site));
	k.site = (struct ask){ .pid = 1, .fd = fd, .r = -EINPROGRESS };
	ask_end(&k, 1, 0);
	FUZZ_CHECK(ask_get_site(&k));
}

static void begin(uint8_t how)
{
	k = (struct keeper)KEEPER_INIT;
	k.manager = MANAGER;
	k.system_uid = k.system_gid = PRIVOPS_TREE_SYSTEM;
	k.uid = how & 1 ? PRIVOPS_TREE_USER : 0;
	k.gid = k.uid;
	k.job = k.uid ? PRIVOPS_TREE_JOB : 0;
	for (int i = 0; i < PRIVOP_N_PROGRAMS; i++)
		k.programs[i] = 1000 + i;
	k.site = k.account = (struct ask){ .pid = 1, .fd = -1, .r = how & 2 ? 0 : -EINPROGRESS };
	k.user = (struct process_user){ k.uid, k.gid, &k.gid, 1, { "HOME=/" } };
}

static void end(void)
{
	for (int i = 0; i < PRIVOP_N_DIRS; i++) {
		fd_closep(&k.dirs[i]);
		fd_closep(&k.locks[i]);
	}
	for (int i = 0; i < RUNDIR_MAX_SLOTS; i++)
		fd_closep(&k.slots[i].fd);
	for (int i = 0; i < PRIVOP_N_GROUPS; i++)
		fd_closep(&k.groups[i]);
	fd_closep(&k.control_fd);
	fd_closep(&k.go_fd);
	fd_closep(&k.log_fd);
	fd_closep(&k.text_fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct stat st;

	top = scratch_tree_open();
	if (top < 0) {
		fprintf(stderr, "no file system of our own (%s): nothing is tried\n",
			strerror(-top));
		exit(getenv("STAGE_TEST_MUST") ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	FUZZ_CHECK(fstat(top, &st) == 0);
	top_dev = st.st_dev;
	umask(022);
	tell_site();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scratch_list before, after;
	static int variant = -1; /* that is there, unchanged; -1: none */
	static struct privop a;
	const uint8_t *last = data + size;
	const int fd = fuzz_count_fds(),
		  wanted = size ? data[0] >> 2 & (PRIVOPS_TREE_VARIANTS - 1) : 0;

	if (variant != wanted) {
		privops_tree_fill(top, (unsigned)wanted);
		scratch_tree_read(top, &before);
	}
	begin(size ? data[0] : 0);
	data += size > 0;
	for (int i = 0; i < PRIVOPS_INPUT_MAX && data < last; i++) {
		privops_input_read(&data, last, &a, &luck);
		do_privop(&a);
	}
	end();
	scratch_tree_read(top, &after);
	variant = privops_tree_is_same(&before, &after) ? wanted : -1;
	if (variant < 0)
		privops_tree_check(&k, &before, &after);
	FUZZ_CHECK(fuzz_count_fds() == fd);
	return 0;
}
