#include "common/util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/cleanup.h"

int fd_read_file(int fd, size_t max, char **datap, size_t *sizep)
{
	_cleanup_(freep) char *data = NULL;
	size_t size = 0, room = 0;
	char *bigger;
	ssize_t n;

	for (;;) {
		if (size == room) {
			if (room > max)
				return -EFBIG;
			room = room ? room * 2 : 4096;
			if (room > max)
				room = max + 1;
			bigger = realloc(data, room + 1);
			if (!bigger)
				return -ENOMEM;
			data = bigger;
		}
		n = read(fd, data + size, room - size);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		size += (size_t)n;
	}
	if (size > max)
		return -EFBIG;
	data[size] = '\0';
	*datap = steal_ptr(data);
	*sizep = size;
	return 0;
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -errno;
	flags = on ? flags | flag : flags & ~flag;
	return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, bool on)
{
	return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
	return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_reopen(int fd, int flags)
{
	char name[64];
	int again;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	again = open(name, flags | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}
