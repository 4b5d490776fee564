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
	MANIFEST_TREE,	/* one of our directories or files, removed by rmtree_at() */
	MANIFEST_MOUNT, /* a FUSE mount made without a keeper: fusermount3 -u -z */
	MANIFEST_LEASE, /* a file DIR/use.NODE: one of several nodes uses DIR. With the last lease,
			 * DIR itself is removed, and also its parent directory if that is empty */
};

#define MANIFEST_LEASE_PREFIX "use." /* followed by the name of a node */

/* Opens the file at path; creates it with mode 0600. */
int manifest_open(struct manifest **mp, const char *path, struct error *err);
void manifest_close(struct manifest *m);
DEFINE_FREEP(struct manifest, manifest_close)

int manifest_add(struct manifest *m, enum manifest_kind kind, const char *path, struct error *err);

/* Removes the objects that the file at path lists, the newest first, then empties the file.
 * unmount() undoes a MANIFEST_MOUNT. After an error it continues, and returns the first error.
 * Returns 0 if there is no file. */
int manifest_release(const char *path, int (*unmount)(const char *target, struct error *err),
		     struct error *err);

/* Does the same for all manifests in the directory dir: files with the name of RUNDIR_MANIFEST's
 * last component, alone or followed by ".<dataset>". The one without a dataset comes last. After an
 * error it continues, and returns the first error. Returns 0 if there is no directory. */
int manifest_release_all(const char *dir, int (*unmount)(const char *target, struct error *err),
			 struct error *err);
