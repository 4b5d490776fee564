/*
 * Functions about a run that the other files need, such as the report of a change to the job. This
 * file calls none of those files.
 */
#include <string.h>

#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run-internal.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

struct stage *stage_run_get_stage(const struct stage_run *run)
{
	return run->stage;
}

struct worker_proc *stage_run_get_worker(const struct stage_run *run)
{
	return run->worker;
}

int stage_run_get_slot(const struct stage_run *run)
{
	return run->slot;
}

static bool is_to_memory(const struct dataset *d)
{
	return !d->dest || !strcmp(d->dest, "auto") || !strcmp(d->dest, "shm");
}

bool stage_run_is_writer(const struct stage_run *run)
{
	return run->class == KEEPER_CLASS_WRITER && !run->stays &&
	       run->stage->dataset->method != DATASET_METHOD_LINK;
}

bool stage_run_is_server(const struct stage_run *run)
{
	return run->class == KEEPER_CLASS_SERVER;
}

bool stage_run_serves(const struct stage_run *run)
{
	return stage_run_is_server(run) || run->stays || run->stage->dataset->hydrate;
}

bool stage_run_wants_memory(const struct stage_run *run)
{
	return stage_run_is_writer(run) && is_to_memory(run->stage->dataset);
}

bool stage_run_is_busy(const struct stage_run *run)
{
	return run->ending || (run->worker && run->stage->state != STAGE_READY);
}

uint64_t stage_run_get_now(const struct stage_run *run)
{
	return loop_get_time(run->job->loop);
}

void stage_run_refuse(struct stage_run *run, int errnum, const char *reason)
{
	struct stage *s = run->stage;

	s->errnum = errnum;
	s->cause = cause_find(STAGE_EV_REFUSED, STAGE_EXIT_FAILED, errnum);
	stage_set_failure(s, STAGE_EXIT_FAILED, reason);
	stage_apply(s, STAGE_EV_REFUSED, stage_run_get_now(run), reason);
	job_changed(run->job, true);
}

/* --- messages of a run to its job --- */

void job_changed(struct job *job, bool urgent)
{
	job->after_change(job, urgent);
}

void job_schedule(struct job *job)
{
	job->start_queued(job);
}
