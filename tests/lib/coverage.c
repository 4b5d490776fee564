/*
 * Linked into every program of a build that counts lines (tools/check coverage), and into no other:
 * counts of processes that can't open their files when they end.
 *
 * libgcov opens a file an object at the end of a process. Stage-fetch may open none for writing,
 * the child that checks an image none at all, and a node of the test cluster does not have them. So
 * each process has a file of its own in COUNTS_DIR mapped from its first moment on, as has each
 * child it forks; what can't be written to its place at the end goes there by no call of the
 * system's, and tests/lib/coverage adds it up. Calls have libc's inner names, by which
 * tests/lib/failcalls.c does not know them.
 *
 * Who waits may be killed: a process of one thread leaves what it has counted there before it waits
 * by usleep() or poll(), too, which the linker leads here (--wrap). It is written over by the next,
 * and goes when the process ends by itself.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#define AREA_SIZE (4 << 20) /* a hole, until it is written to */
#define NOTE_MS 20

/* libgcov's, from gcc 12 on: what struct gcov_info and gcov_root begin with */
struct gcov_info {
	unsigned version;
	struct gcov_info *next;
	unsigned stamp, checksum;
	const char *path;
};

struct gcov_root {
	struct gcov_info *list;
	unsigned dumped : 1, run_counted : 1;
};

extern struct gcov_root __gcov_root __attribute__((visibility("hidden")));
void __gcov_dump_one(struct gcov_root *root) __attribute__((visibility("hidden")));
void __gcov_info_to_gcda(const struct gcov_info *info, void (*name)(const char *, void *),
			 void (*dump)(const void *, unsigned, void *),
			 void *(*allocate)(unsigned, void *), void *arg);
int __open64(const char *path, int flags, ...);
int __close(int fd);
ssize_t __pwrite64(int fd, const void *buf, size_t size, off_t at);

void __gcov_dump(void) __attribute__((visibility("hidden")));

/* coverage-exec.c, in Slurm's processes */
extern void (*coverage_at_exec)(void) __attribute__((weak));

/* failcalls.c: what is called meanwhile is not the program's */
extern void failcalls_pause(bool yes) __attribute__((weak));

/*
 * The area: a number that is 1 where something had no room, then for each object the size of its
 * path, the path, the size of its counts, and the counts; zeros behind the last.
 */
static char *area;
static size_t used;
static bool is_full;
static char area_path[256];
static pid_t area_owner; /* a child that was not made by fork() has none of its own */

static void area_open(void)
{
	struct timespec now;
	int fd;

	area = NULL;
	used = sizeof(uint32_t);
	area_owner = getpid();
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(area_path, sizeof(area_path), "%s/%d.%lld.%ld", COUNTS_DIR, getpid(),
		 (long long)now.tv_sec, now.tv_nsec);
	fd = __open64(area_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (__pwrite64(fd, "", 1, AREA_SIZE - 1) == 1)
		area = mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	__close(fd);
	if (area == MAP_FAILED)
		area = NULL;
	if (!area)
		unlink(area_path);
}

static bool has_area(void)
{
	return area && area_owner == getpid();
}

static void area_close(void)
{
	if (!has_area())
		return;
	munmap(area, AREA_SIZE);
	area = NULL;
	unlink(area_path);
}

static void area_add(const void *data, uint32_t size)
{
	if (used + size > AREA_SIZE - 2 * sizeof(uint32_t)) {
		is_full = true;
		return;
	}
	memcpy(area + used, data, size);
	used += size;
}

static void add_name(const char *path, void *arg)
{
	uint32_t size = (uint32_t)strlen(path);

	area_add(&size, sizeof(size));
	area_add(path, size);
	*(size_t *)arg = used;
	area_add(&(uint32_t){ 0 }, sizeof(uint32_t));
}

static void add_counts(const void *data, unsigned size, void *arg)
{
	area_add(data, size);
}

/* Values of expressions would want memory; lines don't. */
static void *no_memory(unsigned size, void *arg)
{
	return NULL;
}

static bool can_open(void)
{
	int fd = __open64(__gcov_root.list->path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		__close(fd);
	return fd >= 0;
}

/* All are believed when the size of the first is there: who is killed meanwhile leaves nothing. */
static void keep_counts(bool for_good)
{
	const size_t begin = used;
	size_t first_at = 0, size_at = 0;
	uint32_t size, first = 0;

	is_full = false;
	for (const struct gcov_info *i = __gcov_root.list; i && !is_full; i = i->next) {
		__gcov_info_to_gcda(i, add_name, add_counts, no_memory, &size_at);
		size = (uint32_t)(used - size_at - sizeof(size));
		if (!first_at) {
			first_at = size_at;
			first = size;
		} else if (!is_full) {
			memcpy(area + size_at, &size, sizeof(size));
		}
	}
	if (for_good && is_full)
		area[0] = 1;
	if (!is_full)
		memset(area + used, 0, 2 * sizeof(uint32_t));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is_full && first_at)
		memcpy(area + first_at, &first, sizeof(first));
	if (!for_good)
		used = begin;
}

static void note(void)
{
	static long long last_ms;
	struct timespec now;
	long long ms;

	if (!has_area() || !__libc_single_threaded || !__gcov_root.list || __gcov_root.dumped)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
	if (ms - last_ms < NOTE_MS)
		return;
	last_ms = ms;
	keep_counts(false);
}

int __real_usleep(useconds_t us);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

__attribute__((visibility("hidden"))) int __wrap_usleep(useconds_t us)
{
	note();
	return __real_usleep(us);
}

__attribute__((visibility("hidden"))) int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (timeout_ms)
		note();
	return __real_poll(fds, n, timeout_ms);
}

static void dump(void)
{
	if (!__gcov_root.list || __gcov_root.dumped)
		return;
	if (can_open()) {
		area_close();
		__gcov_dump_one(&__gcov_root);
		return;
	}
	if (has_area())
		keep_counts(true);
	__gcov_root.dumped = 1;
}

/* In place of libgcov's: before fork() and exec(), and before _exit() (coverage.h) */
void __gcov_dump(void)
{
	if (&failcalls_pause)
		failcalls_pause(true);
	dump();
	if (&failcalls_pause)
		failcalls_pause(false);
}

/* It was closed before the fork() where counts could be written. */
static void open_again(void)
{
	if (!area)
		area_open();
}

__attribute__((constructor)) static void begin(void)
{
	area_open();
	pthread_atfork(NULL, open_again, area_open);
	if (&coverage_at_exec)
		coverage_at_exec = __gcov_dump;
}

/* Before libgcov's own, whose priority is 100 */
__attribute__((destructor)) static void end(void)
{
	if (&coverage_at_exec)
		coverage_at_exec = NULL;
	if (__gcov_root.list && !can_open())
		__gcov_dump();
	else
		area_close();
}
