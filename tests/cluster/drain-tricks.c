/*
 * drain-tricks TRICK FILE SERVER-PID: a process of a job that can't end once the server of an image
 * is stopped, by what it does with a file of it. Stops the server, and says "stopped" then.
 *
 * SETUID is the same program as root has installed it, setuid: as sudo is, and newuidmap(1).
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 64
#define SIZE 4096
#define SETUID "/srv/pfs/drain-tricks-setuid"
#define FIRST_FD 100
#define N_FDS 16

static const char *path;
static pid_t server;

static void stop(void)
{
	kill(server, SIGSTOP);
	usleep(100000);
	puts("stopped");
	fflush(stdout);
}

static int open_direct(void)
{
	int fd = open(path, O_RDONLY | O_DIRECT);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void *buffer(void)
{
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* The kernel waits for each of them when the memory of the process goes. */
static void aio(void)
{
	static struct iocb cb[N], *list[N];
	aio_context_t ctx = 0;
	int fd = open_direct();

	if (syscall(SYS_io_setup, N, &ctx) < 0)
		err(1, "io_setup");
	stop();
	for (int i = 0; i < N; i++) {
		cb[i] = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PREAD,
				       .aio_fildes = (uint32_t)fd,
				       .aio_buf = (uint64_t)(uintptr_t)buffer(),
				       .aio_nbytes = SIZE };
		list[i] = &cb[i];
	}
	printf("%ld begun\n", syscall(SYS_io_submit, ctx, N, list));
}

/* The same by threads that the kernel makes for the process. */
static void uring(unsigned flags)
{
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = 60000 };
	const int fd = open_direct(), ring = (int)syscall(SYS_io_uring_setup, N, &p);
	const size_t size = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
	struct io_uring_sqe *sqe;
	uint32_t *array;
	char *sq;

	if (ring < 0)
		err(1, "io_uring_setup");
	sq = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		  IORING_OFF_SQ_RING);
	sqe = mmap(NULL, N * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
		   IORING_OFF_SQES);
	array = (uint32_t *)(sq + p.sq_off.array);
	for (unsigned i = 0; i < N; i++) {
		sqe[i] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
						.flags = IOSQE_ASYNC,
						.fd = fd,
						.addr = (uint64_t)(uintptr_t)buffer(),
						.len = SIZE };
		array[i] = i;
	}
	__atomic_store_n((uint32_t *)(sq + p.sq_off.tail), N, __ATOMIC_RELEASE);
	if (!(flags & IORING_SETUP_SQPOLL)) {
		stop();
		printf("%ld begun\n", syscall(SYS_io_uring_enter, ring, N, 0, 0, NULL, 0));
		usleep(200000);
		return;
	}
	usleep(2000);
	stop();
}

/* Its threads ask by themselves. Most have asked when the first process has stopped the server. */
static void polled(void)
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			uring(IORING_SETUP_SQPOLL);
			_exit(0);
		}
	usleep(100000);
}

static void *read_on(void *arg)
{
	const int fd = open_direct();
	void *at = buffer();

	(void)arg;
	while (pread(fd, at, SIZE, 0) >= 0)
		;
	return NULL;
}

static void start_readers(int n)
{
	pthread_t t;

	for (int i = 0; i < n; i++)
		if (pthread_create(&t, NULL, read_on, NULL))
			err(1, "pthread_create");
	usleep(200000);
}

static int read_on_as_process(void *arg)
{
	read_on(arg);
	return 0;
}

/* The parent waits for a child that has its memory, and is with the server. */
static void vforked(void)
{
	static char stack[1 << 16];

	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			clone(read_on_as_process, stack + sizeof(stack),
			      CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
			_exit(0);
		}
	usleep(200000);
	stop();
}

/* Children that are with the server are traced, and their ends are to be waited for. */
static void traced(void)
{
	for (int i = 0; i < 8; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			read_on(NULL);
			_exit(0);
		}
		if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) < 0)
			err(1, "PTRACE_SEIZE");
	}
	usleep(200000);
	stop();
	signal(SIGTERM, SIG_IGN);
	pause();
}

