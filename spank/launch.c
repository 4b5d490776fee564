#include "spank/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/kv.h"
#include "common/rundir.h"
#include "common/spec.h"

#include "stage-build.h"

/*
 * This is all that root does in Slurm's processes: copy a few texts into a memfd without looking
 * at them, and exec one program by a path fixed at build time with an environment made here.
 *
 * The host may have threads, so the children call only what is safe after fork, and everything
 * they need is made before. Two forks: the first child leaves the session and ends at once, so
 * neither slurmd nor psid gets a child it doesn't know, and the process group that Slurm kills
 * after a prolog is left. From 24.11 on slurmd reads the prolog's output to its end: nothing of
 * the host's descriptors may stay open.
 *
 * fd 0 is the spec (or /dev/null), fd 1 the pipe on which the keeper answers; its end without an
 * answer says that it is gone.
 */
const char *launch_program = STAGE_LIBEXEC_DIR "/stage-keeper";

#define MAX_ARGS 16

static int set_seals(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

/* The descriptors are moved above the three that the program gets, should the host have closed
 * its own. */
static int move_up(int *fdp)
{
	int fd = fcntl(*fdp, F_DUPFD_CLOEXEC, 10);

	if (fd < 0)
		return -errno;
	close(*fdp);
	*fdp = fd;
	return 0;
}

/* A kv (common/kv.h), whose texts root copies without a look. */
static int write_spec(int fd, const struct launch_job *job)
{
	const struct { const char *key, *value; } texts[] = {
		{ SPEC_KEY_SPEC, job->spec },
		{ SPEC_KEY_NODE, job->node },
		{ SPEC_KEY_NODELIST, job->nodelist },
		{ SPEC_KEY_N_NODES, job->n_nodes ? job->n_nodes : "1" },
		{ SPEC_KEY_PARTITION, job->partition },
	};
	int n, size = dprintf(fd, SPEC_KEY_RESTART "=%u%c", (unsigned)job->restart, 0);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		n = dprintf(fd, "%s=%s%c", texts[i].key, texts[i].value ? texts[i].value : "", 0);
		if (n < 0 || size < 0)
			return -EIO;
		size += n;
	}
	return size > KV_MAX_SIZE ? -E2BIG : 0;
}

static int make_spec(const struct launch_job *job, int *fdp, struct error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("stage-data-spec",
						   MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : write_spec(fd, job);

	if (r == -E2BIG)
		return error_set(err, E2BIG, "the value is too long");
	if (r < 0 || lseek(fd, 0, SEEK_SET) < 0 || set_seals(fd) < 0)
		return error_errno(err, r < 0 ? -r : errno, "memfd");
	*fdp = steal_fd(&fd);
	return 0;
}

static void reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);
	signal(SIGPIPE, SIG_IGN); /* nobody may be there to read an answer that comes late */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void exec_keeper(const char *const *argv, int in, int out)
{
	static const char *const envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
					    NULL };
	static const char failed[] = "Ecannot be executed";
	int null = open("/dev/null", O_RDWR);

	/* In Slurm's extern step a thread that ends X11 is the job's user for a moment, and by libc's doing all are. */
	(void)!syscall(SYS_setresuid, 0, 0, 0);
	(void)!syscall(SYS_setresgid, 0, 0, 0);
	reset_signals();
	umask(077);
	if (null < 0 || chdir("/") < 0 || dup2(in < 0 ? null : in, 0) < 0 ||
	    dup2(out < 0 ? null : out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	fd_close_from(3);
	execve(argv[0], (char *const *)argv, (char *const *)envp);
	(void)!write(1, failed, sizeof(failed) - 1);
	_exit(127);
}

/* in, out: become fds 0 and 1, -1: /dev/null. The pid of the program, or -errno. */
static pid_t spawn(const char *const *argv, int in, int out, struct error *err)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	pid_t pid, program = 0;
	int fds[2];

	if (access(argv[0], X_OK) < 0)
		return error_errno(err, errno, "%s", argv[0]);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	rd = fds[0];
	wr = fds[1];
	pid = fork();
	if (pid < 0)
		return error_errno(err, errno, "fork");
	if (pid == 0) {
		if (setsid() < 0)
			_exit(1);
		pid = fork();
		if (pid != 0)
			_exit(pid < 0 || fd_write_all(wr, &pid, sizeof(pid)) < 0);
		exec_keeper(argv, in, out);
	}
	close(steal_fd(&wr)); /* the program's copy goes at its exec, so the read always ends */
	if (fd_read_all(rd, &program, sizeof(program)) < 0)
		program = 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return program > 0 ? program : error_set(err, EAGAIN, "stage-keeper: fork failed");
}

