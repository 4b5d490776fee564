/*
 * rmtree: removes a tree by fd, never following links, never leaving the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct rmtree_limits {
	uint64_t deadline_ms; /* clock_ms() at which to stop with -ETIMEDOUT; 0: none */
	bool keep_root;	      /* empty the directory, keep it */
};

/*
 * Removes name beneath dirfd, whatever it is. Refuses "", ".", ".." and names with "/"
 * (-EINVAL). Mounts beneath are left alone (-EXDEV after the rest is gone), and so is one on name
 * itself (-EXDEV, and its file system is not asked). Needs a constant
 * number of fds whatever the depth: deep directories are hoisted to the top by rename.
 * Unreadable directories of the caller's own are made readable first. Already gone is 0.
 * Runs as its caller: for a user's tree, the caller must have become that user.
 */
int rmtree_at(int dirfd, const char *name, const struct rmtree_limits *limits, struct error *err);

/* Removes the content of dirfd, but not dirfd itself; this also works if the directory has no name
 * any more. It may be an O_PATH descriptor. The caller must be able to read and search it. */
int rmtree_empty(int dirfd, const struct rmtree_limits *limits, struct error *err);
