/*
 * ctx-internal: what the parts of ctx share: ctx.c (the whole, and what is asked for), ctx-task.c
 * (the task that stagingd sends), ctx-subprocess.c (the processes beside it) and ctx-charge.c (what
 * is written, and may be). Nobody else includes it.
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
	int keys_fd; /* beside the task: not read here, who reads hostile bytes has no keys */
	struct dataset_list list;
	struct daemon_conn *link;
	struct manifest *manifest;

	struct rate_limit rate;
	unsigned n_passes; /* of each byte: that many make one of progress */
	bool is_near;	   /* see ctx_set_near() */

	pthread_mutex_t ask_lock;
	char tier[DATASET_MAX_ITEM]; /* of the reservation; "": none */
	_Atomic uint64_t granted_bytes, granted_files;
	uint64_t beside_bytes; /* ask_lock; ctx_claim_beside() */
	_Atomic uint64_t charged_bytes, charged_files;
};

/* charge of stage_io: against the limits of policy and, beyond what was reserved, by further
 * reservations. Cheap while within both. */
int ctx_charge_io(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err);

/* Of the granted bytes, those that a dataset of so many bytes does not take. What is found
 * (keep=) is not charged, so its own size counts as well. */
uint64_t ctx_get_unused(const struct ctx *ctx, uint64_t bytes);

/* Sets what the task in priv says. -EPROTO: it says it wrong; -EPERM: it is not for root. */
int ctx_task_read(struct ctx *ctx, struct error *err);

/* Before this process gives up starting any. */
int ctx_start_subprocesses(struct ctx *ctx, struct error *err);
void ctx_end_subprocesses(struct ctx *ctx);
