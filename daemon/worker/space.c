/*
 * Memory has four limits, and the tightest one gets to speak, so that the user reads whose it is:
 * the tmpfs (or /dev/shm), --mem of the job, the site's share of it, and what the node keeps free.
 * The tmpfs has the size of the site's share in a job with a keeper, and holds this job's datasets
 * alone: what is used there counts against the share.
 */
#include "daemon/worker/space.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/parse.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"

#define MAGIC_TMPFS 0x01021994

/* MemTotal or MemAvailable in bytes; 0: can't be read. */
static uint64_t read_meminfo(const char *key)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib;
	char line[128], word[64];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %llu", word, &kib) == 2 && !strcmp(word, key))
			return kib * 1024;
	}
	return 0;
}

/* true: it is the tightest so far. */
__attribute__((format(printf, 3, 4))) static bool
limit(struct plan_space *s, uint64_t bytes, const char *fmt, ...)
{
	va_list ap;

	if (s->known && s->free_bytes <= bytes)
		return false;
	s->known = true;
	s->free_bytes = bytes;
	va_start(ap, fmt);
	vsnprintf(s->limit, sizeof(s->limit), fmt, ap);
	va_end(ap);
	return true;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void limit_by_job(struct plan_space *s, const struct policy *p, uint64_t used)
{
	uint64_t base = p->mem_limit ? p->mem_limit : read_meminfo("MemTotal:");
	uint64_t left, share;
	char text[PARSE_SIZE_TEXT];

	if (p->mem_limit) {
		left = less(p->mem_limit, p->mem_used);
		limit(s, left, "the job has %s left of --mem", size_to_string(left, text));
	}
	if (base && p->mem_percent && p->mem_percent < 100) {
		share = less(base / 100 * p->mem_percent, used);
		limit(s, share, "the site gives datasets %u %% of %s, %s left", p->mem_percent,
		      p->mem_limit ? "the job's memory" : "the node's memory",
		      size_to_string(share, text));
	}
}

/* What users keep there counts as the node's to give: it may be what is asked for, or go. Who
 * grants looks again. */
static uint64_t get_kept(const struct policy *p)
{
	struct statfs fs;

	return *p->mem_keep_dir && statfs(p->mem_keep_dir, &fs) == 0 && fs.f_type == MAGIC_TMPFS
		       ? (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize
		       : 0;
}

bool space_lacks_memory(const struct ctx *ctx, uint64_t bytes)
{
	uint64_t available = read_meminfo("MemAvailable:");

	return available && less(available, ctx->policy.keep_free) < bytes;
}

static void measure_memory(struct ctx *ctx, struct plan_space *s)
{
	const struct policy *p = &ctx->policy;
	uint64_t available = read_meminfo("MemAvailable:"), left;
	char text[PARSE_SIZE_TEXT];
	struct statvfs v;
	uint64_t used = 0;

	s->free_files = UINT64_MAX;
	/* without a run (explain outside of a job) what a run would use */
	if (statvfs(*ctx->tmp_path ? ctx->tmp_path : "/dev/shm", &v) == 0 && v.f_blocks > 0) {
		left = (uint64_t)v.f_bavail * v.f_frsize;
		used = p->keeper ? (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize : 0;
		limit(s, left, "%s has %s free", p->keeper ? "the job's tmpfs" : "/dev/shm",
		      size_to_string(left, text));
		if (v.f_files > 0)
			s->free_files = v.f_favail;
	}
	limit_by_job(s, p, used);
	if (available) {
		left = less(available + get_kept(p), p->keep_free);
		s->of_node = limit(s, left, "the node has %s of memory to spare",
				   size_to_string(left, text));
	}
}

/* Does the rule let data go there? */
static bool allowed(const struct policy *p, const char *tier)
{
	return !*p->tiers || conf_list_has(p->tiers, tier);
}

static struct plan_space *add(struct plan_input *in, const char *tier, bool present)
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
	measure_memory(ctx, add(in, PLAN_TIER_MEMORY, allowed(p, PLAN_TIER_MEMORY)));
	add(in, PLAN_TIER_DISK, p->ssd && allowed(p, PLAN_TIER_DISK));
	add(in, PLAN_TIER_SHARED, allowed(p, PLAN_TIER_SHARED));
	if (dest && dest[0] == '/')
		add(in, dest, true);
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
