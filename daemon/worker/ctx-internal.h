/*
 * ctx-internal: functions that the files of ctx share: ctx.c (creation and requests), ctx-task.c
 * (the task that stagingd sends), ctx-subprocess.c (processes that the worker starts) and
 * ctx-charge.c (counts the bytes that are written). No other file includes it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "common/util/rate-limit.h"
#include "daemon/worker/ctx.h"

struct kv;
struct daemon_conn;
struct manifest;

struct ctx_private {
	struct kv *task;
	int keys_fd; /* came with the task; passed on to stage-fetch unread, because a process
		      * that parses untrusted data must not have the keys */
	struct dataset_list list;
	struct daemon_conn *conn;
	struct manifest *manifest;

	struct rate_limit rate;
	unsigned n_passes; /* how often each byte is counted; io_add_progress() divides by it */
	bool is_near;	   /* see ctx_set_near() */

	pthread_mutex_t ask_lock;
	char tier[DATASET_MAX_ITEM]; /* tier of the reservation; "": none */
	_Atomic uint64_t granted_bytes, granted_files;
	uint64_t beside_bytes; /* protected by ask_lock; see ctx_claim_beside() */
	_Atomic uint64_t charged_bytes, charged_files;
};

/* Implements `charge` of stage_io. Checks the limits of the policy, and asks for more if the
 * reservation is too small. Fast while neither is exceeded. */
int ctx_charge_io(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err);

/* Returns how many of the granted bytes a dataset of `bytes` does not take. Data that was found
 * (keep=) is not charged, so its own size counts as well. */
uint64_t ctx_get_unused(const struct ctx *ctx, uint64_t bytes);

/* Fills ctx from the task in priv. Returns 0 or an error with err set; -EPROTO: the task is
 * malformed; -EPERM: it would run as root. */
int ctx_task_read(struct ctx *ctx, struct error *err);

/* Starts the helper processes. Call it before the sandbox is entered, which forbids to start
 * programs. */
int ctx_start_subprocesses(struct ctx *ctx, struct error *err);
void ctx_end_subprocesses(struct ctx *ctx);
