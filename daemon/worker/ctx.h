/*
 * ctx: everything that a stager needs: the worker's stage_io (stage-io.h), the task (dataset,
 * policy), the directories (as descriptors), and the messages to and from stagingd (progress,
 * reservations, directories in tiers, mounts).
 *
 * A separate thread (daemon-conn.c) reads the socket and sends progress. Any thread may call the
 * functions below. A function that is marked "asks" must be called by one thread at a time. If
 * stagingd cancels the task or closes the socket, ctx_is_cancelled() becomes true. Threads that do
 * not return within CTX_GRACE_MS after that are not waited for: everything in the manifest is
 * removed, and the process ends.
 *
 * Only ctx*.c write to the fields.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "common/protocol/manifest.h"
#include "common/util/cleanup.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/worker/policy.h"

struct error;
struct fetch;
struct plan;
struct broadcast_send;
struct squashfuse;
struct daemon_conn_serving;

#define CTX_GRACE_MS 1500
#define CTX_MAX_MOUNT_FDS 16

struct ctx {
	struct stage_io io; /* for engines; has ds and the numbers of policy again */

	const struct dataset *ds;
	struct policy policy;
	const char *job, *node, *rundir;
	uint32_t slot; /* slot of the FUSE mount */
	bool plan_only;
	bool link_only; /* mode=source: only make the link of onfail=source */

	struct broadcast_send *broadcast; /* runs sbcast on a job's first node; NULL elsewhere */
	struct fetch *fetch;		  /* fetches data from the web; NULL for other sources */
	struct squashfuse *squashfuse;	  /* serves an image instead of this process; NULL: this
					   * process serves it */

	const char *data_path, *tmp_path; /* directory for complete entries; directory for
					   * incomplete ones */
	int data_fd, tmp_fd;
	char *manifest_path;

	struct ctx_private *priv;
};

/* Receives the task on sock, which ctx takes over, opens the directories and starts the thread.
 * Returns 0 or an error with err set; -EPROTO: the message is no valid task. */
int ctx_new(struct ctx **ctxp, int sock, struct error *err);
void ctx_free(struct ctx *ctx);
DEFINE_FREEP(struct ctx, ctx_free)

/* Returns the ctx that contains an engine's io. */
static inline struct ctx *ctx_of_io(struct stage_io *io)
{
	return (struct ctx *)((char *)io - offsetof(struct ctx, io));
}

static inline bool ctx_is_cancelled(const struct ctx *ctx)
{
	return stage_io_is_cancelled(&ctx->io);
}

static inline int ctx_check(const struct ctx *ctx, struct error *err)
{
	return stage_io_check(&ctx->io, err);
}

/* Sleeps until the time is over or the task is cancelled. */
void ctx_sleep(const struct ctx *ctx, uint64_t ms);

/* Pauses the stall timer while the worker waits for other jobs. Thread-safe. */
void ctx_set_paused(struct ctx *ctx, bool paused);

/* Also without bytes and files, this restarts the stall timer. */
static inline void ctx_add_progress(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	stage_io_add_progress(&ctx->io, bytes, files);
}

static inline void ctx_add_unread(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	stage_io_add_unread(&ctx->io, bytes, files);
}

/* near: further reads are of data that is already on this node, so MaxRate= does not apply. Call it
 * while no thread adds progress. */
void ctx_set_near(struct ctx *ctx, bool near);
/* Sets how often each byte of the source is added from here on. Call it while no thread adds
 * progress. */
void ctx_set_passes(struct ctx *ctx, unsigned n);

static inline int ctx_charge(struct ctx *ctx, uint64_t bytes, uint64_t files, struct error *err)
{
	return stage_io_charge(&ctx->io, bytes, files, err);
}

/* Returns whether more was charged than the policy allows for one dataset. Another tier does not
 * help then. */
bool ctx_is_over_limit(const struct ctx *ctx);

/* Returns the sums that were charged so far. */
void ctx_get_charged(const struct ctx *ctx, uint64_t *bytesp, uint64_t *filesp);

