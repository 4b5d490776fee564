/*
 * tree-fingerprint: a number that is another one when something in a tree has become another: a
 * name, a size, a mode, an inode or its times. The sum over all that is in it, in any order. No
 * proof against who wants two trees to be the same: both are his.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

struct error;

/* Of one, called path in its tree. Not for what was renamed since: that changes its times. */
uint64_t tree_fingerprint(const char *path, const struct stat *st);

/* Of name in dirfd and all below it, links not followed. name itself may have been renamed
 * meanwhile. -errno: it can't be read, is too deep, is no file or directory, or is_over(arg) says
 * so. */
int tree_fingerprint_all(int dirfd, const char *name, int (*is_over)(void *arg), void *arg,
			 uint64_t *fingerprintp);
