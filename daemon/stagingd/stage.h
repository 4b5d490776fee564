/*
 * stage: one dataset as the daemon knows it: its state, the table of state changes, and the facts
 * that its worker has sent. This module performs no action; daemon/stagingd/stage-run.h does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/dataset/dataset.h"
#include "common/protocol/counts.h"
#include "common/protocol/stage-state.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/stagingd/history.h"

struct kv;

enum stage_event {
	STAGE_EV_START,	  /* its worker is being started */
	STAGE_EV_RESTART, /* the worker is started again: it has the wrong class, or needs keys */
	STAGE_EV_FACTS,
	STAGE_EV_PROGRESS,
	STAGE_EV_READY,
	STAGE_EV_REFUSED, /* refused by a rule before anything was started */
	STAGE_EV_ERROR,	  /* the worker reported an error */
	STAGE_EV_DIED,	  /* the worker ended without a report, or sent an invalid message */
	STAGE_EV_TIMEOUT,
	STAGE_EV_CANCEL,   /* release by the user, or end of the job */
	STAGE_EV_GONE,	   /* everything in the manifest has been removed */
	STAGE_EV_STUCK,	   /* something could not be removed */
	STAGE_EV_FALLBACK, /* onfail=source: the entry is now a link to the source */
	STAGE_N_EVENTS,
};

/* Cause of a failure (daemon/stagingd/cause.h). */
enum stage_cause {
	STAGE_CAUSE_NONE,
	STAGE_CAUSE_RULES,
	STAGE_CAUSE_SPACE,
	STAGE_CAUSE_TIME,
	STAGE_CAUSE_MISSING,
	STAGE_CAUSE_DENIED,
	STAGE_CAUSE_IO,
	STAGE_CAUSE_CONTENT,
	STAGE_CAUSE_DIED,
	STAGE_CAUSE_OTHER,
	STAGE_N_CAUSES,
};

enum stage_result {
	STAGE_RESULT_NONE,
	STAGE_RESULT_READY,
	STAGE_RESULT_FAILED,
	STAGE_RESULT_CANCELLED,
};

const char *stage_event_to_string(enum stage_event ev);

/* Looks up the new state in the table. Returns 0, or -EINVAL for a pair that is not in it. */
int stage_get_next(enum stage_state from, enum stage_event ev, enum stage_state *top);

#define STAGE_TEXT_PLAN 1024
#define STAGE_TEXT_WHY 16384
#define STAGE_TEXT_WARNING 4096 /* size of all warnings of a dataset together */
#define STAGE_TEXT_NOTE 1024
#define STAGE_TEXT_WORD 32

struct stage {
	uint32_t id;		   /* unique as long as stagingd runs */
	struct dataset_list owned; /* a list of one item */
	struct dataset *dataset;   /* = owned.items */
	enum stage_state state;
	uint64_t seq;		   /* incremented when anything below changes */
	uint64_t start_ms, end_ms; /* 0: not yet */
	struct history history;

	/* from the site's rules: */
	char *rule; /* name of the rule's section, or NULL */
	char *rule_match;
	char *web;			/* rules for addresses, in the form that the worker needs */
	char *methods, *tiers;		/* in the form of the task message */
	uint64_t max_bytes;		/* 0: no limit */
	uint64_t max_readers, max_rate; /* limits of the rule for all its datasets together; 0:
					 * no limit */

	/* from the worker's messages: */
	char kind[STAGE_TEXT_WORD], format[STAGE_TEXT_WORD];
	char method[STAGE_TEXT_WORD], tier[STAGE_TEXT_WORD];
	char *place; /* path of the data; NULL: data/<name> */
	char *plan, *why;
	char *warning; /* lines, without duplicates */
	size_t n_told; /* bytes of `warning` that some client was already given */
	char *note;    /* text that is shown only until the dataset is ready, or NULL */
	uint64_t bytes, total, files, nfiles;
	uint64_t moved; /* bytes that were read until the dataset was ready */
	uint64_t rate;	/* bytes per second, smoothed */
	pid_t pid;

	/* the result: */
	enum stage_exit code;
	char *reason;
	char *stuck; /* why something could not be removed, or NULL */
	enum stage_cause cause;
	int errnum; /* error number that the worker reported; 0: none */
	bool was_ready;
	const char *waits; /* what a queued dataset waits for, a string literal; NULL: for a free
			    * place */

	/* used by daemon/stagingd/job-metrics.h: */
	uint64_t counted[COUNT_N]; /* what this dataset has added to the figures */
	enum stage_result said;	   /* the result that was logged */
	bool hydrating;		   /* ready, and still being copied (hydrate=copy) */
	uint64_t n_mounts;

	uint64_t rate_bytes, rate_ms; /* state at the last measurement of rate */
	struct kv *message;	      /* the message that was built for message_seq at message_ms */
	uint64_t message_seq, message_ms;
};

/* Takes over the content of *d, which is zeroed. Returns 0 or -ENOMEM. */
int stage_new(struct stage **stagep, uint32_t id, struct dataset *d);
void stage_free(struct stage *s);
DEFINE_FREEP(struct stage, stage_free)

/* Changes the state by the table and logs it. detail: text after the colon in the log, or NULL.
 * A pair that is not in the table is logged as a bug; then nothing changes and the result is
 * false. */
bool stage_apply(struct stage *s, enum stage_event ev, uint64_t now_ms, const char *detail);

/* Sets the failure if there is none yet; later failures are ignored. */
void stage_set_failure(struct stage *s, enum stage_exit code, const char *reason);
/* Sets the path of the dataset that users see. Used without a keeper, where the entry in data/ is a
 * link to it. */
void stage_set_place(struct stage *s, const char *path);
/* Adds a line, unless it is empty or already there. A line that does not fit is dropped; the log
 * has it. */
void stage_add_warning(struct stage *s, const char *text);
/* Sets a note, which is shown after the warnings until the dataset is ready, released or failed. It
 * is not given to clients as a warning. */
void stage_set_note(struct stage *s, const char *text);
/* Removes warnings, because another worker starts and reports its own. Lines that a client was
 * given stay, so that none is given twice. */
void stage_forget_warnings(struct stage *s);
/* Copies the next line that no client was given, and marks it as given. Returns false if there is
 * none. */
bool stage_take_warning(struct stage *s, char line[static STAGE_TEXT_WARNING]);
/* Sets `stuck`, adds the text as a warning, and as the failure if there is none yet. */
void stage_set_stuck(struct stage *s, const char *text);
void stage_set_waits(struct stage *s, const char *what);
void stage_set_facts(struct stage *s, const struct kv *facts);
void stage_set_progress(struct stage *s, uint64_t bytes, uint64_t files, uint64_t now_ms);

/* Builds the `dataset` message; lent until the next call for the same dataset. Returns NULL if out
 * of memory. */
struct kv *stage_get_message(struct stage *s, const char *data_dir, const char *node,
			     uint64_t now_ms);
