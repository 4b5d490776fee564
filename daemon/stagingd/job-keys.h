/*
 * job-keys: the user's keys for datasets of S3, which clients send from his environment. This
 * module knows which datasets wait for them, and for how long, and stores the keys until no dataset
 * needs them any more.
 *
 * A dataset waits, queued, before its worker is started where its item says keys=env, and after a
 * worker has found none in the user's files. Each client that waits for datasets is asked (op
 * needkeys) and answers for the whole job: with keys, or with the reason why it has none.
 */
#pragma once

#include <stdbool.h>

#include "daemon/stagingd/loop.h"

struct error;
struct job_end;
struct job_info;
struct job_runs;
struct keys;
struct kv;
struct stage_run;

struct job_keys {
	const struct job_info *info;
	const struct job_runs *runs;
	const struct job_end *end;

	struct keys *keys; /* NULL: no client has sent keys */
	char none[160];	   /* why the client that was asked last had no keys; "": no client has
			    * said so */
	unsigned n_asked;  /* incremented when a dataset begins to wait for keys */
};

/* State of one dataset's keys; part of struct stage_run. */
struct stage_keys {
	enum { STAGE_KEYS_OPEN, STAGE_KEYS_WAITING, STAGE_KEYS_ANSWERED } state;
	char *found; /* the worker's error from its search in the files; NULL: it has not
		      * searched yet */
	struct loop_timer timer;
};

void job_keys_deinit(struct job_keys *jk);
void stage_keys_init(struct stage_run *run);
void stage_keys_deinit(struct stage_run *run);

/* Returns whether the dataset must stay queued because it waits for keys. Starts the wait if
 * necessary. */
bool job_keys_hold(struct job_keys *jk, struct stage_run *run);

/* Called when the dataset's worker has found no keys in the files and is ending. Returns true if
 * the dataset must be queued again. False: the dataset has failed; *textp is the reason, which is
 * `found` or a longer text in buf. */
bool job_keys_miss(struct stage_run *run, const char *found, char *buf, size_t size,
		   const char **textp);

/* Takes a client's answer: keys, which replace earlier ones, or the field `none` with the reason
 * why it has none. Returns 0 or an error with err set; -EINVAL: the answer has neither. */
int job_keys_take(struct job_keys *jk, const struct kv *kv, struct error *err);

/* Returns whether a dataset waits for keys. */
bool job_keys_are_wanted(const struct job_keys *jk);

/* Returns a descriptor from which the worker can read the keys (common/protocol/keys.h), or -1. The
 * caller owns it. */
int job_keys_to_fd(const struct job_keys *jk, const struct stage_run *run);

/* Wipes and frees the keys if no dataset can need them any more. */
void job_keys_look(struct job_keys *jk);
