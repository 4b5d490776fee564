/*
 * Stands in the place of daemon/worker/ctx*.c: a worker that is alone, is never cancelled, and may
 * write so much and no more.
 */
#include <errno.h>
#include <stdatomic.h>

#include "common/util/error.h"
#include "daemon/worker/ctx.h"

#define MAX_BYTES (64u << 20)
#define MAX_FILES 20000

static _Atomic uint64_t charged_bytes, charged_files;

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
}

void ctx_set_passes(struct ctx *ctx, unsigned n)
{
}

void ctx_add_unread(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
}

int ctx_charge(struct ctx *ctx, uint64_t bytes, uint64_t files, struct error *err)
{
	if (bytes > MAX_BYTES || atomic_fetch_add(&charged_bytes, bytes) > MAX_BYTES ||
	    atomic_fetch_add(&charged_files, files) > MAX_FILES)
		return error_set(err, ENOSPC, "more than the oracle has room for");
	return 0;
}

void ctx_reset_charges(struct ctx *ctx)
{
	charged_bytes = charged_files = 0;
}

void ctx_get_charged(const struct ctx *ctx, uint64_t *bytesp, uint64_t *filesp)
{
	*bytesp = charged_bytes;
	*filesp = charged_files;
}

void ctx_warn(struct ctx *ctx, const char *fmt, ...)
{
}
