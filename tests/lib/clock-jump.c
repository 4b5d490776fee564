/*
 * Preloaded into every program of a node: in ours the time of day is what the kernel says plus as
 * many seconds as stand in /run/clock-jump, a file of eight bytes, so that a test can let it jump.
 * Clocks that only go forward are left alone. The file is mapped at the start, because a sandbox
 * opens nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
	int fd = strncmp(program_invocation_short_name, "stag", 4)
			 ? -1
			 : open("/run/clock-jump", O_RDONLY | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);

	offset = p == MAP_FAILED ? NULL : p;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);

	if (r == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *offset;
	return r;
}

int gettimeofday(struct timeval *tv, void *zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *p)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (p)
		*p = ts.tv_sec;
	return ts.tv_sec;
}
