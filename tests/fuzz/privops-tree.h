/*
 * privops-tree: the file system below the keeper of fuzz-privops-tree.c, and a table of what
 * privileged operations may change in it. scratch-tree.h fills it and reads it.
 */
#pragma once

#include <stdbool.h>

#include "daemon/keeper/keeper.h"
#include "tests/fuzz/scratch-tree.h"

#define PRIVOPS_TREE_JOB 7
#define PRIVOPS_TREE_LEFT 6 /* whose directory is aside, of the same user */
#define PRIVOPS_TREE_USER 1000
#define PRIVOPS_TREE_SYSTEM 490
#define PRIVOPS_TREE_GROUPS "/sys/fs/cgroup"
#define PRIVOPS_TREE_LOG "/var/site/stage.log"
#define PRIVOPS_TREE_FIGURES "/var/site/stage.prom"
#define PRIVOPS_TREE_VARIANTS                                                                      \
	4 /* of what the job has already: nothing, all, links, what others may change */

/* Makes the tree again. */
void privops_tree_fill(int top, unsigned variant);

bool privops_tree_is_same(const struct scratch_list *a, const struct scratch_list *b);

/* Ends the process where something was made, removed, moved or changed that this keeper may not. */
void privops_tree_check(const struct keeper *keeper, const struct scratch_list *before,
			const struct scratch_list *after);

/* What of a path is below a job's directory, "" for that itself; NULL: it is in none. *asidep: it
 * was moved aside. */
const char *privops_tree_find_in_job(const char *path, unsigned long *jobp, bool *asidep);
