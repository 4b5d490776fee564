/*
 * tar-walk: provides the bytes of a tar to a reader (untar-reader.h) that needs only the headers,
 * in the order of the archive.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct error;
struct piece_source;
struct stage_io;
struct tar_walk;

struct tar_walk_options {
	int fd;
	uint64_t size;	       /* size of the file */
	struct stage_io *io;   /* may be NULL; progress is the offset of the walk */
	unsigned n_readers;    /* see struct tar_scan */
	uint64_t segment_size; /* see struct tar_scan */
	bool is_fast;	       /* see struct tar_scan */
	bool nested;	       /* archives in the archive are walked, too */
};

/* Makes a walk through the whole file. */
int tar_walk_new(struct tar_walk **wp, const struct tar_walk_options *options, struct error *err);
void tar_walk_free(struct tar_walk *w);
DEFINE_FREEP(struct tar_walk, tar_walk_free)

/* Gets the source of pieces for a reader. It is valid as long as w. */
void tar_walk_get_source(struct tar_walk *w, struct piece_source *source);

/* Continues with the bytes of the file from `at` to end. Earlier pieces become invalid. Offsets at
 * which bytes are read must not decrease. */
void tar_walk_go_to(struct tar_walk *w, uint64_t at, uint64_t end);
uint64_t tar_walk_get_place(const struct tar_walk *w); /* offset of the next piece */
uint64_t tar_walk_get_end(const struct tar_walk *w);

/* Reads up to size bytes at the beginning of a member's data, independently of the walk, but not
 * beyond its end. Returns their number or -errno. If a header there was read ahead, only this block
 * is returned. */
ssize_t tar_walk_peek(struct tar_walk *w, uint64_t at, void *buf, size_t size, struct error *err);

/* Records that a member was passed: its size, and the offset of its content. */
void tar_walk_note_member(struct tar_walk *w, uint64_t start, uint64_t size);
