/*
 * With a keeper, ready datasets stay, because tasks may read them until they end; then the keeper
 * removes them. Without a keeper, everything is released here. If stagingd has reported to the
 * keeper that the job is over, it waits until the keeper ends it. If it ended earlier, the keeper
 * would count it as crashed.
 */
#include "daemon/stagingd/job-end.h"

#include "common/util/log.h"
#include "daemon/stagingd/async.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/manifest-cleanup.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

#define KEEPER_END_MS 4000 /* the keeper waits this long for stagingd to end */

static void finish(struct job *job)
{
	if (job->end.done)
		return;
	job->end.done = true;
	loop_timer_cancel(&job->end.timer);
	job_metrics_look(&job->metrics);
	job_metrics_tell(&job->metrics);
	if (job->end.with_keeper && !job->end.keeper_gone)
		job->launcher->ops->end(job->launcher);
	else
		job->end.on_end(job->end.arg);
}

static int empty_rundir(void *rundir, struct error *err)
{
	return manifest_cleanup_empty_rundir(rundir, err);
}

static void on_removed(void *arg, int r, const struct error *err)
{
	if (r < 0)
		log_warning("clean-up: %s", err->text);
	finish(arg);
}

void job_end_check(struct job *job)
{
	struct async *async;

	if (!job->end.begun || job->end.cancelling || job->end.done || job->end.removing)
		return;
	for (size_t i = 0; i < job->runs.n; i++)
		if (stage_run_is_busy(job->runs.runs[i]))
			return;
	if (!job->info.local) {
		finish(job);
		return;
	}
	job->end.removing = true;
	if (async_start(&async, job->loop, empty_rundir, job->info.rundir,
			job->info.conf->cleanup_timeout_ms, on_removed, job) < 0)
		finish(job);
}

static void on_end_late(void *arg)
{
	struct job *job = arg;

	log_warning("ending before everything is released; the manifest lists the rest");
	finish(job);
}

int job_end_get_reason(const struct job *job, const char **textp)
{
	if (job->end.keeper_gone) {
		*textp = "the keeper of this job has died: nothing more is staged on this node, "
			 "and ready datasets "
			 "can be read until the job ends; submit the job again for the rest";
		return STAGE_EXIT_NO_STAGING;
	}
	*textp = "the job is ending";
	return STAGE_EXIT_INTERRUPTED;
}

void job_end(struct job *job)
{
	const char *reason;
	int code;

	if (job->end.begun)
		return;
	job->end.begun = true;
	log_info("ending");
	code = job_end_get_reason(job, &reason);
	job_memory_stop(&job->memory);
	job_over_stop(&job->over);
	loop_timer_set(job->loop, &job->end.timer,
		       job->info.local ? 2 * job->info.conf->cleanup_timeout_ms + KEEPER_END_MS
				       : KEEPER_END_MS);
	job->end.cancelling = true;
	for (size_t i = 0; i < job->runs.n; i++) {
		struct stage_run *run = job->runs.runs[i];

		if (job->info.local || stage_run_get_stage(run)->state != STAGE_READY)
			stage_run_cancel(run, code, reason);
	}
	job->end.cancelling = false;
	job_end_check(job);
}

void job_end_with_keeper(struct job *job)
{
	if (job->end.begun)
		return;
	job->end.with_keeper = true;
	job_end(job);
}

void job_end_init(struct job *job)
{
	loop_timer_init(&job->end.timer, on_end_late, job);
}
