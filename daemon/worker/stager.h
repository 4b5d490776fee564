/*
 * stager: the code behind a method. A new one is a file stagers/<word>.c that defines
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

/* What stage() made. */
struct stager_result {
	uint64_t bytes, files; /* that lie there now */
	char *link_to;	       /* absolute: the entry becomes what is there, or with method=link a
				* symbolic link to it; target is not published. NULL: target is
				* renamed into place. Freed by worker-stage.c. */
	bool stays;	       /* serve() is called after ready */
	void *state;	       /* for serve() */
};

struct stager {
	const char *name;

	/* Is this the code for such a method and source? Pure: plan asks it too. method is never
	 * auto. Of several the first in the list is taken. */
	bool (*accepts)(enum dataset_method method, const struct facts *facts);

	/*
	 * Does the work. target is open where plan->tier is not "source" (else NULL): make
	 * target->name beneath target->dirfd, as a file or a directory; all of it is recorded in
	 * the manifest already. On failure what was made under target is left for worker-stage.c to
	 * take away; threads are joined and fds closed. -ECANCELED when ctx_is_cancelled().
	 */
	int (*stage)(struct ctx *ctx, struct source *src, const struct facts *facts,
		     const struct plan *plan, struct target *target, struct stager_result *result,
		     struct error *err);

	/* Finds out what the plan's need was guessed for, by reading more of the source than a
	 * probe may: extract_bytes and extract_files become exact. NULL: nothing to find out. */
	int (*measure)(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err);

	/* For what stays: returns when the mount is gone or stop was called (ctx_set_serving()).
	 * Frees state. NULL for others. */
	int (*serve)(struct ctx *ctx, void *state, struct error *err);
};

extern const struct stager stager_copy, stager_extract, stager_fetch, stager_link, stager_squashfs;

/* The first that accepts; NULL: none. */
const struct stager *stager_find(enum dataset_method method, const struct facts *facts);

/* Was this program built with squashfs images and mounts (option `squashfs`)? */
bool stager_has_images(void);
