#include "daemon/engines/archive/cached.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096 /* if pages are larger, a part is read first, then the rest */

ssize_t cached_read(int fd, void *buf, size_t size, uint64_t offset)
{
	struct iovec iov = { buf, size };

	return preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT);
}

/* Reads to the end of the page, and waits for it. */
static ssize_t read_page(int fd, char *buf, size_t size, uint64_t offset)
{
	size_t room = PAGE - offset % PAGE;

	return pread(fd, buf, size < room ? size : room, (off_t)offset);
}

size_t cached_read_pages(int fd, void *buf, size_t size, uint64_t offset)
{
	ssize_t n = cached_read(fd, buf, size, offset);
	size_t got = n > 0 ? (size_t)n : 0;

	if (n < 0 && errno != EAGAIN)
		return 0;
	while (got < size && (n = read_page(fd, (char *)buf + got, size - got, offset + got)) > 0) {
		got += (size_t)n;
		n = cached_read(fd, (char *)buf + got, size - got, offset + got);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}
