#include "daemon/manager/job-cgroup-memory.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/slurm/job-cgroup.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/mountinfo.h"
#include "common/util/parse.h"
#include "daemon/manager/privops.h"

#define POLL_US 10000
#define SCOPE "slurmstepd.scope"

/* Reads a number of bytes. Returns 1 for "max" or more than the machine's memory; *valuep is the
 * machine's memory then. Otherwise returns 0 or -ENOENT. */
static int read_number(const char *dir, const char *const *names, int64_t *valuep)
{
	struct sysinfo si;
	char text[64];
	uint64_t value, all;
	bool is_all;

	if (job_cgroup_read(dir, names, text, sizeof(text)) < 0 || sysinfo(&si) < 0)
		return -ENOENT;
	text[strcspn(text, "\n")] = '\0';
	all = (uint64_t)si.totalram * si.mem_unit;
	is_all = parse_uint64(text, &value) < 0 || value > all;
	*valuep = (int64_t)(is_all ? all : value);
	return is_all;
}

static bool has_entry(const char *dir, const char *pattern)
{
	_cleanup_(globfree) glob_t found = { 0 };
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", dir, pattern) < PATH_MAX &&
	       glob(path, GLOB_NOSORT, NULL, &found) == 0;
}

/* The first pattern is that of v1, the second that of v2. */
static bool has_task(const char *dir)
{
	return has_entry(dir, "step_*/task_*") || has_entry(dir, "step_*/user/task_*");
}

int job_cgroup_read_memory(const char *dir, int64_t *limitp, int64_t *usedp)
{
	static const char *const limit[] = { "memory.limit_in_bytes", "memory.max", NULL };
	static const char *const used[] = { "memory.usage_in_bytes", "memory.current", NULL };
	/* This is checked first. If a task exists, the limit was written before and is seen
	 * below. */
	const bool any_task = has_task(dir);
	int unlimited = read_number(dir, limit, limitp), r;

	r = unlimited < 0 ? unlimited : read_number(dir, used, usedp);
	if (r < 0)
		return r;
	return unlimited && !any_task ? JOBMEM_E_EARLY : JOBMEM_E_SUCCESS;
}

int job_cgroup_remove(const char *dir, enum privop_group which, bool job_over, uint64_t deadline_ms)
{
	int r;

	do {
		struct privop a = { .kind = PRIVOP_REMOVE_GROUP, .n = { which, job_over } };

		if (snprintf(a.text, sizeof(a.text), "%s", dir) >= PATH_MAX)
			return -ENAMETOOLONG;
		r = privops_do(&a, NULL, NULL);
	} while (r == -EBUSY && clock_ms() < deadline_ms && usleep(POLL_US) == 0);
	return r;
}

/* Returns the position where Slurm's part of a v1 path begins; the site may choose its name. NULL:
 * there is none. */
static char *find_cut_in_v1(char *path)
{
	char *slurm = strstr(path, "/slurm"), *uid = slurm ? strstr(slurm, "/uid_") : NULL;

	return uid && strstr(uid, "/job_") ? slurm : NULL;
}

/* Returns the position after the scope in a v2 path. The scope contains the jobs, with any names,
 * and a group of Slurm's own processes. NULL: the path is not in a job. */
static char *find_cut_in_v2(char *path)
{
	char *scope = strstr(path, SCOPE "/"), *name = scope ? scope + strlen(SCOPE "/") : NULL;

	return name && strcmp(name, "system") != 0 && strcmp(name, "slurmd") != 0 ? name - 1 : NULL;
}

int job_cgroup_parse_above(char *path)
{
	char *cut = find_cut_in_v1(path) ?: find_cut_in_v2(path);

	if (!cut)
		return -ENOENT;
	if (cut == path)
		cut++;
	*cut = '\0';
	return 0;
}

/* Writing to `tasks` (v1) moves a single thread and does not have the delay of cgroup.procs; see
 * process-start.c. */
static int move_to(const char *mount, const char *path, const char *sub)
{
	char name[PATH_MAX * 2];

	snprintf(name, sizeof(name), "%s%s%s/tasks", mount, path, sub);
	if (privops_do_path(PRIVOP_JOIN_GROUP, name, 0) == 0)
		return 0;
	snprintf(name, sizeof(name), "%s%s%s/cgroup.procs", mount, path, sub);
	return privops_do_path(PRIVOP_JOIN_GROUP, name, 0);
}

/* In v2, a group that has children cannot contain processes, unless it is the root. So groups for
 * Slurm's own processes are tried first. */
static int move_above(const char *mount, const char *path)
{
	if (move_to(mount, path, "/system") == 0 || move_to(mount, path, "/slurmd") == 0 ||
	    move_to(mount, path, "") == 0)
		return 0;
	return move_to(mount, "", "");
}

static int leave_hierarchy(char *controllers, char *path, struct error *err)
{
	struct mountinfo m;
	int r;

	controllers[strcspn(controllers, ",")] = '\0';
	if (job_cgroup_parse_above(path) < 0)
		return 0;
	r = mountinfo_find(&m, NULL, *controllers ? "cgroup" : "cgroup2",
			   *controllers ? controllers : NULL);
	if (r == 0)
		r = move_above(m.target, path);
	return r < 0 ? error_errno(err, -r, "leave the step's cgroup for %s", path) : 0;
}

/* Fails if we are still in a step's cgroup, for example because a future Slurm has other paths.
 * Slurm drains a node if a step does not become empty. */
static int check_has_left(char *controllers, char *path, struct error *err)
{
	return strstr(path, "/step_")
		       ? error_set(err, EBUSY,
				   "staging can't start in a job step: the keeper is still in "
				   "the step's cgroup %s; set PrologFlags=Contain",
				   path)
		       : 0;
}

/* Calls fn for each line of /proc/self/cgroup. Returns 0 or the first failure. */
static int for_each_group(int (*fn)(char *controllers, char *path, struct error *err),
			  struct error *err)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 256], *controllers, *path;
	int r = f ? 0 : error_errno(err, errno, "read /proc/self/cgroup");

	while (r == 0 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		r = fn(controllers + 1, path, err);
	}
	return r;
}

int job_cgroup_leave(struct error *err)
{
	int r = for_each_group(leave_hierarchy, err);

	return r < 0 ? r : for_each_group(check_has_left, err);
}

/* Finds the group of Slurm's own processes. If several slurmds run on a machine, the scope's name
 * begins with the node's name. */
static int find_system_group(const char *mount, const char *prefix, char *buf, size_t size)
{
	_cleanup_(globfree) glob_t found = { 0 };
	char pattern[PATH_MAX];

	snprintf(pattern, sizeof(pattern), "%s/*.slice/%s" SCOPE "/system", mount, prefix);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
		return -ENOENT;
	return snprintf(buf, size, "%s", found.gl_pathv[0]) < (int)size ? 0 : -ENAMETOOLONG;
}

void job_cgroup_leave_service(const char *node)
{
	char prefix[NAME_MAX], group[PATH_MAX];
	struct mountinfo m;
	int r = mountinfo_find(&m, NULL, "cgroup2", NULL);

	if (r < 0)
		return;
	snprintf(prefix, sizeof(prefix), "%s_", node ?: "");
	r = find_system_group(m.target, prefix, group, sizeof(group));
	if (r == -ENOENT)
		r = find_system_group(m.target, "", group, sizeof(group));
	if (r == -ENOENT)
		return;
	if (r == 0)
		r = move_to(group, "", "");
	if (r < 0)
		log_warning("stay in slurmd's cgroup: %s; staging ends if systemd ends it with "
			    "slurmd",
			    strerror(-r));
}
