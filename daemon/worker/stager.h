/*
 * stager: the code of a method. A new one is a file stagers/<word>.c that defines
 * `const struct stager stager_<word>`, and a line in the list in stager.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"

struct ctx;
struct error;
struct plan;
struct source;
struct target;

/* The result of stage(). */
struct stager_result {
	uint64_t bytes, files; /* what is in the target now */
	/* absolute path: the entry shows what is there, or with method=link becomes a symbolic
	 * link to it, and target is not published. NULL: target is renamed into place. Freed by
	 * worker-stage.c. */
	char *link_to;
	bool stays;  /* the worker stays: serve() is called after `ready` */
	void *state; /* for serve() */
};

struct stager {
	const char *name;

	/* Returns whether this code handles such a method and source. Pure, because the planner
	 * calls it, too. method is never auto. The first stager in the list that accepts is
	 * used. */
	bool (*accepts)(enum dataset_method method, const struct facts *facts);

	/* Does the work. target is open unless plan->tier is "source"; then it is NULL. The stager
	 * makes target->name below target->dirfd, as a file or a directory; it is already recorded
	 * in the manifest. On failure, worker-stage.c removes what was made under target, but
	 * threads are joined and descriptors are closed. Returns 0 or an error with err set;
	 * -ECANCELED if ctx_is_cancelled(). */
	int (*stage)(struct ctx *ctx, struct source *src, const struct facts *facts,
		     const struct plan *plan, struct target *target, struct stager_result *result,
		     struct error *err);

	/* Replaces an estimated size by an exact one (extract_bytes and extract_files), by reading
	 * more of the source than a probe may. NULL: not supported. */
	int (*measure)(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);

	/* Serves a mount until it is gone or stop was called (ctx_set_serving()). Frees state.
	 * NULL: the stager makes no mounts. */
	int (*serve)(struct ctx *ctx, void *state, struct error *err);
};

extern const struct stager stager_copy, stager_extract, stager_fetch, stager_link, stager_squashfs;

/* Returns the first stager that accepts; NULL: none. */
const struct stager *stager_find(enum dataset_method method, const struct facts *facts);

/* Returns whether this build supports squashfs images and mounts (build option `squashfs`). */
bool stager_has_images(void);
