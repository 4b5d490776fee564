/*
 * job-copy: one copy of a dataset for all nodes of a job, on a file system that they share.
 *
 * Each dataset has a directory <Path>/stage-data-<job>/<name>-<sum>. The sum is computed from the
 * source and from the options that change the copy. In the directory are:
 *
 * 	use.<node>  a lease: the node uses the copy. It is recorded in the node's manifest as a
 * 	            MANIFEST_LEASE. The node that removes the last lease removes the directory.
 * 	state       which node makes the copy, and how much is done: a record of
 * 	            JOB_COPY_STATE_SIZE bytes, which is always written completely
 * 	data        the file or the tree, when it is complete
 *
 * The node that creates `state` makes the copy. Once a second, its worker writes a larger number
 * to `state`, so that the other nodes see that it is alive. Another node makes the copy if that
 * node's lease or `state` is missing, or if the number does not change for the stall limit.
 *
 * Everything here runs as the user.
 */
#pragma once

#include <stdint.h>

#include "common/util/cleanup.h"

struct ctx;
struct error;
struct facts;
struct job_copy;
struct plan;
struct source;
struct target;

#define JOB_COPY_STATE_SIZE 1024

enum {
	JOB_COPY_E_SUCCESS, /* this node must make the copy if *copyp is set; else no copy is
			     * shared here */
	JOB_COPY_E_FOUND,   /* the copy is complete: see job_copy_get_path() */
};

/* Waits until another node of the job has made the copy of this plan. Returns a code from the enum
 * above, or an error with err set; -EREMOTEIO: that node has failed, and err has its reason;
 * -ECANCELED. */
int job_copy_find(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct job_copy **copyp, struct error *err);

/* Frees c. If this node was making the copy and has not finished, another node may begin. */
void job_copy_free(struct job_copy *c);
DEFINE_FREEP(struct job_copy, job_copy_free)

const char *job_copy_get_path(const struct job_copy *c);
/* Returns the name of the node that made the copy; lent. */
const char *job_copy_get_maker(const struct job_copy *c);
void job_copy_get_size(const struct job_copy *c, uint64_t *bytesp, uint64_t *filesp);

/* Turns what was made under target into the copy of all nodes. Returns 0 or an error with err set;
 * -ESTALE: another node makes the copy now. */
int job_copy_put(struct job_copy *c, const struct target *target, uint64_t bytes, uint64_t files,
		 struct error *err);
/* Makes the waiting nodes fail with this error. */
void job_copy_fail(struct job_copy *c, const struct error *why);
