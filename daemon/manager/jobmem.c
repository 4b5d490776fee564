#include "daemon/manager/jobmem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "common/slurm/jobgroup.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/mountinfo.h"
#include "common/util/number.h"
#include "daemon/manager/acts.h"

#define POLL_US 10000

/* "max", and what is more than there is, is all. */
static int read_number(const char *dir, const char *const *names, int64_t *valuep)
{
	struct sysinfo si;
	char text[64];
	uint64_t value, all;

	if (jobgroup_read(dir, names, text, sizeof(text)) < 0 || sysinfo(&si) < 0)
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

int jobmem_remove_group(const char *dir, enum act_group which, bool job_over, uint64_t deadline_ms)
{
	int r;

	do {
		struct act a = { .kind = ACT_REMOVE_GROUP, .n = { which, job_over } };

		if (snprintf(a.text, sizeof(a.text), "%s", dir) >= PATH_MAX)
			return -ENAMETOOLONG;
		r = acts_do(&a, NULL, 0, NULL, NULL);
	} while (r == -EBUSY && clock_ms() < deadline_ms && usleep(POLL_US) == 0);
	return r;
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

/* One thread alone is moved by `tasks` (v1) without the wait of cgroup.procs: see launch.c. */
static int move_to(const char *mount, const char *path, const char *sub)
{
	char name[PATH_MAX * 2];

	snprintf(name, sizeof(name), "%s%s%s/tasks", mount, path, sub);
	if (acts_do_path(ACT_JOIN_GROUP, name, 0) == 0)
		return 0;
	snprintf(name, sizeof(name), "%s%s%s/cgroup.procs", mount, path, sub);
	return acts_do_path(ACT_JOIN_GROUP, name, 0);
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
