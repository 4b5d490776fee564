/*
 * Calls are taken over by their names, as the compiler sees them behind 64-bit offsets; `syscall`
 * is one of them. What libc calls inside of itself is out of reach, but for malloc().
 */
#include "tests/lib/failcalls.h"

#include <malloc.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

enum {
	FREED = 0xdb,
	DEPTH = 4, /* callers that tell a place from another */
	TIMES = 2, /* so often in a process a place fails: the second time is that of a loop */
	MAX_SEEN = 8192, /* a power of two */
};

/* FAILCALLS_SEEN, mapped by all processes of a walk. */
struct seen {
	uint32_t failed, full;
	uint64_t places[MAX_SEEN];
};

struct callers {
	uintptr_t at[DEPTH];
	size_t n;
};

static __thread size_t until;
static __thread const char *hit;
static size_t n_blocks;
static char *told;
static struct seen *seen;
static unsigned part = 0, parts = 1;
static struct {
	uint64_t place;
	unsigned n;
} times[MAX_SEEN]; /* of this process, and before it of its parent */

void failcalls_arm(size_t n)
{
	until = n;
	hit = NULL;
}

const char *failcalls_disarm(void)
{
	until = 0;
	return hit;
}

size_t failcalls_count_blocks(void)
{
	return __atomic_load_n(&n_blocks, __ATOMIC_SEQ_CST);
}

size_t failcalls_count_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
	return n;
}

static uintptr_t main_begin, main_end;

static int find_main(struct dl_phdr_info *info, size_t size, void *arg)
{
	main_begin = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			main_end = main_begin + info->dlpi_phdr[i].p_vaddr +
				   info->dlpi_phdr[i].p_memsz;
	return 1; /* the first is the program */
}

static void open_seen(const char *path)
{
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	seen = seen == MAP_FAILED ? NULL : seen;
	close(fd);
	dl_iterate_phdr(find_main, NULL);
}

static void tell(const char *name, const struct callers *c);

/* Who started it may not be able to tell of what it dies. */
static void tell_death(int sig)
{
	static const struct callers none;

	tell(FAILCALLS_DEATH, &none);
	raise(sig); /* SA_RESETHAND */
}

