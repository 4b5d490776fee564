/*
 * A run has at most one thing under way at a time: a worker, or one step of taking away. advance()
 * is called whenever something has ended and takes the next step:
 *
 *   the worker ends (cancel, SIGKILL) -> its mount is taken away -> the manifest is released
 *   -> released, failed, or one more worker that makes the link of onfail=source
 *
 * Whatever does not answer meets a timer: the worker its own (worker-proc), unmount and release the
 * site's CleanupTimeout. So every dataset comes to an end and every waiter is answered.
 */
#include "daemon/stage-run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/conf.h"
#include "common/log.h"
#include "common/parse.h"
#include "common/proto.h"
#include "daemon/budget.h"
#include "daemon/chore.h"
#include "daemon/grant.h"
#include "daemon/job.h"
#include "daemon/launcher.h"
#include "daemon/stage.h"
#include "daemon/takedown.h"
#include "daemon/task.h"
#include "daemon/tier-dir.h"
#include "daemon/worker-proc.h"

#define SLACK_MS 1000 /* workers keep the same limits and may say it first, and better */
#define CLEANUP_MS 60000 /* where no configuration could be loaded */

struct stage_run {
	struct job *job;
	struct stage *stage;
	struct worker_proc *worker;
	enum keeper_class class;
	bool class_fixed, restarting;
	int slot;

	struct loop_timer limit, stall;
	uint64_t moved_bytes, moved_files; /* where the stall timer was set last */

	bool ending;      /* releasing or undoing */
	bool linking;     /* the worker makes the link of onfail=source */
	bool linked;      /* it was tried */
	bool stays;       /* ready said so */
	bool mounted, unmounting;
	struct chore *release;
	struct loop_timer cleanup;

	struct tier_dir tier; /* path NULL: none asked for */
	struct chore *tier_chore;
};

static void advance(struct stage_run *run);

/* --- what others ask --- */

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

/* What the name promises; the worker looks at the bytes and is started again if that was wrong. */
static bool looks_like_image(const char *source)
{
	static const char *const endings[] = { ".sqsh", ".sqfs", ".squashfs", ".squash", ".sfs" };
	size_t n = strlen(source);

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		size_t k = strlen(endings[i]);

		if (n > k && !strcasecmp(source + n - k, endings[i]))
			return true;
	}
	return false;
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

bool stage_run_is_writer(const struct stage_run *run)
{
	return run->class == KEEPER_CLASS_WRITER && !run->stays &&
	       run->stage->dataset->method != DATASET_METHOD_LINK;
}

bool stage_run_wants_memory(const struct stage_run *run)
{
	return stage_run_is_writer(run) && is_to_memory(run->stage->dataset);
}

bool stage_run_is_busy(const struct stage_run *run)
{
	return run->ending || (run->worker && run->stage->state != STAGE_READY);
}

/* --- the clock --- */

static uint64_t get_now(const struct stage_run *run)
{
	return loop_get_time(run->job->loop);
}

static uint64_t get_stall_ms(const struct stage_run *run)
{
	uint64_t own = run->stage->dataset->stall_ms;

	return own ? own : run->job->conf->stall_timeout_ms;
}

static void set_stall(struct stage_run *run)
{
	uint64_t stall = get_stall_ms(run);

	if (stall && run->worker && !run->ending && run->stage->state != STAGE_READY)
		loop_timer_set(run->job->loop, &run->stall, stall + SLACK_MS);
}

static void stop_clock(struct stage_run *run)
{
	loop_timer_cancel(&run->limit);
	loop_timer_cancel(&run->stall);
}

/* --- the ways to an end --- */

static void begin_end(struct stage_run *run)
{
	const struct conf *conf = run->job->conf;

	run->ending = true;
	stop_clock(run);
	loop_timer_set(run->job->loop, &run->cleanup,
		       (conf ? conf->cleanup_timeout_ms : CLEANUP_MS) + WORKER_GRACE_MS +
			       WORKER_STUCK_MS);
	job_changed(run->job, true);
	advance(run);
}

