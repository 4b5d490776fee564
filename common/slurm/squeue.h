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
	SQUEUE_LIVES, /* or may: what is no state that we know counts as life */
	SQUEUE_WAITS, /* to run, for the first time or again: it has no nodes */
	SQUEUE_ENDED, /* it is in the list, as one that has ended or is ending */
	SQUEUE_NOT_LISTED,
	SQUEUE_NOT_UNDERSTOOD, /* not a list of jobs */
};

#define SQUEUE_STATE_SIZE 8

/* Lines "ID STATE" with the short names of states. state: of the job, where it is in the list. */
enum squeue_said squeue_read(const char *text, size_t size, uint32_t job_id,
			     char state[static SQUEUE_STATE_SIZE]);

struct squeue_question {
	const char
		*sbcast;  /* [fanout] Program=; an absolute path: squeue is beside it, and is asked
			       alone */
	const char *node; /* anywhere: NULL, or the node that the job is asked for on */
	uid_t uid;
	uint32_t job_id;
	bool anywhere; /* of this job alone, wherever it is; one that is completing is not over, as
			* its processes may have their grace yet and its epilog comes; one that
			* waits is over where it ran before */
	bool in_doubt; /* anywhere: this squeue may be of another Slurm: it must have a job of this
			  uid as ended */
};

/* Blocks, and ends with the process that has forked us: to be called in a task
 * (daemon/stagingd/async.h). -ESRCH: Slurm says that the job is over on this node, and *err how;
 * 0: it says that it is not, and *err has a text if the job is completing; another -errno: that is
 * not known. */
int squeue_ask(const struct squeue_question *q, struct error *err);
