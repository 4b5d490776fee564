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
	STAGE_EV_RESTART, /* the worker found that it is of the wrong class: again */
	STAGE_EV_FACTS,
	STAGE_EV_PROGRESS,
	STAGE_EV_READY,
	STAGE_EV_REFUSED, /* by a rule, before anything was begun */
	STAGE_EV_ERROR,	  /* the worker gave up, with a reason */
	STAGE_EV_DIED,	  /* the worker is gone without a word, or spoke nonsense */
	STAGE_EV_TIMEOUT,
	STAGE_EV_CANCEL,   /* release, or the end of the job */
	STAGE_EV_GONE,	   /* all that the manifest says is taken away */
	STAGE_EV_STUCK,	   /* it could not be taken away */
	STAGE_EV_FALLBACK, /* onfail=source: the entry is a link to the source now */
	STAGE_N_EVENTS,
};

/* Why it failed (daemon/stagingd/cause.h). */
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

/* The table. 0, or -EINVAL for a pair that is not in it. */
int stage_get_next(enum stage_state from, enum stage_event ev, enum stage_state *top);

#define STAGE_TEXT_PLAN 1024
#define STAGE_TEXT_WHY 16384
#define STAGE_TEXT_WARNING 4096 /* all warnings of a dataset together */
#define STAGE_TEXT_NOTE 1024
#define STAGE_TEXT_WORD 32

struct stage {
	uint32_t id;		   /* unique in the life of the daemon */
	struct dataset_list owned; /* of one item */
	struct dataset *dataset;   /* = owned.items */
	enum stage_state state;
	uint64_t seq;		   /* changes with everything below */
	uint64_t start_ms, end_ms; /* 0: not yet */
	struct history history;

	/* By the rules of the site: */
	char *rule; /* name of the section, or NULL */
	char *rule_match;
	char *web;			/* what the rules say of addresses, for the worker */
	char *methods, *tiers;		/* as the task says them */
	uint64_t max_bytes;		/* 0: none */
	uint64_t max_readers, max_rate; /* of the rule, for all its datasets; 0: none */

	/* Said by the worker: */
	char kind[STAGE_TEXT_WORD], format[STAGE_TEXT_WORD];
	char method[STAGE_TEXT_WORD], tier[STAGE_TEXT_WORD];
	char *place; /* where the data is; NULL: data/<name> */
	char *plan, *why;
	char *warning; /* lines, each once */
	size_t n_told; /* bytes of it that a client was given */
	char *note;    /* holds only until the dataset is ready, or NULL */
	uint64_t bytes, total, files, nfiles;
	uint64_t moved; /* bytes read until it was ready */
	uint64_t rate;	/* bytes a second, smoothed */
	pid_t pid;

	/* What it came to: */
	enum stage_exit code;
	char *reason;
	char *stuck; /* why it could not be taken away, or NULL */
	enum stage_cause cause;
	int errnum; /* with the worker's error, 0: none */
	bool was_ready;
	const char *waits; /* for what it is queued, a literal; NULL: for its turn */

	/* daemon/stagingd/job-metrics.h */
	uint64_t counted[COUNT_N]; /* what it was counted for */
	enum stage_result said;	   /* in the log */
	bool behind;		   /* ready, and being copied */
	uint64_t n_mounts;

	uint64_t rate_bytes, rate_ms; /* where the last reading of rate was taken */
	struct kv *message;	      /* built for message_seq at message_ms */
	uint64_t message_seq, message_ms;
};

/* Takes over what is in *d, which is zeroed. */
int stage_new(struct stage **stagep, uint32_t id, struct dataset *d);
void stage_free(struct stage *s);
DEFINE_FREEP(struct stage, stage_free)

/*
 * Changes the state by the table and logs it. detail: what stands behind the colon in the log, or
 * NULL. A pair that is not in the table is logged as a bug: false, and nothing changes.
 */
bool stage_apply(struct stage *s, enum stage_event ev, uint64_t now_ms, const char *detail);

/* The first failure counts: later ones are ignored. */
void stage_set_failure(struct stage *s, enum stage_exit code, const char *reason);
/* The path of the dataset is this one from now on. Without keeper: the entry in data/ is a link to
 * it. */
void stage_set_place(struct stage *s, const char *path);
/* Adds a line, unless it is there or empty. A line that does not fit is only in the log. */
void stage_add_warning(struct stage *s, const char *text);
/* Shown after the warnings until the dataset is ready, released or failed. No client is given it as
 * a warning. */
void stage_set_note(struct stage *s, const char *text);
/* Another worker begins, which reports its own. Lines that a client was given stay, so that none is
 * given twice. */
void stage_forget_warnings(struct stage *s);
/* The next line that no client was given. It counts as given from now on. False: there is none. */
bool stage_take_warning(struct stage *s, char line[static STAGE_TEXT_WARNING]);
/* Also a warning, and the failure, if there is none yet. */
void stage_set_stuck(struct stage *s, const char *text);
void stage_set_waits(struct stage *s, const char *what);
void stage_set_facts(struct stage *s, const struct kv *facts);
void stage_set_progress(struct stage *s, uint64_t bytes, uint64_t files, uint64_t now_ms);

/* What the dataset message says of it; lent until the next call for the same dataset. NULL
 * without memory. */
struct kv *stage_get_message(struct stage *s, const char *data_dir, const char *node,
			     uint64_t now_ms);
