/*
 * Preloaded into a worker: reading a file with "slow" in its name takes SLOW_MS for each call, with
 * "hang" it takes for ever, as on a dead file system. With SLOW_FLIGHT looking at and opening a
 * file with "far" in its name take a millisecond, and the file SLOW_FLIGHT gets the largest number
 * of these that were under way at once.
 *
 * With SLOW_GATE whoever opens a file with "gate" in its name, or reads on in one with "mid" in it,
 * makes SLOW_GATE.reached and waits for SLOW_GATE.go, once, from when SLOW_GATE.armed is there;
 * with SLOW_FORK who forks does, too. With SLOW_ERROR reading a file or directory with "fail" in
 * its name fails with that number. With SLOW_CLOSE closing a file with "late" in its name does, as
 * on NFS. One with "packed" in its name takes 4 KiB. With SLOW_QUOTA there is room for so many
 * bytes in what is made as the dataset "quota" on a disk, and then EDQUOT. With SLOW_TMPFILE files
 * without a name are refused by that number, and with SLOW_SPOOL the worker ends when it has made
 * one with a name in its place. With SLOW_SPLICE each splice() from a place in a file writes a
 * byte to the FIFO SLOW_SPLICE.reached, and returns when there is a byte in SLOW_SPLICE.go.
 *
 * The name rebind.example is 127.0.0.2 for the port that it is looked up with first, and 127.0.0.1
 * for each other. With SLOW_HASTE what would be waited for between tries takes a hundredth of the
 * time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_int n_flying, max_flying;

static void note_max(const char *path, int n)
{
	int max = atomic_load(&max_flying);
	char text[16];
	int fd;

	while (n > max && !atomic_compare_exchange_weak(&max_flying, &max, n))
		;
	if (n <= max)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	snprintf(text, sizeof(text), "%d\n", n);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static void wait_at_gate(const char *name, const char *word)
{
	static atomic_bool passed;
	const char *gate = getenv("SLOW_GATE");
	char path[PATH_MAX];
	int fd;

	if (!gate || !strstr(name, word))
		return;
	snprintf(path, sizeof(path), "%s.armed", gate);
	if (access(path, F_OK) < 0 || atomic_exchange(&passed, true))
		return;
	snprintf(path, sizeof(path), "%s.reached", gate);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	snprintf(path, sizeof(path), "%s.go", gate);
	for (int ms = 0; ms < 60000 && access(path, F_OK) < 0; ms++)
		usleep(1000);
}

/* Behind the first look at a source, and before a child goes through it, which in jail can wait for
 * nobody. */
pid_t fork(void)
{
	pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	if (getenv("SLOW_FORK"))
		wait_at_gate("mid", "mid");
	return next();
}

static bool is_to_fail(const char *name)
{
	const char *number = getenv("SLOW_ERROR");

	if (!number || !strstr(name, "fail"))
		return false;
	errno = atoi(number);
	return true;
}

static void fly(const char *name)
{
	const char *path = getenv("SLOW_FLIGHT");

	if (!path || !strstr(name, "far"))
		return;
	note_max(path, atomic_fetch_add(&n_flying, 1) + 1);
	usleep(1000);
	atomic_fetch_sub(&n_flying, 1);
}

/* path: of PATH_MAX */
static void get_path(int fd, char *path)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
}

/* As on a file system that compresses. */
static void pack(const char *name, int r, struct stat64 *st)
{
	if (r == 0 && S_ISREG(st->st_mode) && strstr(name, "packed"))
		st->st_blocks = 8;
}

int fstatat64(int dirfd, const char *name, struct stat64 *st, int flags)
{
	int (*next)(int, const char *, struct stat64 *, int) = (int (*)(
		int, const char *, struct stat64 *, int))dlsym(RTLD_NEXT, "fstatat64");

	int r;

	fly(name);
	r = next(dirfd, name, st, flags);
	pack(name, r, st);
	return r;
}

int fstat64(int fd, struct stat64 *st)
{
	static int (*next)(int, struct stat64 *);
	char path[PATH_MAX];
	int r;

	if (!next)
		next = (int (*)(int, struct stat64 *))dlsym(RTLD_NEXT, "fstat64");
	get_path(fd, path);
	r = next(fd, st);
	pack(path, r, st);
	return r;
}

int openat64(int dirfd, const char *name, int flags, ...)
{
	int (*next)(int, const char *, int,
		    ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
	bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
	mode_t mode = 0;
	va_list ap;
	int fd;

	va_start(ap, flags);
	if (flags & O_CREAT || is_nameless)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (is_nameless && getenv("SLOW_TMPFILE")) {
		errno = atoi(getenv("SLOW_TMPFILE"));
		return -1;
	}
	if (!(flags & O_CREAT))
		fly(name);
	if (!(flags & (O_CREAT | O_PATH)))
		wait_at_gate(name, "gate");
	fd = next(dirfd, name, flags, mode);
	if (flags & O_CREAT && strstr(name, ".spool") && getenv("SLOW_SPOOL"))
		_exit(9);
	return fd;
}

/* Nothing of it is in memory, unless it is said to be near. */
ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t offset, int flags)
{
	static ssize_t (*next)(int, const struct iovec *, int, off64_t, int);
	char path[PATH_MAX];

	if (!next)
		next = (ssize_t(*)(int, const struct iovec *, int, off64_t, int))dlsym(
			RTLD_NEXT, "preadv64v2");
	get_path(fd, path);
	if (flags & RWF_NOWAIT && !strstr(path, "near") &&
	    (strstr(path, "slow") || strstr(path, "hang") || strstr(path, "mid") ||
	     strstr(path, "fail"))) {
		errno = EAGAIN;
		return -1;
	}
	return next(fd, iov, n, offset, flags);
}

