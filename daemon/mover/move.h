/*
 * move: makes the copy of one source, a file or a directory, or completes it. For a pattern, it
 * copies the directory above the first wildcard, but only what the pattern selects.
 *
 * Files that have not changed since an earlier copy are hard linked from that copy. Pieces that an
 * interrupted mover has written are kept if their checksums are right. Everything else is read
 * from the source. move.c walks the source, and move-file.c copies a file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/rate-limit.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk.h"
#include "daemon/mover/place.h"
#include "daemon/mover/record.h"

struct allowed;
struct chosen;
struct link_table;

struct move_order {
	const char *source, *dir; /* absolute paths */
	size_t n_top;		  /* bytes of `source` that are the source, or for a pattern the
				       * directory above (path_get_top()) */
	bool follow;		  /* links=follow: links are copied as what they lead to */
	const char *match;	  /* Match= of the site's rule, which targets of links must fit */
	uint32_t max_readers;	  /* reads at the same time; 0: as many as help */
	uint64_t max_bytes, max_rate; /* 0: no limit */
};

struct move_result {
	uint64_t files, read_bytes;	   /* files of the source; bytes read from it */
	uint64_t followed;		   /* links that were followed */
	uint64_t linked_bytes, kept_bytes; /* bytes linked from an earlier copy; bytes kept from
					    * an interrupted mover */
};

/* Makes the copy. Waits for another mover of the same copy. Returns 0 or an error with err set. */
int move_run(const struct move_order *order, struct move_result *result, struct error *err);

/* ---- used by move.c and move-file.c only ---- */

struct move {
	const struct move_order *order;
	char *top;	       /* the opened path: the source, or the directory above a pattern */
	struct chosen *chosen; /* NULL: not a pattern */
	struct stage_io io;    /* is never cancelled, because a mover is ended by a signal */
	struct rate_limit rate;
	struct place place;
	struct walk *walk;
	struct record *record;
	struct record_table *base; /* manifest of the existing copy */
	struct record_table *old;  /* journal of an interrupted mover */
	bool resumed;		   /* there was a journal */
	int root_fd, base_fd;	   /* directories of the partial and of the earlier copy; -1:
				    * none */
	struct link_table *links;
	struct allowed *allowed; /* for the targets of links; NULL: links are copied */
	_Atomic uint64_t followed;
	_Atomic uint64_t files, size, read_bytes, linked_bytes, kept_bytes;
	_Atomic uint64_t n_left_out;
};

/* Copies the open file fd, which is taken over, to `name` in the directory `to` of the partial
 * copy. path: its path in records. from, from_path: where an earlier copy would have it; from -1:
 * there is none. dir NULL: the source is a single file. Returns 0 or an error with err set. */
struct move_file {
	struct walk_dir *dir;
	int fd, to, from;
	const char *name, *path, *from_path;
};
int move_file(struct move *m, const struct move_file *file, struct error *err);
