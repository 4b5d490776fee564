/*
 * sqfs-volume: a squashfs image as a volume.
 */
#pragma once

struct sqfs_image;
struct volume;

/* Makes a volume. img still belongs to the caller and must outlive the volume. Returns 0 or
 * -ENOMEM. */
int sqfs_volume_new(struct volume **vp, struct sqfs_image *img);
