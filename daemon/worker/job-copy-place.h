/*
 * job-copy-place: the directory of a copy that all nodes of a job use, and its leases. Each node
 * of the job that uses the copy has a lease, which is a file in this directory. The node that
 * removes the last lease also removes the copy.
 */
#pragma once

#include <stdbool.h>

#define JOB_COPY_NODE_SIZE 256 /* maximum size of a node's name */

/* Returns the path below job_dir for the dataset with that name and key; the caller frees it. NULL:
 * out of memory. */
char *job_copy_make_path(const char *job_dir, const char *name, const char *key);

/* Makes job_dir/name if it does not exist, and the node's lease in it. *fdp: the directory. Returns
 * 0 or -errno; -EPERM: others have access to it. */
int job_copy_open_leased(const char *job_dir, const char *name, const char *node, int *fdp);

/* Returns whether the node has a lease in that directory. */
bool job_copy_has_lease(int dir, const char *node);
