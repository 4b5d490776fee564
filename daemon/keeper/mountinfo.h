/*
 * mountinfo: what is mounted where in this process's mount namespace, without touching a mount.
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

struct mountinfo {
	uint64_t mnt_id;
	unsigned major, minor;
	char target[PATH_MAX]; /* unescaped */
	char type[64];
	char options[1024];    /* of the superblock */
};

/* One line of /proc/self/mountinfo; -EPROTO if it is none. */
int mountinfo_parse(struct mountinfo *m, const char *line);

/* The next entry of an open mountinfo file: 1, or 0 at its end. */
int mountinfo_next(FILE *f, struct mountinfo *m);

/* The entry with this id: 0 or -ENOENT. */
int mountinfo_find(struct mountinfo *m, uint64_t mnt_id);
