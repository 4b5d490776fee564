/*
 * A run does at most one thing at a time: it has a worker, or it does one step of its removal.
 * advance() is called whenever a step has ended, and begins the next one:
 *
 *   the worker ends (cancel, SIGKILL)
 *   -> its bind mount (perhaps of kept data) and its FUSE mount are unmounted
 *   -> the manifest is released
 *   -> released, failed, or one more worker that makes the link of onfail=source
 *
 * Each step has a deadline: a worker has its own timer (worker-proc), and unmounting and releasing
 * have the site's CleanupTimeout. So every dataset ends and every waiting client gets an answer.
 */
#include "daemon/stagingd/stage-run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/suffix.h"
#include "daemon/stagingd/budget.h"
#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/async.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/stage-run-internal.h"
#include "daemon/stagingd/manifest-cleanup.h"
#include "daemon/stagingd/worker-task.h"
#include "daemon/stagingd/worker-proc.h"

/* added to limits that workers check, too, because a worker's report is more precise */
#define SLACK_MS 1000
#define CLEANUP_MS 60000 /* used if no configuration could be loaded */

static void advance(struct stage_run *run);

/* Guesses the kind from the name. The worker looks at the content, and is restarted if the guess
 * was wrong. */
static bool looks_like_image(const char *source)
{
	const struct suffix *s = suffix_find(source, strlen(source));

	return s && s->kind == SUFFIX_IMAGE;
}

static enum keeper_class guess_class(const struct dataset *d)
{
	bool in_place = !d->dest || !strcmp(d->dest, "auto") || !strcmp(d->dest, "source");

	if (!in_place || d->hydrate)
		return KEEPER_CLASS_WRITER;
	if (d->method == DATASET_METHOD_MOUNT ||
	    (d->method == DATASET_METHOD_AUTO && !d->is_set && looks_like_image(d->source)))
		return KEEPER_CLASS_SERVER;
	return KEEPER_CLASS_WRITER;
}

/* --- timers --- */

static uint64_t get_stall_ms(const struct stage_run *run)
{
	uint64_t own = run->stage->dataset->stall_ms;

	return own ? own : run->job->info.conf->stall_timeout_ms;
}

void stage_run_set_stall(struct stage_run *run)
{
	uint64_t stall = get_stall_ms(run);

	if (stall && run->worker && !run->ending && run->stage->state != STAGE_READY)
		loop_timer_set(run->job->loop, &run->stall, stall + SLACK_MS);
}

void stage_run_set_mount(struct stage_run *run)
{
	loop_timer_set(run->job->loop, &run->mount, run->job->info.conf->mount_timeout_ms);
}

void stage_run_stop_clock(struct stage_run *run)
{
	loop_timer_cancel(&run->limit);
	loop_timer_cancel(&run->stall);
	loop_timer_cancel(&run->mount);
}

/* --- ends of a run --- */

static void begin_end(struct stage_run *run)
{
	const struct conf *conf = run->job->info.conf;

	run->ending = true;
	stage_run_stop_clock(run);
	loop_timer_set(run->job->loop, &run->cleanup,
		       (conf ? conf->cleanup_timeout_ms : CLEANUP_MS) + WORKER_GRACE_MS +
			       WORKER_STUCK_MS);
	job_changed(run->job, true);
	advance(run);
}

void stage_run_fail(struct stage_run *run, enum stage_event ev, enum stage_exit code,
		    const char *reason)
{
	if (run->ending)
		return;
	run->stage->cause = cause_find(ev, code, run->stage->errnum);
	stage_set_failure(run->stage, code, reason);
	if (stage_apply(run->stage, ev, stage_run_get_now(run), reason))
		begin_end(run);
}

static void on_limit(void *arg)
{
	struct stage_run *run = arg;
	char text[160], ms[PARSE_DURATION_TEXT];

	snprintf(text, sizeof(text), "not ready within timeout=%s; raise it, or stage less",
		 duration_to_string(run->stage->dataset->timeout_ms, ms));
	stage_run_fail(run, STAGE_EV_TIMEOUT, STAGE_EXIT_TIMEOUT, text);
}

static void on_stall(void *arg)
{
	struct stage_run *run = arg;
	char text[160], ms[PARSE_DURATION_TEXT];

	snprintf(text, sizeof(text),
		 "no progress for %s, the source may hang; raise stall= if it is "
		 "only slow, else ask the site about that file system or server",
		 duration_to_string(get_stall_ms(run), ms));
	stage_run_fail(run, STAGE_EV_TIMEOUT, STAGE_EXIT_TIMEOUT, text);
}

