#include "common/slurm/job-cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define SLUIDS "s[0-9A-Z]*" /* pattern of names that may be a SLUID */
#define MAX_DEPTH 8 /* of groups below a job's: step, task, and groups that a container makes */

/* Looks for a directory of the job below dir. */
typedef int (*find_fn)(const struct job_cgroup_job *job, const char *dir, char *buf, size_t size);

/* Calls find() for each entry of top that matches the pattern, until it succeeds. Uses readdir(3),
 * because glob(3) reports an unreadable directory as an empty one. Returns -ENODEV if no entry
 * matches. */
static int find_among(const char *top, const char *pattern, find_fn find,
		      const struct job_cgroup_job *job, char *buf, size_t size)
{
	_cleanup_(dir_closep) DIR *dir = opendir(top);
	int r = dir || errno == ENOENT || errno == ENOTDIR ? -ENODEV : -errno;
	char path[PATH_MAX];
	struct dirent *e;
	int found;

	while (dir && (errno = 0, e = readdir(dir))) {
		if (fnmatch(pattern, e->d_name, 0) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", top, e->d_name);
		found = find(job, path, buf, size);
		if (found != -ENOENT && found != -ENODEV)
			return found;
		r = r == -ENODEV ? found : r;
	}
	return dir && errno ? -errno : r;
}

/* Writes the path of name in dir to buf. Returns 0 if it exists, or -errno. */
static int take(const char *dir, const char *name, char *buf, size_t size)
{
	if (snprintf(buf, size, "%s/%s", dir, name) >= (int)size)
		return -ENAMETOOLONG;
	return access(buf, F_OK) < 0 ? -errno : 0;
}

static int find_in_v1(const struct job_cgroup_job *job, const char *slurm, char *buf, size_t size)
{
	char name[48];

	snprintf(name, sizeof(name), "uid_%u/job_%u", job->uid, job->job_id);
	return take(slurm, name, buf, size);
}

/* Returns whether the process is Slurm's step daemon of the job: the daemon's title names the job.
 * Only root can move a process to the group of a step that find_daemon() reads. */
static bool is_daemon_of(unsigned pid, uint32_t job_id)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[32], title[48], text[48] = "";

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	snprintf(title, sizeof(title), "slurmstepd: [%u.", job_id);
	f = fopen(path, "re");
	return f && fgets(text, sizeof(text), f) && strncmp(text, title, strlen(title)) == 0;
}

static int find_daemon(const struct job_cgroup_job *job, const char *step, char *buf, size_t size)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[PATH_MAX + 32];
	unsigned pid;

	snprintf(path, sizeof(path), "%s/slurm/cgroup.procs", step);
	f = fopen(path, "re");
	while (f && fscanf(f, "%u", &pid) == 1)
		if (is_daemon_of(pid, job->job_id))
			return 0;
	return -ENOENT;
}

/* Returns a SLUID's directory if a step of the job runs in it. */
static int find_by_daemon(const struct job_cgroup_job *job, const char *dir, char *buf, size_t size)
{
	int r = find_among(dir, "step_*", find_daemon, job, buf, size);

	if (r == 0 && snprintf(buf, size, "%s", dir) >= (int)size)
		return -ENAMETOOLONG;
	return r;
}

static int find_in_scope(const struct job_cgroup_job *job, const char *scope, char *buf,
			 size_t size)
{
	char name[16];
	int r;

	snprintf(name, sizeof(name), "job_%u", job->job_id);
	r = take(scope, name, buf, size);
	if (r != -ENOENT)
		return r;
	if (job->sluid && *job->sluid)
		return take(scope, job->sluid, buf, size);
	r = find_among(scope, SLUIDS, find_by_daemon, job, buf, size);
	return r == -ENODEV ? -ENOENT : r;
}

static int find_in_slice(const struct job_cgroup_job *job, const char *slice, char *buf,
			 size_t size)
{
	return find_among(slice, "*slurmstepd.scope", find_in_scope, job, buf, size);
}

