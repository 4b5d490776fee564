/*
 * The manager looks for the cgroups in its loop and whenever a worker is started, because Slurm
 * removes a job's directory after its last step and makes another one for the next step. A worker
 * that is started between the two is in no cgroup of that kind. It is moved when the manager next
 * finds one.
 *
 * With v1 a job has a directory in each hierarchy that Slurm uses for it, and Slurm makes them one
 * after the other. With v2 it has one directory, which is used as that of the memory controller. If
 * Slurm makes no directory of a kind, the manager stops looking for it one second after it has
 * found the first one. The list of CPUs comes from the job's cpuset, never from a process of the
 * user, who could have bound it to other CPUs.
 */
#include "daemon/manager/cgroup-join.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/slurm/job-cgroup.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/serve.h"
#include "daemon/manager/manager.h"

#define LATE_MS 1000 /* time after the first cgroup was found, in which Slurm makes the others */

static const char *const controllers[PRIVOP_N_GROUPS] = { "memory", "cpuset", "devices" };

/* The effect if the cgroup cannot be used, for the log. */
static const char *const without[PRIVOP_N_GROUPS] = {
	"staged data is not charged to the job",
	"workers are not bound to the job's CPUs",
	"workers are not bound to the job's devices",
};

const char *cgroup_join_to_string(enum privop_group which)
{
	return controllers[which];
}

int cgroup_join_find(enum privop_group which, const struct job_cgroup_job *job, char *dir,
		     size_t size)
{
	return job_cgroup_find(controllers[which], job, dir, size);
}

static bool is_v1(const char *dir)
{
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/tasks", dir);
	return access(path, F_OK) == 0;
}

/* Slurm fills a new cpuset after making it. Until then no process can be moved to it. */
static bool is_ready(enum privop_group which, const char *dir)
{
	cpu_set_t set[PRIVOP_MAX_CPUS / CPU_SETSIZE];

	return which != PRIVOP_GROUP_CPUS ||
	       (job_cgroup_read_cpus(dir, set, sizeof(set)) == 0 && job_cgroup_has_mems(dir));
}

static int hold_by_keeper(struct cgroup_joined *g, enum privop_group which)
{
	const int r = privops_do_path(PRIVOP_HOLD_GROUP, g->dir, which);

	if (r < 0 && !g->has_failed)
		log_warning("use %s: %s: %s", g->dir, strerror(-r), without[which]);
	g->has_failed = r < 0;
	return r;
}

/* Asks the keeper to open the cgroup. Returns 1 if the processes must be moved to it, 0 if not, or
 * -errno. */
static int hold(struct serve *s, enum privop_group which)
{
	struct cgroup_joined *g = &s->cgroups[which];
	const bool is_used = which == PRIVOP_GROUP_MEMORY || is_v1(g->dir);
	struct stat st;
	int r;

	/* Slurm may replace the directory between stat() and the keeper's open(). Then the inode
	 * differs at the next look, and the new directory is opened. */
	if (stat(g->dir, &st) < 0)
		return -errno;
	if (!is_ready(which, g->dir))
		return 0;
	if (!s->cgroups_end_ms)
		s->cgroups_end_ms = clock_ms() + LATE_MS;
	r = is_used ? hold_by_keeper(g, which) : 0;
	if (r < 0)
		return r;
	g->is_held = true;
	g->ino = st.st_ino;
	return is_used;
}

static int look_for(struct serve *s, enum privop_group which)
{
	const struct job_cgroup_job job = state_get_job(&s->k->st);
	struct cgroup_joined *g = &s->cgroups[which];
	int r;

	if (g->is_held)
		return 0;
	r = job_cgroup_find_in(&s->mounts, which, &job, g->dir, sizeof(g->dir));
	if (r < 0)
		g->dir[0] = '\0';
	return r < 0 ? r : hold(s, which);
}

/* Forgets directories that Slurm has removed: it does so when the last step ends, and makes new
 * ones for the next step. Returns true if any of them is still open. */
static bool forget_removed(struct serve *s)
{
	bool any_held = false;
	struct stat st;

	for (enum privop_group which = 0; which < PRIVOP_N_GROUPS; which++) {
		struct cgroup_joined *g = &s->cgroups[which];

		if (g->is_held && (stat(g->dir, &st) < 0 || st.st_ino != g->ino)) {
			g->is_held = false;
			s->cgroups_end_ms = 0;
		}
		any_held |= g->is_held;
	}
	return any_held;
}

static void enter(const struct serve *s)
{
	const struct state_proc *procs = s->k->st.procs;
	int r;

	for (size_t i = 0; i < STATE_MAX_PROCS; i++) {
		if (!procs[i].pid || s->children[i].class == SERVE_CLASS_DAEMON)
			continue;
		r = privops_do_numbers(PRIVOP_ENTER_GROUPS, procs[i].pid, 0, 0);
		if (r < 0 && r != -ESRCH)
			log_warning("process %d is not in the job's cgroups: %s", procs[i].pid,
				    strerror(-r));
	}
}

bool cgroup_join_expects_more(const struct serve *s)
{
	return clock_ms() < s->cgroups_end_ms;
}

bool cgroup_join_is_incomplete(const struct serve *s)
{
	return !s->cgroups_end_ms || cgroup_join_expects_more(s);
}

/* Binds us, the keeper and all processes that it starts to the job's CPUs. */
static void follow_cpus(const char *dir)
{
	cpu_set_t ours[PRIVOP_MAX_CPUS / CPU_SETSIZE] = { 0 },
					 jobs[PRIVOP_MAX_CPUS / CPU_SETSIZE] = { 0 };
	struct privop a = { .kind = PRIVOP_FOLLOW };

	if (job_cgroup_read_cpus(dir, jobs, sizeof(jobs)) < 0 ||
	    sched_getaffinity(0, sizeof(ours), ours) < 0 || CPU_EQUAL_S(sizeof(ours), ours, jobs))
		return;
	sched_setaffinity(0, sizeof(jobs), jobs);
	memcpy(a.text, jobs, sizeof(jobs));
	privops_do(&a, NULL, NULL);
}

int cgroup_join_look(struct serve *s)
{
	const bool any_held = forget_removed(s);
	bool any = false;
	int memory;

	job_cgroup_read_mounts(&s->mounts, controllers, PRIVOP_N_GROUPS);
	memory = look_for(s, PRIVOP_GROUP_MEMORY);
	if (memory == -ENOENT && !any_held)
		return memory;
	any = memory > 0;
	for (enum privop_group which = PRIVOP_GROUP_CPUS; which < PRIVOP_N_GROUPS; which++)
		any |= look_for(s, which) > 0;
	if (any)
		enter(s);
	if (cgroup_join_is_incomplete(s) && *s->cgroups[PRIVOP_GROUP_CPUS].dir)
		follow_cpus(s->cgroups[PRIVOP_GROUP_CPUS].dir);
	return memory < 0 ? memory : 0;
}
