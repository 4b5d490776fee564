/*
 * target: the place where a dataset is made before it is ready, and its last step into the open.
 *
 * In memory it is made as tmp/<name> and renamed to data/<name>. In other tiers it is made as
 * <tierdir>/.<name>.partial, renamed to <tierdir>/<name>, and the keeper mounts it on data/<name>.
 * What is to be kept in memory is made so, too: in a tmpfs that outlives the job.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct ctx;
struct error;

struct target {
	char *tier;
	bool memory;
	char *dir; /* path of dirfd */
	int dirfd;
	char *name; /* of what is being made beneath dirfd */
	char *path; /* dir/name */

	/* The mode of a directory is set after the rename (moving one that its owner may not write
	 * is refused); a stager puts it here. 0: left as it is. */
	mode_t root_mode;
};

/* Asks for the tier's directory where need be, records the entry in the manifest. Nothing of that
 * name exists then. keep: where it can stay after the job, which in memory is another place. */
int target_open(struct ctx *ctx, const char *tier, bool keep, struct target **targetp,
		struct error *err);
void target_close(struct target *t);
DEFINE_FREEP(struct target, target_close)

/* The last act: data/<name> is there, whole. -EEXIST: something else is there. */
int target_publish(struct ctx *ctx, struct target *t, struct error *err);
/* The directory under its final name, in dirfd, gets its own mode. */
int target_set_root_mode(const struct target *t, int dirfd, const char *name, struct error *err);
/* data/<name> becomes the directory or file at path, by a mount of the keeper's. Without a keeper,
 * and where that is refused, a symbolic link to it. */
int target_publish_place(struct ctx *ctx, const char *path, bool read_only, struct error *err);
/* data/<name> becomes a symbolic link to path. */
int target_publish_link(struct ctx *ctx, const char *path, struct error *err);