/* Open files that only messages have, in two sockets which hold each other. */
static void in_flight(void)
{
	char control[CMSG_SPACE(3 * sizeof(int))];
	int pair[2], fds[3];
	char byte = 0;
	struct iovec iov = { &byte, 1 };

	start_readers(8);
	for (int i = 0; i < 200; i++) {
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
			err(1, "socketpair");
		fds[0] = open_direct(), fds[1] = pair[0], fds[2] = pair[1];
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fds)),
				       .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
		for (int side = 0; side < 2; side++)
			(void)!sendmsg(pair[side], &m, MSG_DONTWAIT);
		for (int k = 0; k < 3; k++)
			close(fds[k]);
	}
	stop();
}

/* Many threads end at once, and each has a file of the image. */
static void threads(void)
{
	start_readers(1000);
	stop();
	signal(SIGTERM, SIG_IGN);
}

/* Pages of the image are the process's memory. */
static void *touch(void *arg)
{
	volatile char *p = arg, sum = 0;
	const int fd = open(path, O_RDONLY);

	for (;;) {
		sum += p[0];
		madvise(arg, SIZE, MADV_DONTNEED);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	return NULL;
}

static void mapped(void)
{
	const int fd = open(path, O_RDONLY);
	void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	pthread_t t;

	if (at == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; i < 16; i++)
		pthread_create(&t, NULL, touch, at);
	usleep(200000);
	stop();
}

/* In namespaces of its own, whose mounts nobody else sees. */
static void namespaced(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		err(1, "unshare");
	start_readers(16);
	stop();
}

/* All of the job is stopped, some of it while it waits for the server. */
static void stopped(void)
{
	for (int i = 0; i < 16; i++)
		if (fork() == 0)
			read_on(NULL);
	usleep(200000);
	stop();
	signal(SIGSTOP, SIG_DFL);
	kill(-1, SIGSTOP);
}

/* What is open may be read by whoever a process becomes. */
static void become(const char *trick)
{
	for (int i = 0; i < N_FDS; i++)
		dup2(open_direct(), FIRST_FD + i);
	if (fork() == 0) {
		usleep(700000);
		stop();
		_exit(0);
	}
	execl(SETUID, SETUID, trick, path, "0", NULL);
	err(1, SETUID);
}

static void *read_inherited(void *arg)
{
	void *at = buffer();

	while (pread((int)(intptr_t)arg, at, SIZE, 0) >= 0)
		;
	return NULL;
}

static void read_as(uid_t uid)
{
	pthread_t t;

	if (setresuid(uid, uid, uid) < 0)
		err(1, "setresuid");
	for (intptr_t i = 0; i < N_FDS; i++)
		pthread_create(&t, NULL, read_inherited, (void *)(FIRST_FD + i));
	usleep(1000000);
}

static void become_root(void)
{
	become("as-root");
}

static void become_another(void)
{
	become("as-another");
}

static void as_root(void)
{
	read_as(0);
}

static void as_another(void)
{
	read_as(100000);
}

/* The kernel reads pages of the image to write them to a core file. */
static void dumped(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	const int filter = open("/proc/self/coredump_filter", O_WRONLY), fd = open(path, O_RDONLY);
	void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED || setrlimit(RLIMIT_CORE, &all) < 0 || write(filter, "0xff", 4) != 4 ||
	    chdir("/tmp") < 0)
		err(1, "dumped");
	for (int i = 0; i < N_FDS; i++)
		if (fork() == 0) {
			usleep(500000);
			abort();
		}
	start_readers(8);
	stop();
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	usleep(500000);
}

static void unpolled(void)
{
	uring(0);
}

static const struct {
	const char *name;
	void (*run)(void);
} tricks[] = {
	{ "aio", aio },
	{ "uring", unpolled },
	{ "sqpoll", polled },
	{ "vforked", vforked },
	{ "traced", traced },
	{ "in-flight", in_flight },
	{ "threads", threads },
	{ "mapped", mapped },
	{ "namespaced", namespaced },
	{ "stopped", stopped },
	{ "become-root", become_root },
	{ "become-another", become_another },
	{ "as-root", as_root },
	{ "as-another", as_another },
	{ "dumped", dumped },
};

int main(int argc, char **argv)
{
	size_t i = 0;

	if (argc != 4)
		errx(2, "usage: drain-tricks TRICK FILE SERVER-PID");
	path = argv[2];
	server = atoi(argv[3]);
	while (i < sizeof(tricks) / sizeof(*tricks) && strcmp(argv[1], tricks[i].name) != 0)
		i++;
	if (i == sizeof(tricks) / sizeof(*tricks))
		errx(2, "no such trick");
	tricks[i].run();
	fflush(stdout);
	return 0;
}