static void on_mount_late(void *arg)
{
	struct stage_run *run = arg;
	char text[160], ms[PARSE_DURATION_TEXT];

	snprintf(text, sizeof(text),
		 "the mount has not answered within %s (MountTimeout); try again, "
		 "or method=extract",
		 duration_to_string(run->job->info.conf->mount_timeout_ms, ms));
	/* A timeout is not an event of a ready dataset; its worker mounts after `ready`. */
	stage_run_fail(run, run->stage->state == STAGE_READY ? STAGE_EV_ERROR : STAGE_EV_TIMEOUT,
		       STAGE_EXIT_TIMEOUT, text);
}

void stage_run_finish(struct stage_run *run, enum stage_event ev, const char *detail)
{
	run->ending = run->linking = false;
	loop_timer_cancel(&run->cleanup);
	budget_return(run->job->grants.budget, run->stage->id);
	stage_apply(run->stage, ev, stage_run_get_now(run), detail);
	run->stage->pid = 0;
	job_changed(run->job, true);
	job_schedule(run->job);
}

/* Ends the clean-up with a failure. The manifest lists what could not be removed, and a warning
 * reports it. */
static void give_up(struct stage_run *run, const char *why)
{
	char text[ERROR_MAX_SIZE];

	snprintf(text, sizeof(text), "could not be removed: %.900s", why);
	stage_set_stuck(run->stage, text);
	async_abandon(run->release);
	run->release = NULL;
	worker_proc_free(run->worker);
	run->worker = NULL;
	stage_run_finish(run, STAGE_EV_STUCK, why);
}

static void on_cleanup_late(void *arg)
{
	give_up(arg, "not done within CleanupTimeout");
}

/* --- starting a worker --- */

static const struct worker_events worker_events;

static int launch(struct stage_run *run, const char *mode, struct error *err)
{
	struct job *job = run->job;
	_cleanup_(kv_freep) struct kv *task = worker_task_new(job, run->stage, mode,
							      (unsigned)run->slot);
	_cleanup_(fd_closep) int keys_fd = -1;

	if (!task)
		return error_set(err, ENOMEM, "out of memory");
	if (!strcmp(mode, "stage"))
		keys_fd = job_keys_to_fd(&job->keys, run);
	run->moved_bytes = run->moved_files = 0;
	run->stays = false;
	return worker_proc_new(&run->worker, job->loop, job->launcher, job->runs.next_worker_id++,
			       run->class, task, keys_fd, &worker_events, run, err);
}

void stage_run_start(struct stage_run *run)
{
	const struct dataset *d = run->stage->dataset;
	struct error err = ERROR_INIT;

	if (!stage_apply(run->stage, STAGE_EV_START, stage_run_get_now(run), NULL))
		return;
	job_changed(run->job, true);
	if (launch(run, "stage", &err) < 0) {
		stage_run_fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, err.text);
		return;
	}
	if (d->timeout_ms && !loop_timer_is_set(&run->limit))
		loop_timer_set(run->job->loop, &run->limit, d->timeout_ms + SLACK_MS);
	stage_run_set_stall(run);
}

/* --- removal --- */

static bool may_link(const struct stage_run *run)
{
	const struct stage *s = run->stage;

	return s->state == STAGE_UNDOING && !run->linked && !run->job->end.begun &&
	       s->dataset->onfail == DATASET_ONFAIL_SOURCE &&
	       (s->dataset->method == DATASET_METHOD_AUTO ||
		s->dataset->method == DATASET_METHOD_COPY) &&
	       (!s->method[0] || !strcmp(s->method, "copy") || !strcmp(s->method, "link"));
}

static bool start_link(struct stage_run *run)
{
	struct error err = ERROR_INIT;

	run->linked = true;
	if (launch(run, "source", &err) < 0) {
		log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "onfail=source: %s",
			  err.text);
		return false;
	}
	run->linking = true;
	return true;
}

static void on_released(void *arg, int r, const struct error *err)
{
	struct stage_run *run = arg;

	run->release = NULL;
	if (r < 0)
		give_up(run, err->text);
	else if (!may_link(run) || !start_link(run))
		stage_run_finish(run, STAGE_EV_GONE, NULL);
}

static void start_release(struct stage_run *run)
{
	struct job *job = run->job;
	char path[4096];
	int r;

	snprintf(path, sizeof(path), "%s/" RUNDIR_MANIFEST ".%s", job->info.rundir,
		 run->stage->dataset->name);
	r = manifest_cleanup_start(&run->release, job->loop, path,
				   job->info.conf ? job->info.conf->cleanup_timeout_ms : CLEANUP_MS,
				   on_released, run);
	if (r < 0)
		give_up(run, strerror(-r));
}

