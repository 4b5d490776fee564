#include "common/slurm/jobgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/keeper-acts.h"
#include "common/util/cleanup.h"

#define MAX_DEPTH 8 /* of groups below a job's: step, task, and what a container makes in there */

/* The entry of top, of that pattern, that has the job; by readdir(3), because glob(3) takes a
 * directory that it can't read for an empty one. -ENODEV: there is not even an entry. */
static int find_one(const char *top, const char *pattern, const char *job, char *buf, size_t size)
{
	_cleanup_(dir_closep) DIR *dir = opendir(top);
	int r = dir || errno == ENOENT || errno == ENOTDIR ? -ENODEV : -errno;
	struct dirent *e;

	while (dir && (errno = 0, e = readdir(dir))) {
		if (fnmatch(pattern, e->d_name, 0) != 0)
			continue;
		snprintf(buf, size, "%s/%s%s", top, e->d_name, job);
		r = access(buf, F_OK) < 0 ? -errno : 0;
		if (r != -ENOENT)
			return r;
	}
	return dir && errno ? -errno : r;
}

void jobgroup_read_mounts(struct jobgroup_mounts *m, const char *const *controllers, size_t n)
{
	m->n = n;
	for (size_t i = 0; i < n; i++) {
		m->v1[i].type = "cgroup";
		m->v1[i].option = controllers[i];
	}
	m->v1[n].type = "cgroup2";
	m->v1[n].option = NULL;
	m->r = mountinfo_find_first(m->v1, n + 1);
}

int jobgroup_find_in(const struct jobgroup_mounts *m, size_t controller, uid_t uid, uint32_t job_id, char *buf,
		     size_t size)
{
	const char *const top = m->v1[controller].target, *const v2 = m->v1[m->n].target;
	char slice[PATH_MAX + 16], job[48];
	int v1 = -ENODEV, r;

	if (m->r < 0)
		return m->r;
	snprintf(job, sizeof(job), "/uid_%u/job_%u", uid, job_id);
	if (*top)
		v1 = find_one(top, "slurm*", job, buf, size);
	if ((v1 != -ENOENT && v1 != -ENODEV) || !*v2)
		return v1;
	snprintf(slice, sizeof(slice), "%s/system.slice", v2);
	r = find_one(slice, "*slurmstepd.scope", strrchr(job, '/'), buf, size);
	return r == -ENODEV ? v1 : r;
}

int jobgroup_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size)
{
	struct jobgroup_mounts m;

	jobgroup_read_mounts(&m, &controller, 1);
	return jobgroup_find_in(&m, 0, uid, job_id, buf, size);
}

int jobgroup_parse_cpus(const char *text, cpu_set_t *set, size_t size)
{
	unsigned from, to;
	int n;

	CPU_ZERO_S(size, set);
	while (sscanf(text, "%u%n", &from, &n) == 1) {
		text += n;
		to = from;
		if (sscanf(text, "-%u%n", &to, &n) == 1)
			text += n;
		if (to < from || to >= size * 8)
			return -EINVAL;
		for (; from <= to; from++)
			CPU_SET_S(from, size, set);
		text += *text == ',';
	}
	return (*text && *text != '\n') || CPU_COUNT_S(size, set) == 0 ? -EINVAL : 0;
}

int jobgroup_read_cpus(const char *dir, cpu_set_t *set, size_t size)
{
	static const char *const names[] = { "cpuset.effective_cpus", "cpuset.cpus.effective",
					     "cpuset.cpus", NULL };
	char text[4096];
	int r = jobgroup_read(dir, names, text, sizeof(text));

	return r < 0 ? r : jobgroup_parse_cpus(text, set, size);
}

bool jobgroup_has_mems(const char *dir)
{
	static const char *const names[] = { "cpuset.effective_mems", "cpuset.mems.effective", "cpuset.mems",
					     NULL };
	char text[4096];

	return jobgroup_read(dir, names, text, sizeof(text)) == 0 && *text != '\n';
}

int jobgroup_read(const char *dir, const char *const *names, char *buf, size_t size)
{
	char path[PATH_MAX + 64];

	for (; *names; names++) {
		_cleanup_(fd_closep) int fd = -1;
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", dir, *names);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, buf, size - 1);
		if (n > 0) {
			buf[n] = '\0';
			return 0;
		}
	}
	return -ENOENT;
}

static bool is_ours(const char *name)
{
	return strncmp(name, ACT_GROUP, strlen(ACT_GROUP)) == 0;
}

/* 1: a process is in it; 0: none, or it has just gone. */
static int has_process(int dir)
{
	_cleanup_(fd_closep) int fd = openat(dir, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char byte;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	n = read(fd, &byte, 1);
	if (n < 0)
		return errno == ENODEV ? 0 : -errno;
	return n > 0;
}

static int look_into(int parent, const char *name, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	/* Slurm's are in groups of the steps; in the job's own directory are those that we have put there. */
	r = depth < MAX_DEPTH ? has_process(fd) : 0;
	if (depth == 0)
		return r;
	while (r == 0 && (errno = 0, e = readdir(dir))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.' || is_ours(e->d_name))
			continue;
		r = look_into(fd, e->d_name, depth - 1);
	}
	return r == 0 && errno ? -errno : r;
}

int jobgroup_is_populated(uid_t uid, uint32_t job_id)
{
	/* Which of them Slurm uses is the site's choice; v2 is found beside each. */
	static const char *const controllers[] = { "freezer", "memory", "cpuset", "devices", "cpuacct" };
	struct jobgroup_mounts m;
	char path[PATH_MAX];
	int r = 0, failed = 0;

	jobgroup_read_mounts(&m, controllers, ARRAY_SIZE(controllers));
	for (size_t i = 0; r <= 0 && i < ARRAY_SIZE(controllers); i++) {
		r = jobgroup_find_in(&m, i, uid, job_id, path, sizeof(path));
		if (r == 0)
			r = look_into(AT_FDCWD, path, MAX_DEPTH);
		if (r < 0 && r != -ENOENT && r != -ENODEV && !failed)
			failed = r;
	}
	return r > 0 ? r : failed;
}
