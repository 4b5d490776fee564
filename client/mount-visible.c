#include "client/mount-visible.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/snapshot.h"
#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/mountinfo.h"

/* Since Linux 5.8. From 5.12 on, the path of a dataset is a mount. */
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

bool mount_visible_waits(const char *path)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC;
	struct statx st;

	return statx(AT_FDCWD, path, flags, STATX_MODE, &st) == 0 &&
	       (st.stx_mode & 07777) == RUNDIR_PLACE_MODE &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Returns whether the path is on a FUSE file system, according to this namespace's mount table. */
static bool is_on_fuse(const char *path)
{
	char above[PATH_MAX];
	struct mountinfo m;

	for (snprintf(above, sizeof(above), "%s", path); above[0]; *strrchr(above, '/') = '\0')
		if (mountinfo_find(&m, above, NULL, NULL) == 0)
			return !strncmp(m.type, "fuse", 4);
	return false;
}

/* Returns whether the run directory exists, but nothing is mounted on its `t`. Then path does not
 * exist in this namespace. */
static bool is_memory_hidden(const char *path)
{
	const char *data = strstr(path, "/" RUNDIR_DATA "/");
	char name[PATH_MAX];
	struct mountinfo m;

	if (!data ||
	    snprintf(name, sizeof(name), "%.*s/" RUNDIR_SOCK, (int)(data - path), path) >=
		    (int)sizeof(name) ||
	    access(name, F_OK) < 0)
		return false;
	snprintf(name, sizeof(name), "%.*s/" RUNDIR_MEMORY, (int)(data - path), path);
	return mountinfo_find(&m, name, NULL, NULL) < 0;
}

static bool is_seen(const struct snapshot *s)
{
	char to[PATH_MAX];
	ssize_t n = readlink(s->path, to, sizeof(to) - 1);

	if (n < 0 && errno == EINVAL) { /* not a link: the data itself, or the empty entry */
		if (mount_visible_waits(s->path))
			return false;
		n = snprintf(to, sizeof(to), "%s", s->path);
	}
	if (n < 0)
		return errno != ENOENT || !is_memory_hidden(s->path);
	if ((size_t)n >= sizeof(to))
		return true;
	to[n] = '\0';
	return strcmp(s->method, "mount") != 0 || to[0] != '/' || is_on_fuse(to);
}

int mount_visible_check(const struct snapshot_list *list, struct error *err)
{
	for (size_t i = 0; i < list->n_items; i++) {
		const struct snapshot *s = &list->items[i];
		bool mounted = !strcmp(s->method, "mount");

		if (s->state != STAGE_READY || is_seen(s))
			continue;
		error_exit(err, STAGE_EXIT_FAILED, ENOENT,
			   "%s: it is ready on the node and not seen in this job's mount namespace",
			   s->name);
		error_set_hint(err, -ENOENT, "%s, or the site can set JobNamespace=",
			       mounted ? "stage it with method=extract"
				       : "stage it to memory without keep=");
		return STAGE_EXIT_FAILED;
	}
	return 0;
}
