/*
 * What root touches outside of its own directories: cgroups of Slurm's jobs, and the two files that
 * the site may want, a log, and figures as a text. The steward has found the paths; root makes sure
 * that what is above the last name is in a file system of cgroups, or a directory of root's, that no
 * other file of the machine can be called so, and does not look into the files.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>


#define CGROUP2_MAGIC 0x63677270 /* CGROUP2_SUPER_MAGIC */

/* Cuts the last name off and opens what is above it, if that is in a file system of cgroups, or not
 * but root's alone, for a name that figures have. */
static int open_above(char *path, const char **namep, bool cgroup)
{
	char *name = strrchr(path, '/');
	_cleanup_(fd_closep) int fd = -1;
	struct statfs fs;
	struct stat st;

	if (!name || name == path)
		return -EINVAL;
	*name = '\0';
	*namep = name + 1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (cgroup ? fs.f_type != CGROUP_SUPER_MAGIC && fs.f_type != CGROUP2_MAGIC
		   : st.st_uid != 0 || st.st_mode & 022 || strcmp(strrchr(*namep, '.') ?: "", ".prom"))
		return -EPERM;
	return steal_fd(&fd);
}

int act_make_group(struct keeper *k, struct call *c)
{
	const char *name;
	_cleanup_(fd_closep) int dir = open_above(c->a->text, &name, true);

	return dir < 0 ? dir : mkdirat(dir, ACT_GROUP, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Nobody but root can put a process there, so all in it are ours. */
int act_remove_group(struct keeper *k, struct call *c)
{
	const char *name;
	_cleanup_(fd_closep) int dir = open_above(c->a->text, &name, true);
	_cleanup_(file_closep) FILE *f = NULL;
	int fd, pid;

	if (dir < 0)
		return dir;
	if (unlinkat(dir, ACT_GROUP, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		if (c->a->n[0] && strstr(c->a->text, "/job_"))
			(void)rmdir(c->a->text); /* fails where a step is left: then Slurm removes it */
		return 0;
	}
	fd = openat(dir, ACT_GROUP "/cgroup.procs", O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	while (f && fscanf(f, "%d", &pid) == 1 && pid > 1) /* 0: not of our pid namespace */
		kill(pid, SIGKILL);
	return -EBUSY;
}

int act_join_group(struct keeper *k, struct call *c)
{
	const char *name;
	_cleanup_(fd_closep) int dir = open_above(c->a->text, &name, true), fd = -1;

	if (dir < 0 || (strcmp(name, "tasks") != 0 && strcmp(name, "cgroup.procs") != 0))
		return dir < 0 ? dir : -EINVAL;
	fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || dprintf(fd, "%d", k->steward) < 0 || dprintf(fd, "0") < 0 ? -errno : 0;
}

/* A new file is the system user's: what obeys files of root's (cron, logrotate) does not obey it. */
static int make_file(const struct keeper *k, int dir, const char *name, mode_t mode)
{
	int fd = openat(dir, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	return fd < 0 || fchown(fd, k->system_uid, k->system_gid) == 0 ? fd : (close(fd), -1);
}

int act_open_log(struct keeper *k, struct call *c)
{
	const char *path = c->a->text;
	int fd = -1;

	if (strcmp(strrchr(path, '.') ?: "", ".log"))
		return -EPERM;
	fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return act_give(c, fd < 0 && errno == ENOENT ? make_file(k, AT_FDCWD, path, 0640) : fd);
}

/* It gets its name when it is whole: whoever is killed on the way leaves the old one. */
int act_text(struct keeper *k, struct call *c)
{
	char tmp[256];
	const char *name;
	_cleanup_(fd_closep) int dir = open_above(c->a->text, &name, false);

	if (dir < 0)
		return dir;
	snprintf(tmp, sizeof(tmp), "%.200s.tmp", name);
	if (c->a->n[0] ? renameat(dir, tmp, dir, name) < 0 : unlinkat(dir, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	return c->a->n[0] ? 0 : act_give(c, make_file(k, dir, tmp, 0644));
}
