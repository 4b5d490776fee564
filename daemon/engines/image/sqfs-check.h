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

#define SQFS_CHECK_MAX_DEPTH 4096 /* deeper than any path can name */

struct sqfs_counts {
	uint64_t n_files; /* regular files, hard links counted once */
	uint64_t n_dirs;  /* with the root */
	uint64_t n_symlinks;
	uint64_t n_hidden;  /* devices, FIFOs and sockets: never shown */
	uint64_t n_entries; /* names */
	uint64_t bytes;	    /* content of the regular files */
	uint64_t charge;    /* the same in whole pages: what they take in memory, unpacked */
};

/* Walks in this process. -EIO: "image is damaged: …". */
int sqfs_check_walk(struct sqfs_image *img, struct sqfs_counts *counts, struct error *err);

/* A walk under way in a child. */
struct sqfs_check {
	pid_t pid;
	int in; /* its record comes here */
};

/*
 * Opens and walks the image in a child that can do nothing else: no file, no socket, limited memory
 * and CPU time. 0: it is under way, and sqfs_check_end() has to follow, which waits for it.
 * Whatever happens to the child, a crash included, is an error there. is_cancelled (may be NULL) is
 * asked every 100 ms: true ends it with -ECANCELED.
 */
int sqfs_check_begin(struct sqfs_check *c, int fd, struct error *err);
int sqfs_check_end(struct sqfs_check *c, struct sqfs_counts *counts,
		   bool (*is_cancelled)(void *arg), void *arg, struct error *err);
/* Both. */
int sqfs_check_run(int fd, struct sqfs_counts *counts, bool (*is_cancelled)(void *arg), void *arg,
		   struct error *err);
