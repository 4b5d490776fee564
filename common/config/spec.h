/*
 * spec: the data that sbatch passes to the nodes.
 *
 * It is one text in the job's environment (STAGE_SPEC by spank_job_control_setenv()),
 * "1:WAIT:HASH:VALUE":
 *
 *	WAIT	script, tasks or no; then ",array" if tasks of an array may run at the same time, and
 *		",gres=NAME+NAME" for a job with generic resources
 *	HASH	of the login node's configuration
 *	VALUE	the datasets, in canonical form, with variables expanded
 *
 * Root does not read it. The keeper and stagingd get a kv (keys SPEC_KEY_*) on a sealed memfd.
 */
#pragma once

#include <stdbool.h>

#include "common/config/conf.h"
#include "common/slurm/gres.h"

struct error;

#define SPEC_ENV "STAGE_SPEC"		      /* name for spank_job_control_setenv() */
#define SPEC_ENV_PROLOG "SPANK_STAGE_SPEC"    /* name in the prolog and epilog */
#define SPEC_ENV_JOB "SLURM_SPANK_STAGE_SPEC" /* name in the job */

/* Keys of the kv that stagingd reads: */
#define SPEC_KEY_SPEC "spec"	     /* the text described above */
#define SPEC_KEY_NODE "node"	     /* this node's name */
#define SPEC_KEY_NODELIST "nodelist" /* SLURM_NODELIST of this component */
#define SPEC_KEY_N_NODES "nnodes"
#define SPEC_KEY_PARTITION "partition"
#define SPEC_KEY_RESTART "restart"
#define SPEC_KEY_ARRAY_TASK "arraytask" /* SLURM_ARRAY_TASK_ID; without an array, "0" */

struct spec {
	enum conf_wait wait;
	bool array;	      /* the job is a task of an array; other tasks may start at the same
			       * time */
	char gres[GRES_SIZE]; /* gres.h */
	char conf_hash[17];
	char *value;
};

void spec_deinit(struct spec *spec);
int spec_to_string(const struct spec *spec, char **textp);
int spec_from_string(struct spec *spec, const char *text, struct error *err);