static void watch_for_death(void)
{
	static const int deaths[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPIPE };
	struct sigaction old, a = { .sa_handler = tell_death, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++)
		if (sigaction(deaths[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(deaths[i], &a, NULL);
}

/* What FAILCALLS_FILE says to a program of this name, whose environment is made from nothing. */
static bool read_settings(const char *name)
{
	static char text[4096], *values[4];
	int fd = name ? (int)syscall(SYS_openat, AT_FDCWD, FAILCALLS_FILE, O_RDONLY | O_CLOEXEC)
		      : -1;
	size_t n = 0;

	if (fd < 0)
		return false;
	syscall(SYS_read, fd, text, sizeof(text) - 1);
	close(fd);
	for (char *line = strtok(text, "\n"); line && n < 4; line = strtok(NULL, "\n"))
		values[n++] = line;
	if (n < 4 || strcmp(values[0], name) != 0)
		return false;
	told = values[2];
	if (sscanf(values[3], "%u/%u", &part, &parts) != 2)
		abort();
	open_seen(values[1]);
	return true;
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	const char *mine = getenv("FAILCALLS_PART");

	if (read_settings(argc > 0 ? argv[0] : NULL)) {
		watch_for_death();
		return;
	}
	/* Programs may empty their environment. */
	told = getenv("FAILCALLS_TOLD") ? strdup(getenv("FAILCALLS_TOLD")) : NULL;
	if (mine && sscanf(mine, "%u/%u", &part, &parts) != 2)
		abort();
	open_seen(getenv("FAILCALLS_SEEN"));
}

static _Unwind_Reason_Code add_caller(struct _Unwind_Context *context, void *arg)
{
	struct callers *c = arg;
	const uintptr_t at = _Unwind_GetIP(context);

	if (at >= main_begin && at < main_end)
		c->at[c->n++] = at - main_begin;
	return c->n == DEPTH ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* FNV-1a, and never 0 */
static uint64_t hash(uint64_t h, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
	return h | 1ULL << 63;
}

/* How often this process has been there. */
static unsigned count_place(uint64_t place)
{
	for (size_t i = place % MAX_SEEN, tries = 0; tries < MAX_SEEN;
	     i = (i + 1) % MAX_SEEN, tries++) {
		if (times[i].place && times[i].place != place)
			continue;
		times[i].place = place;
		return ++times[i].n;
	}
	return TIMES + 1;
}

/* True once in a walk for each place, and once in a run. */
static bool take_place(uint64_t place)
{
	uint32_t none = 0;
	size_t i = place % MAX_SEEN;

	for (size_t tries = 0; seen->places[i] && tries < MAX_SEEN; tries++, i = (i + 1) % MAX_SEEN)
		if (seen->places[i] == place)
			return false;
	if (seen->places[i]) {
		seen->full = 1;
		return false;
	}
	if (!__atomic_compare_exchange_n(&seen->failed, &none, 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return false;
	seen->places[i] = place;
	return true;
}

/* By plain system calls, while nothing is counted. */
static void tell(const char *name, const struct callers *c)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%s", name);
	long fd = told ? syscall(SYS_openat, AT_FDCWD, told, O_WRONLY | O_CREAT | O_APPEND, 0666)
		       : -1;

	if (fd < 0)
		return;
	for (size_t i = 0; i < c->n; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %#lx", (unsigned long)c->at[i]);
	line[n++] = '\n';
	syscall(SYS_write, fd, line, n);
	syscall(SYS_close, fd);
}

static bool fails_here(const char *name)
{
	struct callers c = { .n = 0 };
	uint64_t place = hash(0xcbf29ce484222325, name, strlen(name));
	unsigned n;

	if (seen->failed)
		return false;
	_Unwind_Backtrace(add_caller, &c);
	place = hash(place, c.at, c.n * sizeof(*c.at));
	n = count_place(place);
	place = hash(place, &n, sizeof(n));
	/* What comes before main() is libc's */
	if (!c.n || n > TIMES || place / MAX_SEEN % parts != part % parts || !take_place(place))
		return false;
	tell(name, &c);
	return true;
}

/* What counts lines (tools/check coverage) writes them at the end, and does not look at its
 * malloc(). */
static void end(void)
{
	until = 0;
	seen = NULL;
}

static bool paused;

void failcalls_pause(bool yes)
{
	paused = yes;
}

static bool fails(const char *name)
{
	static bool registered; /* not before main(): it would be called behind that */

	if ((until == 0 && !seen) || paused)
		return false;
	if (!registered) {
		registered = true;
		atexit(end);
	}
	if (seen ? !fails_here(name) : --until > 0)
		return false;
	hit = name;
	errno = EIO;
	return true;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A call with fixed arguments: its type, name, parameters, what is passed on, what a failure is */
#define CALL(type, name, parameters, arguments, failure)                                           \
	type name parameters                                                                       \
	{                                                                                          \
		static __typeof__(&name) real;                                                     \
                                                                                                   \
		if (!real)                                                                         \
			real = REAL(name);                                                         \
		return fails(#name) ? (failure) : real arguments;                                  \
	}

/* open() and its kin have a mode at times */
#define OPEN(name, parameters, arguments)                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		static __typeof__(&name) real;                                                     \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
                                                                                                   \
		va_start(ap, flags);                                                               \
		if (flags & (O_CREAT | __O_TMPFILE))                                               \
			mode = va_arg(ap, mode_t);                                                 \
		va_end(ap);                                                                        \
		if (!real)                                                                         \
			real = REAL(name);                                                         \
		return fails(#name) ? -1 : real arguments;                                         \
	}

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, mode))
OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode))

#if __USE_FORTIFY_LEVEL > 0 /* where the flags are no constant */
CALL(int, __open64_2, (const char *path, int flags), (path, flags), -1)
CALL(int, __openat64_2, (int fd, const char *path, int flags), (fd, path, flags), -1)
#endif

CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
CALL(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL)
CALL(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
CALL(DIR *, fdopendir, (int fd), (fd), NULL)
CALL(DIR *, opendir, (const char *path), (path), NULL)
CALL(struct dirent *, readdir, (DIR * dir), (dir), NULL)
CALL(struct dirent64 *, readdir64, (DIR * dir), (dir), NULL)
CALL(int, fstat, (int fd, struct stat *st), (fd, st), -1)
CALL(int, fstat64, (int fd, struct stat64 *st), (fd, st), -1)
CALL(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags),
     -1)
CALL(int, fstatat64, (int fd, const char *path, struct stat64 *st, int flags),
     (fd, path, st, flags), -1)
CALL(int, stat64, (const char *path, struct stat64 *st), (path, st), -1)
CALL(int, lstat64, (const char *path, struct stat64 *st), (path, st), -1)
CALL(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st),
     (fd, path, flags, mask, st), -1)
CALL(int, statfs64, (const char *path, struct statfs64 *fs), (path, fs), -1)
CALL(int, fstatfs64, (int fd, struct statfs64 *fs), (fd, fs), -1)
CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), -1)
CALL(int, rmdir, (const char *path), (path), -1)
CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1)
CALL(int, renameat, (int fd, const char *from, int to_fd, const char *to), (fd, from, to_fd, to),
     -1)
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
CALL(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags), -1)
CALL(int, fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid), -1)
CALL(int, fchownat, (int fd, const char *path, uid_t uid, gid_t gid, int flags),
     (fd, path, uid, gid, flags), -1)
