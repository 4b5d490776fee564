/*
 * sqfs-extract: extracts an image to a directory, as unsquashfs does, but without setuid bits,
 * devices, FIFOs and sockets.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct stage_io;
struct error;
struct sqfs_image;

struct sqfs_extract_result {
	uint64_t n_files;  /* and links */
	uint64_t bytes;	   /* of the files' content */
	uint64_t n_hidden; /* left out: devices, FIFOs and sockets */
	mode_t root_mode;  /* of the directory itself, for target->root_mode */
};

/*
 * root: an open, empty directory. By the dataset's strip=, subdir=, include= and exclude=. size: of
 * the image, spread over the content as progress.
 */
int sqfs_extract(struct stage_io *io, struct sqfs_image *img, int root, uint64_t size,
		 uint64_t content, struct sqfs_extract_result *result, struct error *err);
