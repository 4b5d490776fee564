/*
 * job-copy-place: the directory of a copy that all nodes of a job use, and the leases in it. Each
 * node of the job has one there, a file; the last node that takes its lease away removes the copy.
 */
#pragma once

#include <stdbool.h>

#define JOB_COPY_NODE_SIZE 256 /* of a node's name */

/* The directory below job_dir for the dataset of that name and key; the caller's. NULL: no memory.
 */
char *job_copy_make_path(const char *job_dir, const char *name, const char *key);

/* Makes job_dir/name where it is not there, and the node's lease in it; *fdp is the directory.
 * -EPERM: it is not the caller's alone. */
int job_copy_open_leased(const char *job_dir, const char *name, const char *node, int *fdp);

/* Has the node a lease in that directory? */
bool job_copy_has_lease(int dir, const char *node);
