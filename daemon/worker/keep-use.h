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
	KEEP_USE_E_SUCCESS, /* the dataset must be staged */
	KEEP_USE_E_FOUND,   /* the dataset is there: see keep_use_get_path() */
};

/* Looks for a dataset that an earlier job has kept: what this plan would make, from the same
 * unchanged source. If there is one, it is in use by this job until the job's end. Else, if the
 * dataset is to be kept, *keptp is for keep_use_put(), or NULL if it is not. Waits for another job
 * of the user that stages the same. Returns a code from the enum above, or an error with err set;
 * -ECANCELED. */
int keep_use_find(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp, struct error *err);
/* Does the same without waiting, and only if a kept dataset exists; nothing is begun or reported.
 * Returns 0 if there is none. */
int keep_use_look(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp);
void keep_use_free(struct keep_use *k);
DEFINE_FREEP(struct keep_use, keep_use_free)

/* Called if the found dataset cannot be used: no job finds it again once this one is over. */
void keep_use_drop(struct ctx *ctx, struct keep_use *k);

const char *keep_use_get_path(const struct keep_use *k);
void keep_use_get_size(const struct keep_use *k, uint64_t *bytesp, uint64_t *filesp);

/* Keeps what was made under target for the user's next job, at keep_use_get_path(). Returns 0; > 0:
 * it cannot be kept, and target is unchanged; or an error with err set. */
int keep_use_put(struct ctx *ctx, struct keep_use *k, const struct target *target, uint64_t bytes,
		 uint64_t files, struct error *err);

/* Removes the user's kept dataset beside target that was not used for the longest time. Returns
 * false if nothing was removed. */
bool keep_use_make_room(const struct ctx *ctx, const struct target *target);
/* Does the same for datasets that are kept in memory. */
bool keep_use_make_memory(const struct ctx *ctx);

/* Returns a text about what a kept dataset must have been made from, and how. The caller frees it.
 * NULL: out of memory. */
char *keep_make_key(const struct ctx *ctx, const struct source *src, const struct facts *facts,
		    const struct plan *plan);
