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
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define AREA_SIZE (4 << 20) /* a hole, until it is written to */

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

/*
 * The area: a number that is 1 where something had no room, then for each object the size of its
 * path, the path, the size of its counts, and the counts; zeros behind the last.
 */
static char *area;
static size_t used;
static char area_path[256];

static void area_open(void)
{
	struct timespec now;
	int fd;

	area = NULL;
	used = sizeof(uint32_t);
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

static void area_close(void)
{
	if (!area)
		return;
	munmap(area, AREA_SIZE);
	area = NULL;
	unlink(area_path);
}

static void area_add(const void *data, uint32_t size)
{
	if (used + size > AREA_SIZE - sizeof(uint32_t)) {
		area[0] = 1;
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

/* An object is believed when its size is there: who is killed meanwhile leaves those before. */
static void keep_counts(void)
{
	size_t size_at = 0;
	uint32_t size;

	for (const struct gcov_info *i = __gcov_root.list; i && !area[0]; i = i->next) {
		__gcov_info_to_gcda(i, add_name, add_counts, no_memory, &size_at);
		size = (uint32_t)(used - size_at - sizeof(size));
		memcpy(area + size_at, &size, sizeof(size));
	}
}

/* In place of libgcov's: before exec(), and before _exit() (coverage.h) */
void __gcov_dump(void)
{
	if (!__gcov_root.list || __gcov_root.dumped)
		return;
	if (can_open()) {
		area_close();
		__gcov_dump_one(&__gcov_root);
		return;
	}
	if (area)
		keep_counts();
	__gcov_root.dumped = 1;
}

__attribute__((constructor)) static void begin(void)
{
	area_open();
	pthread_atfork(NULL, NULL, area_open);
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
