/*
 * rpc: the client's side of the job's socket: finds it, sends a request, and reads the complete
 * answer. Nothing is tried twice. A failure becomes an exit status of stagectl(1) and a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

struct rpc;

/*
 * Where the daemon of this job listens: STAGE_DATA_SOCKET, else the run directory of
 * SLURM_JOB_ID. Not in a job: -ENOENT with STAGE_EXIT_NO_STAGING.
 */
int rpc_find_socket(char *buf, size_t size, struct error *err);

/* Connects there. No daemon: -errno with STAGE_EXIT_NO_STAGING, or STAGE_EXIT_FAILED where the
 * keeper left the reason. */
int rpc_open(struct rpc **rpcp, struct error *err);

/*
 * For the plugin's sake, at the start of a job: where the socket of the environment is not on this
 * node those of the job's heterogeneous components are tried, and for patience_ms it may still
 * come, because the hook that starts the keeper does not wait for a slow one.
 */
int rpc_open_early(struct rpc **rpcp, uint64_t patience_ms, struct error *err);
/* The same daemon once more, for a question beside the one that is asked. */
int rpc_open_again(struct rpc **rpcp, const struct rpc *rpc, struct error *err);
/* Served by this very user, and by no other, root included. */
bool rpc_is_own(const struct rpc *rpc);
int rpc_open_path(struct rpc **rpcp, const char *path, struct error *err);
void rpc_close(struct rpc *rpc);
DEFINE_FREEP(struct rpc, rpc_close)

struct rpc_handler {
	/* A message of the answer that is not `done`. May take *kvp and leave NULL. */
	void (*on_message)(void *arg, const char *op, struct kv **kvp);
	/* Called first_tick_ms after the start and then as often as it says: the milliseconds
	 * to the next call, 0: never again. */
	uint64_t (*on_tick)(void *arg);
	uint64_t first_tick_ms;
	uint64_t timeout_ms; /* 0: none */
	bool deaf;	     /* to signals: they stay pending or do what they do */
	void *arg;
};

/*
 * Sends the request (an id is added) and handles what comes until `done`. Blocks; INT and TERM
 * end it with STAGE_EXIT_INTERRUPTED. Returns the code of `done`, or what belongs to the
 * failure; err is set whenever it is not STAGE_EXIT_OK. h may be NULL.
 */
int rpc_call(struct rpc *rpc, struct kv *request, const struct rpc_handler *h, struct error *err);

/* A request without more to say than names; NULL without memory. */
struct kv *rpc_new_request(const char *op, char *const *names, size_t n_names);
