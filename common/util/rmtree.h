/*
 * rmtree: removes a tree by fd, never following links, never leaving the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct rmtree_limits {
	uint64_t deadline_ms; /* in the time of clock_ms(), after which it stops with -ETIMEDOUT; 0:
			       * none */
	bool keep_root;	      /* only empty the directory */
};

/*
 * Removes `name` in dirfd: a file, or a directory with its content. Refuses "", ".", ".." and names
 * with "/" (-EINVAL). Does not remove mounts beneath it (-EXDEV after the rest is removed), nor a
 * mount on name itself (-EXDEV; its file system is not asked). The number of descriptors does not
 * depend on the depth, because deep directories are moved to the top. Unreadable directories of the
 * caller are made readable first. Returns 0 if it does not exist. To remove a user's tree, the
 * caller must run as that user.
 */
int rmtree_at(int dirfd, const char *name, const struct rmtree_limits *limits, struct error *err);

/* Removes the content of dirfd, but not dirfd itself. Works even if the directory has no name any
 * more. dirfd may be O_PATH. The caller must be able to read and search the directory. */
int rmtree_empty(int dirfd, const struct rmtree_limits *limits, struct error *err);
