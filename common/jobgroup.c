#include "common/jobgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mountinfo.h"

static int find_one(const char *pattern, char *buf, size_t size)
{
	glob_t g;
	int r = glob(pattern, 0, NULL, &g);

	if (r == 0)
		snprintf(buf, size, "%s", g.gl_pathv[0]);
	globfree(&g);
	return r == 0 ? 0 : -ENOENT;
}

int jobgroup_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size)
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
