/*
 * An operation is a row: begin() reads the fields and does what is to be done, verdict() says when
 * the answer is due, and three flags say what the answer is made of. The parts come in one order
 * for all: changes while waiting, lines, a dataset each, done.
 */
#include "daemon/stagingd/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/stagingd/env-file.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/log-ring.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

#define ID_SIZE 64

enum part {
	PART_FIRST,
	PART_CHANGES,
	PART_LINES,
	PART_DATASETS,
	PART_WARNINGS,
	PART_DONE,
	PART_OVER
};

/* One dataset that is asked for, and what was last said of it. */
struct subject {
	uint32_t id;
	uint64_t seq, at_ms;
	enum stage_state state;
};

struct op;

struct request {
	struct job *job;
	struct log_ring *log;
	const struct op *op;
	char id[ID_SIZE];
	bool all, any, changes, history;
	bool gives_keys;
	unsigned n_asked; /* of job->keys, when this one was asked last */
	struct subject *subjects;
	size_t n_subjects;

	enum part part;
	size_t cursor; /* of subjects or env */
	uint64_t log_offset;
	char *env;	    /* lines */
	struct kv *message; /* what was made last, if it is ours */
	int code;
	char text[ERROR_MAX_SIZE];
};

struct op {
	const char *name;
	void (*begin)(struct request *req, const struct kv *kv);
	/* The answer is due: code and text are set. NULL: at once. */
	bool (*verdict)(struct request *req);
	bool (*line)(struct request *req, char *buf, size_t size); /* NULL: no lines */
	bool first;    /* a dataset each before the wait too */
	bool datasets; /* a dataset each at the end */
	bool warnings; /* of each one the warning, if nobody was given it before */
	bool lease;
};

static void decide(struct request *req, int code, const char *text)
{
	req->code = code;
	snprintf(req->text, sizeof(req->text), "%s", text);
}

static struct stage *get_stage(const struct request *req, size_t i)
{
	return job_find_stage(req->job, req->subjects[i].id);
}

/* --- names --- */

static void add_subject(struct request *req, const struct stage *s)
{
	for (size_t i = 0; i < req->n_subjects; i++)
		if (req->subjects[i].id == s->id)
			return;
	req->subjects[req->n_subjects++] = (struct subject){ .id = s->id };
}

/* Where the value did not parse no name is known, and that is not what the user has to hear. */
static void refuse_name(struct request *req, const char *name)
{
	char known[ERROR_MAX_SIZE / 2] = "", shown[DATASET_NAME_SIZE * 4 + 1];
	const struct error *failure = &req->job->failure;
	size_t n = 0;

	if (failure->code) {
		decide(req, (int)error_to_exit(failure), failure->text);
		return;
	}
	for (size_t i = 0; i < req->job->n_runs && n < sizeof(known) - DATASET_NAME_SIZE - 2; i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
				      job_get_stage(req->job, i)->dataset->name);
	req->code = STAGE_EXIT_NO_ITEM;
	text_escape(shown, sizeof(shown), name, strnlen(name, DATASET_NAME_SIZE));
	snprintf(req->text, sizeof(req->text), "no dataset %s in this job; it has %s", shown,
		 n ? known : "none");
}

/* Finds the subjects; what is wrong becomes the verdict. */
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
	for (size_t i = 0; req->all && i < req->job->n_runs; i++)
		add_subject(req, job_get_stage(req->job, i));
	for (char *n = strtok_r(names, ",", &save); n; n = strtok_r(NULL, ",", &save)) {
		struct stage_run *run = job_find_run(req->job, n);

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

/* Undoing ends in failed, or with onfail=source in ready: not known yet. */
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
		const struct stage *s = get_stage(req, i);

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
		const struct stage *s = get_stage(req, i);

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

	if ((kv_get(kv, "access") && job_keys_take(req->job, kv, &err) < 0) ||
	    job_add(req->job, kv_get_or_empty(kv, "item"), &name, &err) < 0)
		decide(req, (int)error_to_exit(&err), err.text);
	else
		decide(req, STAGE_EXIT_OK, name);
	job_keys_look(req->job); /* it was refused, or has no use for them */
}

static void release_begin(struct request *req, const struct kv *kv)
{
	if (!find_subjects(req, kv))
		return;
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = get_stage(req, i);

		job_release(req->job, job_find_run(req->job, s->dataset->name));
	}
}

