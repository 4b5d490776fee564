/*
 * The command stays in our process group, so that job control and Slurm see what they would see
 * without us. A ^C then reaches both of us from the terminal, and is not passed on a second time:
 * what the kernel sends for a terminal has SI_KERNEL.
 */
#include "client/run-command.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/output.h"
#include "client/waitloop.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, 0 };

/* Returns whether the process has ended. */
static bool has_ended(pid_t pid, int *statusp)
{
	pid_t r;

	do {
		r = waitpid(pid, statusp, WNOHANG);
	} while (r < 0 && errno == EINTR);
	return r == pid;
}

static int follow(struct waitloop *loop, pid_t pid)
{
	int status, r;

	while (!has_ended(pid, &status)) {
		r = waitloop_wait(loop, NULL, 0);
		if (r < 0)
			return STAGE_EXIT_FAILED;
		if (r == WAITLOOP_SIGNAL && loop->signal.ssi_signo != SIGCHLD &&
		    loop->signal.ssi_code != SI_KERNEL)
			kill(pid, (int)loop->signal.ssi_signo);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static _Noreturn void exec_command(char *const *argv, const sigset_t *mask)
{
	int r;

	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	r = errno;
	output_error("%s: %s", argv[0], strerror(r));
	_exit(r == ENOENT ? 127 : 126);
}

int run_command(char *const *argv, const sigset_t *mask)
{
	_cleanup_(waitloop_close) struct waitloop loop = WAITLOOP_CLOSED;
	pid_t pid;
	int r;

	r = waitloop_open(&loop, signals, 0);
	if (r < 0) {
		output_error("signalfd: %s", strerror(-r));
		return STAGE_EXIT_FAILED;
	}
	pid = fork();
	if (pid < 0) {
		output_error("fork: %s", strerror(errno));
		return STAGE_EXIT_FAILED;
	}
	if (pid == 0)
		exec_command(argv, mask ? mask : waitloop_get_mask(&loop));
	return follow(&loop, pid);
}
