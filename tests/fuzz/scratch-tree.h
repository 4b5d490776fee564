/*
 * scratch-tree: a small file system that only this process sees, because it is mounted nowhere. It
 * is filled from a table, and read as a list to find what has changed. It needs root, because its
 * files belong to several users. If it cannot do something, it ends the process: a test that does
 * nothing would otherwise pass.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SCRATCH_TREE_MAX 400

struct scratch_entry {
	const char *path; /* "/a/b"; what is missing above it is made, 0755 and root's */
	mode_t mode;	  /* with its type: S_IFDIR, S_IFREG, S_IFLNK */
	uid_t uid;	  /* and gid */
	const char *text; /* of a file, or where a link leads; NULL: "" */
};

struct scratch_file {
	char path[400];
	ino_t ino;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	off_t size;	/* 0 for directories */
	nlink_t nlink;	/* the same */
	time_t changed; /* 1 where nothing was written; 0 for directories */
	bool is_safe; /* of a directory: it and all above belong to root, and nobody else may write
			 there */
};

struct scratch_list {
	size_t n;
	struct scratch_file files[SCRATCH_TREE_MAX];
};

/* A descriptor of its top; -errno where this process may not have one. */
int scratch_tree_open(void);

void scratch_tree_empty(int top);
void scratch_tree_fill(int top, const struct scratch_entry *entries, size_t n);

/* All that is in it, in the order of the directories, which stays the same as long as nothing
 * changes. */
void scratch_tree_read(int top, struct scratch_list *list);
