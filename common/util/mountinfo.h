/*
 * mountinfo: what is mounted where in this process's mount namespace, without touching a mount.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

struct mountinfo {
	unsigned major, minor;
	char target[PATH_MAX]; /* unescaped */
	char type[64];
	char options[1024]; /* of the superblock */
};

/* One line of /proc/self/mountinfo; -EPROTO if it is none. */
int mountinfo_parse(struct mountinfo *m, const char *line);

/* The last (topmost) entry with that target, type and superblock option; NULL: any. Without a
 * target the first, which is the system's own: what others bind of it comes later. 0, -ENOENT, or
 * why it can't be read. */
int mountinfo_find(struct mountinfo *m, const char *target, const char *type, const char *option);

/* What mountinfo_find_first() looks for; option: NULL: any. */
struct mountinfo_query {
	const char *type, *option;
	char target[PATH_MAX]; /* empty: there is none */
};

/* For each query the first entry that fits, in one pass. 0, or why the table can't be read. */
int mountinfo_find_first(struct mountinfo_query *queries, size_t n);

/* The path of name in the directory dirfd; its length, or -errno. */
int mountinfo_path_at(char path[static PATH_MAX], int dirfd, const char *name);

/* The topmost mount on name in the directory dirfd: 0, -ENOENT if there is none, or why this is not
 * known. All our paths are in directories of root, so a path identifies a mount as well as a mount
 * id. */
int mountinfo_find_at(struct mountinfo *m, int dirfd, const char *name);
