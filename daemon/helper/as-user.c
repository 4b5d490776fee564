/*
 * These functions create and remove files as the user. A tier that does not belong to root is
 * opened here, by its path, because the user may do what he wants there. Each function may be
 * called again after a failure.
 */
#include "daemon/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/keep/keep.h"
#include "common/protocol/keeper-helper.h"
#include "common/protocol/manifest.h"
#include "common/protocol/rundir.h"
#include "common/protocol/tier-name.h"
#include "common/util/cleanup.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The user may have closed his directory to himself. It is in a directory of root, where no name
 * can be a link. */
static int open_up(const char *path)
{
	const char *name = path_base(path);

	return fchmodat(HELPER_FD_DIR, name, 0700, 0) < 0 ? -errno : 0;
}

/* Removes the objects that workers have made outside the tmpfs. For objects in the tmpfs, the
 * manifests' paths lead nowhere any more. */
int helper_release(char **argv)
{
	if (fchdir(HELPER_FD_DIR) < 0)
		return -errno;
	(void)open_up(RUNDIR_PRIVATE);
	return manifest_release_all(path_base(RUNDIR_PRIVATE), NULL, NULL);
}

static int empty_dir(const char *path, const struct rmtree_limits *limits)
{
	_cleanup_(fd_closep) int fd = -1;

	(void)open_up(path);
	fd = openat(HELPER_FD_DIR, path_base(path), DIR_FLAGS | O_NOFOLLOW);
	return fd < 0 ? -errno : rmtree_empty(fd, limits, NULL);
}

int helper_empty(char **argv)
{
	static const char *const paths[] = { RUNDIR_DATA, RUNDIR_PRIVATE };
	const struct rmtree_limits limits = { .deadline_ms = strtoull(argv[0], NULL, 10) };
	int r, result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		r = empty_dir(paths[i], &limits);
		result = result ? result : r;
	}
	return result;
}

static uint32_t get_job(char **argv)
{
	return (uint32_t)strtoul(argv[0], NULL, 10);
}

static int open_tier(char **argv)
{
	int fd = *argv[1] ? open(argv[1], DIR_FLAGS) : openat(HELPER_FD_DIR, ".", DIR_FLAGS);

	return fd < 0 ? -errno : fd;
}

int helper_tier_make(char **argv)
{
	_cleanup_(fd_closep) int tier = open_tier(argv);
	struct stat st;

	if (tier < 0)
		return tier;
	if (fstat(tier, &st) < 0)
		return -errno;
	if (tier_name_is_open(st.st_mode))
		return st.st_mode & 07777;
	return tier_name_make(tier, get_job(argv));
}

int helper_tier_aside(char **argv)
{
	_cleanup_(fd_closep) int tier = open_tier(argv);
	int r;

	if (tier < 0)
		return tier == -ENOENT ? 0 : tier;
	r = tier_name_set_aside(tier, get_job(argv));
	/* EPERM: in a sticky directory, the name belongs to another user, who made it first. */
	return r == -EPERM ? 0 : r;
}

/* Empties the user's directory `data`. Root removes it and its parent directory, which belongs to
 * root. */
static int empty_data(int dirfd, const char *path, dev_t dev, const struct rmtree_limits *limits)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (fchmodat(dirfd, path, 0700, 0) < 0)
		return errno == ENOENT || errno == EPERM ? 0 : -errno;
	fd = openat(dirfd, path, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != dev)
		return -EBUSY; /* the user has mounted something on it again */
	return st.st_uid == geteuid() ? rmtree_empty(fd, limits, NULL) : 0;
}

/* Empties or removes a job's directory. A directory of another user belongs to another job with the
 * same id, so it stays. */
static int empty_one(void *arg, int dirfd, const char *name)
{
	char data[TIER_NAME_SIZE * 2];
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (st.st_uid == geteuid())
		return rmtree_at(dirfd, name, arg, NULL);
	snprintf(data, sizeof(data), "%.48s/" TIER_NAME_DATA, name);
	return st.st_uid == 0 ? empty_data(dirfd, data, st.st_dev, arg) : 0;
}

int helper_tier_empty(char **argv)
{
	struct rmtree_limits limits = { strtoull(argv[2], NULL, 10), .keep_root = !*argv[1] };
	const uint64_t max_s = strtoull(argv[3], NULL, 10);
	_cleanup_(fd_closep) int tier = open_tier(argv);
	int r;

	if (tier < 0)
		return tier == -ENOENT ? 0 : tier;
	r = tier_name_for_each(tier, get_job(argv), empty_one, &limits);
	(void)keep_sweep_tier(tier, max_s ? max_s * 1000 : KEEP_MAX_MS, limits.deadline_ms);
	return r; /* not the result for kept data */
}
