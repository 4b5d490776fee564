#include "client/readable.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/path.h"

#define PATH_OF "STAGE_DATA_PATH_"

bool readable_has_all(const char *socket)
{
	_cleanup_(file_closep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	char path[PATH_MAX];
	size_t size = 0;
	unsigned n = 0;
	struct statx st;

	if (snprintf(path, sizeof(path), "%.*s" RUNDIR_ENV, (int)(path_base(socket) - socket),
		     socket) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, PATH_OF, strlen(PATH_OF)) || !strchr(line, '='))
			continue;
		/* An entry of mode 0 waits for its mount. */
		if (statx(AT_FDCWD, strchr(line, '=') + 1, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
			  STATX_MODE, &st) < 0 ||
		    (st.stx_mode & 07777) == 0)
			return false;
		n++;
	}
	return n > 0;
}
