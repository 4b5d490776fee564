/*
 * Starting: the environment is written before anything slow happens (the name service is asked for
 * groups after it), because the first step of the job waits for it.
 *
 * Places: links start at once; mounts, too, eight of them: what an image is checked with is no
 * memory of the job's, and may be hundreds of MiB by the image's word
 * (daemon/engines/image/sqfs-check-run.c). What moves data takes a place for each CPU, two at
 * least, and what may go to memory waits until the keeper has found out how much of it the job has.
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
#include "daemon/stagingd/servers.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/job-metrics.h"

#define MIN_WRITERS 2 /* a source that hangs does not hold up the others */
#define MAX_WRITERS 8
#define MAX_MOUNTING 8

/* --- starting what may start --- */

static size_t count_busy(const struct job *job, bool (*of_kind)(const struct stage_run *run))
{
	size_t n = 0;

	for (size_t i = 0; i < job->n_runs; i++)
		if (stage_run_is_busy(job->runs[i]) && of_kind(job->runs[i]))
			n++;
	return n;
}

/* As many as we have CPUs: the job's, as soon as these are known (daemon/stagingd/cpus.h). */
static size_t choose_max_writers(void)
{
	size_t n = memory_count_cpus();

	return n < MIN_WRITERS ? MIN_WRITERS : n > MAX_WRITERS ? MAX_WRITERS : n;
}

static void start_queued(struct job *job)
{
	size_t writers = count_busy(job, stage_run_is_writer), max_writers = choose_max_writers();
	size_t mounting = count_busy(job, stage_run_is_server);

	if (job->end.begun || !job->launcher)
		return;
	for (size_t i = 0; i < job->n_runs; i++) {
		struct stage_run *run = job->runs[i];

		if (stage_run_get_stage(run)->state != STAGE_QUEUED ||
		    !stage_run_get_stage(run)->rule ||
		    (stage_run_wants_memory(run) && !job->memory_known))
			continue;
		if (job_keys_hold(job, run))
			continue;
		if (stage_run_is_writer(run) && writers++ >= max_writers)
			continue;
		if (stage_run_is_server(run) && mounting++ >= MAX_MOUNTING)
			continue;
		stage_run_start(run);
	}
	servers_tell(job);
}

static void after_change(struct job *job, bool urgent)
{
	if (urgent) {
		job_metrics_look(job);
		job_keys_look(job);
	}
	if (job->on_change)
		job->on_change(job->arg, urgent);
	job_end_check(job);
}

/* --- what clients ask for --- */

static void drop_run(struct job *job, struct stage_run *run)
{
	for (size_t i = 0; i < job->n_runs; i++) {
		if (job->runs[i] != run)
			continue;
		stage_run_free(run);
		memmove(job->runs + i, job->runs + i + 1,
			(--job->n_runs - i) * sizeof(job->runs[0]));
		return;
	}
}

static bool is_over(const struct stage_run *run)
{
	enum stage_state state = stage_run_get_stage(run)->state;

	return (state == STAGE_RELEASED || state == STAGE_FAILED) && !stage_run_is_busy(run);
}

/* A name that was released or has failed is free again; one made from the source gets a number. */
static int take_name(struct job *job, struct dataset *d, struct error *err)
{
	char base[DATASET_NAME_SIZE];
	struct stage_run *run = job_find_run(job, d->name);

	strcpy(base, d->name);
	for (unsigned i = 2; run && !is_over(run) && !d->name_given && i < 1000; i++) {
		snprintf(d->name, sizeof(d->name), "%.28s_%u", base, i);
		run = job_find_run(job, d->name);
	}
	if (!run)
		return 0;
	if (!is_over(run))
		return error_exit(err, STAGE_EXIT_USAGE, EEXIST,
				  "there is a dataset %s already; give another name or release it",
				  d->name);
	drop_run(job, run);
	return 0;
}

/* One that ended long ago makes room for a new one. */
static void make_room(struct job *job)
{
	for (size_t i = 0; i < job->n_runs && job->n_runs >= JOB_MAX_RECORDS; i++)
		if (job_get_stage(job, i)->state == STAGE_RELEASED && is_over(job->runs[i]))
			drop_run(job, job->runs[i--]);
}

static int add_dataset(struct job *job, struct dataset *d, const char **namep, struct error *err)
{
	struct stage_run *run;
	int r;

	r = take_name(job, d, err);
	if (r < 0)
		return r;
	make_room(job);
	r = job_load_dataset(job, d, &run, err);
	if (r < 0)
		return r;
	r = job_load_admit(job, run, err);
	if (r < 0) {
		drop_run(job, run);
		return r;
	}
	r = env_file_write(job, err);
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

/* --- its life --- */

static char *find_worker_program(void)
{
	static const char name[] = "stage-worker";
	char self[4096], *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - sizeof(name));

	if (n > 0) {
		self[n] = '\0';
		strcpy((char *)path_base(self), name);
		if (access(self, X_OK) == 0)
			return strdup(self);
	}
	return asprintf(&path, STAGE_LIBEXEC_DIR "/%s", name) < 0 ? NULL : path;
}

int job_new(struct job **jobp, struct loop *loop, const struct job_options *options, int keeper_fd,
	    struct error *err)
{
	_cleanup_(job_freep) struct job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return error_set(err, ENOMEM, "out of memory");
	job->loop = loop;
	job->local = options->local;
	job->job_id = options->job_id;
	job->next_id = job->next_worker_id = 1;
	job->after_change = after_change;
	job->start_queued = start_queued;
	job_launcher_init(job);
	job_end_init(job);
	cpus_init(&job->cpus, job);
	job_over_init(&job->over, job);
	job->rundir = strdup(options->rundir);
	job->conf_path = options->conf ? strdup(options->conf) : NULL;
	job->worker = options->worker ? strdup(options->worker) : find_worker_program();
	job->node = strdup("");
	job->partition = strdup("");
	job->array_task = strdup("0");
	if (!job->rundir || !job->worker || !job->node || !job->partition || !job->array_task ||
	    budget_new(&job->budget) < 0 ||
	    asprintf(&job->data_dir, "%s/" RUNDIR_DATA, job->rundir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = job_launcher_start(job, keeper_fd, err);
	if (r < 0)
		return r;
	*jobp = steal_ptr(job);
	return 0;
}

void job_free(struct job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->n_runs; i++)
		stage_run_free(job->runs[i]);
	loop_timer_cancel(&job->memory_timer);
	loop_timer_cancel(&job->end.timer);
	cpus_deinit(&job->cpus);
	job_over_deinit(&job->over);
	job_keys_deinit(job);
	launcher_free(job->launcher);
	budget_free(job->budget);
	conf_free(job->conf);
	identity_deinit(&job->identity);
	free(job->rundir);
	free(job->data_dir);
	free(job->worker);
	free(job->conf_path);
	free(job->node);
	free(job->partition);
	free(job->array_task);
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

	r = job_load_conf(job, job->conf_path);
	if (r < 0)
		return error_errno(errp, -r, "configuration");
	job_load_spec(job, spec_fd);
	if (env_file_write(job, &err) < 0)
		log_error("%s", err.text);
	r = identity_init(&job->identity);
	if (r < 0)
		return error_errno(errp, -r, "user and groups");
	job_load_user(job);
	for (size_t i = 0; i < job->n_runs; i++) {
		err = (struct error)ERROR_INIT;
		if (job_load_admit(job, job->runs[i], &err) < 0)
			refuse(job, job->runs[i], &err);
	}
	job_changed(job, true);
	job_schedule(job);
	if (!job->local)
		job_over_start(&job->over);
	return 0;
}
