/*
 * sqfs-unmounter: a helper process that takes a mount away when this process ends, however it ends.
 *
 * For mounts made by fusermount3: it is setuid, so a server that has given up new privileges can't
 * run it any more; and one that is killed can't run anything.
 */
#pragma once

#include "common/util/cleanup.h"

struct error;
struct sqfs_unmounter;

/* Starts the helper; path is copied. Call before giving up new privileges. It holds no descriptor
 * of ours. */
int sqfs_unmounter_new(struct sqfs_unmounter **up, const char *path, struct error *err);
/* Has the mount taken away now and waits until that is done. */
void sqfs_unmounter_free(struct sqfs_unmounter *u);
DEFINE_FREEP(struct sqfs_unmounter, sqfs_unmounter_free)