static void fail(struct stage_run *run, enum stage_event ev, enum stage_exit code,
		 const char *reason)
{
	if (run->ending)
		return;
	stage_set_failure(run->stage, code, reason);
	if (stage_apply(run->stage, ev, get_now(run), reason))
		begin_end(run);
}

static void on_limit(void *arg)
{
	struct stage_run *run = arg;
	char text[128], ms[PARSE_DURATION_TEXT];

	snprintf(text, sizeof(text), "not ready within timeout=%s",
		 duration_to_string(run->stage->dataset->timeout_ms, ms));
	fail(run, STAGE_EV_TIMEOUT, STAGE_EXIT_TIMEOUT, text);
}

static void on_stall(void *arg)
{
	struct stage_run *run = arg;
	char text[128], ms[PARSE_DURATION_TEXT];

	snprintf(text, sizeof(text), "no progress for %s, the source may hang",
		 duration_to_string(get_stall_ms(run), ms));
	fail(run, STAGE_EV_TIMEOUT, STAGE_EXIT_TIMEOUT, text);
}

static void end_run(struct stage_run *run, enum stage_event ev, const char *detail)
{
	run->ending = run->linking = false;
	loop_timer_cancel(&run->cleanup);
	budget_return(run->job->budget, run->stage->id);
	stage_apply(run->stage, ev, get_now(run), detail);
	run->stage->pid = 0;
	job_changed(run->job, true);
	job_schedule(run->job);
}

/* What could not be taken away stands in the manifest, and in the warning. */
static void give_up(struct stage_run *run, const char *why)
{
	char text[ERROR_MAX_SIZE];

	snprintf(text, sizeof(text), "could not be taken away: %.900s", why);
	stage_set_warning(run->stage, text);
	stage_set_failure(run->stage, STAGE_EXIT_FAILED, text);
	chore_abandon(run->release);
	run->release = NULL;
	worker_proc_free(run->worker);
	run->worker = NULL;
	end_run(run, STAGE_EV_STUCK, why);
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
	_cleanup_(kv_freep) struct kv *task =
		task_new(job, run->stage, mode, (unsigned)run->slot);

	if (!task)
		return error_set(err, ENOMEM, "out of memory");
	run->moved_bytes = run->moved_files = 0;
	run->stays = false;
	return worker_proc_new(&run->worker, job->loop, job->launcher, job->next_worker_id++,
			       run->class, task, &worker_events, run, err);
}

void stage_run_start(struct stage_run *run)
{
	const struct dataset *d = run->stage->dataset;
	struct error err = ERROR_INIT;

	if (!stage_apply(run->stage, STAGE_EV_START, get_now(run), NULL))
		return;
	job_changed(run->job, true);
	if (launch(run, "stage", &err) < 0) {
		fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, err.text);
		return;
	}
	if (d->timeout_ms && !loop_timer_is_set(&run->limit))
		loop_timer_set(run->job->loop, &run->limit, d->timeout_ms + SLACK_MS);
	set_stall(run);
}

/* --- taking away --- */

static bool may_link(const struct stage_run *run)
{
	const struct stage *s = run->stage;

	return s->state == STAGE_UNDOING && !run->linked && !run->job->ending &&
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
		end_run(run, STAGE_EV_GONE, NULL);
}

