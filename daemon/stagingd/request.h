/*
 * request: a client's request, and the progress of its answer. This module knows the operations of
 * the protocol, but no sockets.
 *
 * Nothing is queued: each call of request_next() looks at the state as it is now and makes the next
 * message of the answer from it, so a slow reader gets the
 * latest state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

struct job;
struct log_ring;
struct request;

#define REQUEST_INTERVAL_MS 200 /* minimum time between two progress messages about one dataset */

enum {
	REQUEST_MESSAGE, /* *kvp must be sent; it is lent until the next call for any request */
	REQUEST_WAIT,	 /* no message until something changes */
	REQUEST_LATER,	 /* no message until REQUEST_INTERVAL_MS have passed or something changes */
	REQUEST_OVER,	 /* the answer is complete */
};

/* Begins a request. A request that cannot be fulfilled also gets an answer, which has the reason.
 * Returns 0; -EPROTO: kv is not a request; -ENOMEM. */
int request_new(struct request **reqp, struct job *job, struct log_ring *log, const struct kv *kv);
void request_free(struct request *req);
DEFINE_FREEP(struct request, request_free)

/* Returns whether the request makes its connection a lease. */
bool request_is_lease(const struct request *req);

int request_next(struct request *req, uint64_t now_ms, struct kv **kvp);
