/*
 * stage-broadcast: puts a file on all nodes of a job by Slurm's sbcast. Started by stage-worker on
 * the job's first node, as the user, with a connection on fd 3 (broadcast-send.h) and an empty
 * environment.
 *
 * sbcast reads the file that the worker has opened and checked against the site's rules. It gets
 * the descriptor by its name in /proc, so no path is looked up a second time. Its output on stderr
 * is the reason of a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"

#define SAID_SIZE 2048
#define NO_PROGRAM 127
#define FILE_FD 5 /* of sbcast: what it reads */
#define FILE_NAME "/proc/self/fd/5"

struct order {
	const char *program, *job, *path;
	int fd;
};

/* Between fork and exec; does not return. */
static void become_sbcast(const struct order *o, int said, pid_t parent)
{
	char job[32];
	char *const argv[] = { (char *)"sbcast", (char *)"--force", (char *)FILE_NAME,
			       (char *)o->path, NULL };
	char *const envp[] = { (char *)"PATH=" EXEC_COPY_PATH, (char *)"LANG=C.UTF-8", job, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r;

	if (!child_bind_to(parent, SIGKILL))
		_exit(0);
	signal(SIGPIPE, SIG_DFL);
	snprintf(job, sizeof(job), "SLURM_JOB_ID=%.16s", o->job);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(said, 2) < 0 ||
	    dup2(o->fd, FILE_FD) < 0)
		_exit(126);
	fd_set_cloexec(FILE_FD, false);
	fd_set_cloexec(WORKER_FD_SOCKET, true);
	fd_set_cloexec(WORKER_FD_SOCKET + 1, true);
	fd_close_from(FILE_FD + 1);
	/* A script of the site's can be traced. It is in the job's cgroups, as the worker that
	 * started us is. */
	r = exec_copy_or_itself(o->program, argv, envp, FILE_FD + 1);
	dprintf(2, "%s: %s\n", o->program, strerror(-r));
	_exit(NO_PROGRAM);
}

/* Whatever comes while sbcast runs is the worker's end. */
static void end_with_worker(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	_exit(0);
}

/* What it says until it has closed its stderr; the end of a long text counts. */
static void listen_to(pid_t pid, int fd, char said[static SAID_SIZE])
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = WORKER_FD_SOCKET, .events = POLLIN } };
	size_t n = 0;
	ssize_t got;

	for (;;) {
		if (poll(p, 2, -1) < 0) {
			if (errno != EINTR)
				break;
			continue;
		}
		if (p[1].revents)
			end_with_worker(pid);
		if (!p[0].revents)
			continue;
		if (n > SAID_SIZE / 2) {
			memmove(said, said + n - SAID_SIZE / 4, SAID_SIZE / 4);
			n = SAID_SIZE / 4;
		}
		got = read(fd, said + n, SAID_SIZE / 4);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	while (n > 0 && said[n - 1] == '\n')
		n--;
	said[n] = '\0';
}

static const char *last_line(const char *said)
{
	const char *line = strrchr(said, '\n');

	return line ? line + 1 : said;
}

/* 0, or the reason. */
static int run_sbcast(const struct order *o, struct error *err)
{
	pid_t parent = getpid(), pid;
	char said[SAID_SIZE];
	int fds[2], status = 0;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0)
		become_sbcast(o, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return error_errno(err, errno, "start %s", o->program);
	}
	listen_to(pid, fds[0], said);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (said[0])
		return error_set(
			err, WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM ? ENOENT : EIO,
			"%s", last_line(said));
	if (WIFSIGNALED(status))
		return error_set(err, EIO, "sbcast was ended by signal %d (%s)", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
	return error_set(err, EIO, "sbcast ended with status %d", WEXITSTATUS(status));
}

static int open_text(const char *text, int *fdp, struct error *err)
{
	int fd = memfd_create("note", MFD_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "make a note");
	*fdp = fd;
	return fd_write_all(fd, text, strlen(text)) < 0 ? error_set(err, EIO, "write a note") : 0;
}

/* fd is a high number: dup2() in the child must not meet it. */
static int take_order(const struct kv *kv, int *fdp, struct error *err)
{
	struct order o = { .program = kv_get_or_empty(kv, "program"),
			   .job = kv_get_or_empty(kv, "job"),
			   .path = kv_get_or_empty(kv, "path") };
	int r = 0, high;

	if (strcmp(kv_get_or_empty(kv, "op"), "send") || !*o.program || o.path[0] != '/')
		return error_set(err, EPROTO, "not an order");
	if (kv_get(kv, "text"))
		r = open_text(kv_get(kv, "text"), fdp, err);
	else if (*fdp < 0)
		r = error_set(err, EPROTO, "an order without a file");
	if (r < 0)
		return r;
	high = fcntl(*fdp, F_DUPFD_CLOEXEC, FILE_FD + 1);
	if (high < 0)
		return error_errno(err, errno, "hold the file");
	o.fd = high;
	r = run_sbcast(&o, err);
	close(high);
	return r;
}

static int serve(void)
{
	for (;;) {
		_cleanup_(kv_freep) struct kv *kv = NULL, *answer = NULL;
		_cleanup_(fd_closep) int fd = -1;
		struct error err = ERROR_INIT;
		size_t n_fds = 0;

		if (conn_recv_fds(WORKER_FD_SOCKET, &kv, &fd, 1, &n_fds) <= 0)
			return 0;
		if (n_fds == 0)
			fd = -1;
		if (kv_new(&answer) < 0)
			return 1;
		if (take_order(kv, &fd, &err) < 0) {
			kv_set(answer, "op", "fail");
			kv_set_u64(answer, "code", (uint64_t)-err.code);
			kv_set(answer, "text", err.text);
		} else {
			kv_set(answer, "op", "done");
		}
		if (conn_send(WORKER_FD_SOCKET, answer) < 0)
			return 0;
	}
}

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };

	if (argc > 1) {
		dprintf(STDERR_FILENO, "stage-broadcast is started by stage-worker and takes no "
				       "arguments\n");
		return STAGE_EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	file_size_limit_catch();
	prctl(PR_SET_NAME, "stage-broadcast");
	setrlimit(RLIMIT_CORE, &none);
	fd_set_cloexec(WORKER_FD_SOCKET, true);
	if (conn_check_own(WORKER_FD_SOCKET) < 0)
		return EXIT_FAILURE;
	return serve();
}
