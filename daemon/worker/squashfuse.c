/*
 * If the keeper has mounted, the program gets the image and the mount as descriptors: by
 * /proc/self/fd and, as libfuse requires, /dev/fd/N. So it looks up no path. It has only the rights
 * of a worker, and in addition the right to start programs, which the user has, too.
 */
#include "daemon/worker/squashfuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/sandbox/data-rlimit.h"
#include "common/sandbox/sandbox.h"
#include "common/util/child-bind.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"

enum {
	/* Descriptors of the child */
	SQUASHFUSE_SOCKET = 3,
	SQUASHFUSE_IMAGE,
	SQUASHFUSE_SESSION,
	SQUASHFUSE_FREE, /* the first unused number */

	SQUASHFUSE_POLL_MS = 5,
	SQUASHFUSE_SETTLE_MS = 1000,
	SQUASHFUSE_DEPTH = 32, /* maximum depth of the search for a file */
	SQUASHFUSE_NO_PROGRAM = 127,
};

struct squashfuse {
	pid_t pid; /* 0: none. The pid is not reaped before squashfuse_free(), so it is not used
		    * again */
	int sock;  /* -1: the order was sent */
	int words; /* receives the program's error messages; -1: none */
	bool has_ended;
	int status;		/* as waitpid() returns it */
	atomic_bool is_stopped; /* squashfuse_stop() was called */
};

/* ---- the child ---- */

/* Receives the order with the descriptors of the image, of stderr and, if there is one, of the
 * session. */
static void take_order(char path[static PATH_MAX], unsigned *n_threadsp, bool *has_sessionp)
{
	int fds[3], to[] = { SQUASHFUSE_IMAGE, STDERR_FILENO, SQUASHFUSE_SESSION };
	_cleanup_(kv_freep) struct kv *kv = NULL;
	size_t n = 0;

	if (conn_recv_fds(SQUASHFUSE_SOCKET, &kv, fds, ARRAY_SIZE(fds), &n) != 1 || n < 2)
		_exit(0);
	/* Moves them away from the numbers that they will get */
	for (size_t i = 0; i < n; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SQUASHFUSE_FREE + 10);
	for (size_t i = 0; i < n; i++)
		if (fds[i] < 0 || dup2(fds[i], to[i]) < 0)
			_exit(SQUASHFUSE_NO_PROGRAM - 1);
	snprintf(path, PATH_MAX, "%s", kv_get_or_empty(kv, "path"));
	*n_threadsp = (unsigned)kv_get_u64(kv, "threads", 1);
	*has_sessionp = n > 2;
}

/* Executes the program; does not return. A mount made by the keeper is served until it is gone,
 * whatever signals Slurm sends to the tasks. libfuse does not change the disposition of ignored
 * signals. The program's file may be read by everybody, so a copy of it is executed: otherwise the
 * user could trace the server, and make readers wait while it seems to run. */
