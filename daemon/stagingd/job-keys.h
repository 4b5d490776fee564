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

	struct keys *keys; /* NULL: none */
	char none[160];	   /* why the one who was asked last had none; "": nobody was */
	unsigned n_asked;  /* goes up whenever one more dataset begins to wait */
};

/* What one dataset has come to; in struct stage_run. */
struct stage_keys {
	enum { STAGE_KEYS_OPEN, STAGE_KEYS_WAITING, STAGE_KEYS_ANSWERED } state;
	char *found; /* what the worker found in the files; NULL: it did not look */
	struct loop_timer timer;
};

void job_keys_deinit(struct job_keys *jk);
void stage_keys_init(struct stage_run *run);
void stage_keys_deinit(struct stage_run *run);

/* Must the dataset stay queued, because it waits for keys? It may begin to, here. */
bool job_keys_hold(struct job_keys *jk, struct stage_run *run);

/* Its worker has found none in the files, and is ending. True: the dataset is to be queued again.
 * False: it has failed; *textp is the sentence, of buf where there is more to say. */
bool job_keys_miss(struct stage_run *run, const char *found, char *buf, size_t size,
		   const char **textp);

/* A client answers: by keys in a message, or by the field `none`. They take the place of those that
 * were there. -EINVAL: they are neither. */
int job_keys_take(struct job_keys *jk, const struct kv *kv, struct error *err);

/* Does a dataset wait for them? */
bool job_keys_are_wanted(const struct job_keys *jk);

/* A descriptor for its worker (common/protocol/keys.h), or -1. */
int job_keys_to_fd(const struct job_keys *jk, const struct stage_run *run);

/* Wipes them if no dataset is left that could need them. */
void job_keys_look(struct job_keys *jk);
