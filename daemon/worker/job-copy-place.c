/*
 * The last node that leaves renames the directory before it removes it. A lease is valid only if
 * the directory still has its name after the lease was made. Both directories must belong to the
 * user and be writable only by the user, because in a tier that everybody may write to, another
 * user may have made the outer one.
 */
#include "daemon/worker/job-copy-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/manifest.h"
#include "common/util/cleanup.h"
#include "common/util/strutil.h"
#include "daemon/engines/copy/hash.h"

#define SUM_SIZE 16
#define MAX_TRIES 10

char *job_copy_make_path(const char *job_dir, const char *name, const char *key)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	char sum[HASH_TEXT_SIZE];

	if (hash_new(&hash) < 0)
		return NULL;
	hash_add(hash, key, strlen(key));
	hash_get(hash, sum);
	return strutil_printf("%s/%s-%.*s", job_dir, name, SUM_SIZE, sum);
}

static int make_dir(int above, const char *name)
{
	return mkdirat(above, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Opens a directory that only the user may enter. Returns 0 or -errno; -EPERM: others have access
 * to it. */
static int open_own(int above, const char *name, int *fdp)
{
	_cleanup_(fd_closep) int fd = openat(above, name,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	*fdp = steal_fd(&fd);
	return 0;
}

static bool has_name(int above, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(above, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int make_lease(int fd, const char *node)
{
	char name[JOB_COPY_NODE_SIZE + 8];
	_cleanup_(fd_closep) int lease = -1;

	snprintf(name, sizeof(name), MANIFEST_LEASE_PREFIX "%s", node);
	lease = openat(fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return lease < 0 ? -errno : 0;
}

static int try_to_open_leased(const char *job_dir, const char *name, const char *node, int *fdp)
{
	_cleanup_(fd_closep) int above = -1, fd = -1;
	int r = make_dir(AT_FDCWD, job_dir);

	if (r == 0)
		r = open_own(AT_FDCWD, job_dir, &above);
	if (r == 0)
		r = make_dir(above, name);
	if (r == 0)
		r = open_own(above, name, &fd);
	if (r == 0)
		r = make_lease(fd, node);
	if (r == 0 && (!has_name(AT_FDCWD, job_dir, above) || !has_name(above, name, fd)))
		r = -ENOENT;
	if (r == 0)
		*fdp = steal_fd(&fd);
	return r;
}

int job_copy_open_leased(const char *job_dir, const char *name, const char *node, int *fdp)
{
	int r = -ENOENT;

	for (int i = 0; r == -ENOENT && i < MAX_TRIES; i++)
		r = try_to_open_leased(job_dir, name, node, fdp);
	return r;
}

bool job_copy_has_lease(int dir, const char *node)
{
	char name[JOB_COPY_NODE_SIZE + 8];
	struct stat st;

	snprintf(name, sizeof(name), MANIFEST_LEASE_PREFIX "%s", node);
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}
