#include "daemon/stagingd/cpus.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/parse.h"
#include "daemon/stagingd/job-runs.h"
#include "daemon/stagingd/stage.h"

#define OFTEN_MS 100
#define SELDOM_MS 1000
#define OFTEN_FOR_MS 5000

/* Reads the job's CPUs into c->set. Returns true if they differ from the known ones. */
static bool cpus_find(struct cpus *c)
{
	static const char *const cpuset = "cpuset";
	cpu_set_t set[ARRAY_SIZE(c->set)];
	const struct job_cgroup_job job = { .uid = geteuid(), .job_id = c->job_id };
	char dir[PATH_MAX];

	job_cgroup_read_mounts(&c->mounts, &cpuset, 1);
	if (job_cgroup_find_in(&c->mounts, 0, &job, dir, sizeof(dir)) < 0 ||
	    job_cgroup_read_cpus(dir, set, sizeof(set)) < 0 ||
	    (c->known && CPU_EQUAL_S(sizeof(set), set, c->set)))
		return false;
	memcpy(c->set, set, sizeof(set));
	return true;
}

/* Binds each thread of the process. A second pass binds threads that were started during the first
 * one by a thread that was not bound yet. */
static void bind_process(const struct cpus *c, pid_t pid)
{
	char path[32];
	struct dirent *e;
	uint32_t tid;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (int i = 0; i < 2; i++) {
		_cleanup_(dir_closep) DIR *dir = opendir(path);

		while (dir && (e = readdir(dir)))
			if (parse_uint32(e->d_name, &tid) == 0)
				sched_setaffinity((pid_t)tid, sizeof(c->set), c->set);
	}
}

/* Slurm creates a job's cpuset with all CPUs, and removes the CPUs of other jobs later. */
static bool may_change(const struct cpus *c)
{
	return !c->known || loop_get_time(c->loop) < c->slow_ms;
}

void cpus_look(struct cpus *c)
{
	if (!may_change(c) || !cpus_find(c))
		return;
	c->known = true;
	bind_process(c, getpid());
	for (size_t i = 0; i < c->runs->n; i++)
		if (job_runs_get_stage(c->runs, i)->pid > 0)
			bind_process(c, job_runs_get_stage(c->runs, i)->pid);
}

static void on_timer(void *arg)
{
	struct cpus *c = arg;
	const bool often = loop_get_time(c->loop) < c->slow_ms;
	bool any = often;

	cpus_look(c);
	for (size_t i = 0; i < c->runs->n; i++)
		any |= job_runs_get_stage(c->runs, i)->pid > 0;
	if (any && may_change(c))
		loop_timer_set(c->loop, &c->timer, often ? OFTEN_MS : SELDOM_MS);
}

void cpus_add(struct cpus *c, pid_t pid)
{
	if (c->known)
		bind_process(c, pid);
	else if (!loop_timer_is_set(&c->timer))
		on_timer(c);
}

void cpus_init(struct cpus *c)
{
	loop_timer_init(&c->timer, on_timer, c);
}

void cpus_start(struct cpus *c)
{
	c->slow_ms = loop_get_time(c->loop) + OFTEN_FOR_MS;
	on_timer(c);
}

void cpus_deinit(struct cpus *c)
{
	loop_timer_cancel(&c->timer);
}