static bool release_verdict(struct request *req)
{
	for (size_t i = 0; i < req->n_subjects; i++) {
		const struct stage *s = get_stage(req, i);

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

	if (job_keys_take(req->job, kv, &err) < 0)
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
	env_file_print(req->job, f);
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
		const struct stage *s = get_stage(req, i);

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
static const struct op ops[] = {
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

static const struct op unknown_op = { .name = "" };

static const struct op *find_op(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	return &unknown_op;
}

/* --- the answer --- */

/* A message of ours; the one before it is freed. */
static int make_message(struct request *req, const char *op, struct kv **kvp)
{
	kv_free(req->message);
	req->message = proto_new(op);
	if (!req->message)
		return -ENOMEM;
	kv_set(req->message, "id", req->id);
	*kvp = req->message;
	return REQUEST_MESSAGE;
}

/* A copy of *kvp, which is for all clients, with the history. */
static int add_history(struct request *req, const struct stage *s, uint64_t now_ms, struct kv **kvp)
{
	const void *data;
	size_t size;

	kv_free(req->message);
	req->message = NULL;
	if (kv_get_data(*kvp, &data, &size) != 0 ||
	    kv_new_from_data(&req->message, data, size) != 0)
		return -ENOMEM;
	history_to_kv(&s->history, req->message, now_ms, history_get_unix_ms());
	grant_memory_to_kv(req->job, req->message);
	*kvp = req->message;
	return REQUEST_MESSAGE;
}

static int make_dataset(struct request *req, size_t i, uint64_t now_ms, struct kv **kvp)
{
	struct subject *sub = &req->subjects[i];
	struct stage *s = get_stage(req, i);

	*kvp = stage_get_message(s, req->job->data_dir, req->job->node, now_ms);
	if (!*kvp)
		return -ENOMEM;
	kv_set(*kvp, "id", req->id);
	sub->seq = s->seq;
	sub->state = s->state;
	sub->at_ms = now_ms;
	return req->history ? add_history(req, s, now_ms, kvp) : REQUEST_MESSAGE;
}

static int next_dataset(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	while (req->cursor < req->n_subjects) {
		size_t i = req->cursor++;

		if (get_stage(req, i))
			return make_dataset(req, i, now_ms, kvp);
	}
	return REQUEST_OVER;
}

/* Many tasks ask at once: a text is marked in the same call that makes the message. */
static int next_warning(struct request *req, struct kv **kvp)
{
	char text[STAGE_TEXT_WARNING];

	for (; req->cursor < req->n_subjects; req->cursor++) {
		struct stage *s = get_stage(req, req->cursor);
		size_t n_told = s ? s->n_told : 0;
		int r;

		if (!s || !stage_take_warning(s, text))
			continue;
		r = make_message(req, PROTO_OP_WARNING, kvp);
		if (r != REQUEST_MESSAGE) {
			s->n_told = n_told; /* for the next client */
			return r;
		}
		kv_set(*kvp, "name", s->dataset->name);
		kv_set(*kvp, "node", req->job->node);
		kv_set(*kvp, "text", text);
		return r;
	}
	return REQUEST_OVER;
}

/* States at once, progress not too often. */
static int next_change(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	int r = REQUEST_WAIT;

	for (size_t i = 0; req->changes && i < req->n_subjects; i++) {
		const struct subject *sub = &req->subjects[i];
		const struct stage *s = get_stage(req, i);

		if (!s || s->seq == sub->seq)
			continue;
		if (s->state != sub->state || sub->seq == 0 ||
		    now_ms - sub->at_ms >= REQUEST_INTERVAL_MS)
			return make_dataset(req, i, now_ms, kvp);
		r = REQUEST_LATER;
	}
	return r;
}

static int next_line(struct request *req, struct kv **kvp)
{
	char line[4096];
	int r;

	if (!req->op->line || !req->op->line(req, line, sizeof(line)))
		return REQUEST_OVER;
	r = make_message(req, PROTO_OP_LINE, kvp);
	if (r == REQUEST_MESSAGE)
		kv_set(*kvp, "text", line);
	return r;
}

static bool has_to_ask(const struct request *req)
{
	return req->gives_keys && req->n_asked != req->job->keys.n_asked &&
	       job_keys_are_wanted(req->job);
}

static int make_needkeys(struct request *req, struct kv **kvp)
{
	req->n_asked = req->job->keys.n_asked;
	return make_message(req, PROTO_OP_NEEDKEYS, kvp);
}

static int make_done(struct request *req, struct kv **kvp)
{
	int r = make_message(req, PROTO_OP_DONE, kvp);

	if (r == REQUEST_MESSAGE) {
		kv_set_u64(*kvp, "code", (uint64_t)req->code);
		kv_set(*kvp, "text", req->text);
	}
	return r;
}

static void go_on(struct request *req, enum part part)
{
	req->part = part;
	req->cursor = 0;
}

static bool is_due(struct request *req)
{
	bool refused = req->code != STAGE_EXIT_OK && req->n_subjects == 0;

	return refused || !req->op->verdict || req->op->verdict(req);
}

static int next_of_part(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	bool due;
	int r;

	switch (req->part) {
	case PART_FIRST:
		return req->op->first ? next_dataset(req, now_ms, kvp) : REQUEST_OVER;
	case PART_CHANGES:
		if (has_to_ask(req))
			return make_needkeys(req, kvp);
		due = is_due(req);
		if (due && req->op->datasets)
			return REQUEST_OVER; /* the datasets follow anyway */
		r = next_change(req, now_ms, kvp);
		if (due && r == REQUEST_LATER)
			return REQUEST_OVER;
		return due && r == REQUEST_WAIT ? REQUEST_OVER : r;
	case PART_LINES:
		return next_line(req, kvp);
	case PART_DATASETS:
		return req->op->datasets ? next_dataset(req, now_ms, kvp) : REQUEST_OVER;
	case PART_WARNINGS:
		return req->op->warnings ? next_warning(req, kvp) : REQUEST_OVER;
	case PART_DONE:
		go_on(req, PART_OVER);
		return make_done(req, kvp);
	case PART_OVER:
		break;
	}
	return REQUEST_OVER;
}

int request_next(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	int r;

	while ((r = next_of_part(req, now_ms, kvp)) == REQUEST_OVER && req->part != PART_OVER)
		go_on(req, req->part + 1);
	return r;
}

bool request_is_lease(const struct request *req)
{
	return req->op->lease;
}

int request_new(struct request **reqp, struct job *job, struct log_ring *log, const struct kv *kv)
{
	_cleanup_(request_freep) struct request *req = NULL;
	const char *op = proto_get_op(kv), *id = kv_get_or_empty(kv, "id");

	if (!op || strlen(id) >= ID_SIZE)
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