static void start_release(struct stage_run *run)
{
	struct job *job = run->job;
	char path[4096];
	int r;

	snprintf(path, sizeof(path), "%s/" RUNDIR_MANIFEST ".%s", job->rundir,
		 run->stage->dataset->name);
	r = takedown_start(&run->release, job->loop, path,
			   job->conf ? job->conf->cleanup_timeout_ms : CLEANUP_MS, on_released,
			   run);
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

void stage_run_cancel(struct stage_run *run, int code, const char *reason)
{
	struct stage *s = run->stage;
	bool queued = s->state == STAGE_QUEUED;

	if (s->state == STAGE_RELEASING || s->state == STAGE_RELEASED || s->state == STAGE_FAILED)
		return;
	stage_set_failure(s, (enum stage_exit)code, reason);
	stage_apply(s, STAGE_EV_CANCEL, get_now(run), reason);
	if (queued)
		job_changed(run->job, true);
	else
		begin_end(run);
}

/* --- what the worker says --- */

static bool on_facts(struct stage_run *run, const struct kv *kv)
{
	struct stage *s = run->stage;
	enum keeper_class class;

	stage_set_facts(s, kv);
	class = !strcmp(s->method, "mount") && !strcmp(s->tier, "source") ? KEEPER_CLASS_SERVER
									  : KEEPER_CLASS_WRITER;
	if (s->state == STAGE_PROBING && run->job->launcher->keeper && !run->class_fixed &&
	    s->dataset->method != DATASET_METHOD_LINK && strcmp(s->method, "link") &&
	    class != run->class) {
		run->class = class;
		run->class_fixed = run->restarting = true;
		worker_proc_cancel(run->worker);
		return true;
	}
	set_stall(run);
	stage_apply(s, STAGE_EV_FACTS, get_now(run), s->plan);
	job_changed(run->job, true);
	return true;
}

static bool on_reserve(struct stage_run *run, const struct kv *kv)
{
	const char *tier = kv_get_or_empty(kv, "tier");
	_cleanup_(kv_freep) struct kv *answer = NULL;

	answer = grant_ask(run->job, run->stage, tier, kv_get_u64(kv, "bytes", 0),
			   kv_get_u64(kv, "files", 0));
	worker_proc_send(run->worker, answer, NULL, 0);
	return true;
}

static void answer_tier(struct stage_run *run, const char *path, const char *text)
{
	_cleanup_(kv_freep) struct kv *answer = proto_new(PROTO_OP_TIERDIR);

	free(run->tier.path);
	run->tier.path = NULL;
	if (!run->worker)
		return;
	if (answer && path)
		kv_set(answer, "path", path);
	else if (answer)
		kv_set(answer, "text", text);
	worker_proc_send(run->worker, answer, NULL, 0);
}

static void on_tier_made(struct stage_run *run, int r, const char *text)
{
	_cleanup_(freep) char *path = steal_ptr(run->tier.path);

	if (path)
		answer_tier(run, r < 0 ? NULL : path, text);
}

static void on_tier_chore(void *arg, int r, const struct error *err)
{
	struct stage_run *run = arg;

	run->tier_chore = NULL;
	on_tier_made(run, r, err->text);
}

void stage_run_on_tier(struct stage_run *run, uint32_t index, int r)
{
	if (run->tier.path && run->tier.by_keeper && run->tier.index == index)
		on_tier_made(run, r, r < 0 ? strerror(-r) : "");
}

static bool on_tier(struct stage_run *run, const struct kv *kv)
{
	struct job *job = run->job;
	struct tier_dir_order order = { .rundir = job->rundir };
	struct error err = ERROR_INIT;
	int r;

	if (run->tier.path || run->tier_chore)
		return false; /* one at a time */
	if (tier_dir_find(job, kv_get_or_empty(kv, "tier"), &run->tier, &err) < 0) {
		answer_tier(run, NULL, err.text);
		return true;
	}
	if (run->tier.by_keeper) {
		job->launcher->ops->make_tier(job->launcher, run->tier.index);
		return true;
	}
	order.path = run->tier.path;
	r = chore_start(&run->tier_chore, job->loop, tier_dir_make, &order,
			job->conf->cleanup_timeout_ms, on_tier_chore, run);
	if (r < 0)
		answer_tier(run, NULL, strerror(-r));
	return true;
}

static void answer_mount(struct stage_run *run, const char *text, const int *fds, size_t n_fds)
{
	_cleanup_(kv_freep) struct kv *answer = proto_new(PROTO_OP_MOUNTED);

	if (answer) {
		kv_set_u64(answer, "slot", (uint64_t)run->slot);
		kv_set_u64(answer, "fds", n_fds);
		if (text)
			kv_set(answer, "text", text);
		else
			kv_setf(answer, "path", "%s/" RUNDIR_MOUNTS "/%d", run->job->rundir,
				run->slot);
	}
	worker_proc_send(run->worker, answer, fds, n_fds);
}

static bool on_mount(struct stage_run *run, const struct kv *kv)
{
	struct launcher *l = run->job->launcher;

	if (!l->mounts)
		answer_mount(run, "there is no keeper; mount by fusermount3", NULL, 0);
	else if (!run->job->conf->mount_fuse)
		answer_mount(run, "this site has switched mounts off (Backend=none)", NULL, 0);
	else if (run->mounted)
		return false; /* a dataset has one */
	else {
		run->mounted = true; /* it is to be taken away from here on */
		l->ops->mount(l, (uint32_t)run->slot, (unsigned)kv_get_u64(kv, "threads", 1));
	}
	return true;
}

void stage_run_on_mounted(struct stage_run *run, int r, const int *fds, size_t n_fds)
{
	if (!run->worker || run->ending)
		return; /* advance() takes it away */
	if (r < 0)
		run->mounted = false;
	answer_mount(run, r < 0 ? strerror(-r) : NULL, fds, r < 0 ? 0 : n_fds);
}

static bool on_progress(struct stage_run *run, const struct kv *kv)
{
	struct stage *s = run->stage;
	uint64_t bytes = kv_get_u64(kv, "bytes", 0), files = kv_get_u64(kv, "files", 0);
	bool first = s->state == STAGE_PREPARING;

	if (bytes != run->moved_bytes || files != run->moved_files) {
		run->moved_bytes = bytes;
		run->moved_files = files;
		set_stall(run);
	}
	stage_set_progress(s, bytes, files, get_now(run));
	budget_set_written(run->job->budget, s->id, bytes);
	if (s->state != STAGE_PROBING)
		stage_apply(s, STAGE_EV_PROGRESS, get_now(run), NULL);
	job_changed(run->job, first);
	return true;
}

static bool on_warning(struct stage_run *run, const struct kv *kv)
{
	const char *text = kv_get_or_empty(kv, "text");

	log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "%s", text);
	stage_set_warning(run->stage, text);
	job_changed(run->job, false);
	return true;
}

