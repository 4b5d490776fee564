/*
 * sqfs-content: copies the content of an image's files to files. Any number of threads may call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stage_io;
struct error;
struct sqfs_image;
struct sqfs_inode;

struct sqfs_content {
	struct stage_io *io;
	struct sqfs_image *img;
	uint64_t image_size; /* spread over the content as progress */
	uint64_t total;	     /* bytes of content that the image has */
	_Atomic uint64_t done, shown;
};

/* The bytes [from, end) of the file, to the same place in fd. What the image tells to be holes
 * stays so, and the rest of such a file is charged here. path: for messages. */
int sqfs_content_write(struct sqfs_content *c, const struct sqfs_inode *inode, uint64_t from,
		       uint64_t end, int fd, const char *path, struct error *err);

/* Does the image tell of holes in the file? */
bool sqfs_content_is_sparse(const struct sqfs_inode *inode);

/* r of the image's reader, as a sentence. */
int sqfs_content_fail(int r, const char *path, struct error *err);
