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

#define COPY_RANGE_SIZE (16ULL << 20) /* whole huge pages */

/*
 * From a thread of w, with the help of the others: copies in to out, which has its size already.
 * Returns when nothing is left to be begun. When all of it is there, or given up, done(arg) is
 * called once, from any thread, with the first failure or NULL; in and out are used until then.
 * -ENOMEM: done is not called.
 */
int copy_ranges(struct walk *w, struct stage_io *io, int in, int out, const struct stat *st,
		void (*done)(void *arg, const struct error *err), void *arg);

/* The same, and each range is copied by part(arg) into what arg knows, with buf of size to read to.
 * *read_usp: how long reading took. */
typedef int copy_part_fn(void *arg, int in, uint64_t from, uint64_t to, char *buf, size_t size,
			 uint64_t *read_usp, struct error *err);
int copy_ranges_by(struct walk *w, int in, const struct stat *st, copy_part_fn *part,
		   void (*done)(void *arg, const struct error *err), void *arg);

/* One file alone, until it is there. */
int copy_ranges_of_file(struct stage_io *io, int in, int out, const struct stat *st,
			struct error *err);
