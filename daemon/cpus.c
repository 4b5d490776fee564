#include "daemon/cpus.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/jobgroup.h"
#include "common/parse.h"
#include "daemon/job.h"
#include "daemon/stage-run.h"
#include "daemon/stage.h"

#define OFTEN_MS 100
#define SELDOM_MS 1000
#define OFTEN_FOR_MS 5000

int cpus_parse(const char *text, cpu_set_t *set, size_t size)
{
	unsigned from, to;
	int n;

	CPU_ZERO_S(size, set);
	while (sscanf(text, "%u%n", &from, &n) == 1) {
		text += n;
		to = from;
		if (sscanf(text, "-%u%n", &to, &n) == 1)
			text += n;
		if (to < from || to >= size * 8)
			return -EINVAL;
		for (; from <= to; from++)
			CPU_SET_S(from, size, set);
		text += *text == ',';
	}
	return (*text && *text != '\n') || CPU_COUNT_S(size, set) == 0 ? -EINVAL : 0;
}

static bool find(struct cpus *c)
{
	static const char *const names[] = { "cpuset.effective_cpus", "cpuset.cpus.effective",
					     "cpuset.cpus", NULL };
	char dir[PATH_MAX], text[4096];

	return jobgroup_find("cpuset", geteuid(), c->job->job_id, dir, sizeof(dir)) == 0 &&
	       jobgroup_read(dir, names, text, sizeof(text)) == 0 &&
	       cpus_parse(text, c->set, sizeof(c->set)) == 0;
}

/* Each of its threads; and again, for those which one that was not bound yet has started
 * meanwhile. */
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

void cpus_look(struct cpus *c)
{
	if (c->known || !find(c))
		return;
	c->known = true;
	bind_process(c, getpid());
	for (size_t i = 0; i < c->job->n_runs; i++)
		if (job_get_stage(c->job, i)->pid > 0)
			bind_process(c, job_get_stage(c->job, i)->pid);
}

static void on_timer(void *arg)
{
	struct cpus *c = arg;
	const bool often = loop_get_time(c->job->loop) < c->slow_ms;
	bool any = often;

	cpus_look(c);
	for (size_t i = 0; i < c->job->n_runs; i++)
		any |= job_get_stage(c->job, i)->pid > 0;
	if (any && !c->known)
		loop_timer_set(c->job->loop, &c->timer, often ? OFTEN_MS : SELDOM_MS);
}

void cpus_add(struct cpus *c, pid_t pid)
{
	if (c->known)
		bind_process(c, pid);
	else if (!loop_timer_is_set(&c->timer))
		on_timer(c);
}

void cpus_init(struct cpus *c, struct job *job)
{
	c->job = job;
	loop_timer_init(&c->timer, on_timer, c);
}

void cpus_start(struct cpus *c)
{
	c->slow_ms = loop_get_time(c->job->loop) + OFTEN_FOR_MS;
	on_timer(c);
}

void cpus_deinit(struct cpus *c)
{
	loop_timer_cancel(&c->timer);
}
