/*
 * Preloaded into the slurmd of a test cluster's node, and so into its slurmstepd: writes down how
 * Slurm fared with each job's freezer group, since who was in it can't be told any more a moment
 * later. A line of /var/log/slurm-witness.log is the group and one word:
 *
 *	removed  it is gone
 *	groups   not removed, there are groups of steps in it
 *	others   not removed, there are processes in it
 *	ending   not removed, all that is in it are threads of step daemons that have left it
 *	nobody   not removed, and it has become empty meanwhile
 *
 * "ending" is a slip of Slurm's with cgroup v1. A step daemon stands in the job's group; before it
 * removes that, it moves itself out. But the kernel leaves a thread that is ending where it is, and
 * such a thread counts as joined before it has left its group. Slurm looks whether it is still in
 * the group of the step, where it never was, and doesn't try again, so the group stays for good.
 *
 * Where /run/slow-threads exists this happens each time instead of hardly ever: the last threads of
 * a step daemon have descriptors of their own, which the kernel closes between the two moments, and
 * inotify's take some milliseconds each.
 *
 * Where /run/refuse-extern exists the extern step is refused to leave the job's group, as if
 * another thread of it had just become the job's user. Slurm 24.11 has such a thread, see
 * tests/lib/snapshot.
 *
 * Where /run/measure-memory exists slurmd, as it starts its next thread, gives back what
 * it has free between what it has allocated, and writes to /run/memory-in-use how many KiB that is.
 *
 * Where /run/cgroup-v2 exists Slurm reads of /proc/PID/cgroup what a machine with version 2 alone
 * has: it refuses one with both ("Hybrid mode is not supported").
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_groups(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)))
		found = entry->d_type == DT_DIR && entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

/* What stands behind the key in /proc/PID/NAME, up to the end of the line; empty when there is
 * none. */
static void read_proc(int pid, const char *name, const char *key, char *value, size_t size)
{
	char path[64], line[4096], *found;
	FILE *f;

	value[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "re");
	while (f && !value[0] && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		found = strstr(line, key);
		if (found)
			snprintf(value, size, "%s", found + strlen(key));
	}
	if (f)
		fclose(f);
}

/* A thread in the group whose process is a step daemon and is not in it. */
static bool is_ending(int thread, const char *group)
{
	char process[32], name[32], its_group[4096];

	read_proc(thread, "status", "Tgid:", process, sizeof(process));
	read_proc(atoi(process), "comm", "", name, sizeof(name));
	read_proc(atoi(process), "cgroup", ":freezer:", its_group, sizeof(its_group));
	return !strcmp(name, "slurmstepd") && its_group[0] && strcmp(its_group, group) != 0;
}

static const char *who_is_in(const char *path)
{
	const char *who = "nobody";
	char name[4096];
	FILE *f;
	int tid;

	if (has_groups(path))
		return "groups";
	snprintf(name, sizeof(name), "%s/tasks", path);
	f = fopen(name, "re");
	while (f && fscanf(f, "%d", &tid) == 1) {
		who = "ending";
		if (!is_ending(tid, strstr(path, "/freezer/") + strlen("/freezer"))) {
			who = "others";
			break;
		}
	}
	if (f)
		fclose(f);
	return who;
}

static void write_down(const char *path, const char *word)
{
	int fd = open("/var/log/slurm-witness.log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
		      0644);

	if (fd < 0)
		return;
	dprintf(fd, "%s %s\n", path, word);
	close(fd);
}

int rmdir(const char *path)
{
	int r = (int)syscall(SYS_rmdir, path), saved = errno;
	const char *name = strrchr(path, '/');

	if (strstr(path, "/freezer/") && name && !strncmp(name, "/job_", 5) &&
	    (r == 0 || saved == EBUSY))
		write_down(path, r == 0 ? "removed" : who_is_in(path));
	errno = saved;
	return r;
}

/* --- what a process of Slurm's is to do ---------------------------------------------------- */

