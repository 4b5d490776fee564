/*
 * Stands in the place of daemon/worker/ctx.c for the parts of the worker that a mover uses: there
 * is no daemon to ask or to tell, and whoever wants a mover to end kills it.
 */
#include <errno.h>
#include <unistd.h>

#include "common/util/rate-limit.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/worker/ctx.h"

void ctx_add_unread(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
}

bool ctx_is_cancelled(const struct ctx *ctx)
{
	return false;
}

int ctx_check(const struct ctx *ctx, struct error *err)
{
	return 0;
}

void ctx_add_progress(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	static struct rate_limit rate = { .lock = PTHREAD_MUTEX_INITIALIZER };
	uint64_t us;

	if (!ctx->policy.max_rate)
		return;
	pthread_mutex_lock(&rate.lock);
	rate.per_s = ctx->policy.max_rate;
	pthread_mutex_unlock(&rate.lock);
	us = rate_limit_take(&rate, bytes, walk_now_us());
	if (us)
		usleep((useconds_t)us);
}
