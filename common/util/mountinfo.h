/*
 * mountinfo: reads the mount table of this process's namespace. It does not access the mounts.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

struct mountinfo {
	unsigned major, minor;
	char target[PATH_MAX]; /* unescaped */
	char type[64];
	char options[1024]; /* of the super block */
};

/* Parses one line of /proc/self/mountinfo. Returns -EPROTO if it is malformed. */
int mountinfo_parse(struct mountinfo *m, const char *line);

/* Finds the last (topmost) entry with this target, type and super block option; each may be NULL
 * for any. Without a target, finds the first entry, which is the system's own mount; bind mounts of
 * it come later. Returns 0, -ENOENT, or another -errno if the table cannot be read. */
int mountinfo_find(struct mountinfo *m, const char *target, const char *type, const char *option);

/* A query of mountinfo_find_first(). option: NULL for any. */
struct mountinfo_query {
	const char *type, *option;
	char target[PATH_MAX]; /* the result; "": not found */
};

/* Finds the first matching entry for each query, in one pass. Returns 0, or -errno if the table
 * cannot be read. */
int mountinfo_find_first(struct mountinfo_query *queries, size_t n);

/* Writes the path of `name` in the directory dirfd. Returns its length, or -errno. */
int mountinfo_path_at(char path[static PATH_MAX], int dirfd, const char *name);

/* Finds the topmost mount on `name` in the directory dirfd. Returns 0; -ENOENT if there is none;
 * another -errno if this is not known. All our paths are in directories of root, so a path
 * identifies a mount as well as a mount id. */
int mountinfo_find_at(struct mountinfo *m, int dirfd, const char *name);
