/*
 * acts-tree: the file system below the keeper of fuzz-acts-tree.c, and what may change in it by any
 * acts. What is in it, and how it is read, is scratch-tree.h's.
 */
#pragma once

#include <stdbool.h>

#include "daemon/keeper/keeper.h"
#include "tests/fuzz/scratch-tree.h"

#define ACTS_TREE_JOB 7
#define ACTS_TREE_USER 1000
#define ACTS_TREE_SYSTEM 490
#define ACTS_TREE_GROUPS "/sys/fs/cgroup"
#define ACTS_TREE_LOG "/var/site/stage.log"
#define ACTS_TREE_FIGURES "/var/site/stage.prom"
#define ACTS_TREE_VARIANTS                                                                         \
	4 /* of what the job has already: nothing, all, links, what others may change */

/* Makes the tree anew. */
void acts_tree_fill(int top, unsigned variant);

bool acts_tree_is_same(const struct scratch_list *a, const struct scratch_list *b);

/* Ends the process where something was made, removed, moved or changed that this keeper may not. */
void acts_tree_check(const struct keeper *keeper, const struct scratch_list *before,
		     const struct scratch_list *after);

/* What of a path is below a job's directory, "" for that itself; NULL: it is in none. *asidep: it
 * was moved aside. */
const char *acts_tree_find_in_job(const char *path, unsigned long *jobp, bool *asidep);
