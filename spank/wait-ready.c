#include "spank/wait-ready.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "spank/step-env.h"
#include "spank/node.h"
#include "spank/step.h"

#include "stage-build.h"

/*
 * At this point, the task is a process with the user's ids and the task's output, and has not
 * executed a program yet. So everything here affects only this task. Slurm ignores the result of an
 * optional plugin's hook, so a task that must not begin ends here.
 *
 * stagectl does the waiting: `stagectl wait --hold` prints the progress lines and the reason of a
 * failure. It runs as a child with the task's environment. Until it ends, the signals by which
 * Slurm and the user end a task have their default action. They end the task at once, and the child
 * with it by its parent-death signal.
 */
const char *wait_ready_program = STAGE_BIN_DIR "/stagectl";

#define MAX_REASON 1024
#define START_WAIT_MS 5000
#define KEEPER_WAIT_MS 20000 /* if a keeper runs; it may have to wait for the configuration */
#define START_POLL_US 20000

int wait_ready_from_string(const char *text, enum conf_wait *waitp)
{
	static const char *const names[] = {
		[CONF_WAIT_SCRIPT] = "script",
		[CONF_WAIT_TASKS] = "tasks",
		[CONF_WAIT_NO] = "no",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(text, names[i])) {
			*waitp = (enum conf_wait)i;
			return 0;
		}
	}
	return -EINVAL;
}

static bool is_special_step(uint32_t step_id)
{
	return step_id == SLURM_EXTERN_CONT || step_id == SLURM_INTERACTIVE_STEP;
}

enum wait_ready wait_ready_decide(const struct wait_ready_facts *f)
{
	bool batch = f->step_id == SLURM_BATCH_SCRIPT;

	if (f->wait == CONF_WAIT_NO || is_special_step(f->step_id) || f->terminal)
		return WAIT_READY_NONE;
	if (!batch && f->command && !strcmp(path_base(f->command), "stagectl"))
		return WAIT_READY_NONE;
	if (batch && f->wait == CONF_WAIT_TASKS)
		return WAIT_READY_NONE;
	if (batch)
		return f->n_nodes > 1 ? WAIT_READY_JOB : WAIT_READY_NODE;
	/* If there is no batch script, or if it was not held, only the tasks can be held. */
	if (f->wait == CONF_WAIT_SCRIPT && f->script_held && !f->wait_given)
		return WAIT_READY_NONE;
	return WAIT_READY_NODE;
}

static uint32_t get_n_nodes(spank_t sp)
{
	/* S_JOB_NNODES is the number of the step's nodes, which is 1 for the batch step. */
	_cleanup_(freep) char *text = step_get_env(sp, "SLURM_JOB_NUM_NODES");
	_cleanup_(freep) char *het = step_get_env(sp, "SLURM_HET_SIZE");
	uint32_t n_nodes = text ? (uint32_t)strtoul(text, NULL, 10) : 1;

	/* Each component of a heterogeneous job has at least one node. */
	return n_nodes + (het ? 1 : 0);
}

static enum wait_ready get_hold(spank_t sp, const struct step *step)
{
	_cleanup_(freep) char *held = step_get_env(sp, STEP_ENV_HELD);
	_cleanup_(freep) char *given = step_get_env(sp, WAIT_READY_ENV_WAIT);
	struct wait_ready_facts f = { .step_id = step->step_id, .script_held = held != NULL };
	char **argv = NULL;
	int argc = 0;

	if (!step_get_wait(step, &f.wait))
		return WAIT_READY_NONE;
	if (given && step->step_id != SLURM_BATCH_SCRIPT)
		f.wait_given = wait_ready_from_string(given, &f.wait) == 0;
	if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv) == ESPANK_SUCCESS && argc > 0 && argv)
		f.command = argv[0];
	f.n_nodes = get_n_nodes(sp);
	f.terminal = isatty(STDIN_FILENO);
	return wait_ready_decide(&f);
}

static void wait_ready_say(spank_t sp, const char *what, const char *why)
{
	_cleanup_(freep) char *env = step_get_env(sp, "SLURMD_NODENAME");
	char host[HOST_NAME_MAX + 1] = "this node";

	if (!env)
		(void)gethostname(host, sizeof(host) - 1);
	dprintf(STDERR_FILENO, "stage-data: %s on %s: %s\n", what, env ? env : host, why);
}

