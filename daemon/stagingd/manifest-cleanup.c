#include "daemon/stagingd/manifest-cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/protocol/manifest.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fusermount.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "daemon/stagingd/async.h"

static int release(void *path, struct error *err)
{
	return manifest_release(path, fusermount_unmount, err);
}

int manifest_cleanup_start(struct async **cp, struct loop *loop, const char *path,
			   uint64_t timeout_ms,
			   void (*done)(void *arg, int r, const struct error *err), void *arg)
{
	return async_start(cp, loop, release, (void *)path, timeout_ms, done, arg);
}

int manifest_cleanup_release_all(const char *rundir, struct error *err)
{
	_cleanup_(freep) char *dir = path_join(rundir, RUNDIR_PRIVATE);

	if (!dir)
		return error_set(err, ENOMEM, "out of memory");
	return manifest_release_all(dir, fusermount_unmount, err);
}

int manifest_cleanup_empty_rundir(const char *rundir, struct error *err)
{
	/* the lock is removed last, because a directory without a lock counts as free */
	static const char *const names[] = { RUNDIR_MEMORY, RUNDIR_MOUNTS, RUNDIR_SOCK,
					     RUNDIR_LOCK };
	_cleanup_(fd_closep) int fd = -1;
	int first, r;

	fd = open(rundir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", rundir);
	first = manifest_cleanup_release_all(rundir, err);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		r = rmtree_at(fd, names[i], NULL, first ? NULL : err);
		first = first ? first : r;
	}
	if (rmdir(rundir) < 0 && errno != ENOTEMPTY && errno != ENOENT && !first)
		first = error_errno(err, errno, "remove %s", rundir);
	return first;
}
