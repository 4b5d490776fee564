/*
 * An operation is a row of a table: begin() reads the fields and performs the operation, verdict()
 * decides when the answer is complete, and three flags choose the parts of the answer
 * (request-answer.c).
 */
#include "daemon/stagingd/request-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/escape.h"
#include "daemon/stagingd/env-file.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/log-ring.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

static void decide(struct request *req, int code, const char *text)
{
	req->code = code;
	snprintf(req->text, sizeof(req->text), "%s", text);
}

struct stage *request_get_stage(const struct request *req, size_t i)
{
	return job_runs_find_stage(&req->job->runs, req->subjects[i].id);
}

/* --- names --- */

static void add_subject(struct request *req, const struct stage *s)
{
	for (size_t i = 0; i < req->n_subjects; i++)
		if (req->subjects[i].id == s->id)
			return;
	req->subjects[req->n_subjects++] = (struct request_subject){ .id = s->id };
}

/* Reports an unknown name. If the job has a failure, the answer is that failure instead: no name is
 * known if the value could not be parsed. */
static void refuse_name(struct request *req, const char *name)
{
	char known[ERROR_MAX_SIZE / 2] = "", shown[DATASET_NAME_SIZE * 4 + 1];
	const struct error *failure = &req->job->failure;
	size_t n = 0;

	if (failure->code) {
		decide(req, (int)error_to_exit(failure), failure->text);
		return;
	}
	for (size_t i = 0; i < req->job->runs.n && n < sizeof(known) - DATASET_NAME_SIZE - 2; i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
				      job_runs_get_stage(&req->job->runs, i)->dataset->name);
	req->code = STAGE_EXIT_NO_ITEM;
	text_escape(shown, sizeof(shown), name, strnlen(name, DATASET_NAME_SIZE));
	snprintf(req->text, sizeof(req->text), "no dataset %s in this job; it has %s", shown,
		 n ? known : "none");
}

/* Finds the datasets of the request. On failure, sets code and text and returns false. */
static bool find_subjects(struct request *req, const struct kv *kv)
{
	_cleanup_(freep) char *names = strdup(kv_get_or_empty(kv, "names"));
	char *save = NULL;

	req->subjects = calloc(JOB_MAX_RECORDS, sizeof(*req->subjects));
	if (!names || !req->subjects) {
		decide(req, STAGE_EXIT_FAILED, "out of memory");
		return false;
	}
	req->all = !*names;
	for (size_t i = 0; req->all && i < req->job->runs.n; i++)
		add_subject(req, job_runs_get_stage(&req->job->runs, i));
	for (char *n = strtok_r(names, ",", &save); n; n = strtok_r(NULL, ",", &save)) {
		struct stage_run *run = job_runs_find(&req->job->runs, n);

		if (!run) {
			refuse_name(req, n);
			req->n_subjects = 0;
			return false;
		}
		add_subject(req, stage_run_get_stage(run));
	}
	return true;
}

/* --- wait --- */

static void decide_by_stage(struct request *req, const struct stage *s)
{
	char text[ERROR_MAX_SIZE];

	snprintf(text, sizeof(text), "%s: %.900s", s->dataset->name,
		 s->reason ? s->reason : stage_state_to_string(s->state));
	decide(req, s->code ? (int)s->code : STAGE_EXIT_FAILED, text);
}

static bool counts_not(const struct request *req, const struct stage *s)
{
	return req->all && s->state == STAGE_FAILED && s->dataset->onfail == DATASET_ONFAIL_IGNORE;
}

/* Returns whether the dataset will not become ready. Undoing does not count, because it ends in
 * ready with onfail=source. */
static bool is_lost(const struct stage *s)
{
	return s->state == STAGE_FAILED || s->state == STAGE_RELEASED ||
	       s->state == STAGE_RELEASING;
}

static bool wait_verdict(struct request *req)
{
	size_t n_ready = 0, n_lost = 0;

	if (req->job->failure.code) {
		decide(req, (int)error_to_exit(&req->job->failure), req->job->failure.text);
		return true;
	}
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = request_get_stage(req, i);

		if (!s || is_lost(s)) {
			if (s && counts_not(req, s) && !req->any) {
				n_ready++;
				continue;
			}
			if (n_lost++ == 0 && s)
				decide_by_stage(req, s);
			else if (!s)
				decide(req, STAGE_EXIT_FAILED, "the dataset was released");
		} else if (s->state == STAGE_READY) {
			n_ready++;
		}
	}
	if (req->any ? n_ready > 0 || req->n_subjects == 0
		     : n_lost == 0 && n_ready == req->n_subjects) {
		decide(req, STAGE_EXIT_OK, "");
		return true;
	}
	return req->any ? n_lost == req->n_subjects : n_lost > 0;
}

static void wait_begin(struct request *req, const struct kv *kv)
{
	req->any = kv_get_u64(kv, "any", 0) == 1;
	req->changes = kv_get_u64(kv, "progress", 0) == 1;
	req->gives_keys = kv_get_u64(kv, "keys", 0) == 1;
	find_subjects(req, kv);
}

/* --- status --- */

static bool status_verdict(struct request *req)
{
	const struct error *failure = &req->job->failure;

	for (size_t i = 0; req->changes && i < req->n_subjects; i++) {
		const struct stage *s = request_get_stage(req, i);

		if (s && !stage_state_is_final(s->state))
			return false;
	}
	if (failure->code)
		decide(req, (int)error_to_exit(failure), failure->text);
	return true;
}

