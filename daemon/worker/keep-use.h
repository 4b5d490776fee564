/*
 * keep-use: finds and makes kept datasets, which keep= leaves on disk or in memory for the user's
 * next job (common/keep/keep.h), for a worker. A dataset that cannot be kept is staged as usual,
 * and stagectl shows the reason.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct ctx;
struct error;
struct facts;
struct keep_use;
struct plan;
struct source;
struct target;

enum {
	KEEP_USE_E_SUCCESS, /* it is to be staged */
	KEEP_USE_E_FOUND,   /* it is there: keep_use_get_path() */
};

/*
 * Is what the plan would make there from an earlier job, of the same source, unchanged? Then it is
 * this job's, too, until its end. Else, where it is to be kept, *keptp is for keep_use_put(); NULL
 * where not. Waits for another job of the user's that stages the same. -ECANCELED.
 */
int keep_use_find(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp, struct error *err);
/* The same, at once, where it is there; nothing else is begun, waited for or told. 0: it is not. */
int keep_use_look(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp);
void keep_use_free(struct keep_use *k);
DEFINE_FREEP(struct keep_use, keep_use_free)

/* What was found can't be used: no job finds it again, once this one is over. */
void keep_use_drop(struct ctx *ctx, struct keep_use *k);

const char *keep_use_get_path(const struct keep_use *k);
void keep_use_get_size(const struct keep_use *k, uint64_t *bytesp, uint64_t *filesp);

/* What was made under target is the user's next job's, too, under keep_use_get_path(). > 0: it
 * can't be kept, and target is as it was. */
int keep_use_put(struct ctx *ctx, struct keep_use *k, const struct target *target, uint64_t bytes,
		 uint64_t files, struct error *err);

/* Takes away what the user has kept beside target and did not use for longest. false: nothing. */
bool keep_use_make_room(const struct ctx *ctx, const struct target *target);
/* The same of what the user has kept in memory. */
bool keep_use_make_memory(const struct ctx *ctx);

/* What a kept dataset has to have been made from, and how. Caller frees. NULL: no memory. */
char *keep_make_key(const struct ctx *ctx, const struct source *src, const struct facts *facts,
		    const struct plan *plan);
