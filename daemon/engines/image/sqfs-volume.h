/*
 * sqfs-volume: a squashfs image as a volume.
 */
#pragma once

struct sqfs_image;
struct volume;

/* img is not taken over and outlives the volume. 0 or -ENOMEM. */
int sqfs_volume_new(struct volume **vp, struct sqfs_image *img);
