/*
 * A job counts as over if there was no slurmd at two checks in a row, 20 s apart, and squeue
 * reported both times that the job is over on this node. So nothing is asked during a restart of
 * slurmd, which takes seconds, and the answer of a slurmctld that has just started is not enough.
 * If the answer is not known (squeue is missing, fails or hangs), the job counts as running. That
 * the job has no process here would prove nothing: the process of its extern step outlives slurmd,
 * and an allocation may have no process. After the end of the job, this takes at most 20 s until
 * the next check, 15 s for the answer, 20 s, 15 s for the second answer, and the time of the
 * clean-up.
 */
#include "daemon/stagingd/job-over.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/slurm/squeue.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "daemon/stagingd/async.h"
#include "daemon/stagingd/job-info.h"

#define FIRST_LOOK_MS 1000
#define SEEN_WITHIN_MS 120000
#define LOOK_MS 20000
#define NO_PIDFD_MS 40000
#define ASK_MS 15000
#define N_OVER 2

/* Reads a file in /proc/<pid> into buf and NUL-terminates it. Returns 0 or -errno. */
static int read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

/* Debian's /usr/sbin/slurmd is a link to slurmd-wlm; the process gets this name when it executes
 * itself again (scontrol reconfigure). */
static bool is_name(const char *comm)
{
	return strcmp(comm, "slurmd\n") == 0 || strncmp(comm, "slurmd-", 7) == 0 ||
	       strcmp(comm, "psid\n") == 0;
}

/* Returns whether the process is a slurmd that has not ended, or psid, which replaces it on
 * ParaStation machines. A process can choose its name in /proc, so its owner is checked, too:
 * otherwise a user could pretend that slurmd runs. A child that slurmd has forked has slurmd's name
 * until it executes another program. If such a child was found by mistake, its end is noticed soon,
 * and slurmd is looked for again. */
static bool slurmd_is(pid_t pid)
{
	char comm[32], status[1024];

	if (read_proc(pid, "comm", comm, sizeof(comm)) < 0 || !is_name(comm))
		return false;
	return read_proc(pid, "status", status, sizeof(status)) == 0 &&
	       strstr(status, "\nUid:\t0\t") && !strstr(status, "\nState:\tZ") &&
	       !strstr(status, "\nState:\tX");
}

/* Searches all processes. Returns the pid of slurmd; 0: it does not run; -EACCES: processes of
 * other users are hidden (proc is mounted with hidepid), so nothing is known. */
static pid_t slurmd_find(void)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	char comm[32];
	uint32_t pid;

	if (!dir || read_proc(1, "comm", comm, sizeof(comm)) < 0)
		return -EACCES;
	while ((e = readdir(dir)))
		if (parse_uint32(e->d_name, &pid) == 0 && slurmd_is((pid_t)pid))
			return (pid_t)pid;
	return 0;
}

static void forget_slurmd(struct job_over *o)
{
	loop_remove(o->loop, &o->source);
	fd_closep(&o->pidfd);
	o->slurmd = 0;
}

static void on_slurmd_end(void *arg, uint32_t events)
{
	struct job_over *o = arg;

	(void)events;
	forget_slurmd(o);
	loop_timer_set(o->loop, &o->timer, LOOK_MS);
}

/* Watches slurmd through a pidfd. Checks the process after the pidfd is open, because the pid may
 * have been used again before. */
static bool hold(struct job_over *o, pid_t pid)
{
	o->pidfd = fd_pidfd_open(pid);
	if (o->pidfd < 0)
		return false;
	if (!slurmd_is(pid) ||
	    loop_add(o->loop, &o->source, o->pidfd, EPOLLIN, on_slurmd_end, o) < 0)
		fd_closep(&o->pidfd);
	return o->pidfd >= 0;
}

static void watch_slurmd(struct job_over *o, pid_t pid)
{
	o->slurmd = pid;
	o->give_up_ms = 0;
	o->n_over = 0;
	o->told = false;
	if (!hold(o, pid))
		loop_timer_set(o->loop, &o->timer, NO_PIDFD_MS);
}

static void on_answer(void *arg, int r, const struct error *err)
{
	struct job_over *o = arg;

	o->async = NULL;
	o->n_over = r == -ESRCH ? o->n_over + 1 : 0;
	if (r < 0 && r != -ESRCH && !o->told) {
		o->told = true;
		log_warning("slurmd is gone, and whether the job is over is not known: %s",
			    r == -ETIMEDOUT ? "Slurm does not answer" : err->text);
	}
	if (o->n_over < N_OVER) {
		loop_timer_set(o->loop, &o->timer, LOOK_MS);
		return;
	}
	log_warning("slurmd is gone, and the job is over here: %s; everything is removed",
		    err->text);
	o->on_over(o->arg);
}

static int ask(void *arg, struct error *err)
{
	return squeue_ask(arg, err);
}

static void ask_squeue(struct job_over *o)
{
	struct squeue_question q = { .sbcast = o->info->conf->fanout_program,
				     .node = o->info->node,
				     .uid = geteuid(),
				     .job_id = o->info->job_id };

	if (async_start(&o->async, o->loop, ask, &q, ASK_MS, on_answer, o) < 0)
		loop_timer_set(o->loop, &o->timer, LOOK_MS);
}

static void job_over_look_again(void *arg)
{
	struct job_over *o = arg;
	pid_t pid;

	if (o->slurmd && slurmd_is(o->slurmd)) { /* it is watched without a pidfd */
		loop_timer_set(o->loop, &o->timer, NO_PIDFD_MS);
		return;
	}
	forget_slurmd(o);
	pid = slurmd_find();
	if (pid > 0)
		watch_slurmd(o, pid);
	else if (pid == 0 && !o->give_up_ms)
		ask_squeue(o);
	else if (pid == 0 && loop_get_time(o->loop) < o->give_up_ms)
		loop_timer_set(o->loop, &o->timer, LOOK_MS);
}

void job_over_init(struct job_over *o)
{
	o->source.fd = o->pidfd = -1;
	loop_timer_init(&o->timer, job_over_look_again, o);
}

void job_over_start(struct job_over *o)
{
	o->give_up_ms = loop_get_time(o->loop) + SEEN_WITHIN_MS;
	loop_timer_set(o->loop, &o->timer, FIRST_LOOK_MS);
}

void job_over_stop(struct job_over *o)
{
	async_abandon(o->async);
	o->async = NULL;
	loop_timer_cancel(&o->timer);
	forget_slurmd(o);
}
