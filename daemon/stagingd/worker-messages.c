/*
 * The messages of a worker to stagingd (docs/protocol.md). Each one is a row of a table, with the
 * states in which it is allowed. If a worker sends another message, or sends one in another state,
 * it is killed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/protocol/tier-name.h"
#include "common/util/log.h"
#include "daemon/stagingd/budget.h"
#include "daemon/stagingd/async.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/stage-run-internal.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/worker-proc.h"

/* The plan shows whether the worker has the right class: a writer and a server of a mount are in
 * different cgroups and have different oom_score_adj. If not, it is ended and started again,
 * once. */
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
		run->class_fixed = true;
		run->restarting = "another kind of worker is needed";
		worker_proc_cancel(run->worker);
		return true;
	}
	stage_run_set_stall(run);
	stage_apply(s, STAGE_EV_FACTS, stage_run_get_now(run), s->plan);
	job_changed(run->job, true);
	return true;
}

static bool on_reserve(struct stage_run *run, const struct kv *kv)
{
	const char *tier = kv_get_or_empty(kv, "tier");
	_cleanup_(kv_freep) struct kv *answer = NULL;

	budget_set_written(run->job->grants.budget, run->stage->id, kv_get_u64(kv, "written", 0));
	if (kv_get_u64(kv, "beside", 0) == 0)
		grant_move(&run->job->grants, run->stage, tier);
	answer = grant_ask(&run->job->grants, run->stage, tier, kv_get_u64(kv, "bytes", 0),
			   kv_get_u64(kv, "files", 0));
	worker_proc_send(run->worker, answer, NULL, 0);
	return true;
}

static void answer_tier(struct stage_run *run, const char *path, const char *text)
{
	_cleanup_(kv_freep) struct kv *answer = proto_new(PROTO_OP_TIERDIR);

	if (answer && path && run->tier.shared)
		kv_set(answer, "shared", run->tier.shared);
	tier_dir_deinit(&run->tier);
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

static void on_tier_async(void *arg, int r, const struct error *err)
{
	struct stage_run *run = arg;

	run->tier_async = NULL;
	on_tier_made(run, r, err->text);
}

/* Writes the reason for a refusal into text and returns -errno. mode: that of the tier's directory,
 * in which the job's directory would be. */
static int refuse_tier(const char *path, unsigned mode, char text[static ERROR_MAX_SIZE])
{
	const char *end = strstr(path, "/" TIER_NAME_JOB), *next = end;
	_cleanup_(freep) char *tier = NULL;
	struct error err = ERROR_INIT;

	while (next && (next = strstr(next + 1, "/" TIER_NAME_JOB)))
		end = next;
	tier = end ? strndup(path, (size_t)(end - path)) : NULL;
	(void)tier_dir_refuse(tier ?: path, mode, &err);
	snprintf(text, ERROR_MAX_SIZE, "%s", err.text);
	return err.code;
}

void stage_run_on_tier(struct stage_run *run, uint32_t index, int r)
{
	char text[ERROR_MAX_SIZE] = "";

	if (!run->tier.path || !run->tier.by_keeper || run->tier.index != index)
		return;
	if (r == -ESTALE)
		strcpy(text, "the site has changed it since the job began; submit the job again");
	else if (r > 0)
		r = refuse_tier(run->tier.path, (unsigned)r, text);
	else if (r < 0)
		snprintf(text, sizeof(text), "%s can't be made: %s", run->tier.path, strerror(-r));
	on_tier_made(run, r, text);
}

static bool on_tier(struct stage_run *run, const struct kv *kv)
{
	struct job *job = run->job;
	struct tier_dir_order order = { .rundir = job->info.rundir };
	struct error err = ERROR_INIT;
	int r;

	if (run->tier.path || run->tier_async)
		return false; /* one request at a time */
	if (tier_dir_find(&job->info, kv_get_or_empty(kv, "tier"), &run->tier, &err) < 0) {
		answer_tier(run, NULL, err.text);
		return true;
	}
	if (run->tier.by_keeper) {
		job->launcher->ops->make_tier(job->launcher, (uint32_t)run->slot, run->tier.index,
					      run->tier.mark, run->stage->dataset->keep_ms > 0);
		return true;
	}
	order.path = run->tier.path;
	r = async_start(&run->tier_async, job->loop, tier_dir_make, &order,
			job->info.conf->cleanup_timeout_ms, on_tier_async, run);
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
			kv_setf(answer, "path", "%s/" RUNDIR_MOUNTS "/%d", run->job->info.rundir,
				run->slot);
	}
	worker_proc_send(run->worker, answer, fds, n_fds);
}

