/*
 * squeue: asks Slurm, by stage-slurm or by its program squeue, whether a job is over on a node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

enum squeue_said {
	SQUEUE_LIVES, /* it is not over; unknown states count as this */
	SQUEUE_WAITS, /* it waits to run, for the first time or again, and has no nodes */
	SQUEUE_ENDED, /* it is listed as ended or ending */
	SQUEUE_NOT_LISTED,
	SQUEUE_NOT_UNDERSTOOD, /* the output is not a list of jobs */
};

#define SQUEUE_STATE_SIZE 8

/* Parses lines of "ID STATE", with the short names of states. state: the job's state, if it is
 * listed. */
enum squeue_said squeue_read(const char *text, size_t size, uint32_t job_id,
			     char state[static SQUEUE_STATE_SIZE]);

struct squeue_question {
	const char
		/* [fanout] Program=; if it is an absolute path, only the squeue in its directory
		 * is asked. */
		*sbcast;
	const char *node; /* the node for which the question is asked; may be NULL with
			   * `anywhere` */
	uid_t uid;
	uint32_t job_id;
	bool anywhere; /* asks about this job only, on any node; a completing job is not over,
		        * because its processes may still have their grace and its epilog follows; a
		        * job that waits again is over on the nodes where it ran before */
	bool in_doubt; /* with `anywhere`: squeue may belong to another Slurm, so it must list a job
		        * of this uid as ended */
};

/*
 * Asks Slurm whether the job is over on this node. Blocks, and ends with the parent process, so it
 * must be called in a task (daemon/stagingd/async.h). Returns -ESRCH: the job is over, and *err has
 * the details; 0: the job is not over, and *err has a text if it is completing; another -errno: not
 * known.
 */
int squeue_ask(const struct squeue_question *q, struct error *err);
