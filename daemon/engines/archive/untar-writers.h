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

/* tree and io (may be NULL) stay the caller's; the tree settles through the writers from now on.
 */
int writers_new(struct writers **wp, struct tree *tree, struct stage_io *io, unsigned n_threads,
		struct error *err);
/* Ends them; what is not done is not done any more. */
void writers_free(struct writers *w);
DEFINE_FREEP(struct writers, writers_free)

/*
 * A file: begin, its pieces, end. The calls come back before it is done and may wait for room. What
 * comes beyond size, or of a sparse file, is charged as it comes, in the pages that it takes. An
 * error is the caller's own, or that of something that was said before.
 */
int writers_begin_file(struct writers *w, const char *path, const struct tree_meta *meta,
		       uint64_t size, bool sparse, struct error *err);
int writers_add_piece(struct writers *w, const struct piece *p, struct error *err);
int writers_end_file(struct writers *w, struct error *err);

int writers_add_symlink(struct writers *w, const char *path, const char *to,
			const struct tree_meta *meta, struct error *err);
/* Done when it comes back. */
int writers_add_hardlink(struct writers *w, const char *path, const char *to, struct error *err);

/* See to it that blocks come back: for struct members_hook. */
void writers_flush(void *w);

/* Waits until all is done. r is what the caller came to: its own error (told in err), or 0. The
 * earliest error of all is returned and told. */
int writers_finish(struct writers *w, int r, struct error *err);
