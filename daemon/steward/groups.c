/*
 * In v1 a job has a directory in each hierarchy that Slurm confines it by, and they come one after
 * the other. In v2 it has one, which counts as that of the memory. Where Slurm makes none of a kind,
 * that is looked for in vain for a second after the first one came.
 *
 * CPUs are taken from the kernel's table of the job, never from a process of the user's, which he may
 * bind to others.
 */
#include "daemon/steward/groups.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/jobgroup.h"
#include "common/log.h"
#include "daemon/steward/acts.h"
#include "daemon/steward/serve.h"
#include "daemon/steward/steward.h"

#define MAX_CPUS 8192
#define LATE_MS 1000 /* after the first one */

static const char *const controllers[ACT_N_GROUPS] = { "memory", "cpuset", "devices" };

/* What is not so where such a group can't be used */
static const char *const without[ACT_N_GROUPS] = {
	"what is staged is not charged to the job",
	"workers are not bound to the job's CPUs",
	"workers are not bound to the job's devices",
};

const char *groups_to_string(enum act_group which)
{
	return controllers[which];
}

int groups_find(enum act_group which, uid_t uid, uint32_t job_id, char *dir, size_t size)
{
	return jobgroup_find(controllers[which], uid, job_id, dir, size);
}

static int find(const struct serve *s, enum act_group which, char *dir, size_t size)
{
	return groups_find(which, s->k->st.uid, s->k->st.job_id, dir, size);
}

static bool is_v1(const char *dir)
{
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/tasks", dir);
	return access(path, F_OK) == 0;
}

/* A cpuset that Slurm has not filled takes no process yet. */
static bool is_ready(enum act_group which, const char *dir)
{
	cpu_set_t set[MAX_CPUS / CPU_SETSIZE];

	return which != ACT_GROUP_CPUS || jobgroup_read_cpus(dir, set, sizeof(set)) == 0;
}

/* true: there is another group to be in. */
static bool hold(struct serve *s, enum act_group which, const char *dir)
{
	int r;

	if (!is_ready(which, dir))
		return false;
	s->groups |= 1U << which;
	if (!s->groups_end_ms)
		s->groups_end_ms = clock_ms() + LATE_MS;
	if (which != ACT_GROUP_MEMORY && !is_v1(dir))
		return false;
	r = acts_do_path(ACT_HOLD_GROUP, dir, which);
	if (r < 0)
		log_warning("use %s: %s: %s", dir, strerror(-r), without[which]);
	return r == 0;
}

static void enter(const struct serve *s)
{
	const struct state_proc *procs = s->k->st.procs;
	int r;

	for (size_t i = 0; i < STATE_MAX_PROCS; i++) {
		if (!procs[i].pid || s->children[i].class == SERVE_CLASS_DAEMON)
			continue;
		r = acts_do_numbers(ACT_ENTER_GROUPS, procs[i].pid, 0, 0);
		if (r < 0 && r != -ESRCH)
			log_warning("process %d is not in the job's cgroups: %s", procs[i].pid, strerror(-r));
	}
}

bool groups_are_coming(const struct serve *s)
{
	return clock_ms() < s->groups_end_ms;
}

bool groups_are_missing(const struct serve *s)
{
	return !s->groups_end_ms || groups_are_coming(s);
}

int groups_look(struct serve *s, char *dir, size_t size)
{
	const int memory = find(s, ACT_GROUP_MEMORY, dir, size);
	char other[PATH_MAX];
	bool any = false;

	if (memory == -ENOENT && !s->groups)
		return memory;
	if (memory == 0 && !(s->groups & 1U << ACT_GROUP_MEMORY))
		any = hold(s, ACT_GROUP_MEMORY, dir);
	for (enum act_group which = ACT_GROUP_CPUS; which < ACT_N_GROUPS; which++)
		if (!(s->groups & 1U << which) &&
		    find(s, which, other, sizeof(other)) == 0)
			any |= hold(s, which, other);
	if (any)
		enter(s);
	groups_follow_cpus(s);
	return memory;
}

void groups_follow_cpus(struct serve *s)
{
	cpu_set_t ours[MAX_CPUS / CPU_SETSIZE] = { 0 }, jobs[MAX_CPUS / CPU_SETSIZE] = { 0 };
	struct act a = { .kind = ACT_FOLLOW };
	char dir[PATH_MAX];

	if (!groups_are_missing(s) || find(s, ACT_GROUP_CPUS, dir, sizeof(dir)) < 0 ||
	    jobgroup_read_cpus(dir, jobs, sizeof(jobs)) < 0 ||
	    sched_getaffinity(0, sizeof(ours), ours) < 0 || CPU_EQUAL_S(sizeof(ours), ours, jobs))
		return;
	sched_setaffinity(0, sizeof(jobs), jobs);
	memcpy(a.text, jobs, sizeof(jobs));
	acts_do(&a, NULL, 0, NULL, NULL);
}