static bool on_ready(struct stage_run *run, const struct kv *kv)
{
	struct stage *s = run->stage;
	struct job *job = run->job;

	stop_clock(run);
	stage_set_facts(s, kv); /* kind */
	stage_set_progress(s, kv_get_u64(kv, "bytes", s->bytes), kv_get_u64(kv, "files", s->files),
			   get_now(run));
	run->stays = kv_get_u64(kv, "stays", 0) == 1;
	budget_set_written(job->budget, s->id, BUDGET_UNLIMITED);
	stage_apply(s, STAGE_EV_READY, get_now(run), NULL);
	job_changed(job, true);
	job_schedule(job);
	return true;
}

static bool on_error(struct stage_run *run, const struct kv *kv)
{
	uint64_t code = kv_get_u64(kv, "code", STAGE_EXIT_FAILED);
	const char *text = kv_get_or_empty(kv, "text");

	fail(run, STAGE_EV_ERROR, code > 0 && code < 256 ? (enum stage_exit)code : STAGE_EXIT_FAILED,
	     *text ? text : "the worker gave no reason");
	return true;
}

#define IN(state) (1u << (state))
#define IN_WORK (IN(STAGE_PREPARING) | IN(STAGE_STAGING))
#define IN_LIFE (IN(STAGE_PROBING) | IN_WORK | IN(STAGE_READY))

/* clang-format off */
static const struct message {
	const char *op;
	bool (*fn)(struct stage_run *run, const struct kv *kv);
	unsigned states; /* where the worker may say it */
} messages[] = {
	{ PROTO_OP_FACTS,    on_facts,    IN_LIFE },
	{ PROTO_OP_RESERVE,  on_reserve,  IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_TIER,     on_tier,     IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_MOUNT,    on_mount,    IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_PROGRESS, on_progress, IN_LIFE },
	{ PROTO_OP_WARNING,  on_warning,  IN_LIFE },
	{ PROTO_OP_READY,    on_ready,    IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_ERROR,    on_error,    IN_LIFE },
};
/* clang-format on */

