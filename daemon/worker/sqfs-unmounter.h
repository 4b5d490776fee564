/*
 * sqfs-unmounter: a helper process that unmounts when this process ends, for whatever reason. It is
 * for mounts made by fusermount3. That program is setuid, so a server that has set no_new_privs
 * cannot run it any more, and a server that was killed cannot run anything.
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
