/*
 * sqfs-unmounter: a helper process that unmounts when this process ends, for whatever reason. It is
 * for mounts made by fusermount3. That program is setuid, so a server that has set no_new_privs
 * cannot run it any more, and a server that was killed cannot run anything.
 */
#pragma once

#include "common/util/cleanup.h"

struct error;
struct sqfs_unmounter;

/* Starts the helper; path is copied. Call it before this process gives up new privileges. The
 * helper inherits no descriptor. */
int sqfs_unmounter_new(struct sqfs_unmounter **up, const char *path, struct error *err);
/* Makes the helper unmount now, waits for it and frees u. */
void sqfs_unmounter_free(struct sqfs_unmounter *u);
DEFINE_FREEP(struct sqfs_unmounter, sqfs_unmounter_free)
