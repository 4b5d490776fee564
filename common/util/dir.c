#include "common/util/dir.h"

#include <fcntl.h>

#include "common/util/fd.h"

DIR *dir_open_at(int dirfd, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		steal_fd(&fd);
	return dir;
}