/* As spawn(), *rdp: where to read what it writes to fd 1. */
static pid_t spawn_reading(const char *const *argv, int in, int *rdp, struct error *err)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	rd = fds[0];
	wr = fds[1];
	if (move_up(&wr) < 0)
		return error_errno(err, errno, "pipe");
	pid = spawn(argv, in, wr, err);
	if (pid < 0)
		return pid;
	*rdp = steal_fd(&rd);
	return pid;
}

/* Reads what comes until the end, or until the deadline (-ETIMEDOUT), or until *enough bytes.
 * The length, or -errno. */
static ssize_t read_until(int fd, uint64_t deadline_ms, char *buf, size_t size)
{
	size_t n = 0;

	while (n < size) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_ms();
		ssize_t k = poll(&pfd, 1, now < deadline_ms ? (int)(deadline_ms - now) : 0);

		if (k == 0)
			return -ETIMEDOUT;
		if (k > 0)
			k = read(fd, buf + n, size - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		n += (size_t)k;
		if (buf[0] == 'R')
			break;
	}
	return (ssize_t)n;
}

static int wait_answer(int fd, struct error *err)
{
	char buf[ERROR_MAX_SIZE] = "";
	ssize_t n = read_until(fd, clock_ms() + LAUNCH_RUN_WAIT_MS, buf, sizeof(buf) - 1);

	if (n == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT, "stage-keeper has not answered within %d ms",
				 LAUNCH_RUN_WAIT_MS);
	if (n > 0 && (buf[0] == 'R' || buf[0] == 'S'))
		return 0; /* running, or left to a step by the configuration */
	if (n > 1 && buf[0] == 'E') {
		buf[1 + strcspn(buf + 1, "\n")] = '\0';
		return error_set(err, EIO, "%s", buf + 1);
	}
	return error_set(err, EIO, "stage-keeper ended without an answer");
}

static size_t add_conf(const char **argv, size_t n, const char *conf_path)
{
	if (conf_path) {
		argv[n++] = "--conf";
		argv[n++] = conf_path;
	}
	argv[n] = NULL;
	return n;
}

int launch_run(const struct launch_job *job, const char *conf_path, int *pidfdp, struct error *err)
{
	_cleanup_(fd_closep) int spec = -1, out = -1;
	char id[16], uid[16], gid[16], restart[16];
	const char *argv[MAX_ARGS] = { launch_program, "run", "--job",	   id,	   "--uid", uid,
				       "--gid",	       gid,   "--restart", restart };
	size_t n = 10;
	pid_t pid;
	int r;

	if (access(STAGE_RUN_DIR "/" RUNDIR_BREAKER, F_OK) == 0)
		return error_set(err, EAGAIN,
				 "staging is off on this node after several crashes of "
				 "stage-keeper; tell the site's administrators");
	snprintf(id, sizeof(id), "%u", (unsigned)job->job_id);
	snprintf(uid, sizeof(uid), "%u", (unsigned)job->uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)job->gid);
	snprintf(restart, sizeof(restart), "%u", (unsigned)job->restart);
	if (job->in_step)
		argv[n++] = "--step";
	if (job->node) {
		argv[n++] = "--node";
		argv[n++] = job->node;
	}
	add_conf(argv, n, conf_path);
	r = make_spec(job, &spec, err);
	if (r < 0)
		return r;
	if (move_up(&spec) < 0)
		return error_errno(err, errno, "memfd");
	pid = spawn_reading(argv, spec, &out, err);
	if (pid < 0)
		return pid;
	r = wait_answer(out, err);
	if (r == -ETIMEDOUT && pidfdp)
		*pidfdp = fd_pidfd_open(pid);
	return r;
}

int launch_clean(uint32_t job_id, const char *conf_path, struct error *err)
{
	_cleanup_(fd_closep) int out = -1;
	char id[16], timeout[16], buf[4096];
	const char *argv[MAX_ARGS] = { launch_program, "clean", "--job", id, "--timeout", timeout };
	uint64_t deadline_ms = clock_ms() + LAUNCH_CLEAN_WAIT_MS;
	ssize_t n;
	pid_t pid;

	snprintf(id, sizeof(id), "%u", (unsigned)job_id);
	snprintf(timeout, sizeof(timeout), "%d", LAUNCH_CLEAN_WAIT_MS - 1000);
	add_conf(argv, 6, conf_path);
	pid = spawn_reading(argv, -1, &out, err);
	if (pid < 0)
		return pid;
	do {
		n = read_until(out, deadline_ms, buf, sizeof(buf));
	} while (n > 0);
	if (n < 0)
		return error_errno(err, (int)-n, "stage-keeper clean");
	return 0;
}

int launch_reap(const char *conf_path, struct error *err)
{
	const char *argv[MAX_ARGS] = { launch_program, "reap" };

	pid_t pid;

	add_conf(argv, 2, conf_path);
	pid = spawn(argv, -1, -1, err);
	return pid < 0 ? pid : 0;
}