CALL(int, ftruncate64, (int fd, off64_t size), (fd, size), -1)
CALL(int, flock, (int fd, int operation), (fd, operation), -1)
CALL(int, chdir, (const char *path), (path), -1)
CALL(int, fchdir, (int fd), (fd), -1)
CALL(int, mount,
     (const char *source, const char *target, const char *type, unsigned long flags,
      const void *data),
     (source, target, type, flags, data), -1)
CALL(int, umount2, (const char *target, int flags), (target, flags), -1)
CALL(int, setns, (int fd, int type), (fd, type), -1)
CALL(ssize_t, read, (int fd, void *buf, size_t size), (fd, buf, size), -1)
CALL(int, access, (const char *path, int mode), (path, mode), -1)
CALL(int, faccessat, (int dirfd, const char *name, int mode, int flags), (dirfd, name, mode, flags),
     -1)
CALL(ssize_t, pread, (int fd, void *buf, size_t size, off_t at), (fd, buf, size, at), -1)
CALL(ssize_t, pread64, (int fd, void *buf, size_t size, off64_t at), (fd, buf, size, at), -1)
CALL(ssize_t, pwrite64, (int fd, const void *buf, size_t size, off64_t at), (fd, buf, size, at), -1)
CALL(ssize_t, write, (int fd, const void *buf, size_t size), (fd, buf, size), -1)
CALL(ssize_t, readlink, (const char *path, char *buf, size_t size), (path, buf, size), -1)
CALL(int, pipe2, (int fds[2], int flags), (fds, flags), -1)
CALL(int, dup2, (int from, int to), (from, to), -1)
CALL(int, dup3, (int from, int to, int flags), (from, to, flags), -1)
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
CALL(int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), -1)
CALL(int, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size), -1)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), -1)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), -1)
CALL(pid_t, fork, (void), (), -1)
CALL(int, setgroups, (size_t n, const gid_t *gids), (n, gids), -1)
CALL(int, setresgid, (gid_t r, gid_t e, gid_t s), (r, e, s), -1)
CALL(int, setresuid, (uid_t r, uid_t e, uid_t s), (r, e, s), -1)
CALL(int, getresuid, (uid_t * r, uid_t *e, uid_t *s), (r, e, s), -1)
CALL(int, getresgid, (gid_t * r, gid_t *e, gid_t *s), (r, e, s), -1)
CALL(pid_t, setsid, (void), (), -1)
CALL(int, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags), -1)
CALL(int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (pid, size, set), -1)
CALL(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set), -1)
CALL(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout), -1)
CALL(char *, fgets, (char *buf, int size, FILE *f), (buf, size, f), NULL)
CALL(int, fflush, (FILE * f), (f), EOF)
CALL(int, sysinfo, (struct sysinfo * info), (info), -1)
CALL(int, kill, (pid_t pid, int sig), (pid, sig), -1)

int fcntl64(int fd, int cmd, ...)
{
	static int (*real)(int, int, ...);
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!real)
		real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
	return fails("fcntl") ? -1 : real(fd, cmd, arg);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return fails("ioctl") ? -1 : real(fd, request, arg);
}

int prctl(int option, ...)
{
	static int (*real)(int, ...);
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (!real)
		real = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
	return fails("prctl") ? -1 : real(option, a[0], a[1], a[2], a[3]);
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return fails("syscall") ? -1 : real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Memory */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

/* Where a program is looked at as a whole, libc's own memory is not counted: getpwuid() aborts. */
static bool no_memory(const char *name, void *caller)
{
	Dl_info info;

	if ((until == 0 && !seen) ||
	    (seen && dladdr(caller, &info) && strstr(info.dli_fname, "/libc.so")))
		return false;
	if (!fails(name))
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *p)
{
	if (p)
		__atomic_add_fetch(&n_blocks, 1, __ATOMIC_SEQ_CST);
	return p;
}

void *malloc(size_t size)
{
	return no_memory("malloc", __builtin_return_address(0)) ? NULL
								: counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return no_memory("calloc", __builtin_return_address(0)) ? NULL
								: counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	if (!p)
		return no_memory("realloc", __builtin_return_address(0))
			       ? NULL
			       : counted(__libc_malloc(size));
	/* glibc counts on it that what has room stays. */
	return size > malloc_usable_size(p) && no_memory("realloc", __builtin_return_address(0))
		       ? NULL
		       : __libc_realloc(p, size);
}

void *memalign(size_t alignment, size_t size)
{
	return no_memory("memalign", __builtin_return_address(0))
		       ? NULL
		       : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **pp, size_t alignment, size_t size)
{
	void *p = memalign(alignment, size);

	if (!p)
		return ENOMEM;
	*pp = p;
	return 0;
}

/* What was freed is no longer what it was, so that use of it shows. */
void free(void *p)
{
	int saved = errno;

	if (!p)
		return;
	memset(p, FREED, malloc_usable_size(p));
	__atomic_sub_fetch(&n_blocks, 1, __ATOMIC_SEQ_CST);
	__libc_free(p);
	errno = saved;
}
