/*
 * slow-ops: shows a tree as a read-only FUSE file system, in which each request takes its time. The
 * session's user data is a struct slow_view.
 */
#pragma once

#include <fuse_lowlevel.h>

#include "tests/bench/slow-nodes.h"
#include "tests/bench/slow-pace.h"

enum { SLOW_MAX_READ = 1 << 20 };

/* What the kernel keeps of a file's pages. */
enum slow_cache {
	SLOW_CACHE_NONE, /* nothing, no read-ahead: a request for each read(2) */
	SLOW_CACHE_OPEN, /* until the file is opened again */
	SLOW_CACHE_KEEP, /* for ever */
};

struct slow_view {
	int root; /* directory that is shown */
	struct slow_nodes nodes;
	struct slow_pace pace;
	/* s that the kernel may know them for */
	double dir_timeout, name_timeout, attr_timeout;
	enum slow_cache cache;
	char *buffer; /* for one read */
};

/* Everything but root, times and cache, which the caller sets. 0 or -errno. */
int slow_view_init(struct slow_view *v);
void slow_view_deinit(struct slow_view *v);

extern const struct fuse_lowlevel_ops slow_ops;

/* When a request, as the kernel wrote it, is to be given to slow_ops; 0: at once. */
int64_t slow_ops_get_due(struct slow_view *v, const void *request, size_t size, int64_t now);
