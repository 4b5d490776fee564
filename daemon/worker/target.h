/*
 * target: the directory in which a dataset is made before it is ready, and the step that makes it
 * visible.
 *
 * In memory, a dataset is made as tmp/<name> and renamed to data/<name>. In other tiers, it is
 * made as <tierdir>/.<name>.partial and renamed to <tierdir>/<name>, and the keeper mounts it on
 * data/<name>. A dataset that is kept in memory is made in the same way as in other tiers, in a
 * tmpfs that still exists after the job.
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
	char *name; /* name of the unfinished entry in dirfd */
	char *path; /* dir/name */

	/* mode of a directory, which the stager sets. It is applied after the rename, because a
	 * directory that its owner may not write cannot be moved. 0: do not change it */
	mode_t root_mode;
};

/* Gets the directory in the tier and records the entry in the manifest. The name does not exist
 * afterwards. keep: use the place where data can stay after the job; in memory, this is another
 * tmpfs. Returns 0 or an error with err set. */
int target_open(struct ctx *ctx, const char *tier, bool keep, struct target **targetp,
		struct error *err);
void target_close(struct target *t);
DEFINE_FREEP(struct target, target_close)

/* Publishes the complete dataset as data/<name>. Returns 0 or an error with err set; -EEXIST:
 * something with this name exists. */
int target_publish(struct ctx *ctx, struct target *t, struct error *err);
/* Applies root_mode to the directory `name` in dirfd, which has its final name. */
int target_set_root_mode(const struct target *t, int dirfd, const char *name, struct error *err);
/* Makes data/<name> show the directory or file at path, by a mount of the keeper. Without a keeper,
 * or if the mount is refused, it becomes a symbolic link to path. */
int target_publish_place(struct ctx *ctx, const char *path, bool read_only, struct error *err);
/* Makes data/<name> a symbolic link to path. */
int target_publish_link(struct ctx *ctx, const char *path, struct error *err);
