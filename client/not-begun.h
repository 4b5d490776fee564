/*
 * not-begun: the states of the datasets on a node on which staging could not begin. No daemon
 * serves the job's socket there, so stagectl makes the messages that the daemon would have sent.
 */
#pragma once

#include "client/rpc.h"

/* Asks the daemon of this node for states: opens the job's socket and sends the request. If staging
 * could not begin, answers as not_begun_answer() does. Blocks. Returns as rpc_call() does. */
int not_begun_or_call(struct kv *request, const struct rpc_handler *h, struct error *err);

/*
 * Gives h->on_message a failed dataset for each name, after rpc_open() has returned -EIO with err.
 * The names are those of the request, or else those of the job. If the job's environment does not
 * have them, a dataset "*" stands for all of them. Returns STAGE_EXIT_OK. Gives h nothing and
 * returns the exit status of err if the request is not about states, or if it asks for a history
 * and the time of the failure is not known.
 */
int not_begun_answer(const struct kv *request, const struct rpc_handler *h,
		     const struct error *err);
