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
	uint64_t image_size; /* size of the image; progress is a share of it */
	uint64_t total;	     /* bytes of content in the image */
	_Atomic uint64_t done, shown;
};

/* Writes the bytes [from, end) of the file to the same place in fd. Holes in the image stay holes;
 * the other bytes of such a file are charged here. path: for messages. */
int sqfs_content_write(struct sqfs_content *c, const struct sqfs_inode *inode, uint64_t from,
		       uint64_t end, int fd, const char *path, struct error *err);

/* Returns true if the file has holes, according to the image. */
bool sqfs_content_is_sparse(const struct sqfs_inode *inode);

/* Writes a message about r, an error of the image's reader, to err. */
int sqfs_content_fail(int r, const char *path, struct error *err);
