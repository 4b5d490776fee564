/*
 * sqfs-hydrate: copies an image while it is mounted. Readers read the parts that exist in the copy
 * from the copy.
 */
#pragma once

#include <sys/stat.h>

#include "common/util/cleanup.h"

struct stage_io;
struct error;
struct sqfs_hydrate;
struct sqfs_image;

/* in: the image's file, which img has open; out: the copy, which has its size. Both still belong to
 * the caller. st: status of in when it was examined. From now on, img reads from the copy. No other
 * thread may read from img yet. */
int sqfs_hydrate_new(struct sqfs_hydrate **hp, struct stage_io *io, struct sqfs_image *img, int in,
		     int out, const struct stat *st, struct error *err);

/* Starts copying. Later failures are only warnings of the dataset: its readers continue with the
 * source. */
void sqfs_hydrate_start(struct sqfs_hydrate *h);

/* Stops copying and waits for its threads. img must not be used for reading any more. */
void sqfs_hydrate_free(struct sqfs_hydrate *h);
DEFINE_FREEP(struct sqfs_hydrate, sqfs_hydrate_free)
