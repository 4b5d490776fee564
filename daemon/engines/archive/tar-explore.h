/*
 * tar-explore: what one thread of tar-ahead.h does: it follows the chain of headers in a segment of
 * a tar, and keeps the headers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/archive/read-timer.h"
#include "daemon/engines/archive/tar-ahead.h"

enum {
	EXPLORE_PIECE = 256 << 10, /* size of a read for many headers, or to search for one */
	EXPLORE_MAX_BLOCKS = 2560, /* limit of max_data, in blocks */
};

/* What all threads and the walk use. */
struct explore_common {
	struct tar_ahead_options options;
	size_t max_data; /* bytes that are kept of a segment */
	/* offset of the walk, UINT64_MAX: the threads must end; and its mean distance between
	 * headers */
	_Atomic uint64_t at, mean;
	_Atomic uint64_t n_reads; /* if reads take time */
	_Atomic bool is_slow;	  /* see tar_ahead_is_slow() */
};

/* Bytes of the file, which are in the segment's data. */
struct kept_piece {
	uint64_t at;
	uint32_t from, size;
};

struct segment {
	size_t number;
	uint64_t from, end;
	bool is_busy;
	bool is_left;	   /* the thread that works on it frees it */
	bool is_postponed; /* the walk reads it when it comes there */
	_Atomic uint64_t n_reads;
	size_t n_pieces, n_data;
	struct kept_piece pieces[EXPLORE_MAX_BLOCKS];
	unsigned char *data;
};

/* What a thread, or the walk, keeps from one segment to the next. */
struct reader {
	int fd;
	struct read_timer timer;
	unsigned char *buf; /* of EXPLORE_PIECE bytes; NULL: there is no memory */
};

/* If reads take no time, opens the file again, because each read writes to the open file: two
 * threads would wait for each other's cache lines. If this is not possible, uses options->fd. */
void reader_init(struct reader *r, const struct tar_ahead_options *options);
void reader_deinit(struct reader *r, const struct tar_ahead_options *options);

/* The state of a thread that works on a segment. */
struct explorer {
	struct explore_common *common;
	struct reader *reader;
	struct segment *segment;
	uint64_t at, searched;
	uint64_t inner_end; /* end of the archive in the archive whose headers are read */
	uint64_t buf_at;
	size_t buf_size;
	size_t n_headers, n_usual; /* blocks before the content of this member, and of the last */
	bool is_blind;		   /* no header can be searched in the content of members */
};

/* Follows the chain of headers from e->at, or searches a header if e->searched is not 0, until the
 * end of the segment. Stops earlier if no header can be found. */
void explorer_follow(struct explorer *e);
