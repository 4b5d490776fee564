/*
 * manifest: the list of the objects that we make and must remove. Each entry is written before the
 * object is made.
 *
 * An append-only file of lines "kind path\n" (path escaped), written as the user. Release reads
 * it backwards, treats "already gone" as done and may be run again after a crash.
 */
#pragma once

#include <stddef.h>

#include "common/util/cleanup.h"

struct error;
struct manifest;

enum manifest_kind {
	MANIFEST_TREE,	/* a directory or file of ours, removed by rmtree_at() */
	MANIFEST_MOUNT, /* a FUSE mount made without a keeper: fusermount3 -u -z */
	MANIFEST_LEASE, /* a file DIR/use.NODE: one of several nodes uses DIR. It is removed, and
			 * with the last of DIR's leases DIR goes, and the directory that DIR is in,
			 * if that is empty */
};

#define MANIFEST_LEASE_PREFIX "use." /* and the name of a node */

/* Opens (creates, 0600) the file at path. */
int manifest_open(struct manifest **mp, const char *path, struct error *err);
void manifest_close(struct manifest *m);
DEFINE_FREEP(struct manifest, manifest_close)

int manifest_add(struct manifest *m, enum manifest_kind kind, const char *path, struct error *err);

/* Removes the objects that the file at path lists, the newest first, then empties the file.
 * unmount: undoes a MANIFEST_MOUNT. Keeps the first error and continues. 0 if there is no file. */
int manifest_release(const char *path, int (*unmount)(const char *target, struct error *err),
		     struct error *err);

/* The same for all files in the directory dir that are named as the last component of
 * RUNDIR_MANIFEST, alone or with ".<dataset>" behind it; that without comes last. Keeps the
 * first error and continues. No directory: 0. */
int manifest_release_all(const char *dir, int (*unmount)(const char *target, struct error *err),
			 struct error *err);
