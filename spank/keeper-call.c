#include "spank/keeper-call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/config/spec.h"
#include "common/protocol/kv.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/fd.h"

#include "stage-build.h"

/*
 * In Slurm's processes, root only does this: copy a few texts into a memfd without parsing them,
 * and execute one program. Its path is fixed at build time, and its environment is made here.
 *
 * The host may have threads, so the children call only functions that are safe after fork, and
 * everything they need is made before. There are two forks. The first child leaves the session and
 * ends at once, so slurmd or psid gets no unknown child, and the program is not in the process
 * group that Slurm kills after a prolog. The second child has a timer, which ends a program that
 * hangs. A keeper switches the timer off when it has a run directory, by which a clean-up finds it.
 * From 24.11 on, slurmd reads the prolog's output until it is closed, so none of the host's
 * descriptors may stay open.
 *
 * fd 0 is the spec (or /dev/null), fd 1 the pipe on which the keeper answers. End of file without
 * an answer means that the keeper has ended.
 */
const char *keeper_call_program = STAGE_LIBEXEC_DIR "/stage-keeper";

#define CTRLS "\1\2\3\4\5\6\a\b\t\n\v\f\r\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37\177"
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int keeper_call_say(char *why, int errnum, const char *what)
{
	snprintf(why, KEEPER_CALL_WHY_SIZE, "%s: %s", what, strerror(errnum));
	return -errnum;
}

/* Moves a descriptor above the program's three standard descriptors, because the host may have
 * closed its own. */
static int move_up(int fd)
{
	const int up = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);

	fd_closep(&fd);
	return up;
}