ssize_t pread64(int fd, void *buf, size_t size, off64_t offset)
{
	static ssize_t (*next)(int, void *, size_t, off64_t);
	const char *ms = getenv("SLOW_MS");
	char path[PATH_MAX];

	if (!next)
		next = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
	get_path(fd, path);
	if (is_to_fail(path))
		return -1;
	if (offset > 0)
		wait_at_gate(path, "mid");
	while (strstr(path, "hang") && size > 512) /* the first look at the magic goes through */
		sleep(1000);
	if (strstr(path, "slow") && size > 512) {
		usleep((useconds_t)(1000 * atoi(ms ? ms : "100")));
		size = size > 65536 ? 65536 : size;
	}
	return next(fd, buf, size, offset);
}

/* Opened early: who serves a mount may open nothing. */
static int splice_reached = -1, splice_go = -1;

__attribute__((constructor)) static void open_splice_gate(void)
{
	const char *gate = getenv("SLOW_SPLICE");
	char path[PATH_MAX];

	if (!gate)
		return;
	snprintf(path, sizeof(path), "%s.reached", gate);
	splice_reached = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s.go", gate);
	splice_go = open(path, O_RDWR | O_CLOEXEC);
}

ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags)
{
	static ssize_t (*next)(int, off64_t *, int, off64_t *, size_t, unsigned);
	ssize_t n;
	char c = 'x';

	if (!next)
		next = (ssize_t(*)(int, off64_t *, int, off64_t *, size_t, unsigned))dlsym(
			RTLD_NEXT, "splice");
	n = next(in, in_at, out, out_at, size, flags);
	if (in_at && splice_go >= 0 &&
	    (syscall(SYS_write, splice_reached, &c, 1) != 1 ||
	     syscall(SYS_read, splice_go, &c, 1) != 1))
		abort();
	return n;
}

ssize_t read(int fd, void *buf, size_t size)
{
	static ssize_t (*next)(int, void *, size_t);
	char path[PATH_MAX];

	if (!next)
		next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	get_path(fd, path);
	return is_to_fail(path) ? -1 : next(fd, buf, size);
}

/* Is there room for size bytes more? */
static bool is_within_quota(int fd, size_t size)
{
	static _Atomic size_t n_written;
	const char *quota = getenv("SLOW_QUOTA");
	char path[PATH_MAX];

	if (!quota)
		return true;
	get_path(fd, path);
	if (!strstr(path, "/.quota.partial"))
		return true;
	if (atomic_fetch_add(&n_written, size) + size <= strtoul(quota, NULL, 10))
		return true;
	errno = EDQUOT;
	return false;
}

ssize_t pwrite64(int fd, const void *buf, size_t size, off64_t offset)
{
	static ssize_t (*next)(int, const void *, size_t, off64_t);

	if (!next)
		next = (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
	return is_within_quota(fd, size) ? next(fd, buf, size, offset) : -1;
}

ssize_t pwritev64(int fd, const struct iovec *iov, int n, off64_t offset)
{
	static ssize_t (*next)(int, const struct iovec *, int, off64_t);
	size_t size = 0;

	if (!next)
		next = (ssize_t(*)(int, const struct iovec *, int, off64_t))dlsym(RTLD_NEXT,
										  "pwritev64");
	for (int i = 0; i < n; i++)
		size += iov[i].iov_len;
	return is_within_quota(fd, size) ? next(fd, iov, n, offset) : -1;
}

ssize_t write(int fd, const void *buf, size_t size)
{
	static ssize_t (*next)(int, const void *, size_t);

	if (!next)
		next = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	return is_within_quota(fd, size) ? next(fd, buf, size) : -1;
}

int close(int fd)
{
	static int (*next)(int);
	const char *number = getenv("SLOW_CLOSE");
	char path[PATH_MAX] = "";
	int r;

	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "close");
	if (number)
		get_path(fd, path);
	r = next(fd);
	if (r < 0 || !strstr(path, "late"))
		return r;
	errno = atoi(number);
	return -1;
}

/* Directories are read by it. */
long syscall(long number, ...)
{
	static long (*next)(long, ...);
	char path[PATH_MAX];
	long a[6];
	va_list ap;

	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_getdents64) {
		get_path((int)a[0], path);
		if (is_to_fail(path))
			return -1;
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **res)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char first[16]; /* curl looks up the same port again for each connection */
	int (*next)(
		const char *, const char *, const struct addrinfo *,
		struct addrinfo **) = (int (*)(const char *, const char *, const struct addrinfo *,
					       struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");

	if (node && service && !strcmp(node, "rebind.example")) {
		pthread_mutex_lock(&lock);
		if (!*first)
			snprintf(first, sizeof(first), "%s", service);
		node = !strcmp(service, first) ? "127.0.0.2" : "127.0.0.1";
		pthread_mutex_unlock(&lock);
	}
	return next(node, service, hints, res);
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	int (*next)(const struct timespec *, struct timespec *) = (int (*)(
		const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "nanosleep");
	struct timespec hasty = { 0, wanted->tv_sec * 10000000 + wanted->tv_nsec / 100 };

	return next(getenv("SLOW_HASTE") ? &hasty : wanted, left);
}
