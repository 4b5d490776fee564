/*
 * copy-ranges: several threads copy the bytes of a big file, a range each. This is faster on a file
 * system with many servers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct stage_io;
struct error;
struct walk;

#define COPY_RANGE_SIZE (16ULL << 20) /* a multiple of the huge page size */

/*
 * Copies in to out, which has its size already. Called by a thread of w; other threads of w help.
 * Returns when no range is left to begin. When all ranges are copied, or the copy was given up,
 * calls done(arg) once, from any thread, with the first failure or NULL. in and out must stay open
 * until then. -ENOMEM: done is not called.
 */
int copy_ranges(struct walk *w, struct stage_io *io, int in, int out, const struct stat *st,
		void (*done)(void *arg, const struct error *err), void *arg);

/* Does the same, but copies each range by part(arg), which has a buffer buf of size bytes.
 * *read_usp: time spent on reading. */
typedef int copy_part_fn(void *arg, int in, uint64_t from, uint64_t to, char *buf, size_t size,
			 uint64_t *read_usp, struct error *err);
int copy_ranges_by(struct walk *w, int in, const struct stat *st, copy_part_fn *part,
		   void (*done)(void *arg, const struct error *err), void *arg);

/* Copies one file that belongs to no walk. Returns when it is complete. */
int copy_ranges_of_file(struct stage_io *io, int in, int out, const struct stat *st,
			struct error *err);
