/*
 * untar-extract: decides which members of an archive, and of archives in it, are written to a tree,
 * and under which names.
 */
#pragma once

#include <stdint.h>

#include "common/dataset/member-path.h"

struct stage_io;
struct error;
struct path_filter;
struct members;
struct tree;
struct writers;

#define UNTAR_MAX_NESTED 4 /* maximum depth of archives in archives that are opened */

struct untar {
	struct stage_io *io;
	struct path_filter *filter;
	struct tree *tree;
	struct writers *writers; /* the writers of tree */
	uint64_t n_absolute;	 /* names whose leading slash was removed */
	const char *odd_end;	 /* what is wrong with the archive's end, if this was accepted */
	uint64_t n_archives;	 /* members that are archives and are not opened */
	char first_archive[MEMBER_PATH_SIZE];
};

/* Returns the place for a wrong end of the archive, which verify=none accepts, for struct
 * members_hook. NULL: a wrong end is an error. */
const char **untar_get_odd_end(struct untar *x);

/* Extracts all members. The writers may still work when this returns. */
int untar_extract(struct untar *x, struct members *members, struct error *err);
