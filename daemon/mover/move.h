/*
 * move: makes the copy of one source, file or directory, or what is missing of it. Of a pattern it
 * makes the copy of the directory that is above all it fits, with nothing in it but that.
 *
 * What an earlier copy has unchanged is linked from it, what an interrupted mover has made is kept
 * where its sums are still right, the rest is read from the source. The parts of it are together
 * here: move.c walks, move-file.c copies a file.
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

struct chosen;
struct link_table;

struct move_order {
	const char *source, *dir; /* absolute */
	size_t n_top;		  /* of the source: all of it, or of a pattern the directory above
				     (path_get_top()) */
	uint32_t max_readers;	  /* 0: as many as help */
	uint64_t max_bytes, max_rate; /* 0: no limit */
};

struct move_result {
	uint64_t files, read_bytes;	   /* of the source */
	uint64_t linked_bytes, kept_bytes; /* from an earlier copy, of an interrupted mover */
};

/* Waits for a mover that is at the same copy. */
int move_run(const struct move_order *order, struct move_result *result, struct error *err);

/* ---- for move*.c alone ---- */

struct move {
	const struct move_order *order;
	char *top;	       /* what is opened: the source, or the directory above a pattern */
	struct chosen *chosen; /* of a pattern, else NULL */
	struct stage_io io;    /* is never cancelled: a mover is killed */
	struct rate_limit rate;
	struct place place;
	struct walk *walk;
	struct record *record;
	struct record_table *base; /* manifest of the copy that is there */
	struct record_table *old;  /* journal */
	bool resumed;		   /* there was a journal */
	int root_fd, base_fd;	   /* partial and earlier copy of a directory, -1: none */
	struct link_table *links;
	_Atomic uint64_t files, size, read_bytes, linked_bytes, kept_bytes;
	_Atomic uint64_t n_left_out;
};

/* The file fd (consumed) as name in the directory to of the partial copy. path: in records. from,
 * from_path: where an earlier copy would have it, -1: nowhere. dir NULL: a file alone. */
struct move_file {
	struct walk_dir *dir;
	int fd, to, from;
	const char *name, *path, *from_path;
};
int move_file(struct move *m, const struct move_file *file, struct error *err);
