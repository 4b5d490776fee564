/*
 * Start: the file with the environment is written before anything slow is done (such as asking the
 * name service for groups), because the first step of the job waits for it. Places: links start at
 * once, and so do at most eight mounts, because the check of an image may use hundreds of MiB that
 * are not charged to the job (daemon/engines/image/sqfs-check-run.c). Workers that write data need
 * a place; there is one place for each CPU, but at least two. Datasets that may go to memory wait
 * until the keeper has found out how much memory the job has.
 */
#include "daemon/stagingd/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/memory.h"
#include "common/util/path.h"
#include "daemon/stagingd/budget.h"
#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/env-file.h"
#include "daemon/stagingd/job-launcher.h"
#include "daemon/stagingd/job-load.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/job-memory.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/job-metrics.h"

#define MIN_WRITERS 2 /* with two places, one source that hangs does not stop the others */
#define MAX_WRITERS 8
#define MAX_MOUNTING 8

/* --- starting queued datasets --- */

static size_t count_busy(const struct job *job, bool (*of_kind)(const struct stage_run *run))
{
	size_t n = 0;

	for (size_t i = 0; i < job->runs.n; i++)
		if (stage_run_is_busy(job->runs.runs[i]) && of_kind(job->runs.runs[i]))
			n++;
	return n;
}

/* Chooses one writer for each CPU that this process may use. These are the job's CPUs as soon as
 * they are known (daemon/stagingd/cpus.h). */
static size_t choose_max_writers(void)
{
	size_t n = memory_count_cpus();

	if (n < MIN_WRITERS)
		return MIN_WRITERS;
	return n > MAX_WRITERS ? MAX_WRITERS : n;
}

static void start_queued(struct job *job)
{
	size_t writers = count_busy(job, stage_run_is_writer), max_writers = choose_max_writers();
	size_t mounting = count_busy(job, stage_run_is_server);

	if (job->end.begun || !job->launcher)
		return;
	for (size_t i = 0; i < job->runs.n; i++) {
		struct stage_run *run = job->runs.runs[i];

		if (stage_run_get_stage(run)->state != STAGE_QUEUED ||
		    !stage_run_get_stage(run)->rule ||
		    (stage_run_wants_memory(run) && !job->memory.known))
			continue;
		if (job_keys_hold(&job->keys, run))
			continue;
		if (stage_run_is_writer(run) && writers++ >= max_writers)
			continue;
		if (stage_run_is_server(run) && mounting++ >= MAX_MOUNTING)
			continue;
		stage_run_start(run);
	}
	job_memory_tell_servers(&job->memory);
}

static void after_change(struct job *job, bool urgent)
{
	if (urgent) {
		job_metrics_look(&job->metrics);
		job_keys_look(&job->keys);
	}
	if (job->on_change)
		job->on_change(job->arg, urgent);
	job_end_check(job);
}

/* --- requests of clients --- */

static bool is_over(const struct stage_run *run)
{
	enum stage_state state = stage_run_get_stage(run)->state;

	return (state == STAGE_RELEASED || state == STAGE_FAILED) && !stage_run_is_busy(run);
}

/* Makes sure that the name is free. The name of a released or failed dataset can be used again. A
 * name that was derived from the source gets a number if it is in use. *oldp: the run that had the
 * name, or NULL. */
static int take_name(struct job *job, struct dataset *d, struct stage_run **oldp, struct error *err)
{
	char base[DATASET_NAME_SIZE];
	struct stage_run *run = job_runs_find(&job->runs, d->name);

	strcpy(base, d->name);
	for (unsigned i = 2; run && !is_over(run) && !d->name_given && i < 1000; i++) {
		snprintf(d->name, sizeof(d->name), "%.28s_%u", base, i);
		run = job_runs_find(&job->runs, d->name);
	}
	if (run && !is_over(run))
		return error_exit(err, STAGE_EXIT_USAGE, EEXIST,
				  "there is a dataset %s already; give another name or release it",
				  d->name);
	*oldp = run;
	return 0;
}

/* Returns a dataset that ended long ago if the list is full; else NULL. */
static struct stage_run *find_room(const struct job *job)
{
	for (size_t i = 0; i < job->runs.n && job->runs.n >= JOB_MAX_RECORDS; i++)
		if (job_runs_get_stage(&job->runs, i)->state == STAGE_RELEASED &&
		    is_over(job->runs.runs[i]))
			return job->runs.runs[i];
	return NULL;
}

/* Adds it to the list, if it is admitted. */
static int admit_new(struct job *job, struct dataset *d, struct stage_run **runp, struct error *err)
{
	int r = job_load_dataset(job, d, runp, err);

	if (r < 0)
		return r;
	r = job_load_admit(job, *runp, err);
	if (r < 0) {
		job_runs_remove(&job->runs, *runp);
		stage_run_free(*runp);
	}
	return r;
}

