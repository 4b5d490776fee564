/*
 * Operations outside root's own directories: on cgroups of Slurm's jobs, and on the site's log and
 * metrics file. The manager sends the paths of cgroups. Root opens them only if all directories on
 * the path belong to root (common/util/root-path.h) and the result is in a cgroup file system. The
 * paths of the two files come from the site's configuration, which a helper has read for root. The
 * manager has no descriptor of these files.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/protocol/keeper-helper.h"
#include "common/protocol/sluid.h"
#include "common/util/root-path.h"

#define CGROUP2_MAGIC 0x63677270 /* CGROUP2_SUPER_MAGIC */

static int check_is_cgroup(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_MAGIC ? 0 : -EPERM;
}

/* Opens the directory above the last name of the path. *namep: the last name. Cuts path to that
 * directory. Returns an fd or -errno. */
static int open_group_above(char *path, const char **namep)
{
	_cleanup_(fd_closep) int fd = root_path_open_above(path, namep);
	int r = fd < 0 ? fd : check_is_cgroup(fd);

	if (r < 0)
		return r;
	path[*namep - path - 1] = '\0';
	return steal_fd(&fd);
}

/* Returns true if the cgroup's name is the SLUID of the job. A job's keeper knows its own SLUID
 * from Slurm. A clean-up knows the SLUIDs of the jobs whose directories are open from root's mark
 * in them. The record is not used for this. */
static bool is_by_sluid(const struct keeper *k, const char *name)
{
	bool is = k->uid && k->sluid && strcmp(name, k->sluid) == 0;

	for (int i = PRIVOP_DIR_FREE; !k->uid && !is && i < PRIVOP_N_DIRS; i++)
		is = k->dirs[i] >= 0 &&
		     strncmp(name, k->marks[i].sluid, sizeof(k->marks[i].sluid)) == 0;
	return is && sluid_is_valid(name);
}

/* Opens the job's directory (in a clean-up, any job's) in a cgroup file system. *abovep: its parent
 * directory, which the caller closes; *namep: its name. Returns an fd or -errno. */
