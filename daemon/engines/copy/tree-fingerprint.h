/*
 * tree-fingerprint: a number that changes when a name, a size, a mode, an inode or a time in a tree
 * changes. It is the sum over all entries, in any order. It does not protect against a user who
 * makes two trees with the same number, because both trees belong to him.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

struct error;

/* Returns the fingerprint of one entry, which is called path in its tree. Must not be used for a
 * renamed entry, because renaming changes its times. */
uint64_t tree_fingerprint(const char *path, const struct stat *st);

/* Computes the fingerprint of name in dirfd and of all entries below it, without following links.
 * name itself may have been renamed. Returns 0 or -errno: it cannot be read, is too deep, is
 * neither a file nor a directory, or is_over(arg) returned this. */
int tree_fingerprint_all(int dirfd, const char *name, int (*is_over)(void *arg), void *arg,
			 uint64_t *fingerprintp);
