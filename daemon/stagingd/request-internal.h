/*
 * request-internal: what request.c, which decides, and request-answer.c, which words the messages,
 * share. Nobody else includes it.
 */
#pragma once

#include "common/protocol/stage-state.h"
#include "common/util/error.h"
#include "daemon/stagingd/request.h"

struct stage;

#define REQUEST_ID_SIZE 64

enum request_part {
	REQUEST_PART_FIRST,
	REQUEST_PART_CHANGES,
	REQUEST_PART_LINES,
	REQUEST_PART_DATASETS,
	REQUEST_PART_WARNINGS,
	REQUEST_PART_DONE,
	REQUEST_PART_OVER
};

/* One dataset that is asked for, and what was last said of it. */
struct request_subject {
	uint32_t id;
	uint64_t seq, at_ms;
	enum stage_state state;
};

struct request_op;

struct request {
	struct job *job;
	struct log_ring *log;
	const struct request_op *op;
	char id[REQUEST_ID_SIZE];
	bool all, any, changes, history;
	bool gives_keys;
	unsigned n_asked; /* of job->keys, when this one was asked last */
	struct request_subject *subjects;
	size_t n_subjects;

	enum request_part part;
	size_t cursor; /* of subjects or env */
	uint64_t log_offset;
	char *env;	    /* lines */
	struct kv *message; /* what was made last, if it is ours */
	int code;
	char text[ERROR_MAX_SIZE];
};

struct request_op {
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

/* NULL: it is not there any more. */
struct stage *request_get_stage(const struct request *req, size_t i);
