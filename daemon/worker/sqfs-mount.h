/*
 * sqfs-mount: mounts an image or an archive for a job, and serves it until the mount ends.
 */
#pragma once

#include <sys/stat.h>

#include "common/util/cleanup.h"

struct archive_index;
struct ctx;
struct error;
struct sqfs_mount;

/* Mounts the image of the open file fd, which is duplicated. With a keeper, it chooses the mount
 * point; else fusermount3 mounts at <rundir>/m/<slot>, which is recorded before. The mount does not
 * answer until sqfs_mount_serve() runs. Returns 0 or an error with err set; -EINVAL: subdir= is not
 * a directory of the image; -ENODEV: mounts are not possible. */
int sqfs_mount_new(struct sqfs_mount **mp, struct ctx *ctx, int fd, struct error *err);
/* Does the same for the archive of the open file fd, with its index, which is taken over in any
 * case. st: state of the archive when it was indexed. */
int sqfs_mount_new_archive(struct sqfs_mount **mp, struct ctx *ctx, struct archive_index *x, int fd,
			   const struct stat *st, struct error *err);
/* Frees the mount. Without a keeper, unmounts it. */
void sqfs_mount_free(struct sqfs_mount *m);
DEFINE_FREEP(struct sqfs_mount, sqfs_mount_free)

/* Copies the image to fd while it is served, and serves it from there. fd is duplicated and has the
 * size of the image. st: state of the image. */
int sqfs_mount_set_copy(struct sqfs_mount *m, int fd, const struct stat *st, struct error *err);

/* Waits until the mount answers; call it before the mount is reported. Later, the first close() of
 * a user does not wait for the server. Returns 0 or an error with err set; -ENODEV: nothing can be
 * mounted. */
int sqfs_mount_settle(struct sqfs_mount *m, struct error *err);

/* Returns the mount point, which shows the root of the image, or its directory subdir=. Lent. */
const char *sqfs_mount_get_path(const struct sqfs_mount *m);

/* Gives up the remaining privileges and serves until the mount is gone or stagingd cancels. Without
 * a keeper, the end of stagingd and SIGTERM also end the service. With a keeper, both are ignored:
 * tasks may read until the last one has ended, and then the keeper unmounts. */
int sqfs_mount_serve(struct sqfs_mount *m, struct error *err);
