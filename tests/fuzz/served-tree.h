/*
 * served-tree: a description of a tree, and a function that reads a tree from the image server,
 * request by request, as the kernel would.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <zlib.h>

struct volume;

#define TREE_UID 1000
#define TREE_GID 1001
#define TREE_PAGE 131072 /* bytes that are read at once */

struct entry {
	char *path;
	char *text;    /* of a link */
	uint64_t node; /* where it is served */
	mode_t mode;
	off_t size;
	nlink_t n_links;
	struct timespec mtime;
	uLong content; /* a sum over it */
	bool failed;
};

struct tree {
	struct entry *v;
	size_t n, room;
	bool failed;
};

void tree_clear(struct tree *t);
struct entry *tree_add(struct tree *t, const char *parent, const char *name, const struct stat *st);
/* The sum over the target of a link, as of a file that has it as its content. */
void tree_sum_link(struct entry *e);
/* By path; no two may have the same. */
void tree_sort(struct tree *t);
/* Of a large file only the beginning and the end are read: where to go on after what ended at. */
off_t tree_next_place(off_t at, off_t size);

/* Reads all that the volume shows, and checks that each answer is a sound one. No byte may come
 * from behind archive_size. */
void tree_read(struct tree *t, struct volume *volume, size_t archive_size);
