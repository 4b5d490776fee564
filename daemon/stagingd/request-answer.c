/*
 * The parts of an answer come in one order for all operations: changes while waiting, lines, a
 * dataset each, done.
 */
#include "daemon/stagingd/request-internal.h"

#include <errno.h>

#include "common/protocol/proto.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage.h"

/* Makes a new message in req->message and frees the one before. */
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

/* Copies *kvp, which is shared by all clients, into req->message and adds the history. */
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
	grant_memory_to_kv(&req->job->grants, req->message);
	*kvp = req->message;
	return REQUEST_MESSAGE;
}

static int make_dataset(struct request *req, size_t i, uint64_t now_ms, struct kv **kvp)
{
	struct request_subject *sub = &req->subjects[i];
	struct stage *s = request_get_stage(req, i);

	*kvp = stage_get_message(s, req->job->info.data_dir, req->job->info.node, now_ms);
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

		if (request_get_stage(req, i))
			return make_dataset(req, i, now_ms, kvp);
	}
	return REQUEST_OVER;
}

/* Makes the message for the next warning. The warning is marked as given in the same call, because
 * many tasks may ask at the same time. */
static int next_warning(struct request *req, struct kv **kvp)
{
	char text[STAGE_TEXT_WARNING];

	for (; req->cursor < req->n_subjects; req->cursor++) {
		struct stage *s = request_get_stage(req, req->cursor);
		size_t n_told = s ? s->n_told : 0;
		int r;

		if (!s || !stage_take_warning(s, text))
			continue;
		r = make_message(req, PROTO_OP_WARNING, kvp);
		if (r != REQUEST_MESSAGE) {
			s->n_told = n_told; /* the next client gets the warning instead */
			return r;
		}
		kv_set(*kvp, "name", s->dataset->name);
		kv_set(*kvp, "node", req->job->info.node);
		kv_set(*kvp, "text", text);
		return r;
	}
	return REQUEST_OVER;
}

/* Makes a message for the next change. Changes of state are sent at once, progress at most once per
 * REQUEST_INTERVAL_MS. */
static int next_change(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	int r = REQUEST_WAIT;

	for (size_t i = 0; req->changes && i < req->n_subjects; i++) {
		const struct request_subject *sub = &req->subjects[i];
		const struct stage *s = request_get_stage(req, i);

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
	       job_keys_are_wanted(&req->job->keys);
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

static void go_on(struct request *req, enum request_part part)
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
	case REQUEST_PART_FIRST:
		return req->op->first ? next_dataset(req, now_ms, kvp) : REQUEST_OVER;
	case REQUEST_PART_CHANGES:
		if (has_to_ask(req))
			return make_needkeys(req, kvp);
		due = is_due(req);
		if (due && req->op->datasets)
			return REQUEST_OVER; /* the part with all datasets follows anyway */
		r = next_change(req, now_ms, kvp);
		if (due && r == REQUEST_LATER)
			return REQUEST_OVER;
		return due && r == REQUEST_WAIT ? REQUEST_OVER : r;
	case REQUEST_PART_LINES:
		return next_line(req, kvp);
	case REQUEST_PART_DATASETS:
		return req->op->datasets ? next_dataset(req, now_ms, kvp) : REQUEST_OVER;
	case REQUEST_PART_WARNINGS:
		return req->op->warnings ? next_warning(req, kvp) : REQUEST_OVER;
	case REQUEST_PART_DONE:
		go_on(req, REQUEST_PART_OVER);
		return make_done(req, kvp);
	case REQUEST_PART_OVER:
		break;
	}
	return REQUEST_OVER;
}

int request_next(struct request *req, uint64_t now_ms, struct kv **kvp)
{
	int r;

	while ((r = next_of_part(req, now_ms, kvp)) == REQUEST_OVER &&
	       req->part != REQUEST_PART_OVER)
		go_on(req, req->part + 1);
	return r;
}