/* Asks stagingd for space. Grants in one tier add up. -ENOSPC: not granted; *havep is what is left
 * there. ctx_reset_charges() sets the charged sums to 0 and keeps the grants. */
int ctx_claim(struct ctx *ctx, const char *tier, uint64_t bytes, uint64_t files, uint64_t *havep,
	      struct error *err);
void ctx_reset_charges(struct ctx *ctx);
/* Asks for memory that the process itself needs, in addition to its data in a tier. bytes: the
 * total, of which an earlier attempt may have reserved a part. */
int ctx_claim_beside(struct ctx *ctx, uint64_t bytes, struct error *err);

/* Asks for the job's directory in a tier (or at the absolute DEST). The caller frees *pathp. */
int ctx_get_tier_dir(struct ctx *ctx, const char *tier, char **pathp, struct error *err);
/* Does the same, and also returns the directory that all nodes of the job share; it is not created
 * yet. *sharedp is NULL if the tier is not shared. The caller frees both. */
int ctx_get_tier_dirs(struct ctx *ctx, const char *tier, char **pathp, char **sharedp,
		      struct error *err);

/* Asks the keeper for the mount of ctx->slot with n_threads descriptors of /dev/fuse. Only for
 * workers with a keeper; others mount with fusermount3 on <rundir>/m/<slot> and record this before.
 * The caller owns the descriptors and the path. */
struct ctx_mount {
	char *path;
	int fds[CTX_MAX_MOUNT_FDS];
	size_t n_fds;
};
int ctx_mount(struct ctx *ctx, unsigned n_threads, struct ctx_mount *m, struct error *err);
void ctx_mount_deinit(struct ctx_mount *m);

/* Asks the keeper to mount the object of fd (O_PATH) on the dataset's entry, which must exist, be
 * empty and have mode RUNDIR_PLACE_MODE. Returns 0; -ECANCELED; or another -errno with err unset:
 * the entry is unchanged. */
int ctx_place(struct ctx *ctx, int fd, bool read_only, struct error *err);

/* Records in the manifest something that will exist. Call it before it exists. path is absolute. */
int ctx_record(struct ctx *ctx, enum manifest_kind kind, const char *path, struct error *err);

/* ctx_end_stage() reports that the stager has returned: from then on, the caller cleans up, not the
 * thread. It does not return if the thread has already begun to clean up. ctx_begin_stage() reports
 * that a stager runs again. */
void ctx_end_stage(struct ctx *ctx);
void ctx_begin_stage(struct ctx *ctx);

/* Removes everything that the manifest lists. */
int ctx_undo(struct ctx *ctx, struct error *err);

/* Ends stage-fetch, which has network access and perhaps the user's keys, as soon as nothing more
 * is fetched. */
void ctx_end_fetch(struct ctx *ctx);
/* Ends stage-broadcast when nothing more is sent to other nodes. */
void ctx_end_broadcast(struct ctx *ctx);

/* Warns like stage_io_warn(), but about something that no longer matters when the dataset is ready.
 * The job's output does not get it. */
void ctx_warn_for_now(struct ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Enters the sandbox (sandbox.h), in which no program can be started and no privilege can be
 * gained. Without a keeper, mounts need fusermount3, which gains privileges. Such a worker enters
 * the sandbox only after its plan says that it does not mount. */
void ctx_renounce(void);

/* Messages about the life of a dataset; worker-stage.c sends them. */
int ctx_send_facts(struct ctx *ctx, const struct facts *facts, const struct plan *plan);
struct ctx_ready {
	uint64_t bytes, files;
	enum source_kind kind;
	bool stays;
	const char *list; /* file with one staged path on each line, or NULL */
};
int ctx_send_ready(struct ctx *ctx, const struct ctx_ready *ready);
int ctx_send_error(struct ctx *ctx, const struct error *err);

/* Called after `ready` of a mount. Stall and time limits end. A cancel or the end of the socket
 * makes the thread call serving->stop(arg) once, instead of cleaning up itself. */
void ctx_set_serving(struct ctx *ctx, const struct daemon_conn_serving *serving, void *arg);
/* Call it before the argument of stop() is freed. */
void ctx_end_serving(struct ctx *ctx);
