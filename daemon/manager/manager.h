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
	/* From the command line, as is the head of st: */
	bool in_step;	  /* a job step started the keeper */
	const char *node; /* name of this node in Slurm; NULL: the host's name */

	int spec_fd;		 /* the job's spec, from the plugin; -1: none, or passed on */
	struct helper_site site; /* settings of the configuration */
	struct jobdir dir;
	struct state st;
	int listen_fd;		  /* socket bound to `sock` in the run directory */
	int log_r;		  /* 0: root copies our log lines to the site's log */
	uint64_t memory_size;	  /* size of the job's tmpfs in bytes */
	uint64_t counts[COUNT_N]; /* figures reported by stagingd, checked against limits */
};

/* Runs the program stage-helper as stage-manager, with the arguments of stage-keeper. Returns the
 * exit status. */
int manager_main(int argc, char **argv);

/* Gives up the system calls that the manager does not need (confine.c), for ever. */
void manager_confine(void);

/* Runs the command `stage-keeper run`. Returns the exit status when the job is over and nothing is
 * left. */
int manager_run(struct manager *k);

/*
 * Starts stagingd and serves its requests (common/protocol/keeper-verbs.h) until stagingd sends
 * KEEPER_END or the keeper is asked to end. If stagingd dies, the writers are killed; the image
 * servers continue. *job_overp: true if Slurm has reported the end of the job, false if only
 * stagingd has.
 */
int manager_serve(struct manager *k, bool *job_overp);

/* Expands a path of the configuration for this job; see helper_find_path(). */
static inline int manager_find_path(const struct manager *k, const char *which,
				    struct helper_path *path)
{
	const struct helper_job job = { k->st.job_id, k->st.uid, k->st.gid, k->node };

	return helper_find_path(which, &job, path);
}
