/*
 * The key is a text. It contains the user's groups, because they decide what he may read, and the
 * files of a tree are not checked again one by one. If a checksum is given, it identifies a file or
 * archive; otherwise inode, size and times do.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/worker/ctx.h"
#include "daemon/worker/keep-use.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"

#include "stage-build.h"

static int compare_gid(const void *a, const void *b)
{
	const gid_t x = *(const gid_t *)a, y = *(const gid_t *)b;

	return x < y ? -1 : x > y;
}

static int write_groups(FILE *f)
{
	int n = getgroups(0, NULL);
	_cleanup_(freep) gid_t *gids = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*gids));

	n = gids ? getgroups(n, gids) : -1;
	if (n < 0)
		return -ENOMEM;
	qsort(gids, (size_t)n, sizeof(*gids), compare_gid);
	fprintf(f, "groups=%u", getegid());
	for (int i = 0; i < n; i++)
		fprintf(f, ",%u", gids[i]);
	fputc('\n', f);
	return 0;
}

/* Writes only those options that affect the data. */
static int write_item(FILE *f, const struct ctx *ctx, const struct plan *plan)
{
	_cleanup_(freep) char *text = NULL;
	struct dataset ds = *ctx->ds;
	char dest[] = "auto";

	strcpy(ds.name, "x");
	ds.name_given = true;
	ds.dest = dest;
	ds.method = plan->method;
	ds.onfail = DATASET_ONFAIL_FAIL;
	ds.hydrate = false;
	ds.keep_ms = ds.max_size = ds.timeout_ms = ds.stall_ms = 0;
	ds.threads = 0;
	if (dataset_to_string(&ds, &text) < 0)
		return -ENOMEM;
	fprintf(f, "item=%s\n", text);
	if (ds.shard != DATASET_SHARD_ALL)
		fprintf(f, "part=%u/%u\n", ctx->policy.node_index, ctx->policy.n_nodes);
	return 0;
}

static void write_source(FILE *f, const struct ctx *ctx, const struct source *src,
			 const struct facts *facts)
{
	const struct stat *st = &src->st;

	fprintf(f, "rule=%s\nreal=%s\n", ctx->policy.rule_match, src->real ? src->real : "");
	if (src->kind != SOURCE_FILE)
		fprintf(f, "tree=%016llx\n", (unsigned long long)facts->print);
	else if (ctx->ds->verify != DATASET_VERIFY_SHA256) /* the item contains the checksum */
		fprintf(f, "file=%llu %lld %lld.%09ld %lld.%09ld\n", (unsigned long long)st->st_ino,
			(long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			(long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

char *keep_make_key(const struct ctx *ctx, const struct source *src, const struct facts *facts,
		    const struct plan *plan)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int r;

	if (!f)
		return NULL;
	fputs("stage-data " STAGE_VERSION "\n", f);
	write_source(f, ctx, src, facts);
	r = write_item(f, ctx, plan);
	if (r == 0)
		r = write_groups(f);
	if (fclose(f) == EOF || r < 0) {
		free(text);
		return NULL;
	}
	return text;
}
