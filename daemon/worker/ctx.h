/*
 * ctx: the worker's stage_io (stage-io.h), and everything else a stager needs from the world: what
 * to do (dataset, policy), where (directories by fd), and the conversation with stagingd (progress,
 * reservations, directories in tiers, mounts).
 *
 * One thread of its own (in daemon-conn.c) reads the socket and sends progress; the calls below may
 * be made from any thread, those marked "asks" from one at a time. When stagingd cancels or goes
 * away ctx_is_cancelled() turns true; whoever then does not come back within CTX_GRACE_MS is not
 * waited for: what the manifest records is taken away and the process ends.
 *
 * Fields are written by ctx*.c alone.
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
	struct stage_io io; /* for engines: the ds and the numbers of policy again */

	const struct dataset *ds;
	struct policy policy;
	const char *job, *node, *rundir;
	uint32_t slot; /* of the FUSE mount */
	bool plan_only;
	bool link_only; /* mode=source: only the link that onfail=source asks for */

	struct broadcast_send *broadcast; /* of a job's first node: runs sbcast; NULL where not */
	struct fetch *fetch;		  /* brings what comes from the web; NULL for others */
	struct squashfuse *squashfuse;	  /* serves an image in place of us; NULL: we do */

	const char *data_path, *tmp_path; /* final entries; what is not ready */
	int data_fd, tmp_fd;
	char *manifest_path;

	struct ctx_private *priv;
};

/* Receives the task on sock (which becomes ctx's), reads it, opens the directories, starts the
 * thread. -EPROTO: not a task. */
int ctx_new(struct ctx **ctxp, int sock, struct error *err);
void ctx_free(struct ctx *ctx);
DEFINE_FREEP(struct ctx, ctx_free)

/* The ctx that an engine's io is part of. */
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

/* Waiting for other jobs is no stall of the source. Any thread. */
void ctx_set_paused(struct ctx *ctx, bool paused);

static inline void ctx_add_progress(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	stage_io_add_progress(&ctx->io, bytes, files);
}

static inline void ctx_add_unread(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	stage_io_add_unread(&ctx->io, bytes, files);
}

/* What is read from here on has come to this node already, and is read as fast as it can be. While
 * no thread adds. */
void ctx_set_near(struct ctx *ctx, bool near);
/* Each byte of the source is added so many times from here on. While no thread adds. */
void ctx_set_passes(struct ctx *ctx, unsigned n);

static inline int ctx_charge(struct ctx *ctx, uint64_t bytes, uint64_t files, struct error *err)
{
	return stage_io_charge(&ctx->io, bytes, files, err);
}

/* Has more been charged than policy allows one dataset? No other tier helps then. */
bool ctx_is_over_limit(const struct ctx *ctx);

/* Sum of what was charged so far. */
void ctx_get_charged(const struct ctx *ctx, uint64_t *bytesp, uint64_t *filesp);

/* Asks. -ENOSPC: not granted, *havep is what is left there. What is granted is added up; after
 * ctx_reset_charges() nothing is charged, what was granted stays. */
int ctx_claim(struct ctx *ctx, const char *tier, uint64_t bytes, uint64_t files, uint64_t *havep,
	      struct error *err);
void ctx_reset_charges(struct ctx *ctx);
/* The same for what the process itself takes in memory, beside what it has in a tier. bytes: in
 * all, of which an earlier attempt may have reserved some. */
int ctx_claim_beside(struct ctx *ctx, uint64_t bytes, struct error *err);

/* Asks for the job's directory in a tier (or in the absolute DEST). Caller frees *pathp. */
int ctx_get_tier_dir(struct ctx *ctx, const char *tier, char **pathp, struct error *err);
/* The same, and the directory that all nodes of the job use there, which is not made: *sharedp is
 * NULL where the tier is not shared. The caller frees both. */
int ctx_get_tier_dirs(struct ctx *ctx, const char *tier, char **pathp, char **sharedp,
		      struct error *err);

/* Asks the keeper for the mount of ctx->slot with n_threads fds of /dev/fuse. For keeper=1 alone;
 * without, the stager mounts by fusermount3 on <rundir>/m/<slot> and records it before. The fds and
 * the path are the caller's. */
struct ctx_mount {
	char *path;
	int fds[CTX_MAX_MOUNT_FDS];
	size_t n_fds;
};
int ctx_mount(struct ctx *ctx, unsigned n_threads, struct ctx_mount *m, struct error *err);
void ctx_mount_deinit(struct ctx_mount *m);

/* Asks the keeper to mount what fd is (O_PATH) on the dataset's entry, which is there, empty and of
 * RUNDIR_PLACE_MODE. 0; -ECANCELED; or another -errno, without a sentence: it stays as it is. */
int ctx_place(struct ctx *ctx, int fd, bool read_only, struct error *err);

/* Records in the manifest what is going to exist; before it does. path is absolute. */
int ctx_record(struct ctx *ctx, enum manifest_kind kind, const char *path, struct error *err);

/* Whoever runs a stager says when it came back: from then on the thread takes nothing away behind
 * its back. Does not return when it is at it already. */
void ctx_come_back(struct ctx *ctx);
void ctx_go_off(struct ctx *ctx);

/* Takes away all that was recorded. */
int ctx_undo(struct ctx *ctx, struct error *err);

/* Nothing more is fetched: who has the network, and perhaps the user's keys, ends. */
void ctx_end_fetch(struct ctx *ctx);
/* The same for what is passed on to other nodes. */
void ctx_end_broadcast(struct ctx *ctx);

/* stage_io_warn() for what is over when the dataset is ready: the job's output does not get it. */
void ctx_warn_for_now(struct ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Enters the sandbox (sandbox.h), where no program is started and none gains a privilege. With
 * fusermount3, which needs its own, mounts are made and unmounted where there is no keeper: such a
 * worker keeps the way open, until its plan says that it won't mount. */
void ctx_renounce(void);

/* Messages of the life of a dataset, sent by worker-stage.c. */
int ctx_send_facts(struct ctx *ctx, const struct facts *facts, const struct plan *plan);
struct ctx_ready {
	uint64_t bytes, files;
	enum source_kind kind;
	bool stays;
	const char *list; /* file with a staged path a line, or NULL */
};
int ctx_send_ready(struct ctx *ctx, const struct ctx_ready *ready);
int ctx_send_error(struct ctx *ctx, const struct error *err);

/* After ready of a mount: no stall and no time limit any more; cancel and the end of the socket
 * call serving->stop(arg) from the thread (once) instead of undoing behind the stager's back. */
void ctx_set_serving(struct ctx *ctx, const struct daemon_conn_serving *serving, void *arg);
/* Before the argument of stop() is freed. */
void ctx_end_serving(struct ctx *ctx);
