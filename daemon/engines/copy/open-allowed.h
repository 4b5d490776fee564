/*
 * open-allowed: opens files and directories that the site's rule covers, by a path or a link.
 */
#pragma once

#include <sys/stat.h>

struct error;

struct allowed {
	char *const *rules; /* daemon/engines/copy/rule-patterns.h */
	const char *real;   /* the resolved source; NULL for a set, whose members have their own */
	const char *top;    /* a directory that the rule covers, if not `real`; else NULL */
	const char *leave_out; /* for hints: how the user leaves an entry out */
};

/* Opens path as the user, follows links, and checks the resolved path against the rules. Only
 * regular files and directories are opened; it never waits for a FIFO or wakes a device. realp may
 * be NULL. */
int allowed_open_path(char *const *rules, const char *path, int *fdp, struct stat *st, char **realp,
		      struct error *err);

/* Does the same for a symbolic link in an open directory; path is its name for messages. A link may
 * lead to the source itself, even if the rule covers only the directory and no path in it. root:
 * the directory with which the walk began; for a set, this is the member. -ENOENT: the target does
 * not exist; -ELOOP: the link leads to itself or to a directory that contains the source. On
 * failure, *st describes the target if it exists. */
int allowed_open_link(const struct allowed *a, int root, int dirfd, const char *name,
		      const char *path, int *fdp, struct stat *st, struct error *err);

/* r: the result of opening path. If it is -ENOENT and path is a link, err gets the link's target.
 * Returns r. */
int allowed_refuse_missing(const char *path, int r, struct error *err);