/* The worker of onfail=source says the same words, but only its end counts. */
static bool on_link_message(struct stage_run *run, const char *op, const struct kv *kv)
{
	struct stage *s = run->stage;
	char text[STAGE_TEXT_WARNING];

	if (strcmp(op, PROTO_OP_READY))
		return true;
	if (s->state != STAGE_UNDOING)
		return true; /* released meanwhile */
	snprintf(text, sizeof(text), "used at its source, staging failed: %.900s",
		 s->reason ? s->reason : "");
	stage_set_warning(s, text);
	stage_set_facts(s, kv);
	snprintf(s->method, sizeof(s->method), "link");
	snprintf(s->tier, sizeof(s->tier), "source");
	s->code = STAGE_EXIT_OK;
	free(s->reason);
	s->reason = NULL;
	end_run(run, STAGE_EV_FALLBACK, text);
	return true;
}

static bool on_message(void *arg, const char *op, const struct kv *kv)
{
	struct stage_run *run = arg;

	if (run->linking)
		return on_link_message(run, op, kv);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		if (strcmp(messages[i].op, op))
			continue;
		if (run->ending || run->restarting)
			return true; /* said before it heard of the end */
		return (messages[i].states & IN(run->stage->state)) && messages[i].fn(run, kv);
	}
	return false;
}

static void on_started(void *arg, pid_t pid)
{
	struct stage_run *run = arg;

	run->stage->pid = pid;
	run->stage->seq++;
	job_changed(run->job, false);
}

static void on_ended(void *arg, int status, const char *how)
{
	struct stage_run *run = arg;
	struct stage *s = run->stage;

	run->worker = NULL;
	s->pid = 0;
	s->seq++;
	job_changed(run->job, false);
	if (run->linking) { /* without ready: what it began is taken away as well */
		run->linking = false;
		advance(run);
	} else if (run->restarting && !run->ending) {
		run->restarting = false;
		stop_clock(run);
		stage_apply(s, STAGE_EV_RESTART, get_now(run), "another kind of worker is needed");
		job_schedule(run->job);
	} else if (run->ending) {
		advance(run);
	} else if (s->state != STAGE_READY || run->stays) {
		fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, how);
	} else if (run->mounted && !run->unmounting) { /* hydrated: the mount has done its work */
		run->unmounting = true;
		run->job->launcher->ops->unmount(run->job->launcher, (uint32_t)run->slot);
	}
}

static void on_stuck(void *arg, pid_t pid)
{
	struct stage_run *run = arg;
	char text[128];

	run->worker = NULL;
	snprintf(text, sizeof(text), "worker %d hangs in the kernel; its file system may be dead",
		 (int)pid);
	if (run->ending) {
		give_up(run, text);
	} else {
		fail(run, STAGE_EV_DIED, STAGE_EXIT_FAILED, text);
	}
}

static const struct worker_events worker_events = {
	.started = on_started, .message = on_message, .ended = on_ended, .stuck = on_stuck,
};

/* --- life of the run --- */

int stage_run_new(struct stage_run **runp, struct job *job, struct stage *stage)
{
	struct stage_run *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->slot = job_take_slot(job);
	if (run->slot < 0) {
		free(run);
		return -ENOSPC;
	}
	run->job = job;
	run->stage = stage;
	run->class = guess_class(stage->dataset);
	loop_timer_init(&run->limit, on_limit, run);
	loop_timer_init(&run->stall, on_stall, run);
	loop_timer_init(&run->cleanup, on_cleanup_late, run);
	*runp = run;
	return 0;
}

void stage_run_free(struct stage_run *run)
{
	if (!run)
		return;
	stop_clock(run);
	loop_timer_cancel(&run->cleanup);
	chore_abandon(run->release);
	chore_abandon(run->tier_chore);
	worker_proc_free(run->worker);
	free(run->tier.path);
	job_return_slot(run->job, run->slot);
	stage_free(run->stage);
	free(run);
}
