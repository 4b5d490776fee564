#include "daemon/keeper/jobmem.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/parse.h"
#include "common/path.h"
#include "daemon/keeper/mountinfo.h"
#include "daemon/keeper/proc.h"

static int find_one(const char *pattern, char *buf, size_t size)
{
	glob_t g;
	int r = glob(pattern, 0, NULL, &g);

	if (r == 0)
		snprintf(buf, size, "%s", g.gl_pathv[0]);
	globfree(&g);
	return r == 0 ? 0 : -ENOENT;
}

int jobmem_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size)
{
	char pattern[PATH_MAX + 64] = "";
	struct mountinfo m;

	if (mountinfo_find(&m, NULL, "cgroup", controller) == 0)
		snprintf(pattern, sizeof(pattern), "%s/slurm*/uid_%u/job_%u", m.target, uid,
			 job_id);
	if (find_one(pattern, buf, size) == 0)
		return 0;
	if (mountinfo_find(&m, NULL, "cgroup2", NULL) < 0)
		return -ENOENT;
	snprintf(pattern, sizeof(pattern), "%s/system.slice/*slurmstepd.scope/job_%u", m.target,
		 job_id);
	return find_one(pattern, buf, size);
}

/* The first of the files that is there. */
static int read_first(const char *dir, const char *const *names, char *buf, size_t size)
{
	char path[PATH_MAX + 64];

	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", dir, *names);
		if (proc_read(AT_FDCWD, path, buf, size) > 0)
			return 0;
	}
	return -ENOENT;
}

/* "max", and what is more than there is, is all. */
static int read_number(const char *dir, const char *const *names, int64_t *valuep)
{
	struct sysinfo si;
	char text[64];
	uint64_t value, all;

	if (read_first(dir, names, text, sizeof(text)) < 0 || sysinfo(&si) < 0)
		return -ENOENT;
	text[strcspn(text, "\n")] = '\0';
	all = (uint64_t)si.totalram * si.mem_unit;
	*valuep = (int64_t)(parse_uint64(text, &value) < 0 || value > all ? all : value);
	return 0;
}

int jobmem_read(const char *dir, int64_t *limitp, int64_t *usedp)
{
	static const char *const limit[] = { "memory.limit_in_bytes", "memory.max", NULL };
	static const char *const used[] = { "memory.usage_in_bytes", "memory.current", NULL };
	int r = read_number(dir, limit, limitp);

	return r < 0 ? r : read_number(dir, used, usedp);
}

int jobmem_make_group(const char *path, struct error *err)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", path);
	return 0;
}

static void kill_group(const char *path)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char name[PATH_MAX + 16];
	struct proc p;
	int pid;

	snprintf(name, sizeof(name), "%s/cgroup.procs", path);
	f = fopen(name, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		if (proc_get(pid, &p) == 0)
			proc_kill(&p, SIGKILL);
}

int jobmem_remove_group(const char *path, bool job_over, uint64_t deadline_ms)
{
	char job[PATH_MAX];

	/* Nobody but root can put a process there, so all in it are ours. */
	while (rmdir(path) < 0 && errno != ENOENT) {
		if (clock_ms() >= deadline_ms)
			return -EBUSY;
		kill_group(path);
		proc_sleep_ms(10);
	}
	snprintf(job, sizeof(job), "%s", path);
	*strrchr(job, '/') = '\0';
	if (job_over && strncmp(path_base(job), "job_", 4) == 0)
		rmdir(job); /* fails where a step is left: then Slurm removes it */
	return 0;
}

int jobmem_parse_cpus(const char *text, cpu_set_t *cpus, size_t size)
{
	unsigned from, to;
	int n;

	CPU_ZERO_S(size, cpus);
	while (sscanf(text, "%u%n", &from, &n) == 1) {
		text += n;
		to = from;
		if (sscanf(text, "-%u%n", &to, &n) == 1)
			text += n;
		if (to < from || to >= size * 8)
			return -EINVAL;
		for (; from <= to; from++)
			CPU_SET_S(from, size, cpus);
		text += *text == ',';
	}
	return (*text && *text != '\n') || CPU_COUNT_S(size, cpus) == 0 ? -EINVAL : 0;
}

int jobmem_get_cpus(uid_t uid, uint32_t job_id, cpu_set_t *cpus, size_t size)
{
	static const char *const names[] = { "cpuset.effective_cpus", "cpuset.cpus.effective",
					     "cpuset.cpus", NULL };
	char dir[PATH_MAX], text[4096];
	int r = jobmem_find("cpuset", uid, job_id, dir, sizeof(dir));

	if (r == 0)
		r = read_first(dir, names, text, sizeof(text));
	return r < 0 ? r : jobmem_parse_cpus(text, cpus, size);
}

int jobmem_parse_above(char *path)
{
	char *cut = strstr(path, "/job_"), *slurm = strstr(path, "/slurm");

	if (!cut)
		return -ENOENT;
	/* v1: the site's name for Slurm's tree goes too; v2: the scope stays. */
	if (slurm && slurm < cut && strstr(slurm, "/uid_") && strstr(slurm, "/uid_") < cut)
		cut = slurm;
	if (cut == path)
		cut++;
	*cut = '\0';
	return 0;
}

static int move_to(const char *mount, const char *path, const char *sub)
{
	char dir[PATH_MAX * 2];

	snprintf(dir, sizeof(dir), "%s%s%s/cgroup.procs", mount, path, sub);
	return proc_write(dir, "0");
}

/* In v2 a group that has children takes no processes, except for the root. */
static int leave_hierarchy(char *controllers, char *path)
{
	struct mountinfo m;

	controllers[strcspn(controllers, ",")] = '\0';
	if (jobmem_parse_above(path) < 0)
		return 0;
	if (mountinfo_find(&m, NULL, *controllers ? "cgroup" : "cgroup2",
			   *controllers ? controllers : NULL) < 0)
		return -ENOENT;
	if (move_to(m.target, path, "/system") == 0 || move_to(m.target, path, "/slurmd") == 0 ||
	    move_to(m.target, path, "") == 0)
		return 0;
	return move_to(m.target, "", "");
}

void jobmem_leave(void)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 256], *controllers, *path;
	int r;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		r = leave_hierarchy(controllers + 1, path);
		if (r < 0)
			log_warning("can't leave the job's cgroup %s: %s", path, strerror(-r));
	}
}
