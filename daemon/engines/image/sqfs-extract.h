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
	uint64_t n_files;  /* files and links */
	uint64_t bytes;	   /* bytes of the files' content */
	uint64_t n_hidden; /* devices, FIFOs and sockets, which are left out */
	mode_t root_mode;  /* mode of the root directory, for target->root_mode */
};

/*
 * Extracts the image to root, an open, empty directory. Uses the dataset's strip=, subdir=,
 * include= and exclude=. size: size of the image, for progress; content: bytes of content in it.
 */
int sqfs_extract(struct stage_io *io, struct sqfs_image *img, int root, uint64_t size,
		 uint64_t content, struct sqfs_extract_result *result, struct error *err);
