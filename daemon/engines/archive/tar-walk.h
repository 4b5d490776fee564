/*
 * tar-walk: provides the bytes of a tar to a reader (untar-reader.h) that needs only the headers,
 * in the order of the archive.
 */
#pragma once

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
	uint64_t size;	       /* of the file */
	struct stage_io *io;   /* may be NULL. Progress is how far the walk has come */
	unsigned n_readers;    /* see struct tar_scan */
	uint64_t segment_size; /* the same */
};

/* It begins with the whole file. */
int tar_walk_new(struct tar_walk **wp, const struct tar_walk_options *options, struct error *err);
void tar_walk_free(struct tar_walk *w);
DEFINE_FREEP(struct tar_walk, tar_walk_free)

/* Good as long as w. */
void tar_walk_get_source(struct tar_walk *w, struct piece_source *source);

/* From now on the bytes from at to end, which are in the file. Pieces that were given before are
 * lost. A place where bytes are read must not lie before one where they were read. */
void tar_walk_go_to(struct tar_walk *w, uint64_t at, uint64_t end);
uint64_t tar_walk_get_place(const struct tar_walk *w); /* of the piece that comes next */
uint64_t tar_walk_get_end(const struct tar_walk *w);

/* Up to size bytes from a place on, beside the walk; not beyond its end. How many, or -errno. */
ssize_t tar_walk_peek(struct tar_walk *w, uint64_t at, void *buf, size_t size, struct error *err);

/* A member of that size was passed, whose content begins at start. */
void tar_walk_note_member(struct tar_walk *w, uint64_t start, uint64_t size);
