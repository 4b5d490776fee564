/*
 * srun: asks every node of the job, by one small overlapping step (one per component of a
 * heterogeneous job) that runs this program again with --node-report.
 *
 * The daemons of different nodes do not talk to each other; what speaks of the whole job goes
 * through Slurm's own step launch, as the user.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/rpc.h"

struct srun_request {
	const char *verb;  /* wait, status */
	char *const *args; /* what stands behind it */
	size_t n_args;
	bool none_ok;	 /* a node without staging is fine, if there is another one */
	bool keep_going; /* a failed node does not end the others */
	char **restp;	 /* gets what is to be said after err, a line each, or NULL: the caller's */
};

/* Nodes of all components of this job by the environment; 0: this is no Slurm job. */
uint32_t srun_get_n_nodes(void);

/* Is there a node of this job that is not this one? Without a socket here, and where slurmd started
 * nothing of what we are in, as in salloc's shell on a login node, its only one is. */
bool srun_is_needed(void);

/*
 * Runs it and hands each message to h->on_message, with node= set to the node's name. Ends half a
 * second after the first node has failed, whatever the others do. Returns 0, or the exit status
 * with err = "node, node: reason" of the reason that came first. Other reasons that nodes have
 * failed for by then go to *request->restp. Blocks; INT, TERM and h->timeout_ms end it, and the
 * step with it.
 */
int srun_each_node(const struct srun_request *request, const struct rpc_handler *h,
		   struct error *err);

/* Says that, after err; say is output_error() or output_held(). */
void srun_say_rest(const char *rest, void (*say)(const char *fmt, ...));

/* The node's side: answers request from the local daemon to stdout as reports (client/report.h).
 * patience_ms: as for rpc_open_early(). warnings: after a wait, those that nobody was given before,
 * too. Returns what the process exits with: 0, the report tells the rest. */
int srun_report(struct kv *request, uint64_t patience_ms, bool warnings);

/* May this variable go to the step? Most of Slurm's would change how the step looks. */
bool srun_keeps_variable(const char *variable);
