/*
 * The free memory is computed with the same functions as in stagingd, which grants it
 * (common/policy/memory-limits.h). Here the tightest limit also gets a sentence for the user.
 * stagingd decides about grants, and may know of other grants that were made since.
 */
#include "daemon/worker/space.h"

#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "common/config/conf.h"
#include "common/policy/memory-limits.h"
#include "common/util/cleanup.h"
#include "common/util/memory.h"
#include "common/util/parse.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"

__attribute__((format(printf, 3, 4))) static void limit(struct plan_space *s, uint64_t bytes,
							const char *fmt, ...)
{
	va_list ap;

	s->known = true;
	s->free_bytes = bytes;
	va_start(ap, fmt);
	vsnprintf(s->limit, sizeof(s->limit), fmt, ap);
	va_end(ap);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void limit_by_policy(struct plan_space *s, const struct policy *p,
			    const struct memory_facts *f)
{
	enum memory_limit which;
	uint64_t bytes = memory_limits_get_have(f, &which);
	char left[PARSE_SIZE_TEXT];

	size_to_string(bytes, left);
	switch (which) {
	case MEMORY_LIMIT_NONE:
		return;
	case MEMORY_LIMIT_JOB:
		limit(s, bytes, "datasets get at most %u %% of the job's memory, %s left",
		      (unsigned)MEMORY_LIMITS_JOB_SHARE, left);
		break;
	case MEMORY_LIMIT_JOB_PERCENT:
	case MEMORY_LIMIT_PERCENT:
		limit(s, bytes, "the site gives datasets %u %% of the %s's memory, %s left",
		      f->max_percent, which == MEMORY_LIMIT_PERCENT ? "node" : "job", left);
		break;
	case MEMORY_LIMIT_KEEP_FREE:
		limit(s, bytes, "the node has %s of memory to spare", left);
		break;
	case MEMORY_LIMIT_FILESYSTEM:
		limit(s, bytes, "%s has %s free", p->keeper ? "the job's tmpfs" : "/dev/shm", left);
		break;
	case MEMORY_LIMIT_MAX_BYTES:
	case MEMORY_LIMIT_QUOTA:
		limit(s, bytes, "%s leaves %s", memory_limit_to_string(which), left);
		break;
	}
	s->of_node = !memory_limit_is_of_job(which);
}

/* Returns the bytes of kept datasets. They count as available memory, because one may be the
 * requested dataset, and others can be removed. stagingd checks again before it grants. */
static uint64_t get_kept(const struct policy *p)
{
	struct statfs fs;

	return *p->mem_keep_dir && statfs(p->mem_keep_dir, &fs) == 0 && fs.f_type == TMPFS_MAGIC
		       ? (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize
		       : 0;
}

bool space_lacks_memory(const struct ctx *ctx, uint64_t bytes)
{
	uint64_t total, available;

	if (memory_read_node(&total, &available) < 0)
		return false;
	return less(available, ctx->policy.memory.keep_free) < bytes;
}

/* Measures the memory; without a run (explain outside of a job), the place that a run would use. */
static void measure_memory(const struct ctx *ctx, struct plan_space *s)
{
	const struct policy *p = &ctx->policy;
	struct memory_facts f = p->memory;
	struct statvfs v;

	s->free_files = UINT64_MAX;
	if (statvfs(*ctx->tmp_path ? ctx->tmp_path : "/dev/shm", &v) == 0 && v.f_blocks > 0) {
		f.fs_free = (uint64_t)v.f_bavail * v.f_frsize;
		if (v.f_files > 0)
			s->free_files = v.f_favail;
	}
	if (memory_read_node(&f.node_total, &f.node_available) < 0)
		f.node_total = f.node_available = 0;
	else
		f.node_available += get_kept(p);
	limit_by_policy(s, p, &f);
}

/* Returns whether the rule allows this tier. */
static bool allowed(const struct policy *p, const char *tier)
{
	return !*p->tiers || conf_list_has(p->tiers, tier);
}

static struct plan_space *space_add(struct plan_input *in, const char *tier, bool present)
{
	struct plan_space *s = &in->spaces[in->n_spaces++];

	*s = (struct plan_space){ .tier = tier, .present = present };
	return s;
}

void space_measure(struct ctx *ctx, struct plan_input *in)
{
	const struct policy *p = &ctx->policy;
	const char *dest = ctx->ds->dest;

	in->n_spaces = 0;
	measure_memory(ctx, space_add(in, PLAN_TIER_MEMORY, allowed(p, PLAN_TIER_MEMORY)));
	space_add(in, PLAN_TIER_DISK, p->ssd && allowed(p, PLAN_TIER_DISK));
	space_add(in, PLAN_TIER_SHARED, allowed(p, PLAN_TIER_SHARED));
	if (dest && dest[0] == '/')
		space_add(in, dest, true);
}

void space_measure_dir(int dirfd, struct plan_space *space)
{
	char text[PARSE_SIZE_TEXT];
	struct statvfs v;
	uint64_t left;

	space->free_files = UINT64_MAX;
	if (fstatvfs(dirfd, &v) < 0 || v.f_blocks == 0)
		return;
	left = (uint64_t)v.f_bavail * v.f_frsize;
	limit(space, left, "%s has %s free", space->tier, size_to_string(left, text));
	if (v.f_files > 0)
		space->free_files = v.f_favail;
}