void job_cgroup_read_mounts(struct job_cgroup_mounts *m, const char *const *controllers, size_t n)
{
	if (m->is_complete)
		return;
	m->n = n;
	for (size_t i = 0; i < n; i++) {
		m->v1[i].type = "cgroup";
		m->v1[i].option = controllers[i];
	}
	m->v1[n].type = "cgroup2";
	m->v1[n].option = NULL;
	m->r = mountinfo_find_first(m->v1, n + 1);
	m->is_complete = m->r == 0;
}

static int find_in(const struct job_cgroup_mounts *m, size_t controller,
		   const struct job_cgroup_job *job, char *buf, size_t size)
{
	const char *const top = m->v1[controller].target, *const v2 = m->v1[m->n].target;
	int v1 = -ENODEV, r;

	if (m->r < 0)
		return m->r;
	if (*top)
		v1 = find_among(top, "slurm*", find_in_v1, job, buf, size);
	if ((v1 != -ENOENT && v1 != -ENODEV) || !*v2)
		return v1;
	r = find_among(v2, "*.slice", find_in_slice, job, buf, size);
	return r == -ENODEV ? v1 : r;
}

int job_cgroup_find_in(struct job_cgroup_mounts *m, size_t controller,
		       const struct job_cgroup_job *job, char *buf, size_t size)
{
	const int r = find_in(m, controller, job, buf, size);

	if (r == -ENODEV && !*m->v1[controller].target)
		m->is_complete = false;
	return r;
}

int job_cgroup_find(const char *controller, const struct job_cgroup_job *job, char *buf,
		    size_t size)
{
	struct job_cgroup_mounts m = { 0 };

	job_cgroup_read_mounts(&m, &controller, 1);
	return job_cgroup_find_in(&m, 0, job, buf, size);
}

int job_cgroup_parse_cpus(const char *text, cpu_set_t *set, size_t size)
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

int job_cgroup_read_cpus(const char *dir, cpu_set_t *set, size_t size)
{
	static const char *const names[] = { "cpuset.effective_cpus", "cpuset.cpus.effective",
					     "cpuset.cpus", NULL };
	char text[4096];
	int r = job_cgroup_read(dir, names, text, sizeof(text));

	return r < 0 ? r : job_cgroup_parse_cpus(text, set, size);
}

bool job_cgroup_has_mems(const char *dir)
{
	static const char *const names[] = { "cpuset.effective_mems", "cpuset.mems.effective",
					     "cpuset.mems", NULL };
	char text[4096];

	return job_cgroup_read(dir, names, text, sizeof(text)) == 0 && *text != '\n';
}

int job_cgroup_read(const char *dir, const char *const *names, char *buf, size_t size)
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
	return strncmp(name, JOB_CGROUP_OURS, strlen(JOB_CGROUP_OURS)) == 0;
}

/* Returns 1 if there is a process in the group; 0 if there is none, or if the group was just
 * removed; -errno. */
static int has_process(int dir)
{
	_cleanup_(fd_closep) int fd = openat(dir, "cgroup.procs",
					     O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
	/* Slurm puts processes into the groups of steps. Processes in the job's own directory were
	 * put there by us. */
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

int job_cgroup_is_populated(const struct job_cgroup_job *job)
{
	/* The site decides which of them Slurm uses. With v2, each look-up finds the same
	 * directory. */
	static const char *const controllers[] = { "freezer", "memory", "cpuset", "devices",
						   "cpuacct" };
	struct job_cgroup_mounts m = { 0 };
	char path[PATH_MAX];
	int r = 0, failed = 0;

	job_cgroup_read_mounts(&m, controllers, ARRAY_SIZE(controllers));
	for (size_t i = 0; r <= 0 && i < ARRAY_SIZE(controllers); i++) {
		r = job_cgroup_find_in(&m, i, job, path, sizeof(path));
		if (r == 0)
			r = look_into(AT_FDCWD, path, MAX_DEPTH);
		if (r < 0 && r != -ENOENT && r != -ENODEV && !failed)
			failed = r;
	}
	return r > 0 ? r : failed;
}
