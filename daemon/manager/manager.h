/*
 * manager: the data of the manager of a running job: the job, its configuration, its directory and
 * record.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/counts.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/state.h"

struct manager {
	/* from the command line, as the head of st is */
	bool in_step;	  /* a job step started us */
	const char *node; /* name of this node; NULL: the host's */

	int spec_fd;		 /* from the plugin; -1: none (any more) */
	struct helper_site site; /* what the configuration says */
	struct jobdir dir;
	struct state st;
	int listen_fd;		  /* bound to sock */
	int log_r;		  /* 0: root writes to the site's log what we say */
	uint64_t memory_size;	  /* of the tmpfs */
	uint64_t counts[COUNT_N]; /* what stagingd says of its datasets, within bounds */
};

/* stage-helper under the name of stage-manager, with the words of stage-keeper: its exit status. */
int manager_main(int argc, char **argv);

/* Gives up the calls that it does not need (confine.c), for ever. */
void manager_confine(void);

/* `stage-keeper run`: returns the exit status when the job is over and nothing is left. */
int manager_run(struct manager *k);

/*
 * Starts stagingd and serves its requests (common/protocol/keeper-verbs.h) until it sends
 * KEEPER_END or the keeper is asked to end. If stagingd dies, the writers are ended; the image
 * servers continue. *job_overp: Slurm has reported the end of the job, not stagingd.
 */
int manager_serve(struct manager *k, bool *job_overp);

/* Where a path of the site's leads for this job, see helper_find_path(). */
static inline int manager_find_path(const struct manager *k, const char *which,
				    struct helper_path *path)
{
	const struct helper_job job = { k->st.job_id, k->st.uid, k->st.gid, k->node };

	return helper_find_path(which, &job, path);
}