static void advance(struct stage_run *run)
{
	struct launcher *l = run->job->launcher;

	if (!run->ending)
		return;
	if (run->worker) {
		worker_proc_cancel(run->worker);
	} else if (run->placed) {
		if (!run->unplacing)
			l->ops->unplace(l, (uint32_t)run->slot, run->stage->dataset->name);
		run->unplacing = true;
	} else if (run->mounted && l->mounts) {
		if (!run->unmounting)
			l->ops->unmount(l, (uint32_t)run->slot);
		run->unmounting = true;
	} else if (!run->release) {
		start_release(run);
	}
}

void stage_run_on_unmounted(struct stage_run *run, int r)
{
	if (r < 0)
		log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "unmount m/%d: %s",
			  run->slot, strerror(-r));
	if (!run->unmounting)
		return;
	run->mounted = run->unmounting = false;
	advance(run);
}

void stage_run_on_unplaced(struct stage_run *run, int r)
{
	if (r < 0)
		log_print(LOG_LEVEL_WARNING, run->stage->dataset->name,
			  "its path stays mounted: %s", strerror(-r));
	if (!run->unplacing)
		return;
	run->placed = run->unplacing = false;
	advance(run);
}

void stage_run_cancel(struct stage_run *run, int code, const char *reason)
{
	struct stage *s = run->stage;
	bool queued = s->state == STAGE_QUEUED;

	if (s->state == STAGE_RELEASING || s->state == STAGE_RELEASED || s->state == STAGE_FAILED)
		return;
	stage_set_failure(s, (enum stage_exit)code, reason);
	stage_apply(s, STAGE_EV_CANCEL, stage_run_get_now(run), reason);
	if (queued)
		job_changed(run->job, true);
	else
		begin_end(run);
}

/* --- the worker's events --- */

static void on_started(void *arg, pid_t pid)
{
	struct stage_run *run = arg;

	run->stage->pid = pid;
	run->stage->seq++;
	job_changed(run->job, false);
}

static void forget_worker(struct stage_run *run)
{
	run->worker = NULL;
	run->stage->pid = 0;
	run->stage->seq++;
	job_changed(run->job, false);
}

/* Returns whether the dataset is ready and does not need its worker any more. */
static bool is_complete(const struct stage_run *run)
{
	return run->stage->state == STAGE_READY && !run->stays;
}

/* Unmounts the image whose copy (hydrate) is complete. */
static void unmount_copied(struct stage_run *run)
{
	if (!run->mounted || run->unmounting)
		return;
	run->unmounting = true;
	run->job->launcher->ops->unmount(run->job->launcher, (uint32_t)run->slot);
}

static void on_ended(void *arg, int status, const char *how)
{
	struct stage_run *run = arg;

	forget_worker(run);
	if (run->linking) { /* it ended without `ready`, so its files are removed, too */
		run->linking = false;
		advance(run);
	} else if (run->restarting && !run->ending) {
		stage_run_stop_clock(run);
		stage_apply(run->stage, STAGE_EV_RESTART, stage_run_get_now(run), run->restarting);
		run->restarting = NULL;
		job_schedule(run->job);
	} else if (run->ending) {
		advance(run);
	} else if (is_complete(run)) {
		unmount_copied(run);
	} else {
		stage_run_fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, how);
	}
}

static void on_stuck(void *arg, pid_t pid)
{
	struct stage_run *run = arg;
	char text[128];

	forget_worker(run);
	snprintf(text, sizeof(text), "worker %d hangs in the kernel; its file system may be dead",
		 (int)pid);
	if (run->ending) {
		give_up(run, text);
	} else if (is_complete(run)) {
		log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "after ready: %s", text);
		unmount_copied(run);
	} else {
		stage_run_fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, text);
	}
}

static const struct worker_events worker_events = {
	.started = on_started,
	.message = stage_run_on_message,
	.ended = on_ended,
	.stuck = on_stuck,
};

/* --- life of a run --- */

int stage_run_new(struct stage_run **runp, struct job *job, struct stage *stage)
{
	struct stage_run *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->slot = job_runs_take_slot(&job->runs);
	if (run->slot < 0) {
		free(run);
		return -ENOSPC;
	}
	run->job = job;
	run->stage = stage;
	run->class = guess_class(stage->dataset);
	loop_timer_init(&run->limit, on_limit, run);
	loop_timer_init(&run->stall, on_stall, run);
	loop_timer_init(&run->mount, on_mount_late, run);
	loop_timer_init(&run->cleanup, on_cleanup_late, run);
	stage_keys_init(run);
	*runp = run;
	return 0;
}

void stage_run_free(struct stage_run *run)
{
	if (!run)
		return;
	stage_run_stop_clock(run);
	loop_timer_cancel(&run->cleanup);
	async_abandon(run->release);
	async_abandon(run->tier_async);
	stage_keys_deinit(run);
	worker_proc_free(run->worker);
	tier_dir_deinit(&run->tier);
	job_runs_return_slot(&run->job->runs, run->slot);
	stage_free(run->stage);
	free(run);
}
