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

/* Finds the socket of this job's daemon: STAGE_DATA_SOCKET, or else in the run directory of
 * SLURM_JOB_ID. Outside a job, returns -ENOENT with STAGE_EXIT_NO_STAGING. */
int rpc_find_socket(char *buf, size_t size, struct error *err);

/* Returns this node's name, as Slurm writes it. It may be in buf. */
const char *rpc_get_node(char *buf, size_t size);

/* Connects to that socket. Without a daemon, returns -errno with STAGE_EXIT_NO_STAGING. Returns
 * -EIO if staging could not begin on this node: with STAGE_EXIT_FAILED and the reason that the
 * keeper has left, or with STAGE_EXIT_NO_STAGING if slurmd has not loaded the plugin. */
int rpc_open(struct rpc **rpcp, struct error *err);

/*
 * Connects at the start of a job, for the plugin. If the socket of the environment is not on this
 * node, the sockets of the job's heterogeneous components are tried. A missing socket is tried
 * again for patience_ms, because the hook that starts the keeper does not wait for a slow keeper.
 */
int rpc_open_early(struct rpc **rpcp, uint64_t patience_ms, struct error *err);
/* Opens a second connection to the same daemon, for a request during another one. */
int rpc_open_again(struct rpc **rpcp, const struct rpc *rpc, struct error *err);
/* Returns whether the daemon runs as this user; root counts as another user. */
bool rpc_is_own(const struct rpc *rpc);
int rpc_open_path(struct rpc **rpcp, const char *path, struct error *err);
void rpc_close(struct rpc *rpc);
DEFINE_FREEP(struct rpc, rpc_close)

struct rpc_handler {
	/* Called for each message of the answer except `done`. It may take *kvp and set it to
	 * NULL. */
	void (*on_message)(void *arg, const char *op, struct kv **kvp);
	/* Called first_tick_ms after the start. Returns the milliseconds until the next call; 0: no
	 * more calls. */
	uint64_t (*on_tick)(void *arg);
	uint64_t first_tick_ms;
	uint64_t timeout_ms; /* 0: none */
	bool deaf;	     /* do not handle signals; they stay pending or have their usual
			      * effect */
	void *arg;
};

/* Sends the request, adding an id, and handles messages until `done`. Blocks; SIGINT and SIGTERM
 * end it with STAGE_EXIT_INTERRUPTED. Returns the code of `done`, or the exit status for the
 * failure. err is set whenever the result is not STAGE_EXIT_OK. h may be NULL. */
int rpc_call(struct rpc *rpc, struct kv *request, const struct rpc_handler *h, struct error *err);

/* Makes a request that has only names. Returns NULL if there is no memory. */
struct kv *rpc_new_request(const char *op, char *const *names, size_t n_names);
