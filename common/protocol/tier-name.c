/*
 * All names of a job in a tier begin in the same way. So the record needs only the tier's path, and
 * the clean-up and the reaper use the same walk.
 */
#include "common/protocol/tier-name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/cleanup.h"
#include "common/util/parse.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int tier_name_parse(const char *name, uint32_t *job_idp)
{
	char digits[11] = "";
	int n = 0;

	if (sscanf(name, TIER_NAME_KEEP "%10[0-9]", digits) == 1) {
		*job_idp = 0;
		return 0;
	}
	if (sscanf(name, TIER_NAME_JOB "%10[0-9]%n.%*[0-9]%n", digits, &n, &n) != 1 || name[n])
		return -EINVAL;
	return parse_uint32(digits, job_idp) < 0 ? -EINVAL : 0;
}

int tier_name_set_aside(int dirfd, uint32_t job_id)
{
	char name[32], aside[64];

	snprintf(name, sizeof(name), TIER_NAME_JOB "%u", job_id);
	snprintf(aside, sizeof(aside), "%s.%llu", name, (unsigned long long)clock_ms());
	return renameat(dirfd, name, dirfd, aside) < 0 && errno != ENOENT ? -errno : 0;
}

int tier_name_make(int dirfd, uint32_t job_id)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = tier_name_set_aside(dirfd, job_id);
	char name[32];
	struct stat st;

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), TIER_NAME_JOB "%u", job_id);
	if (mkdirat(dirfd, name, 0700) < 0)
		return -errno;
	fd = openat(dirfd, name, DIR_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	return mkdirat(fd, TIER_NAME_DATA, 0700) < 0 ? -errno : 0;
}

bool tier_name_is_open(mode_t mode)
{
	return (mode & 022) && !(mode & S_ISVTX);
}

int tier_name_for_each(int dirfd, uint32_t job_id,
		       int (*fn)(void *arg, int dirfd, const char *name), void *arg)
{
	/* A duplicate: a process that has received dirfd may not be allowed to open it again. */
	_cleanup_(fd_closep) int fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint32_t found;
	int r, result = 0;

	if (!dir)
		return -errno;
	fd = -1;
	rewinddir(dir);
	while ((errno = 0, e = readdir(dir))) {
		if (tier_name_parse(e->d_name, &found) < 0 || (job_id && found != job_id) ||
		    !strchr(e->d_name, '.'))
			continue;
		r = fn(arg, dirfd, e->d_name);
		result = result ? result : r;
	}
	return result ? result : -errno;
}
