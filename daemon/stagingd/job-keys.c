/*
 * Keys of the environment are used before those of files, as by AWS's own tools, if they were set
 * at submission (keys=env, which the parser sets): then a client will send them soon. With
 * --stage-wait=no perhaps no client does, so the files are tried first. Without keys=env, the
 * environment is used only if the files have no keys.
 */
#include "daemon/stagingd/job-keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/protocol/keys.h"
#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "daemon/stagingd/job-end.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-runs.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run-internal.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

#define FIRST_MS 60000 /* time to wait for a client's keys before the files are tried */
#define WAITS "credentials"

void job_keys_deinit(struct job_keys *jk)
{
	keys_free(jk->keys);
	jk->keys = NULL;
}

void stage_keys_deinit(struct stage_run *run)
{
	loop_timer_cancel(&run->keys.timer);
	free(run->keys.found);
	run->keys.found = NULL;
}

/* Returns whether the dataset needs keys. Sources that can be read anonymously need none. */
static bool takes_keys(const struct stage *s)
{
	return dataset_takes_keys(s->dataset) && !(s->web && strstr(s->web, "anonymous\tyes"));
}

static bool is_on_its_way(const struct stage *s)
{
	return s->state == STAGE_QUEUED || s->state == STAGE_PROBING ||
	       s->state == STAGE_PREPARING || s->state == STAGE_STAGING;
}

static bool is_waiting(const struct stage_run *run)
{
	return run->keys.state == STAGE_KEYS_WAITING && run->stage->state == STAGE_QUEUED;
}

/* ---- waiting ---- */

static uint64_t get_patience_ms(const struct stage_run *run)
{
	uint64_t stall = run->stage->dataset->stall_ms ? run->stage->dataset->stall_ms
						       : run->job->info.conf->stall_timeout_ms;

	return run->keys.found || (stall && stall < FIRST_MS) ? stall : FIRST_MS;
}

static void begin(struct stage_run *run)
{
	uint64_t ms = get_patience_ms(run);

	run->keys.state = STAGE_KEYS_WAITING;
	stage_set_waits(run->stage, WAITS);
	run->job->keys.n_asked++;
	if (ms)
		loop_timer_set(run->job->loop, &run->keys.timer, ms);
	log_print(LOG_LEVEL_INFO, run->stage->dataset->name, "waits for keys of the environment");
	job_changed(run->job, true);
}

static void end(struct stage_run *run)
{
	loop_timer_cancel(&run->keys.timer);
	run->keys.state = STAGE_KEYS_ANSWERED;
	stage_set_waits(run->stage, NULL);
}

static void explain(const struct stage_run *run, const char *found, char *buf, size_t size)
{
	snprintf(buf, size, "no keys came from the job's environment (%s); %s", run->job->keys.none,
		 found);
}

/* Ends the wait without keys. If the worker has not tried the files yet, it does so now; else the
 * dataset fails. */
static void give_up(struct stage_run *run)
{
	char text[ERROR_MAX_SIZE];

	if (!is_waiting(run)) /* it was released in the meantime */
		return;
	end(run);
	if (!run->keys.found)
		return;
	explain(run, run->keys.found, text, sizeof(text));
	stage_run_refuse(run, ENOKEY, text);
}

static void on_late(void *arg)
{
	struct stage_run *run = arg;
	char ms[PARSE_DURATION_TEXT];

	if (!is_waiting(run))
		return;
	snprintf(run->job->keys.none, sizeof(run->job->keys.none),
		 "none within %s; stagectl wait brings them",
		 duration_to_string(get_patience_ms(run), ms));
	give_up(run);
	job_changed(run->job, true);
	job_schedule(run->job);
}

void stage_keys_init(struct stage_run *run)
{
	loop_timer_init(&run->keys.timer, on_late, run);
}

bool job_keys_hold(struct job_keys *jk, struct stage_run *run)
{
	const struct stage *s = run->stage;

	if (!takes_keys(s))
		return false;
	if (jk->keys) {
		if (run->keys.state == STAGE_KEYS_WAITING)
			end(run);
		return false;
	}
	if (run->keys.state == STAGE_KEYS_OPEN &&
	    (run->keys.found || (s->dataset->env_keys && jk->info->env_first)))
		begin(run);
	return run->keys.state == STAGE_KEYS_WAITING;
}

bool job_keys_miss(struct stage_run *run, const char *found, char *buf, size_t size,
		   const char **textp)
{
	*textp = found;
	if (!takes_keys(run->stage) || run->keys.found)
		return false;
	run->keys.found = strdup(found);
	if (run->keys.state == STAGE_KEYS_OPEN)
		return run->keys.found != NULL;
	explain(run, found, buf, size); /* the wait for a client is already over */
	*textp = buf;
	return false;
}

/* ---- keys from clients ---- */

static void take_none(struct job_keys *jk, const char *why)
{
	text_escape(jk->none, sizeof(jk->none), why, strlen(why));
	for (size_t i = 0; i < jk->runs->n; i++)
		give_up(jk->runs->runs[i]);
}

int job_keys_take(struct job_keys *jk, const struct kv *kv, struct error *err)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;
	const char *none = kv_get_or_empty(kv, "none");
	int r;

	if (*none) {
		take_none(jk, none);
	} else {
		if (keys_new(&keys) < 0)
			return error_set(err, ENOMEM, "out of memory");
		r = keys_from_kv(keys, kv);
		if (r != KEYS_E_SUCCESS)
			return error_exit(err, STAGE_EXIT_USAGE, EINVAL,
					  r == KEYS_E_NONE
						  ? "the keys for S3 are not complete; set both "
						    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
						  : "a key for S3 has a byte that keys can't "
						    "have, or too many; set AWS_ACCESS_KEY_ID, "
						    "AWS_SECRET_ACCESS_KEY and "
						    "AWS_SESSION_TOKEN without blanks and line "
						    "ends");
		keys_free(jk->keys);
		jk->keys = steal_ptr(keys);
		jk->none[0] = '\0';
	}
	return 0;
}

bool job_keys_are_wanted(const struct job_keys *jk)
{
	for (size_t i = 0; i < jk->runs->n; i++)
		if (is_waiting(jk->runs->runs[i]))
			return true;
	return false;
}

int job_keys_to_fd(const struct job_keys *jk, const struct stage_run *run)
{
	int fd = jk->keys && takes_keys(run->stage) ? keys_to_fd(jk->keys) : -1;

	if (fd < 0 && fd != -1)
		log_warning("keys for S3: %s", strerror(-fd));
	return fd < 0 ? -1 : fd;
}

void job_keys_look(struct job_keys *jk)
{
	if (!jk->keys)
		return;
	for (size_t i = 0; i < jk->runs->n && !jk->end->begun; i++)
		if (takes_keys(jk->runs->runs[i]->stage) && is_on_its_way(jk->runs->runs[i]->stage))
			return;
	job_keys_deinit(jk);
}
