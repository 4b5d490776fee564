/*
 * Preloaded into a worker: reading a file with "slow" in its name takes SLOW_MS for each call, with
 * "hang" it takes for ever, as on a dead file system.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t pread64(int fd, void *buf, size_t size, off64_t offset);

ssize_t pread64(int fd, void *buf, size_t size, off64_t offset)
{
	static ssize_t (*next)(int, void *, size_t, off64_t);
	char link[64], path[PATH_MAX];
	const char *ms = getenv("SLOW_MS");
	ssize_t n;

	if (!next)
		next = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	while (strstr(path, "hang") && size > 512) /* the first look at the magic goes through */
		sleep(1000);
	if (strstr(path, "slow") && size > 512) {
		usleep((useconds_t)(1000 * atoi(ms ? ms : "100")));
		size = size > 65536 ? 65536 : size;
	}
	return next(fd, buf, size, offset);
}
