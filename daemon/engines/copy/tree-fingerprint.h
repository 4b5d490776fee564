/*
 * tree-fingerprint: a number that changes when a name, a size, a mode, an inode or a time in a tree
 * changes. It is the sum over all entries, in any order. It does not protect against a user who
 * makes two trees with the same number, because both trees belong to him.
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
