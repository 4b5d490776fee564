/*
 * wait-ready: lets tasks wait for the job's datasets, and prints a message if they do not become
 * ready.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/config/conf.h"
#include "spank/slurm-compat.h"

/* The value of --stage-wait of an srun inside the job. */
#define WAIT_READY_ENV_WAIT "SLURM_SPANK_STAGE_WAIT"

enum wait_ready {
	WAIT_READY_NONE,
	WAIT_READY_NODE, /* wait until this node is ready */
	WAIT_READY_JOB,	 /* wait until all nodes of the job are ready */
};

struct wait_ready_facts {
	enum conf_wait wait;
	bool wait_given; /* given to the srun of this step */
	uint32_t step_id;
	uint32_t n_nodes;    /* of the job */
	bool script_held;    /* the batch script that started this step was held */
	bool terminal;	     /* the task's stdin is a terminal: srun --pty */
	const char *command; /* argv[0]; NULL: not known */
};

/* Decides whether a task is held, and for which nodes. */
enum wait_ready wait_ready_decide(const struct wait_ready_facts *facts);

/*
 * For task_init, as the user, in the process of the task: holds the task according to
 * wait_ready_decide(). If the datasets do not become ready, prints a sentence on stderr and ends
 * the process with status 1. Returns when the task may begin. SIGTERM and SIGINT end the wait and
 * the task at once.
 */
void wait_ready_task(spank_t sp);

/* Parses script, tasks or no. Returns 0 or -EINVAL. */
int wait_ready_from_string(const char *text, enum conf_wait *waitp);

/* The program that waits; tests set another one. */
extern const char *wait_ready_program;
