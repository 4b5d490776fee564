/*
 * untar-levels: decides which members of an archive, and of archives in it, are written to a tree,
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

#define UNTAR_MAX_NESTED 4 /* archives in archives that are opened */

struct untar {
	struct stage_io *io;
	struct path_filter *filter;
	struct tree *tree;
	struct writers *writers; /* of the tree */
	uint64_t n_absolute;	 /* names that lost the slash in front */
	const char *odd_end;	 /* what is wrong with the archive's end, and was accepted */
	uint64_t n_archives;	 /* members that are archives and stay so */
	char first_archive[MEMBER_PATH_SIZE];
};

/* For struct members_hook: where an end that is not as it should be is noted and accepted, which
 * verify=none asks for. NULL: nowhere. */
const char **untar_get_odd_end(struct untar *x);

/* All of it. What it said to the writers may still be under way when it comes back. */
int untar_extract(struct untar *x, struct members *members, struct error *err);