/* Makes a kv (common/protocol/kv.h). Root copies the texts without parsing them. */
static int make_spec(const struct keeper_call_job *job, char *why)
{
	const struct {
		const char *key, *value;
	} texts[] = {
		{ SPEC_KEY_SPEC, job->spec },
		{ SPEC_KEY_NODE, job->node },
		{ SPEC_KEY_NODELIST, job->nodelist },
		{ SPEC_KEY_N_NODES, job->n_nodes ? job->n_nodes : "1" },
		{ SPEC_KEY_PARTITION, job->partition },
	};
	_cleanup_(fd_closep) int fd = move_up(
		memfd_create("stage-data-spec", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	int n, size = fd < 0 ? -1
			     : dprintf(fd, SPEC_KEY_RESTART "=%u%c", (unsigned)job->restart, 0);

	for (size_t i = 0; i < ARRAY_SIZE(texts) && size > 0; i++) {
		n = dprintf(fd, "%s=%s%c", texts[i].key, texts[i].value ? texts[i].value : "", 0);
		size = n < 0 ? n : size + n;
	}
	if (size > KV_MAX_SIZE)
		return keeper_call_say(why, E2BIG, "the value is too long");
	if (size < 0 || lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return keeper_call_say(why, errno, "memfd");
	return steal_fd(&fd);
}

static _Noreturn void exec_keeper(const char *const *argv, int in, int out, int life_ms)
{
	static const char *const envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
					    NULL };
	static const char failed[] = "Ecannot be executed";
	int null = open("/dev/null", O_RDWR);
	const struct itimerval life = { .it_value = { life_ms / 1000, life_ms % 1000 * 1000 } };
	sigset_t none;

	/* A thread of Slurm's extern step, which ends X11, runs as the job's user for a moment.
	 * libc changes the ids of all threads. */
	(void)!syscall(SYS_setresuid, 0, 0, 0);
	(void)!syscall(SYS_setresgid, 0, 0, 0);
	/* SIGPIPE is ignored: the reader of a late answer may have ended. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, sig == SIGPIPE ? SIG_IGN : SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	setitimer(ITIMER_REAL, &life, NULL); /* exec keeps the timer */
	if (null < 0 || chdir("/") < 0 || dup2(in < 0 ? null : in, 0) < 0 ||
	    dup2(out < 0 ? null : out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	fd_close_from(3);
	execve(argv[0], (char *const *)argv, (char *const *)envp);
	(void)!write(1, failed, sizeof(failed) - 1);
	_exit(127);
}

/* Starts the program. in: its fd 0; -1: /dev/null. Returns a descriptor from which its output on fd
 * 1 can be read, or -errno. */
static int spawn(const char *const *argv, int in, int life_ms, char *why)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	int fds[2], status = 0;
	pid_t pid;

	if (access(argv[0], X_OK) < 0)
		return keeper_call_say(why, errno, argv[0]);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return keeper_call_say(why, errno, "pipe");
	rd = fds[0];
	wr = move_up(fds[1]);
	pid = wr < 0 ? -1 : fork();
	if (pid < 0)
		return keeper_call_say(why, errno, wr < 0 ? "pipe" : "fork");
	if (pid == 0) {
		pid = setsid() < 0 ? -1 : fork();
		if (pid == 0)
			exec_keeper(argv, in, wr, life_ms);
		_exit(pid < 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? keeper_call_say(why, EAGAIN, "stage-keeper can't be forked")
		      : steal_fd(&rd);
}

/* Reads until end of file, an 'R' as the first byte, or the deadline (-ETIMEDOUT). Returns the
 * length, or -errno. */
static ssize_t read_until(int fd, uint64_t deadline_ms, char *buf, size_t size)
{
	size_t n = 0;

	while (n < size && (n == 0 || buf[0] != 'R')) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_ms();
		ssize_t k = poll(&pfd, 1, now < deadline_ms ? (int)(deadline_ms - now) : 0);

		if (k == 0)
			return -ETIMEDOUT;
		if (k > 0)
			k = read(fd, buf + n, size - n);
		if (k < 0 && errno != EINTR)
			return -errno;
		if (k == 0)
			break;
		n += k > 0 ? (size_t)k : 0;
	}
	return (ssize_t)n;
}

static int wait_answer(int fd, char *why)
{
	char buf[KEEPER_CALL_WHY_SIZE + 1] = "";
	ssize_t n = read_until(fd, clock_ms() + KEEPER_CALL_RUN_WAIT_MS, buf, sizeof(buf) - 1);

	if (n > 0 && (buf[0] == 'R' || buf[0] == 'S'))
		return 0; /* 'R': running; 'S': the configuration leaves the start to a step */
	/* The text may come from an attacker in the manager, and slurmd's log may be shown on a
	 * terminal. */
	buf[strcspn(buf, CTRLS)] = '\0';
	if (n == -ETIMEDOUT)
		snprintf(why, KEEPER_CALL_WHY_SIZE, "stage-keeper has not answered within %d ms",
			 KEEPER_CALL_RUN_WAIT_MS);
	else
		snprintf(why, KEEPER_CALL_WHY_SIZE, "%s",
			 n > 1 && buf[0] == 'E' ? buf + 1 : "stage-keeper ended without an answer");
	return n == -ETIMEDOUT ? -ETIMEDOUT : -EIO;
}

int keeper_call_run(const struct keeper_call_job *job, const char *conf_path, char *why)
{
	_cleanup_(fd_closep) int spec = -1, out = -1;
	char id[16], uid[16], gid[16], restart[16];
	/* clang-format off */
	const char *argv[] = {
		keeper_call_program, "run", "--job", id, "--uid", uid, "--gid", gid, "--restart", restart,
		"--node", job->node ? job->node : "", "--conf", conf_path ? conf_path : "",
		"--sluid", job->sluid ? job->sluid : "", job->in_step ? "--step" : NULL, NULL
	};
	/* clang-format on */

	if (access(STAGE_RUN_DIR "/" RUNDIR_BREAKER, F_OK) == 0) {
		snprintf(why, KEEPER_CALL_WHY_SIZE,
			 "staging is off on this node after several crashes of "
			 "stage-keeper; tell the site's administrators");
		return -EAGAIN;
	}
	snprintf(id, sizeof(id), "%u", (unsigned)job->job_id);
	snprintf(uid, sizeof(uid), "%u", (unsigned)job->uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)job->gid);
	snprintf(restart, sizeof(restart), "%u", (unsigned)job->restart);
	spec = make_spec(job, why);
	if (spec < 0)
		return spec;
	out = spawn(argv, spec, job->in_step ? KEEPER_CALL_STEP_LIFE_MS : KEEPER_CALL_RUN_LIFE_MS,
		    why);
	return out < 0 ? out : wait_answer(out, why);
}

int keeper_call_clean(uint32_t job_id, const char *conf_path, char *why)
{
	_cleanup_(fd_closep) int out = -1;
	char id[16], timeout[16], buf[4096];
	/* clang-format off */
	const char *argv[] = {
		keeper_call_program, job_id ? "clean" : "reap", "--conf", conf_path ? conf_path : "",
		job_id ? "--job" : NULL, id, "--timeout", timeout, NULL
	};
	/* clang-format on */
	uint64_t deadline_ms = clock_ms() + KEEPER_CALL_CLEAN_WAIT_MS;
	ssize_t n = 0;

	snprintf(id, sizeof(id), "%u", (unsigned)job_id);
	snprintf(timeout, sizeof(timeout), "%d", KEEPER_CALL_CLEAN_WAIT_MS - 1000);
	out = spawn(argv, -1, 0, why);
	if (out < 0)
		return out;
	while (job_id && (n = read_until(out, deadline_ms, buf, sizeof(buf))) > 0)
		;
	return n < 0 ? keeper_call_say(why, (int)-n, "stage-keeper clean") : 0;
}
