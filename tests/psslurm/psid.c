/*
 * psid: what ParaStation's psslurm does with a SPANK plugin on a node, for tests: the same
 * functions and no others, the same order of hooks, in processes that are cut the same way, and
 * items that it doesn't have.
 *
 *   psid REPORT PLUGIN [ARGUMENT...]
 *
 * The plugin is bound at once, so a function that psslurm lacks ends it at the start. Then stdin
 * has a line each of:
 *
 *   job ID UID GID        another job; its environment is empty
 *   env NAME=VALUE        into the job's environment, and into the prologue's, where the name lets
 *                         it
 *   prolog | epilog       as slurmctld's prologue has them called: a child of psid's that executes
 *                         a script
 *   batch COMMAND         the job script: a forwarder, and in a child of it the script
 *   step COMMAND          a step of one task: a forwarder, and the task below another one
 *
 * and each is answered on stdout by its exit status. REPORT gets a line for each hook: its name,
 * the context, what it returned, whether root called it. A hook that returned anything but 0 has
 * "error" behind it: the prologue's and the epilogue's would take the node out of service.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "tests/psslurm/spank.h"

static void *plugin;
static int plugin_argc, report;
static char **plugin_argv;

static void die(const char *what)
{
	perror(what);
	_exit(70);
}

static pid_t start(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	return pid;
}

static int wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool call(enum spank_hook hook)
{
	static const char *const contexts[] = {
		[S_CTX_SLURMD] = "slurmd",
		[S_CTX_JOB_SCRIPT] = "script",
		[S_CTX_REMOTE] = "remote",
	};
	struct timespec a, b;
	spank_f *f = (spank_f *)dlsym(plugin, spank_hook_get_name(hook));
	int r, ms;

	if (!f)
		return true;
	spank_enter(hook);
	clock_gettime(CLOCK_MONOTONIC, &a);
	r = f(spank_get_handle(), plugin_argc, plugin_argv);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ms = (int)((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000);
	dprintf(report, "%s %s %s %d ms%s\n", spank_hook_get_name(hook) + strlen("slurm_spank_"),
		contexts[spank_context()], geteuid() ? "user" : "root", ms, r ? " error" : "");
	return r == 0;
}

/* For good, as a task's process does it; or to come back. */
static void become_user(bool for_good)
{
	gid_t gid = job.gid;
	bool ok = setgroups(1, &gid) == 0;

	if (for_good)
		ok = ok && setresgid(job.gid, job.gid, job.gid) == 0 &&
		     setresuid(job.uid, job.uid, job.uid) == 0;
	else
		ok = ok && setegid(job.gid) == 0 && seteuid(job.uid) == 0;
	if (!ok)
		die("change the user");
}

static void become_root(void)
{
	if (seteuid(0) < 0 || setegid(0) < 0 || setgroups(0, NULL) < 0)
		die("become root again");
}

static void open_step(void)
{
	call(HOOK_INIT);
	spank_call_options();
	call(HOOK_INIT_POST_OPT);
	become_user(false);
	call(HOOK_USER_INIT);
	become_root();
}

static void run_task(const char *command) __attribute__((noreturn));
static void run_task(const char *command)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };

	if (setsid() < 0)
		die("setsid");
	call(HOOK_TASK_INIT_PRIVILEGED);
	become_user(true);
	call(HOOK_TASK_INIT);
	execve(argv[0], (char **)argv, job.env);
	die(argv[0]);
	_exit(127);
}

static int run_batch(const char *command)
{
	pid_t pid, forwarder = start();
	int status;

	if (forwarder)
		return wait_for(forwarder);
	job.step = STEP_BATCH;
	open_step();
	pid = start();
	if (pid == 0)
		run_task(command);
	call(HOOK_TASK_POST_FORK);
	status = wait_for(pid);
	call(HOOK_TASK_EXIT);
	call(HOOK_EXIT);
	_exit(status);
}

/* What user_init sets in the step's forwarder goes to psid, and from there to the tasks. */
static int run_step(const char *command)
{
	int to_psid[2], go[2], status;
	pid_t forwarder, task_forwarder, pid = start();

	if (pid)
		return wait_for(pid); /* the changes are of this step */
	if (pipe(to_psid) < 0 || pipe(go) < 0)
		die("pipe");
	job.step = STEP_OF_TASKS;
	forwarder = start();
	if (forwarder == 0) {
		close(go[1]);
		spank_tell_changes(to_psid[1]);
		open_step();
		spank_tell_changes(-1);
		close(to_psid[0]);
		close(to_psid[1]);
		(void)!read(go[0], &status, 1); /* until the task is over */
		call(HOOK_EXIT);
		_exit(0);
	}
	close(to_psid[1]);
	close(go[0]);
	spank_take_changes(to_psid[0]);
	close(to_psid[0]);
	task_forwarder = start();
	if (task_forwarder == 0) {
		close(go[1]);
		pid = start();
		if (pid == 0)
			run_task(command);
		call(HOOK_TASK_POST_FORK);
		status = wait_for(pid);
		call(HOOK_TASK_EXIT);
		_exit(status);
	}
	status = wait_for(task_forwarder);
	close(go[1]);
	_exit(wait_for(forwarder) == 0 ? status : 71);
}

static int run_script(enum spank_hook hook)
{
	pid_t pid = start();

	if (pid == 0) {
		for (char **e = job.env; *e; e++)
			if (!strncmp(*e, "SLURM_", 6) || !strncmp(*e, "SPANK_", 6))
				putenv(*e);
		job.step = STEP_NONE;
		_exit(call(hook) ? 0 : 1);
	}
	return wait_for(pid);
}

static int obey(char *line)
{
	char *rest = strchr(line, ' ');

	if (rest)
		*rest++ = '\0';
	if (!strcmp(line, "job") && rest)
		return spank_new_job(rest) ? 0 : 72;
	if (!strcmp(line, "env") && rest)
		return spank_put_env(rest) ? 0 : 72;
	if (!strcmp(line, "batch") && rest)
		return run_batch(rest);
	if (!strcmp(line, "step") && rest)
		return run_step(rest);
	if (!strcmp(line, "prolog"))
		return run_script(HOOK_JOB_PROLOG);
	if (!strcmp(line, "epilog"))
		return run_script(HOOK_JOB_EPILOG);
	return 73;
}

int main(int argc, char **argv)
{
	char line[65536];

	if (argc < 3) {
		fprintf(stderr, "usage: psid REPORT PLUGIN [ARGUMENT...]\n");
		return 2;
	}
	report = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (report < 0)
		die(argv[1]);
	plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		fprintf(stderr, "psid: %s\n", dlerror());
		return 1;
	}
	plugin_argc = argc - 3;
	plugin_argv = argv + 3;
	/* One with this hook would be held to be a danger to psid. */
	if (!dlsym(plugin, "psid_plugin") && dlsym(plugin, "slurm_spank_init"))
		dprintf(report, "tainted error\n");
	call(HOOK_SLURMD_INIT);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		printf("%d\n", obey(line));
		fflush(stdout);
	}
	call(HOOK_SLURMD_EXIT);
	return 0;
}