/* The record of the old one stays if the new one is refused, except where all places are taken. */
static int add_dataset(struct job *job, struct dataset *d, const char **namep, struct error *err)
{
	struct stage_run *run, *old = NULL;
	size_t place = 0;
	bool is_full;
	int r;

	r = take_name(job, d, &old, err);
	if (r < 0)
		return r;
	is_full = job->runs.n >= JOB_MAX_RECORDS;
	old = old ?: find_room(job);
	if (old)
		place = job_runs_remove(&job->runs, old);
	if (is_full) {
		stage_run_free(old); /* the new one needs its slot */
		old = NULL;
	}
	r = admit_new(job, d, &run, err);
	if (r < 0 && old)
		job_runs_put_back(&job->runs, old, place);
	if (r < 0)
		return r;
	stage_run_free(old);
	r = env_file_write(&job->info, &job->runs, err);
	if (r < 0) {
		log_warning("%s", err->text);
		*err = (struct error)ERROR_INIT;
	}
	*namep = stage_run_get_stage(run)->dataset->name;
	return 0;
}

int job_add(struct job *job, const char *item, const char **namep, struct error *err)
{
	struct dataset_list list = { 0 };
	const char *reason;
	int r;

	if (job->end.begun) {
		(void)job_end_get_reason(job, &reason);
		return error_exit(err, STAGE_EXIT_NO_STAGING, ESHUTDOWN, "%s", reason);
	}
	r = dataset_list_from_string(&list, item, err);
	if (r < 0) {
		err->exit_code = STAGE_EXIT_USAGE;
		return r;
	}
	if (list.n_items != 1)
		r = error_exit(err, STAGE_EXIT_USAGE, EINVAL, "one item at a time, this is %zu",
			       list.n_items);
	else
		r = add_dataset(job, &list.items[0], namep, err);
	dataset_list_deinit(&list);
	if (r < 0)
		return r;
	job_changed(job, true);
	job_schedule(job);
	return 0;
}

void job_release(struct job *job, struct stage_run *run)
{
	stage_run_cancel(run, STAGE_EXIT_FAILED, "released");
	job_schedule(job);
}

/* --- life of the job --- */

static void on_memory_known(void *arg)
{
	struct job *job = arg;

	if (!job->info.local)
		cpus_look(&job->cpus);
	job_schedule(job);
}

static void on_over(void *arg)
{
	job_end_with_keeper(arg);
}

/* Gives each part pointers to the parts that it needs. */
static void init_parts(struct job *job)
{
	job_runs_init(&job->runs);
	job->memory = (struct job_memory){ .loop = job->loop,
					   .info = &job->info,
					   .runs = &job->runs,
					   .on_known = on_memory_known,
					   .arg = job };
	job_memory_init(&job->memory);
	job->grants = (struct grants){ .info = &job->info, .memory = &job->memory };
	job->keys = (struct job_keys){ .info = &job->info, .runs = &job->runs, .end = &job->end };
	job->metrics = (struct job_metrics){ .info = &job->info,
					     .runs = &job->runs,
					     .end = &job->end };
	job->cpus = (struct cpus){ .loop = job->loop,
				   .job_id = job->info.job_id,
				   .runs = &job->runs };
	cpus_init(&job->cpus);
	job->over = (struct job_over){
		.loop = job->loop, .info = &job->info, .on_over = on_over, .arg = job
	};
	job_over_init(&job->over);
	job_end_init(job);
}

int job_new(struct job **jobp, struct loop *loop, const struct job_options *options, int keeper_fd,
	    struct error *err)
{
	_cleanup_(job_freep) struct job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return error_set(err, ENOMEM, "out of memory");
	job->loop = loop;
	job->after_change = after_change;
	job->start_queued = start_queued;
	r = job_info_init(&job->info, options, err);
	init_parts(job);
	if (r < 0)
		return r;
	if (budget_new(&job->grants.budget) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = job_launcher_start(job, keeper_fd, err);
	if (r < 0)
		return r;
	job->metrics.launcher = job->launcher;
	*jobp = steal_ptr(job);
	return 0;
}

void job_free(struct job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->runs.n; i++)
		stage_run_free(job->runs.runs[i]);
	job_memory_stop(&job->memory);
	loop_timer_cancel(&job->end.timer);
	cpus_deinit(&job->cpus);
	job_over_stop(&job->over);
	job_keys_deinit(&job->keys);
	launcher_free(job->launcher);
	budget_free(job->grants.budget);
	job_info_deinit(&job->info);
	free(job);
}

static void refuse(struct job *job, struct stage_run *run, const struct error *err)
{
	struct stage *s = stage_run_get_stage(run);

	s->cause = cause_find(STAGE_EV_REFUSED, error_to_exit(err), 0);
	stage_set_failure(s, error_to_exit(err), err->text);
	stage_apply(s, STAGE_EV_REFUSED, loop_get_time(job->loop), err->text);
}

int job_start(struct job *job, int spec_fd, struct error *errp)
{
	struct error err = ERROR_INIT;
	int r;

	r = job_load_conf(job, job->info.conf_path);
	if (r < 0)
		return error_errno(errp, -r, "configuration");
	job_load_spec(job, spec_fd);
	if (env_file_write(&job->info, &job->runs, &err) < 0)
		log_error("%s", err.text);
	r = identity_init(&job->info.identity);
	if (r < 0)
		return error_errno(errp, -r, "user and groups");
	job_load_user(job);
	for (size_t i = 0; i < job->runs.n; i++) {
		err = (struct error)ERROR_INIT;
		if (job_load_admit(job, job->runs.runs[i], &err) < 0)
			refuse(job, job->runs.runs[i], &err);
	}
	job_changed(job, true);
	job_schedule(job);
	if (!job->info.local)
		job_over_start(&job->over);
	return 0;
}