static void status_begin(struct request *req, const struct kv *kv)
{
	req->changes = kv_get_u64(kv, "watch", 0) == 1;
	req->history = kv_get_u64(kv, "history", 0) == 1;
	find_subjects(req, kv);
}

/* --- add, release --- */

static void add_begin(struct request *req, const struct kv *kv)
{
	struct error err = ERROR_INIT;
	const char *name;

	if ((kv_get(kv, "access") && job_keys_take(&req->job->keys, kv, &err) < 0) ||
	    job_add(req->job, kv_get_or_empty(kv, "item"), &name, &err) < 0)
		decide(req, (int)error_to_exit(&err), err.text);
	else
		decide(req, STAGE_EXIT_OK, name);
	job_keys_look(&req->job->keys); /* wipes the keys if the item was refused or needs none */
}

static void release_begin(struct request *req, const struct kv *kv)
{
	if (!find_subjects(req, kv))
		return;
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = request_get_stage(req, i);

		job_release(req->job, job_runs_find(&req->job->runs, s->dataset->name));
	}
}

static bool release_verdict(struct request *req)
{
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = request_get_stage(req, i);

		if (s && s->state != STAGE_RELEASED && s->state != STAGE_FAILED)
			return false;
		if (s && s->state == STAGE_FAILED && s->stuck && !req->code)
			decide(req, STAGE_EXIT_FAILED, s->stuck);
	}
	return true;
}

/* --- keys, env, log, warnings, lease --- */

static void keys_begin(struct request *req, const struct kv *kv)
{
	struct error err = ERROR_INIT;

	if (job_keys_take(&req->job->keys, kv, &err) < 0)
		decide(req, (int)error_to_exit(&err), err.text);
	job_changed(req->job, true);
	job_schedule(req->job);
}

static void env_begin(struct request *req, const struct kv *kv)
{
	size_t size;
	FILE *f = open_memstream(&req->env, &size);

	if (!f) {
		decide(req, STAGE_EXIT_FAILED, "out of memory");
		return;
	}
	env_file_print(&req->job->info, &req->job->runs, f);
	fclose(f);
}

static bool env_line(struct request *req, char *buf, size_t size)
{
	const char *line = req->env ? req->env + req->cursor : "";
	size_t n = strcspn(line, "\n");

	if (!*line)
		return false;
	snprintf(buf, size, "%.*s", (int)n, line);
	req->cursor += n + (line[n] == '\n');
	return true;
}

static void log_begin(struct request *req, const struct kv *kv)
{
	find_subjects(req, kv);
}

static void warnings_begin(struct request *req, const struct kv *kv)
{
	find_subjects(req, kv);
}

static bool is_about(const struct request *req, const char *line)
{
	char mark[DATASET_NAME_SIZE + 8];

	if (req->all)
		return true;
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = request_get_stage(req, i);

		if (!s)
			continue;
		snprintf(mark, sizeof(mark), "ds=%s ", s->dataset->name);
		if (strstr(line, mark))
			return true;
	}
	return false;
}

static bool log_line(struct request *req, char *buf, size_t size)
{
	if (req->code)
		return false;
	while (log_ring_read(req->log, &req->log_offset, buf, size) >= 0)
		if (is_about(req, buf))
			return true;
	return false;
}

static void lease_begin(struct request *req, const struct kv *kv)
{
}

/* clang-format off */
static const struct request_op ops[] = {
	{ PROTO_OP_WAIT,     wait_begin,     wait_verdict,    NULL,     false, true,  false, false },
	{ PROTO_OP_STATUS,   status_begin,   status_verdict,  NULL,     true,  false, false, false },
	{ PROTO_OP_ENV,      env_begin,      NULL,            env_line, false, false, false, false },
	{ PROTO_OP_ADD,      add_begin,      NULL,            NULL,     false, false, false, false },
	{ PROTO_OP_KEYS,     keys_begin,     NULL,            NULL,     false, false, false, false },
	{ PROTO_OP_RELEASE,  release_begin,  release_verdict, NULL,     false, false, false, false },
	{ PROTO_OP_WARNINGS, warnings_begin, NULL,            NULL,     false, false, true,  false },
	{ PROTO_OP_LOG,      log_begin,      NULL,            log_line, false, false, false, false },
	{ PROTO_OP_LEASE,    lease_begin,    NULL,            NULL,     false, false, false, true  },
};
/* clang-format on */

static const struct request_op unknown_op = { .name = "" };

static const struct request_op *find_op(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	return &unknown_op;
}

bool request_is_lease(const struct request *req)
{
	return req->op->lease;
}

int request_new(struct request **reqp, struct job *job, struct log_ring *log, const struct kv *kv)
{
	_cleanup_(request_freep) struct request *req = NULL;
	const char *op = proto_get_op(kv), *id = kv_get_or_empty(kv, "id");

	if (!op || strlen(id) >= REQUEST_ID_SIZE)
		return -EPROTO;
	req = calloc(1, sizeof(*req));
	if (!req)
		return -ENOMEM;
	req->job = job;
	req->log = log;
	strcpy(req->id, id);
	req->op = find_op(op);
	if (req->op->begin)
		req->op->begin(req, kv);
	else
		decide(req, STAGE_EXIT_USAGE, "stagingd does not know this request");
	*reqp = steal_ptr(req);
	return 0;
}

void request_free(struct request *req)
{
	if (!req)
		return;
	kv_free(req->message);
	free(req->subjects);
	free(req->env);
	free(req);
}
