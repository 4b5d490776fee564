#include "common/util/fd.h"

#include <errno.h>
#include <unistd.h>

int fd_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, p, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		p += n < 0 ? 0 : n;
		size -= n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, void *data, size_t size)
{
	char *p = data;
	ssize_t n;

	while (size > 0) {
		n = read(fd, p, size);
		if (n == 0 || (n < 0 && errno != EINTR))
			return n == 0 ? -EPIPE : -errno;
		p += n < 0 ? 0 : n;
		size -= n < 0 ? 0 : (size_t)n;
	}
	return 0;
}
