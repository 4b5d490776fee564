/*
 * sqfs-check: walks through all metadata of an image before anything is shown of it.
 *
 * A damaged image is refused with a message instead of failing in the middle of a job. The walk
 * also counts the content of the image.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct sqfs_image;

#define SQFS_CHECK_MAX_DEPTH 4096 /* no path can be deeper */

struct sqfs_counts {
	uint64_t n_files; /* regular files, hard links counted once */
	uint64_t n_dirs;  /* including the root */
	uint64_t n_symlinks;
	uint64_t n_hidden;  /* devices, FIFOs and sockets: never shown */
	uint64_t n_entries; /* names */
	uint64_t bytes;	    /* bytes of content of the regular files */
	uint64_t charge;    /* memory that the extracted content takes, in whole pages */
};

/* Walks through the image in this process. -EIO: "image is damaged: …". */
int sqfs_check_walk(struct sqfs_image *img, struct sqfs_counts *counts, struct error *err);

/* A walk that runs in a child. */
struct sqfs_check {
	pid_t pid;
	int in; /* pipe with the child's record */
};

/*
 * Opens the image and walks through it in a child that has no other rights: no file, no socket,
 * limited memory and CPU time. sqfs_check_begin() returns 0 if the child runs; then
 * sqfs_check_end() must be called, which waits for it. Any failure of the child, also a crash, is
 * an error there. is_cancelled (may be NULL) is called every 100 ms; if it returns true, the walk
 * ends with -ECANCELED.
 */
int sqfs_check_begin(struct sqfs_check *c, int fd, struct error *err);
int sqfs_check_end(struct sqfs_check *c, struct sqfs_counts *counts,
		   bool (*is_cancelled)(void *arg), void *arg, struct error *err);
/* Calls sqfs_check_begin() and sqfs_check_end(). */
int sqfs_check_run(int fd, struct sqfs_counts *counts, bool (*is_cancelled)(void *arg), void *arg,
		   struct error *err);
