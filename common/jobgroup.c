#include "common/jobgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mountinfo.h"

/* -ENODEV: not even slurm, that of all jobs, is there. */
static int find_one(const char *slurm, const char *job, char *buf, size_t size)
{
	char pattern[PATH_MAX + 64];
	glob_t g;
	int r;

	snprintf(pattern, sizeof(pattern), "%s%s", slurm, job);
	r = glob(pattern, 0, NULL, &g);
	if (r == 0)
		snprintf(buf, size, "%s", g.gl_pathv[0]);
	globfree(&g);
	return r == 0 ? 0 : *job ? find_one(slurm, "", buf, size) ?: -ENOENT : -ENODEV;
}

int jobgroup_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size)
{
	char slurm[PATH_MAX + 32], job[48];
	struct mountinfo m;
	int v1 = -ENODEV, r = mountinfo_find(&m, NULL, "cgroup", controller);

	snprintf(job, sizeof(job), "/uid_%u/job_%u", uid, job_id);
	if (r == 0) {
		snprintf(slurm, sizeof(slurm), "%s/slurm*", m.target);
		r = v1 = find_one(slurm, job, buf, size);
	}
	if (r != -ENOENT && r != -ENODEV)
		return r;
	r = mountinfo_find(&m, NULL, "cgroup2", NULL);
	if (r < 0)
		return r == -ENOENT ? v1 : r;
	snprintf(slurm, sizeof(slurm), "%s/system.slice/*slurmstepd.scope", m.target);
	r = find_one(slurm, strrchr(job, '/'), buf, size);
	return r == -ENODEV ? v1 : r;
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
