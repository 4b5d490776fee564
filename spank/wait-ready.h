/*
 * wait-ready: lets tasks wait for the job's datasets, and prints a message if they do not become
 * ready.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/config/conf.h"
#include "spank/slurm-compat.h"

/* --stage-wait given to an srun inside the job. */
#define WAIT_READY_ENV_WAIT "SLURM_SPANK_STAGE_WAIT"

enum wait_ready {
	WAIT_READY_NONE,
	WAIT_READY_NODE, /* until this node is ready */
	WAIT_READY_JOB,	 /* until all nodes of the job are */
};

struct wait_ready_facts {
	enum conf_wait wait;
	bool wait_given; /* to this step's own srun */
	uint32_t step_id;
	uint32_t n_nodes;    /* of the job */
	bool script_held;    /* the batch script that started this step was */
	bool terminal;	     /* the task's input is one: srun --pty */
	const char *command; /* argv[0], NULL: not known */
};

/* Who is held. */
enum wait_ready wait_ready_decide(const struct wait_ready_facts *facts);

/*
 * For task_init, as the user, in the task's own process: holds it as wait_ready_decide() says. Ends
 * the process with status 1, after a sentence on its stderr, if the datasets don't come. Returns
 * when the task may begin. TERM and INT end the wait and the task at once.
 */
void wait_ready_task(spank_t sp);

/* script, tasks or no. 0 or -EINVAL. */
int wait_ready_from_string(const char *text, enum conf_wait *waitp);

/* The program that waits; a test may set another one. */
extern const char *wait_ready_program;
