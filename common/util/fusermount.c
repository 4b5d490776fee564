/*
 * The mount table is read before and after, because the helper's exit status does not distinguish
 * "was not mounted" from "is not allowed". Its messages go to stderr.
 */
#include "common/util/fusermount.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/mountinfo.h"

/* If the table cannot be read, returns true, so that the helper reports the state. */
static bool is_mounted(const char *target)
{
	struct mountinfo m;

	return mountinfo_find(&m, target, NULL, NULL) != -ENOENT;
}

int fusermount_unmount(const char *target, struct error *err)
{
	const char *argv[] = { "fusermount3", "-u", "-z", "--", target, NULL };
	pid_t pid;
	int r, status = 0;

	if (!is_mounted(target))
		return 0;
	r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (r)
		return error_errno(err, r, "run fusermount3");
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return error_errno(err, errno, "wait for fusermount3");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return is_mounted(target) ? error_set(err, EBUSY, "fusermount3 -u %s failed", target) : 0;
}
