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

/* One dataset of the request, and the state that the client was sent last. */
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
	unsigned n_asked; /* job->keys.n_asked when this client was last asked for keys */
	struct request_subject *subjects;
	size_t n_subjects;

	enum request_part part;
	size_t cursor; /* index in subjects, or offset in env */
	uint64_t log_offset;
	char *env;	    /* text of the environment file, for the op `env` */
	struct kv *message; /* the last message, if it was made for this client only */
	int code;
	char text[ERROR_MAX_SIZE];
};

struct request_op {
	const char *name;
	void (*begin)(struct request *req, const struct kv *kv);
	/* Returns true when the answer is complete; then code and text are set. NULL: the answer is
	 * complete at once. */
	bool (*verdict)(struct request *req);
	/* writes the next line; NULL: the answer has no lines */
	bool (*line)(struct request *req, char *buf, size_t size);
	bool first;    /* send each dataset before the wait, too */
	bool datasets; /* send each dataset at the end */
	bool warnings; /* send each dataset's warning, unless another client already got it */
	bool lease;
};

/* Returns NULL if the dataset no longer exists. */
struct stage *request_get_stage(const struct request *req, size_t i);
