/*
 * What all files of a job need, and what needs none of them: its datasets by index, id and name,
 * what is known of a dataset's run, places to mount at, and telling the job of a change.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/config/conf.h"
#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run-internal.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

/* --- a run --- */

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

/* --- the job --- */

struct stage *job_get_stage(const struct job *job, size_t i)
{
	return stage_run_get_stage(job->runs[i]);
}

struct stage *job_find_stage(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job->n_runs; i++)
		if (job_get_stage(job, i)->id == id)
			return job_get_stage(job, i);
	return NULL;
}

struct stage_run *job_find_run(const struct job *job, const char *name)
{
	for (size_t i = 0; i < job->n_runs; i++)
		if (!strcasecmp(job_get_stage(job, i)->dataset->name, name))
			return job->runs[i];
	return NULL;
}

struct conf_expand job_get_expand(const struct job *job)
{
	return (struct conf_expand){
		.user = job->identity.user,
		.group = job->identity.group,
		.node = job->node,
		.array_task = job->array_task,
		.job_id = job->job_id,
	};
}

int job_take_slot(struct job *job)
{
	for (int i = 0; i < RUNDIR_MAX_SLOTS; i++) {
		if (job->slots >> i & 1)
			continue;
		job->slots |= 1ULL << i;
		return i;
	}
	return -ENOSPC;
}

void job_return_slot(struct job *job, int slot)
{
	job->slots &= ~(1ULL << slot);
}

void job_changed(struct job *job, bool urgent)
{
	job->after_change(job, urgent);
}

void job_schedule(struct job *job)
{
	job->start_queued(job);
}