/* Reads the keeper's reason, as far as it is text. */
static void read_reason(const struct step *step, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];
	ssize_t n;

	snprintf(buf, size, "the reason is in the node's log");
	if (rundir_path(path, sizeof(path), step->job_id, RUNDIR_FAILED) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (n > 0)
		buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* Waits for a slow keeper. Root's hooks do not wait for it, but a task that is held anyway can. */
static void wait_for_start(const struct step *step)
{
	const uint64_t begin_ms = clock_ms();
	uint64_t wait_ms = START_WAIT_MS;

	while (!step_has_file(step, RUNDIR_SOCK) && !step_has_file(step, RUNDIR_FAILED) &&
	       clock_ms() - begin_ms < wait_ms) {
		usleep(START_POLL_US);
		wait_ms = step_has_file(step, RUNDIR_STATE) ? KEEPER_WAIT_MS : START_WAIT_MS;
	}
}

/* Returns false if there is nothing to wait for on this node, after a message with the reason. */
static bool is_started(spank_t sp, const struct step *step)
{
	const char *why = node_get_start_error();
	char reason[MAX_REASON];

	if (!*why)
		wait_for_start(step);
	if (step_has_file(step, RUNDIR_FAILED)) {
		read_reason(step, reason, sizeof(reason));
		wait_ready_say(sp, "staging failed", reason);
		return false;
	}
	if (step_has_file(step, RUNDIR_SOCK))
		return true;
	wait_ready_say(sp, "could not start",
		       *why ? why : "stage-keeper is not running; see the node's log");
	return false;
}

static void exec_stagectl(enum wait_ready hold, char **envp) __attribute__((noreturn));
static void exec_stagectl(enum wait_ready hold, char **envp)
{
	const char *argv[] = { wait_ready_program, "wait", "--hold",
			       hold == WAIT_READY_JOB ? "--all-nodes" : NULL, NULL };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* stdout becomes stderr: the paths on stdout are for scripts, but here all output is for
	 * people. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(1);
	execve(argv[0], (char **)argv, envp);
	dprintf(STDERR_FILENO, "stage-data: %s: %s\n", argv[0], strerror(errno));
	_exit(1);
}

/* Sets the default actions. SIGCHLD is included, because a process that ignores it cannot wait for
 * the end of a child. */
static void set_signals(const sigset_t *set, struct sigaction saved[static 3], sigset_t *mask)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	sigaction(SIGTERM, &dfl, &saved[0]);
	sigaction(SIGINT, &dfl, &saved[1]);
	sigaction(SIGCHLD, &dfl, &saved[2]);
	sigprocmask(SIG_UNBLOCK, set, mask);
}

/* Returns the status of wait(2), or -errno. */
static int run_stagectl(enum wait_ready hold, char **envp)
{
	struct sigaction saved[3];
	pid_t pid, parent = getpid();
	sigset_t ending, mask;
	int err = 0, status = 0;

	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	set_signals(&ending, saved, &mask);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
			_exit(1);
		exec_stagectl(hold, envp);
	}
	if (pid < 0)
		err = -errno;
	while (pid > 0 && waitpid(pid, &status, 0) < 0) {
		if (errno == EINTR)
			continue;
		err = -errno;
		break;
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGTERM, &saved[0], NULL);
	sigaction(SIGINT, &saved[1], NULL);
	sigaction(SIGCHLD, &saved[2], NULL);
	return err < 0 ? err : status;
}

/* stagectl itself prints why the datasets are not ready, but not if it could not run to its end. */
static void say_no_end(spank_t sp, int status)
{
	char why[128];

	if (status < 0)
		snprintf(why, sizeof(why), "stagectl could not be started: %s", strerror(-status));
	else if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "stagectl was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		return;
	wait_ready_say(sp, "cannot wait for the datasets", why);
}

void wait_ready_task(spank_t sp)
{
	_cleanup_(step_freep) struct step *step = NULL;
	char **envp = NULL;
	enum wait_ready hold;
	int status;

	if (step_new(&step, sp) < 0)
		return;
	hold = get_hold(sp, step);
	if (hold == WAIT_READY_NONE)
		return;
	if (!is_started(sp, step))
		_exit(1);
	if (spank_get_item(sp, S_JOB_ENV, &envp) != ESPANK_SUCCESS || !envp)
		return;
	status = run_stagectl(hold, envp);
	if (status != 0) {
		say_no_end(sp, status);
		_exit(1);
	}
	step_env_refresh(sp, step); /* the daemon may have written more variables since */
}
