/* Chooses the scheme that opens a source. Has the functions that all open sources share. */
#include "daemon/worker/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/error.h"
#include "daemon/engines/copy/rule-patterns.h"
#include "daemon/engines/copy/walk-kept.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/web/fetch-ranges.h"

static const struct scheme *const schemes[] = { &scheme_file, &scheme_http, &scheme_s3 };

static const struct scheme *find_scheme(enum dataset_scheme scheme)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
		if (schemes[i]->scheme == scheme)
			return schemes[i];
	}
	return NULL;
}

int source_open(struct ctx *ctx, struct source **srcp, struct error *err)
{
	_cleanup_(source_closep) struct source *src = calloc(1, sizeof(*src));
	const struct dataset *ds = ctx->ds;
	const struct scheme *scheme;
	int r;

	if (!src)
		return error_set(err, ENOMEM, "out of memory");
	src->fd = src->direct_fd = -1;
	/* the members of a list are files */
	scheme = find_scheme(ds->scheme == DATASET_SCHEME_LIST ? DATASET_SCHEME_FILE : ds->scheme);
	if (!scheme)
		return error_set(err, EOPNOTSUPP, "%s sources can't be staged by this stage-worker",
				 dataset_scheme_to_string(ds->scheme));
	r = rule_patterns_new(&src->rules, ctx->policy.rule_match, err);
	if (r < 0)
		return r;
	r = scheme->open(ctx, src, err);
	if (r < 0)
		return r;
	src->origin = src->st;
	*srcp = steal_ptr(src);
	return 0;
}

void source_close(struct source *src)
{
	if (!src)
		return;
	fd_closep(&src->fd);
	fd_closep(&src->direct_fd);
	for (size_t i = 0; i < src->n_members; i++)
		free(src->members[i].path);
	free(src->members);
	for (size_t i = 0; i < src->n_taken; i++)
		free(src->taken[i]);
	free(src->taken);
	walk_kept_free(src->kept);
	fetch_objects_free(src->objects, src->n_objects);
	rule_patterns_free(src->rules);
	free(src->path);
	free(src->real);
	free(src->top);
	free(src->called);
	free(src);
}

int source_check_unchanged(const struct source *src, struct error *err)
{
	struct stat now, named;

	if (src->is_remote)
		return 0; /* stage-fetch compared each part with the first */
	if (src->landed)
		return 0; /* the first node has checked it */
	if (fstat(src->fd, &now) < 0)
		return error_errno(err, errno, "%s", src->path);
	if (now.st_size != src->st.st_size || now.st_mtim.tv_sec != src->st.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != src->st.st_mtim.tv_nsec || stat(src->path, &named) < 0 ||
	    named.st_ino != src->st.st_ino || named.st_dev != src->st.st_dev)
		return error_set(err, ESTALE, "%s changed while it was read", src->path);
	return 0;
}
