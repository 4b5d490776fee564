/*
 * These facts show that a job runs. The most reliable fact is first:
 *
 *  1. A process is in one of the cgroups that Slurm has made for the job. Only root makes these,
 *     and cgroups in other places are ignored. With PrologFlags=Contain, the process of the extern
 *     step is there from the prolog to the epilog.
 *  2. If Slurm makes no cgroups: one of Slurm's step daemons runs. Its command line names the job,
 *     all of its user ids are root's, and root confirms that its program is slurmstepd. Root has
 *     to confirm this, because a user who may run programs by sudo chooses their command lines,
 *     also if sudo only asks for a password. If users could have replaced the program's path,
 *     Slurm is asked.
 *  3. squeue lists the job. This is needed because an allocation may have no process on a node
 *     between two steps.
 *
 * If no process is found, the job may still run. Only Slurm can say that it is over. The one
 * exception is a boot id other than the current one: all jobs of an earlier boot are over.
 */
#include "daemon/manager/joblife.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/slurm/job-cgroup.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/state.h"

#define ASK_EVERY_S 600
#define ASK_WINDOW_S 90 /* the timer starts a run at least once in this time */

/* Reads a file of a process as a string; "" if it cannot be read. */
static void read_text(const char *pid, const char *name, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[NAME_MAX + 32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, buf, size - 1);
	buf[n < 0 ? 0 : n] = '\0';
}

/* The kernel reads a command line from the process's memory, which may be a file on its user's FUSE
 * server that does not answer. So only command lines of root's processes are read. */
static bool is_step_daemon(const char *pid, const char *title)
{
	struct privop a = { .kind = PRIVOP_LOOK, .n = { strtol(pid, NULL, 10), 0, 1 } };
	char text[2048];

	read_text(pid, "status", text, sizeof(text));
	if (!strstr(text, "\nUid:\t0\t0\t0\t0\n"))
		return false;
	read_text(pid, "cmdline", text, sizeof(text));
	return strncmp(text, title, strlen(title)) == 0 && privops_do(&a, NULL, NULL) >= 0 &&
	       a.n[2];
}

static bool has_step_daemon(uint32_t job_id)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	char title[48];

	snprintf(title, sizeof(title), "slurmstepd: [%u.", job_id);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_step_daemon(e->d_name, title))
			return true;
	return false;
}

enum joblife joblife_look(const struct state *st)
{
	const struct job_cgroup_job job = state_get_job(st);

	if (st->ending || (st->boot[0] && !state_is_current(st)))
		return JOBLIFE_OVER;
	if (st->uid && job_cgroup_is_populated(&job) > 0)
		return JOBLIFE_RUNS;
	return has_step_daemon(st->job_id) ? JOBLIFE_RUNS : JOBLIFE_UNKNOWN;
}

enum joblife joblife_ask(const struct state *st, char text[static JOBLIFE_TEXT_SIZE])
{
	static struct helper_over over;
	char job[16];
	const struct helper h = { .argv = { "stage-helper", "over", "", job, st->node, NULL },
				  .uid = st->uid,
				  .gid = st->gid,
				  .system = !st->uid,
				  .dir = -1,
				  .deadline_ms = clock_ms() + JOBLIFE_ASK_MS };
	int r;

	snprintf(job, sizeof(job), "%u", st->job_id);
	over.text[0] = '\0';
	r = helper_ask(&h, &over, sizeof(over));
	over.text[sizeof(over.text) - 1] = '\0';
	if (r == -ETIMEDOUT)
		snprintf(over.text, sizeof(over.text), "Slurm does not answer");
	snprintf(text, JOBLIFE_TEXT_SIZE, "%s", over.text[0] || r == 0 ? over.text : strerror(-r));
	if (r == 0)
		return JOBLIFE_RUNS;
	return r == -ESRCH && over.text[0] ? JOBLIFE_OVER : JOBLIFE_UNKNOWN;
}

bool joblife_is_time_to_ask(const struct state *st)
{
	const uint64_t begin_s = st->keeper.start / (uint64_t)sysconf(_SC_CLK_TCK),
		       now_s = clock_ms() / 1000;

	return now_s < begin_s || (now_s - begin_s) % ASK_EVERY_S < ASK_WINDOW_S;
}
