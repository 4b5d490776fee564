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

/* in: the image's file as img has it open; out: the copy, of its size. Both stay the caller's. st:
 * what in was when it was looked at. img reads from the copy from now on; nobody else may read
 * from img yet. */
int sqfs_hydrate_new(struct sqfs_hydrate **hp, struct stage_io *io, struct sqfs_image *img, int in,
		     int out, const struct stat *st, struct error *err);

/* Begins. What goes wrong from now on is a warning of the dataset's: its readers go on with the
 * source. */
void sqfs_hydrate_start(struct sqfs_hydrate *h);

/* Stops and waits. img must not be read from any more. */
void sqfs_hydrate_free(struct sqfs_hydrate *h);
DEFINE_FREEP(struct sqfs_hydrate, sqfs_hydrate_free)
