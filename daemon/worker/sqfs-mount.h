/*
 * sqfs-mount: an image or an archive mounted for a job, from the checked file to the end of its
 * service.
 */
#pragma once

#include <sys/stat.h>

#include "common/util/cleanup.h"

struct archive_index;
struct ctx;
struct error;
struct sqfs_mount;

/*
 * Mounts the image open as fd (dup'ed) where the keeper says or, without one, at <rundir>/m/<slot>
 * by fusermount3, recorded before. Nothing answers there until sqfs_mount_serve(). -EINVAL where
 * subdir= is not a directory of the image; -ENODEV where mounts can't be made.
 */
int sqfs_mount_new(struct sqfs_mount **mp, struct ctx *ctx, int fd, struct error *err);
/* The same of the archive open as fd, by its index, which is taken over in any case. st: of the
 * archive when it was indexed. */
int sqfs_mount_new_archive(struct sqfs_mount **mp, struct ctx *ctx, struct archive_index *x, int fd,
			   const struct stat *st, struct error *err);
/* Takes the mount away if it was made without keeper. */
void sqfs_mount_free(struct sqfs_mount *m);
DEFINE_FREEP(struct sqfs_mount, sqfs_mount_free)

/* The image is copied to fd (dup'ed; of its size) while it is served, and served from there. st: of
 * the image. */
int sqfs_mount_set_copy(struct sqfs_mount *m, int fd, const struct stat *st, struct error *err);

/* Before the mount is announced: it answers, and the first close of a user's then does not wait for
 * the server. -ENODEV: nothing can be mounted. */
int sqfs_mount_settle(struct sqfs_mount *m, struct error *err);

/* The mount point, at which the image begins, or its directory subdir=. Lent. */
const char *sqfs_mount_get_path(const struct sqfs_mount *m);

/*
 * Gives up what privileges there are and serves until the mount is gone or stagingd cancels.
 * Without keeper the end of stagingd and SIGTERM end it too. With keeper both are passed over: the
 * tasks may read until the last of them is gone, and the keeper unmounts.
 */
int sqfs_mount_serve(struct sqfs_mount *m, struct error *err);
