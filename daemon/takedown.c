#include "daemon/takedown.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fusermount.h"
#include "common/manifest.h"
#include "common/path.h"
#include "common/rmtree.h"
#include "common/rundir.h"
#include "daemon/chore.h"

static int release(void *path, struct error *err)
{
	return manifest_release(path, fusermount_unmount, err);
}

int takedown_start(struct chore **cp, struct loop *loop, const char *path, uint64_t timeout_ms,
		   void (*done)(void *arg, int r, const struct error *err), void *arg)
{
	return chore_start(cp, loop, release, (void *)path, timeout_ms, done, arg);
}

int takedown_release_all(const char *rundir, struct error *err)
{
	_cleanup_(freep) char *dir_path = NULL, *own = NULL;
	_cleanup_(dir_closep) DIR *dir = NULL;
	struct dirent *entry;
	int first = 0, r;

	if (asprintf(&dir_path, "%s/" RUNDIR_PRIVATE, rundir) < 0)
		dir_path = NULL;
	if (!dir_path || asprintf(&own, "%s/" RUNDIR_MANIFEST, rundir) < 0) {
		own = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	dir = opendir(dir_path);
	if (!dir)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", dir_path);
	while ((entry = readdir(dir))) {
		_cleanup_(freep) char *path = NULL;

		if (strncmp(entry->d_name, "manifest.", strlen("manifest.")))
			continue;
		if (asprintf(&path, "%s/%s", dir_path, entry->d_name) < 0) {
			path = NULL;
			continue;
		}
		r = release(path, first ? NULL : err);
		first = first ? first : r;
	}
	r = release(own, first ? NULL : err);
	return first ? first : r;
}

int takedown_remove_rundir(const char *rundir, struct error *err)
{
	_cleanup_(freep) char *parent = strdup(rundir);
	_cleanup_(fd_closep) int fd = -1;
	char *slash = parent ? strrchr(parent, '/') : NULL;
	int first, r;

	if (!slash || slash == parent || !slash[1])
		return error_set(err, EINVAL, "'%s' is no run directory", rundir);
	first = takedown_release_all(rundir, err);
	*slash = '\0';
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return first ? first
			     : errno == ENOENT ? 0 : error_errno(err, errno, "open %s", parent);
	r = rmtree_at(fd, slash + 1, NULL, first ? NULL : err);
	return first ? first : r;
}
