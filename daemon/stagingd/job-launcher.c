#include "daemon/stagingd/job-launcher.h"

#include "common/util/log.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/worker-proc.h"

static struct worker_proc *find_worker(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job->runs.n; i++) {
		struct worker_proc *w = stage_run_get_worker(job->runs.runs[i]);

		if (w && worker_proc_get_id(w) == id)
			return w;
	}
	return NULL;
}

static struct stage_run *find_slot(const struct job *job, uint32_t slot)
{
	for (size_t i = 0; i < job->runs.n; i++)
		if (stage_run_get_slot(job->runs.runs[i]) == (int)slot)
			return job->runs.runs[i];
	return NULL;
}

static void on_spawned(void *arg, uint32_t id, int r, pid_t pid)
{
	struct worker_proc *w = find_worker(arg, id);
	struct job *job = arg;

	if (w)
		worker_proc_on_spawned(w, r, pid);
	if (pid > 0 && !job->info.local)
		cpus_add(&job->cpus, pid);
}

static void on_exited(void *arg, uint32_t id, int status)
{
	struct worker_proc *w = find_worker(arg, id);

	if (w)
		worker_proc_on_exited(w, status);
}

static void on_mounted(void *arg, uint32_t slot, int r, const int *fds, size_t n_fds)
{
	struct stage_run *run = find_slot(arg, slot);

	if (run)
		stage_run_on_mounted(run, r, fds, n_fds);
}

static void on_unmounted(void *arg, uint32_t slot, int r)
{
	struct stage_run *run = find_slot(arg, slot);

	if (run)
		stage_run_on_unmounted(run, r);
}

static void on_placed(void *arg, uint32_t slot, bool undone, int r)
{
	struct stage_run *run = find_slot(arg, slot);

	if (run && undone)
		stage_run_on_unplaced(run, r);
	else if (run)
		stage_run_on_placed(run, r);
}

static void on_tier_made(void *arg, uint32_t slot, uint32_t index, int r)
{
	struct stage_run *run = find_slot(arg, slot);

	if (run)
		stage_run_on_tier(run, index, r);
}

static void on_memory(void *arg, uint64_t limit, uint64_t used)
{
	struct job *job = arg;

	job_memory_set(&job->memory, limit, used);
}

static void on_cancel(void *arg)
{
	job_end(arg);
}

static void on_gone(void *arg)
{
	struct job *job = arg;

	job->end.keeper_gone = true;
	if (job->end.done) {
		job->end.on_end(job->end.arg);
		return;
	}
	/* This goes to syslog only, because the keeper writes the site's LogFile. */
	log_error("the keeper is gone: nothing more is staged on this node; ready datasets can "
		  "be read until the job ends");
	job_end(job);
}

static const struct launcher_events launcher_events = {
	.spawned = on_spawned,
	.exited = on_exited,
	.mounted = on_mounted,
	.unmounted = on_unmounted,
	.memory = on_memory,
	.cancel = on_cancel,
	.gone = on_gone,
	.tier_made = on_tier_made,
	.placed = on_placed,
};

int job_launcher_start(struct job *job, int keeper_fd, struct error *err)
{
	if (!job->info.local) {
		job_memory_wait(&job->memory);
		cpus_start(&job->cpus);
		return launcher_keeper_new(&job->launcher, job->loop, keeper_fd, &launcher_events,
					   job, err);
	}
	job_memory_read(&job->memory);
	return launcher_local_new(&job->launcher, job->loop, job->info.worker, &launcher_events,
				  job, err);
}