static int open_job(const struct keeper *k, struct call *c, int *abovep, const char **namep)
{
	_cleanup_(fd_closep) int above = open_group_above(c->a->text, namep);
	int fd = above < 0 ? -1
			   : openat(above, *namep, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char own[16];

	if (fd < 0)
		return above < 0 ? above : -errno;
	snprintf(own, sizeof(own), "job_%u", k->job);
	if ((k->job ? strcmp(*namep, own) : strncmp(*namep, "job_", 4)) &&
	    !is_by_sluid(k, *namep)) {
		close(fd);
		return -EPERM;
	}
	*abovep = steal_fd(&above);
	return fd;
}

static int find_group(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int above = -1, job = -1;
	const int64_t which = c->a->n[0];
	const char *name;

	job = open_job(k, c, &above, &name);
	if (job < 0)
		return job;
	if (which == PRIVOP_GROUP_MEMORY && mkdirat(job, JOB_CGROUP_OURS, 0755) < 0 &&
	    errno != EEXIST)
		return -errno;
	return privop_give(c, openat(job, which == PRIVOP_GROUP_MEMORY ? JOB_CGROUP_OURS : ".",
				     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* Attack: another cgroup, so that processes escape the job's limits. open_job() accepts only a
 * directory of root with the name of this job (in a clean-up: of any job). */
int privop_hold_group(struct keeper *k, struct call *c)
{
	const int64_t which = c->a->n[0];
	int r = which < 0 || which >= PRIVOP_N_GROUPS ? -EINVAL : child_do(k, c, find_group);

	if (r < 0)
		return r;
	fd_closep(&k->groups[which]);
	k->groups[which] = c->out[--c->n_out];
	return 0;
}

/* Kills all processes in our group. Only root can move a process to it, so all of them are ours.
 * From Linux 5.14 on, v2 can kill all at once. Otherwise, a pid that was read can belong to another
 * process before it is used, but only if its process has just ended and all other pids have been
 * used since. */
static void kill_group(int job)
{
	_cleanup_(fd_closep) int all = openat(job, JOB_CGROUP_OURS "/cgroup.kill",
					      O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	const int fd = openat(job, JOB_CGROUP_OURS "/cgroup.procs", O_RDONLY | O_CLOEXEC);
	_cleanup_(file_closep) FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	int pid;

	if (write(all, "1", 1) == 1)
		return;
	/* 0: a process outside our pid namespace */
	while (f && fscanf(f, "%d", &pid) == 1 && pid > 1)
		kill(pid, SIGKILL);
}

/* Attack: the job still runs. Then only the processes in our group end, which are workers and image
 * servers, and the kernel keeps the job's own directory, because it is not empty. */
int privop_remove_group(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int above = -1, job = -1;
	const char *name;

	job = open_job(k, c, &above, &name);
	if (job < 0)
		return job;
	if (c->a->n[0] == PRIVOP_GROUP_MEMORY && unlinkat(job, JOB_CGROUP_OURS, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT) {
		kill_group(job);
		return -EBUSY;
	}
	if (c->a->n[1]) /* fails if a step is left: then Slurm removes the directory */
		(void)unlinkat(above, name, AT_REMOVEDIR);
	return 0;
}

/* Returns true if the path may be a job's in v2: it is below Slurm's scope, and is not the group of
 * Slurm's daemons. */
static bool is_in_scope(const char *path)
{
	const char *name = strstr(path, ".scope/");

	return name && strcmp(name, ".scope/system") != 0 && strcmp(name, ".scope/slurmd") != 0;
}

/* Moves the manager and the keeper to a cgroup that belongs to no job. Attack: the manager chooses
 * a group with other limits for both; groups of jobs and of Slurm's steps are refused. */
int privop_join_group(struct keeper *k, struct call *c)
{
	const char *name;
	_cleanup_(fd_closep) int dir = open_group_above(c->a->text, &name), fd = -1;

	if (dir < 0 || (strcmp(name, "tasks") != 0 && strcmp(name, "cgroup.procs") != 0))
		return dir < 0 ? dir : -EINVAL;
	if (strstr(c->a->text, "/job_") || strstr(c->a->text, "/" JOB_CGROUP_OURS) ||
	    is_in_scope(c->a->text))
		return -EPERM;
	fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || dprintf(fd, "%d", k->manager) < 0 || dprintf(fd, "%d", getppid()) < 0
		       ? -errno
		       : 0;
}

/* Opens the directory of one of the site's files. It and the directories above must belong to root.
 * *namep: the file's name, which must end in suffix. Users may list the directory, so a child does
 * this. */
static int open_sites(const char *path, const char *suffix, const char **namep)
{
	_cleanup_(fd_closep) int dir = root_path_open_above(path, namep);

	return dir < 0 || strcmp(strrchr(*namep, '.') ?: "", suffix) == 0 ? steal_fd(&dir) : -EPERM;
}

/* Root writes the log for the manager. If the manager had the file itself, it could truncate lines
 * of others. If it had a pipe, it could delay the pipe's reader, because the kernel holds the
 * pipe's lock while it copies the data from the writer's memory, which a FUSE server may back. */
static int open_log(struct keeper *k, struct call *c)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
			  O_NOCTTY;
	const char *name;
	_cleanup_(fd_closep) int dir = open_sites(ask_get_site(k)->log_file, ".log", &name);

	return dir < 0 ? dir : privop_give(c, openat(dir, name, flags, 0640));
}

int privop_open_log(struct keeper *k, struct call *c)
{
	int r = ask_get_site(k) ? 0 : -EPERM;

	if (r == 0)
		r = k->log_fd >= 0 ? -EBUSY : child_do(k, c, open_log);
	if (r == 0)
		k->log_fd = c->out[--c->n_out];
	return r;
}

/* Attack: forged lines. They are appended, and log_left bounds them. */
int privop_log(struct keeper *k, struct call *c)
{
	const size_t size = strlen(c->a->text), n = size < k->log_left ? size : k->log_left;

	k->log_left -= n;
	return write(k->log_fd, c->a->text, n) < 0 ? -errno : 0;
}

/* The plugin, which is root, reads this pipe. A pipe that the manager could write to could delay
 * the plugin in the same way as in open_log(). */
int privop_answer(struct keeper *k, struct call *c)
{
	if (k->answer_fd > 2) {
		(void)!write(k->answer_fd, c->a->text, strlen(c->a->text));
		fd_closep(&k->answer_fd);
	}
	return 0;
}

/* Makes the new metrics file, or renames it to its final name. A process that is killed before the
 * rename leaves the old file. */
static int do_text(struct keeper *k, struct call *c)
{
	char tmp[256];
	const char *name;
	_cleanup_(fd_closep) int dir = open_sites(ask_get_site(k)->metrics, ".prom", &name);

	if (dir < 0)
		return dir;
	snprintf(tmp, sizeof(tmp), "%.200s.tmp", name);
	if (c->a->n[0])
		return renameat(dir, tmp, dir, name) < 0 ? -errno : 0;
	if (unlinkat(dir, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	return privop_give(
		c, openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
}

/* Attack: wrong figures in the file of metrics. Its place is root's own answer, and the task that
 * writes it may write at most PRIVOP_MAX_FILE bytes. */
int privop_text(struct keeper *k, struct call *c)
{
	const int r = ask_get_site(k) ? child_do(k, c, do_text) : -EPERM;

	fd_closep(&k->text_fd);
	k->text_fd = c->n_out ? c->out[--c->n_out] : -1;
	return r;
}
