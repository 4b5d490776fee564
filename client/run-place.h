/*
 * run-place: the number of this `stagectl run` among the processes that were started with it on the
 * node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_KEY_SIZE 128

struct run_place {
	bool shared;		/* a launcher has numbered the tasks of the node */
	uint32_t local_id;	/* task 0 stages for the node */
	uint32_t n_local;	/* tasks on this node, 0: not known */
	uint32_t n_nodes;	/* of the step, 0: not known */
	uint32_t job_id;	/* for messages: the id of the Slurm job, or of this process */
	char key[RUN_KEY_SIZE]; /* the same for all tasks of this step with the same value,
				 * different for all others of this user on this node */
};

/* Reads the launcher's variables (SLURM_LOCALID, PALS_LOCAL_RANKID, OMPI_COMM_WORLD_LOCAL_RANK,
 * MPI_LOCALRANKID) with get_env, which works like getenv(3). value: the value of --stage-data. */
void run_place_get(struct run_place *p, const char *value,
		   const char *(*get_env)(const char *name));

/* Returns the number for node i in Slurm's "2(x3),1" (nodes 0 to 2: 2, node 3: 1); 0 if text is
 * malformed. */
uint32_t run_place_parse_tasks(const char *text, uint32_t i);
