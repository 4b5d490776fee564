/*
 * srun: asks every node of the job, by one small overlapping step (one for each component of a
 * heterogeneous job) that runs this program again with --node-report.
 *
 * The daemons of different nodes do not talk to each other. So a command about all nodes runs a
 * step of srun, as the user.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/rpc.h"

struct srun_request {
	const char *verb;  /* wait, status */
	char *const *args; /* the words after the verb */
	size_t n_args;
	bool none_ok;	 /* accept nodes without staging, if another node has staging */
	bool keep_going; /* do not end the other nodes when one fails */
	char **restp;	 /* gets the lines to print after err, each with its newline, or NULL; must
			  * be set; the caller frees */
};

/* Returns the number of nodes of all components of this job, from the environment; 0: not a Slurm
 * job. */
uint32_t srun_get_n_nodes(void);

/* Returns whether the job has a node other than this one, or may have one: if this process was not
 * started by slurmd, and only SLURM_JOB_ID is set, the number of nodes is unknown. If there is no
 * socket here and this process was not started by slurmd, as in salloc's shell on a login node,
 * this machine is not a node of the job, so a single node also counts. */
bool srun_is_needed(void);

/*
 * Runs the request on all nodes and gives each message to h->on_message, with node= set to the
 * node's name. Ends half a second after the first node has failed, whatever the others do. Returns
 * 0, or the exit status with err = "node, node: reason" for the first reason. Other reasons until
 * then go to *request->restp. Blocks. SIGINT, SIGTERM and h->timeout_ms end it and its step.
 */
int srun_each_node(const struct srun_request *request, const struct rpc_handler *h,
		   struct error *err);

/* Prints the lines of *restp after err. say: output_error() or output_held(). */
void srun_say_rest(const char *rest, void (*say)(const char *fmt, ...));

/*
 * The part on each node: sends the local daemon's answer to stdout as reports (client/report.h).
 * patience_ms: as for rpc_open_early(). warnings: after a wait, also report the warnings that have
 * not been reported before. Returns the exit status of the process, which is 0 if the report
 * contains the result.
 */
int srun_report(struct kv *request, uint64_t patience_ms, bool warnings);

/* Removes Slurm's and our variables of the job that this process belongs to, except
 * SLURM_JOB_ID. */
void srun_forget_own_job(void);

/* Returns whether the step may inherit this variable. Most of Slurm's variables would change how
 * the step is created. */
bool srun_keeps_variable(const char *variable);
