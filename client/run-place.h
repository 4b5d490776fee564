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
	bool shared;		/* by a launcher that gave the tasks of a node numbers */
	uint32_t local_id;	/* 0: stages for the node */
	uint32_t n_local;	/* tasks on this node, 0: not known */
	uint32_t n_nodes;	/* of the step, 0: not known */
	uint32_t job_id;	/* for messages: of Slurm, or the process's */
	char key[RUN_KEY_SIZE]; /* the same for all tasks of this step that ask for the same value,
				 * and for no others of this user on this node */
};

/* Reads the launcher's variables (SLURM_LOCALID, PALS_LOCAL_RANKID, OMPI_COMM_WORLD_LOCAL_RANK,
 * MPI_LOCALRANKID) by get_env, which is as getenv(3). value: what is asked for. */
void run_place_get(struct run_place *p, const char *value,
		   const char *(*get_env)(const char *name));

/* The number for node i in Slurm's "2(x3),1" (nodes 0..2: 2, node 3: 1); 0: can't be read. */
uint32_t run_place_parse_tasks(const char *text, uint32_t i);