static bool in_slurmd, slow, refusing;

/* Before slurmstepd writes its title over its name. */
__attribute__((constructor)) static void look_what_is_wanted(void)
{
	bool step = !strcmp(program_invocation_short_name, "slurmstepd");

	in_slurmd = !strcmp(program_invocation_short_name, "slurmd");
	slow = step && access("/run/slow-threads", F_OK) == 0;
	refusing = step && access("/run/refuse-extern", F_OK) == 0;
}

/* --- how much memory is in use ------------------------------------------------------------ */

static void measure_memory(void)
{
	struct mallinfo2 info;
	FILE *f;

	if (unlink("/run/measure-memory") < 0)
		return;
	malloc_trim(0);
	info = mallinfo2();
	f = fopen("/run/memory-in-use.new", "we");
	if (!f)
		return;
	fprintf(f, "%zu\n", (info.uordblks + info.hblkhd) / 1024);
	fclose(f);
	rename("/run/memory-in-use.new", "/run/memory-in-use");
}

/* --- threads that take long for their end ------------------------------------------------ */

struct start {
	void *(*run)(void *);
	void *arg;
};

/* Its other groups are gone when only the job's freezer group is left to be removed. */
static bool is_last(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	bool last = false;
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		last = last || strstr(line, ":memory:/\n");
	if (f)
		fclose(f);
	return last;
}

static void be_slow(void)
{
	if (!is_last() || unshare(CLONE_FILES) < 0)
		return;
	for (int i = 0; i < 50; i++)
		inotify_add_watch(inotify_init1(IN_CLOEXEC), "/", IN_UNMOUNT);
}

static void *run_and_be_slow(void *arg)
{
	struct start start = *(struct start *)arg;
	void *result;

	free(arg);
	result = start.run(start.arg);
	be_slow();
	return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *) = dlsym(RTLD_NEXT, "pthread_create");
	struct start *start;

	if (in_slurmd)
		measure_memory();
	if (!slow)
		return real(thread, attr, run, arg);
	start = malloc(sizeof(*start));
	if (!start)
		return EAGAIN;
	*start = (struct start){ .run = run, .arg = arg };
	return real(thread, attr, run_and_be_slow, start);
}

/* --- a step daemon that may not leave its group ------------------------------------------ */

static bool is_extern(void)
{
	char title[64];

	read_proc(getpid(), "cmdline", "slurmstepd: [", title, sizeof(title));
	return strstr(title, ".extern]");
}

static bool is_root_group(const char *path)
{
	return strstr(path, "/freezer/") && strstr(path, "/cgroup.procs") && !strstr(path, "/job_");
}

/* By the calls themselves: those of the C library would be for all threads. */
static int open_as_another(const char *path, int flags)
{
	int fd, error;

	syscall(SYS_setresuid, -1, 65534, -1);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags);
	error = errno;
	syscall(SYS_setresuid, -1, 0, -1);
	errno = error;
	return fd;
}

/* --- cgroups of version 2 alone --------------------------------------------------------- */

static bool is_list_of_groups(const char *path)
{
	size_t n = strlen(path);

	return !strncmp(path, "/proc/", 6) && n > 7 && !strcmp(path + n - 7, "/cgroup");
}

/* Of version 2 there is one line, "0::/path". */
static int open_group_of_v2(const char *path)
{
	FILE *f = fopen(path, "re");
	int fd = f ? memfd_create("cgroup", 0) : -1;
	char line[4096];

	while (fd >= 0 && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "0::", 3))
			(void)!write(fd, line, strlen(line));
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	if (f)
		fclose(f);
	return fd;
}

int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (refusing && (flags & O_ACCMODE) == O_WRONLY && is_root_group(path) && is_extern())
		return open_as_another(path, flags);
	if (is_list_of_groups(path) && access("/run/cgroup-v2", F_OK) == 0)
		return open_group_of_v2(path);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
