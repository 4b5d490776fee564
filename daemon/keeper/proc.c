#include "daemon/keeper/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/number.h"

#define PROC_POLL_MS 1
#define SKIP5 "%*s %*s %*s %*s %*s "

ssize_t proc_read(int dirfd, const char *path, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t n = 0;
	ssize_t r;

	if (fd < 0)
		return -errno;
	do {
		r = read(fd, buf + n, size - 1 - n);
		if (r < 0)
			return -errno;
		n += (size_t)r;
	} while (r > 0 && n < size - 1);
	buf[n] = '\0';
	return (ssize_t)n;
}

int proc_write(const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

void proc_sleep_ms(unsigned ms)
{
	usleep(ms * 1000);
}

int proc_parse_stat(const char *line, uint64_t *startp, char *statep, pid_t *parentp)
{
	const char *s = strrchr(line, ')');
	unsigned n_threads;

	if (!s || sscanf(s + 1, " %c %d " SKIP5 SKIP5 SKIP5 "%u %*s %" SCNu64, statep, parentp,
			 &n_threads, startp) != 4)
		return -EPROTO;
	if (*statep == 'Z' && n_threads > 1) /* its first thread alone has ended */
		*statep = 'D';
	return 0;
}

static int read_stat(pid_t pid, uint64_t *startp, char *statep, pid_t *parentp)
{
	char path[32], line[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pid <= 0 || proc_read(AT_FDCWD, path, line, sizeof(line)) < 0)
		return -ESRCH;
	return proc_parse_stat(line, startp, statep, parentp);
}

int proc_get(pid_t pid, struct proc *p)
{
	uint64_t start;
	pid_t parent;
	char state;
	int r = read_stat(pid, &start, &state, &parent);

	if (r == 0)
		*p = (struct proc){ .pid = pid, .start = start };
	return r;
}

bool proc_is_alive(const struct proc *p)
{
	uint64_t start;
	pid_t parent;
	char state;

	if (read_stat(p->pid, &start, &state, &parent) < 0 || start != p->start)
		return false;
	if (state == 'Z' || state == 'X')
		waitpid(p->pid, NULL, WNOHANG);
	return state != 'Z' && state != 'X';
}

bool proc_is_stopped(pid_t pid)
{
	uint64_t start;
	pid_t parent;
	char state;

	return read_stat(pid, &start, &state, &parent) == 0 && (state == 'T' || state == 't');
}

int proc_kill(const struct proc *p, int sig)
{
	_cleanup_(fd_closep) int pidfd = p->pid > 1 ? fd_pidfd_open(p->pid) : -ESRCH;
	struct proc now;

	/* Looked at behind the pidfd: what it stands for can't change any more. */
	if (p->pid <= 1 || proc_get(p->pid, &now) < 0 || now.start != p->start)
		return -ESRCH;
	if (pidfd >= 0)
		return fd_pidfd_kill(pidfd, sig);
	/* EPERM: of a filter that is older than the call, as a unit of systemd's may have it */
	return pidfd != -ENOSYS && pidfd != -EPERM ? pidfd : kill(p->pid, sig) < 0 ? -errno : 0;
}

/* One that is our child, and not reaped, can't be another by now. */
static void kill_children(void)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	uint64_t start;
	uint32_t pid;
	pid_t parent;
	char state;

	while (dir && (e = readdir(dir)))
		if (parse_uint32(e->d_name, &pid) == 0 &&
		    read_stat((pid_t)pid, &start, &state, &parent) == 0 && parent == getpid() &&
		    state != 'Z')
			kill((pid_t)pid, SIGKILL);
}

void proc_kill_children(uint64_t deadline_ms)
{
	pid_t pid;

	for (;;) {
		kill_children();
		do
			pid = waitpid(-1, NULL, WNOHANG);
		while (pid > 0);
		if (pid < 0 || clock_ms() >= deadline_ms)
			return;
		proc_sleep_ms(PROC_POLL_MS);
	}
}

int proc_wait(pid_t pid, uint64_t deadline_ms)
{
	int status, us = 10; /* a hand that has answered is about to end: look again at once */
	pid_t got;

	while (((got = waitpid(pid, &status, WNOHANG | WUNTRACED)) == 0 ||
		(got > 0 && WIFSTOPPED(status) && kill(pid, SIGKILL) == 0)) && clock_ms() < deadline_ms)
		usleep((useconds_t)(us += us < PROC_POLL_MS * 1000 ? us : 0));
	if (got == 0) {
		kill(pid, SIGKILL);
		return -ETIMEDOUT;
	}
	if (got < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

static int private_fd = -1;

void proc_set_private_fd(int fd)
{
	private_fd = fd;
}

int proc_run(int (*fn)(void *arg), void *arg, uint64_t deadline_ms)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		fd_closep(&private_fd);
		_exit(-fn(arg) & 0xff);
	}
	return proc_wait(pid, deadline_ms);
}
