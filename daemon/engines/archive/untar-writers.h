/*
 * untar-writers: threads that make the files and links of a tree, for one thread that adds them. If
 * a name is added several times, the last one is used. If several fail, the first one in the order
 * of the calls is reported, whatever the order of the threads.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"
#include "daemon/engines/copy/tree.h"

struct piece;
struct writers;

/* Makes the writers. tree and io (may be NULL) still belong to the caller. From now on,
 * tree_set_settle() of the tree uses the writers. */
int writers_new(struct writers **wp, struct tree *tree, struct stage_io *io, unsigned n_threads,
		struct error *err);
/* Ends the writers. Work that was not begun is dropped. */
void writers_free(struct writers *w);
DEFINE_FREEP(struct writers, writers_free)

/*
 * Add a file: begin, its pieces, end. The calls return before the work is done, and may wait for
 * room. Data beyond size, and data of a sparse file, is charged when it is added, in whole pages. A
 * returned error is that of this call, or of an earlier one.
 */
int writers_begin_file(struct writers *w, const char *path, const struct tree_meta *meta,
		       uint64_t size, bool sparse, struct error *err);
int writers_add_piece(struct writers *w, const struct piece *p, struct error *err);
int writers_end_file(struct writers *w, struct error *err);

int writers_add_symlink(struct writers *w, const char *path, const char *to,
			const struct tree_meta *meta, struct error *err);
/* The link exists when this returns. */
int writers_add_hardlink(struct writers *w, const char *path, const char *to, struct error *err);

/* Ensures that blocks are put; for struct members_hook. */
void writers_flush(void *w);

/* Waits until all work is done. r: the caller's own error (described in err), or 0. Returns the
 * earliest error, also in err. */
int writers_finish(struct writers *w, int r, struct error *err);