static void become(const char *path, unsigned n_threads, bool has_session)
{
	char image[32], point[PATH_MAX], options[64];
	char *const argv[] = {
		(char *)SQUASHFUSE_PROGRAM, (char *)"-f", (char *)"-o", options, image, point, NULL
	};
	char *const envp[] = { (char *)"PATH=" EXEC_COPY_PATH, (char *)"LANG=C.UTF-8", NULL };
	const int first_free = has_session ? SQUASHFUSE_FREE : SQUASHFUSE_SESSION;

	snprintf(image, sizeof(image), "/proc/self/fd/%d", SQUASHFUSE_IMAGE);
	snprintf(point, sizeof(point), "%s", path);
	snprintf(options, sizeof(options), "max_threads=%u", n_threads);
	if (has_session) {
		snprintf(point, sizeof(point), "/dev/fd/%d", SQUASHFUSE_SESSION);
		signal(SIGTERM, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		sandbox_enter_program();
	}
	fd_close_from(first_free);
	fd_set_cloexec(SQUASHFUSE_SOCKET, true);
	data_rlimit_set(n_threads);
	dprintf(STDERR_FILENO, "%s\n",
		strerror(-exec_copy_or_itself(SQUASHFUSE_PROGRAM, argv, envp, first_free)));
	_exit(SQUASHFUSE_NO_PROGRAM);
}

static void run_child(int sock, pid_t parent)
{
	char path[PATH_MAX];
	unsigned n_threads;
	bool has_session;
	int null;

	if (!child_bind_to(parent, SIGKILL))
		_exit(0);
	if (sock != SQUASHFUSE_SOCKET && dup2(sock, SQUASHFUSE_SOCKET) < 0)
		_exit(SQUASHFUSE_NO_PROGRAM - 1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	fd_close_from(SQUASHFUSE_IMAGE);
	take_order(path, &n_threads, &has_session);
	become(path, n_threads, has_session);
}

/* ---- the worker ---- */

int squashfuse_new(struct squashfuse **sp, struct error *err)
{
	_cleanup_(squashfuse_freep) struct squashfuse *s = calloc(1, sizeof(*s));
	pid_t parent = getpid();
	int fds[2], r;

	if (!s)
		return error_set(err, ENOMEM, "no memory to serve the image");
	s->sock = s->words = -1;
	r = conn_pair(fds);
	if (r < 0)
		return error_errno(err, -r, "make a socket pair");
	s->pid = fork();
	if (s->pid == 0)
		run_child(fds[1], parent);
	r = errno;
	close(fds[1]);
	s->sock = fds[0];
	if (s->pid < 0) {
		s->pid = 0;
		return error_errno(err, r, "fork");
	}
	*sp = steal_ptr(s);
	return 0;
}

/* Returns whether the program has ended. The pid is not reaped, because another thread may be about
 * to send it a signal, which would reach another process with the same pid. */
static bool has_ended(struct squashfuse *s, int options)
{
	siginfo_t info = { 0 };
	int r;

	if (s->pid == 0 || s->has_ended)
		return true;
	do
		r = waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOWAIT | options);
	while (r < 0 && errno == EINTR);
	if (r == 0 && info.si_pid == 0)
		return false;
	s->has_ended = true;
	s->status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status & 0x7f;
	return true;
}

void squashfuse_stop(struct squashfuse *s)
{
	atomic_store(&s->is_stopped, true);
	if (s->pid > 0)
		kill(s->pid, SIGKILL);
}

void squashfuse_free(struct squashfuse *s)
{
	if (!s)
		return;
	squashfuse_stop(s);
	while (s->pid > 0 && waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_closep(&s->sock);
	fd_closep(&s->words);
	free(s);
}

int squashfuse_start(struct squashfuse *s, int image, int session, const char *path,
		     unsigned n_threads, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	int r;

	s->words = memfd_create(SQUASHFUSE_PROGRAM, MFD_CLOEXEC);
	if (kv_new(&kv) < 0 || s->words < 0)
		return error_set(err, ENOMEM, "no memory to serve the image");
	kv_set(kv, "path", path);
	kv_set_u64(kv, "threads", n_threads);
	r = conn_send_fds(s->sock, kv, (const int[]){ image, s->words, session },
			  session < 0 ? 2 : 3);
	fd_closep(&s->sock);
	return r < 0 ? error_errno(err, -r, "start " SQUASHFUSE_PROGRAM) : 0;
}

/* Reads the last part of what the program has printed. */
static void read_words(const struct squashfuse *s, char *buf, size_t size)
{
	off_t end = s->words < 0 ? 0 : lseek(s->words, 0, SEEK_END);
	off_t from = end < (off_t)size ? 0 : end - (off_t)size + 1;
	ssize_t n = end > 0 ? pread(s->words, buf, size - 1, from) : 0;

	buf[n > 0 ? n : 0] = '\0';
}

/* Reports why the program has ended, with the last line that it has printed. */
static int explain_end(struct squashfuse *s, int errnum, struct error *err)
{
	char said[512], *end, *line;
	int r;

	read_words(s, said, sizeof(said));
	end = said + strlen(said);
	while (end > said && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(said, '\n');
	line = line ? line + 1 : said;
	if (WIFEXITED(s->status) && WEXITSTATUS(s->status) == SQUASHFUSE_NO_PROGRAM) {
		r = error_set(err, ENODEV, "can't be mounted: " SQUASHFUSE_PROGRAM ": %s", line);
		return error_set_hint(err, r, "method=extract unpacks it, or ask the site");
	}
	if (WIFSIGNALED(s->status))
		return error_set(err, errnum, SQUASHFUSE_PROGRAM " was ended by signal %d",
				 WTERMSIG(s->status));
	return error_set(err, errnum, SQUASHFUSE_PROGRAM " has ended%s%s", *line ? ": " : "", line);
}

/* Opens and closes a file below the directory `dir`, which it closes. Returns whether it found a
 * file. */
static bool touch_a_file(int dir, unsigned depth)
{
	DIR *d = fdopendir(dir);
	bool is_done = false;
	struct dirent *ent;
	int fd;

	if (!d) {
		close(dir);
		return false;
	}
	while (!is_done && (ent = readdir(d))) {
		if (ent->d_name[0] == '.' || (ent->d_type != DT_REG && ent->d_type != DT_DIR))
			continue;
		fd = openat(dirfd(d), ent->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		is_done = ent->d_type == DT_REG;
		if (ent->d_type == DT_DIR && depth < SQUASHFUSE_DEPTH)
			is_done = touch_a_file(fd, depth + 1);
		else
			close(fd);
	}
	closedir(d);
	return is_done;
}

static bool is_mounted(const char *path)
{
	char parent[PATH_MAX];
	struct stat above, here;

	return snprintf(parent, sizeof(parent), "%s/..", path) < (int)sizeof(parent) &&
	       stat(parent, &above) == 0 && stat(path, &here) == 0 && above.st_dev != here.st_dev;
}

/* Probes the mount in the child process; does not return. Writes a byte to out when the root of the
 * mount has answered. The end of out means that the probe is complete. */
static void probe(const char *path, int out, pid_t parent)
{
	int dir = -1;

	if (!child_bind_to(parent, SIGKILL))
		_exit(1);
	while (!is_mounted(path))
		usleep(SQUASHFUSE_POLL_MS * 1000);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || write(out, "", 1) != 1)
		_exit(1);
	(void)touch_a_file(dir, 0);
	_exit(0);
}

/* Returns 1: a byte was read; 0: end of the pipe; -EAGAIN: neither of the two in time */
static int read_probe(int in)
{
	struct pollfd p = { .fd = in, .events = POLLIN };
	char byte;

	if (poll(&p, 1, SQUASHFUSE_POLL_MS) < 1)
		return -EAGAIN;
	return read(in, &byte, 1) == 1;
}

/* Returns 1: the probe has ended; 0: the server does not answer the probe; or an error with err
 * set. */
static int wait_for_probe(struct squashfuse *s, int in, bool (*is_cancelled)(void *arg), void *arg,
			  struct error *err)
{
	uint64_t deadline_ms;
	int r;

	do {
		if (has_ended(s, WNOHANG))
			return explain_end(s, ENODEV, err);
		if (is_cancelled(arg))
			return error_set(err, ECANCELED, "cancelled");
		r = read_probe(in);
	} while (r == -EAGAIN);
	if (r == 0)
		return error_set(err, ENODEV, "the mount of " SQUASHFUSE_PROGRAM " can't be read");
	deadline_ms = clock_ms() + SQUASHFUSE_SETTLE_MS;
	while ((r = read_probe(in)) != 0 && !has_ended(s, WNOHANG) && clock_ms() < deadline_ms)
		;
	return r == 0;
}

int squashfuse_wait_ready(struct squashfuse *s, const char *path, bool (*is_cancelled)(void *arg),
			  void *arg, struct error *err)
{
	_cleanup_(fd_closep) int in = -1, out = -1;
	pid_t parent = getpid(), pid;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	in = fds[0];
	out = fds[1];
	pid = fork();
	if (pid == 0)
		probe(path, out, parent);
	if (pid < 0)
		return error_errno(err, errno, "fork");
	fd_closep(&out);
	r = wait_for_probe(s, in, is_cancelled, arg, err);
	if (r < 0)
		squashfuse_stop(s); /* the probe may be waiting for it */
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, r == 1 ? 0 : WNOHANG);
	return r < 0 ? r : 0;
}

int squashfuse_wait(struct squashfuse *s, struct error *err)
{
	(void)has_ended(s, 0);
	if (atomic_load(&s->is_stopped) || (WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0))
		return 0;
	return explain_end(s, EIO, err);
}