static bool on_mount(struct stage_run *run, const struct kv *kv)
{
	struct launcher *l = run->job->launcher;

	if (!l->mounts)
		answer_mount(run, "there is no keeper; mount by fusermount3", NULL, 0);
	else if (run->job->info.conf->mount_backend == CONF_MOUNT_NONE)
		answer_mount(run, "this site has switched mounts off (Backend=none)", NULL, 0);
	else if (run->mounted)
		return false; /* a dataset has only one mount */
	else {
		run->mounted = true; /* from here on, the clean-up must unmount */
		stage_run_set_mount(run);
		l->ops->mount(l, (uint32_t)run->slot, (unsigned)kv_get_u64(kv, "threads", 1));
	}
	return true;
}

void stage_run_on_mounted(struct stage_run *run, int r, const int *fds, size_t n_fds)
{
	char text[128];

	if (!run->worker || run->ending)
		return; /* advance() unmounts it */
	if (r < 0)
		run->mounted = false;
	else
		run->stage->n_mounts++;
	snprintf(text, sizeof(text), "no fuse mount on this node: %s", strerror(-r));
	answer_mount(run, r < 0 ? text : NULL, fds, r < 0 ? 0 : n_fds);
}

static void answer_place(struct stage_run *run, int r)
{
	_cleanup_(kv_freep) struct kv *answer = proto_new(PROTO_OP_PLACED);

	if (answer)
		kv_set_u64(answer, "errno", (uint64_t)-r);
	worker_proc_send(run->worker, answer, NULL, 0);
}

static bool on_place(struct stage_run *run, const struct kv *kv)
{
	struct launcher *l = run->job->launcher;
	const int fd = worker_proc_get_fd(run->worker);

	if (fd < 0 || run->placed)
		return false; /* a dataset has only one place */
	if (!l->ops->place) {
		answer_place(run, -EOPNOTSUPP);
		return true;
	}
	/* From here on, the clean-up must remove the place, whatever the answer is, because a
	 * request that timed out may still be carried out. */
	run->placed = run->placing = true;
	l->ops->place(l, (uint32_t)run->slot, run->stage->dataset->name, fd,
		      kv_get_u64(kv, "ro", 0) == 1);
	return true;
}

void stage_run_on_placed(struct stage_run *run, int r)
{
	if (!run->placing)
		return;
	run->placing = false;
	if (run->worker && !run->ending)
		answer_place(run, r);
}

static bool on_progress(struct stage_run *run, const struct kv *kv)
{
	struct stage *s = run->stage;
	uint64_t bytes = kv_get_u64(kv, "bytes", 0), files = kv_get_u64(kv, "files", 0);
	bool first = s->state == STAGE_PREPARING;

	if (s->state == STAGE_READY && !run->stays)
		return true; /* an older message, sent by another thread of the worker */
	if (kv_get_u64(kv, "alive", 0) == 1) {
		stage_run_set_stall(run);
		return true;
	}
	if (bytes != run->moved_bytes || files != run->moved_files) {
		run->moved_bytes = bytes;
		run->moved_files = files;
		stage_run_set_stall(run);
	}
	stage_set_progress(s, bytes, files, stage_run_get_now(run));
	budget_set_written(run->job->grants.budget, s->id, kv_get_u64(kv, "written", 0));
	if (s->state != STAGE_PROBING)
		stage_apply(s, STAGE_EV_PROGRESS, stage_run_get_now(run), NULL);
	job_changed(run->job, first);
	return true;
}

static bool on_warning(struct stage_run *run, const struct kv *kv)
{
	const char *text = kv_get_or_empty(kv, "text");

	log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "%s", text);
	if (kv_get_u64(kv, "passes", 0) == 1)
		stage_set_note(run->stage, text);
	else
		stage_add_warning(run->stage, text);
	job_changed(run->job, false);
	return true;
}

/* Without a keeper, each node's command has its own environment and starts when all datasets are
 * ready (with --keep-going: ready or failed). So the variable can name the directory itself instead
 * of a link to it, and cp -r, tar and find work as users expect. method=link keeps the link. */
static void find_place(struct stage_run *run)
{
	char path[PATH_MAX], to[PATH_MAX];
	ssize_t n;

	if (!run->job->info.local || !strcmp(run->stage->method, "link") ||
	    snprintf(path, sizeof(path), "%s/" RUNDIR_DATA "/%s", run->job->info.rundir,
		     run->stage->dataset->name) >= (int)sizeof(path))
		return;
	n = readlink(path, to, sizeof(to) - 1);
	if (n <= 0 || to[0] != '/')
		return; /* data in memory is in this place itself */
	to[n] = '\0';
	if (!strchr(to, '\n')) /* each variable must be on one line */
		stage_set_place(run->stage, to);
}

static bool on_ready(struct stage_run *run, const struct kv *kv)
{
	struct stage *s = run->stage;
	struct job *job = run->job;

	stage_run_stop_clock(run);
	stage_set_facts(s, kv); /* the kind may have changed */
	stage_set_progress(s, kv_get_u64(kv, "bytes", s->bytes), kv_get_u64(kv, "files", s->files),
			   stage_run_get_now(run));
	s->moved = kv_get_u64(kv, "moved", 0);
	run->stays = kv_get_u64(kv, "stays", 0) == 1;
	s->hydrating = run->stays && s->dataset->hydrate;
	if (run->stays)
		worker_proc_serves(run->worker);
	find_place(run);
	budget_give_back(job->grants.budget, s->id, kv_get_u64(kv, "unused", 0));
	budget_set_written(job->grants.budget, s->id, UINT64_MAX);
	stage_apply(s, STAGE_EV_READY, stage_run_get_now(run), NULL);
	job_changed(job, true);
	job_schedule(job);
	return true;
}

static bool on_error(struct stage_run *run, const struct kv *kv)
{
	uint64_t code = kv_get_u64(kv, "code", STAGE_EXIT_FAILED);
	const char *text = kv_get_or_empty(kv, "text");
	char more[ERROR_MAX_SIZE];

	if (run->stage->state == STAGE_READY && !run->stays) {
		log_print(LOG_LEVEL_WARNING, run->stage->dataset->name, "after ready: %s", text);
		return true; /* the data is complete */
	}
	if (code == 0 || code > 255)
		code = STAGE_EXIT_FAILED;
	run->stage->errnum = (int)(kv_get_u64(kv, "errno", 0) & 0xfff);
	if (run->stage->errnum == ENOKEY && run->stage->state == STAGE_PROBING &&
	    job_keys_miss(run, text, more, sizeof(more), &text)) {
		run->stage->errnum = 0;
		run->restarting = "it needs keys";
		worker_proc_cancel(run->worker);
		return true;
	}
	stage_run_fail(run, STAGE_EV_ERROR, (enum stage_exit)code,
		       *text ? text : "the worker gave no reason");
	return true;
}

static bool on_read(struct stage_run *run, const struct kv *kv)
{
	run->stage->history.read_ms = stage_run_get_now(run);
	return true;
}

#define IN(state) (1u << (state))
#define IN_WORK (IN(STAGE_PREPARING) | IN(STAGE_STAGING))
#define IN_LIFE (IN(STAGE_PROBING) | IN_WORK | IN(STAGE_READY))

/* clang-format off */
static const struct message {
	const char *op;
	bool (*fn)(struct stage_run *run, const struct kv *kv);
	unsigned states; /* states in which the message is allowed */
} messages[] = {
	{ PROTO_OP_FACTS,    on_facts,    IN_LIFE },
	{ PROTO_OP_RESERVE,  on_reserve,  IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_TIER,     on_tier,     IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_MOUNT,    on_mount,    IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_PLACE,    on_place,    IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_PROGRESS, on_progress, IN_LIFE },
	{ PROTO_OP_WARNING,  on_warning,  IN_LIFE },
	{ PROTO_OP_READ,     on_read,     IN(STAGE_READY) },
	{ PROTO_OP_READY,    on_ready,    IN_WORK | IN(STAGE_READY) },
	{ PROTO_OP_ERROR,    on_error,    IN_LIFE },
};
/* clang-format on */

/* The worker that makes the link of onfail=source sends the same messages, but only `ready`
 * matters. */
static bool on_link_message(struct stage_run *run, const char *op, const struct kv *kv)
{
	struct stage *s = run->stage;
	char text[ERROR_MAX_SIZE];

	if (strcmp(op, PROTO_OP_READY))
		return true;
	if (s->state != STAGE_UNDOING)
		return true; /* it was released in the meantime */
	snprintf(text, sizeof(text), "used at its source, staging failed: %.900s",
		 s->reason ? s->reason : "");
	stage_forget_warnings(s); /* they are about a copy that was removed */
	stage_add_warning(s, text);
	stage_set_facts(s, kv);
	snprintf(s->method, sizeof(s->method), "link");
	snprintf(s->tier, sizeof(s->tier), "source");
	s->code = STAGE_EXIT_OK;
	s->cause = STAGE_CAUSE_NONE;
	free(s->reason);
	s->reason = NULL;
	stage_run_finish(run, STAGE_EV_FALLBACK, text);
	return true;
}

bool stage_run_on_message(void *arg, const char *op, const struct kv *kv)
{
	struct stage_run *run = arg;

	if (run->linking)
		return on_link_message(run, op, kv);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		if (strcmp(messages[i].op, op))
			continue;
		if (run->ending || run->restarting)
			return true; /* it was sent before the worker knew of the end */
		return (messages[i].states & IN(run->stage->state)) && messages[i].fn(run, kv);
	}
	return false;
}
