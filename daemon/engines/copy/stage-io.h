/*
 * stage-io: the functions that an engine needs from its program: to ask whether to stop, to count
 * progress and written bytes, and to print a line for the user. The worker (struct ctx), the mover
 * (struct move) and the tests each make one.
 *
 * An engine that takes NULL for it counts nothing and is never stopped. Any thread may call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;
struct error;
struct stage_io;

struct stage_io_ops {
	bool (*is_cancelled)(const struct stage_io *io);
	/* Why it is cancelled. -ECANCELED. */
	int (*get_reason)(const struct stage_io *io, struct error *err);
	/* See below. NULL: it is not counted. */
	void (*add_progress)(struct stage_io *io, uint64_t bytes, uint64_t files);
	void (*add_unread)(struct stage_io *io, uint64_t bytes, uint64_t files);
	int (*charge)(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err);
	void (*warn)(struct stage_io *io, const char *text);
};

struct stage_io {
	const struct stage_io_ops *ops;
	const struct dataset *ds; /* what its options ask for; NULL: nothing */
	unsigned n_threads;	  /* at least 1 */
	bool is_n_threads_given;  /* by user or site: don't grow */
	unsigned max_readers;	  /* operations on the source at once; 0: as many as help */
};

/* Stop now? Cheap; asked in every loop that copies. */
static inline bool stage_io_is_cancelled(const struct stage_io *io)
{
	return io && io->ops->is_cancelled && io->ops->is_cancelled(io);
}

/* The same as an error: 0 or -ECANCELED. */
static inline int stage_io_check(const struct stage_io *io, struct error *err)
{
	return stage_io_is_cancelled(io) ? io->ops->get_reason(io, err) : 0;
}

/* Progress, in bytes of the source and files made. Cheap. Waits where the source may not be read
 * faster. */
static inline void stage_io_add_progress(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	if (io && io->ops->add_progress)
		io->ops->add_progress(io, bytes, files);
}

/* The same for what need not be read: it is done at once, whatever the rate. */
static inline void stage_io_add_unread(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	if (io && io->ops->add_unread)
		io->ops->add_unread(io, bytes, files);
}

/* The same for all up to `to` of a source of size bytes, of which *donep were counted before. */
static inline void stage_io_add_unread_to(struct stage_io *io, uint64_t *donep, uint64_t to,
					  uint64_t size)
{
	if (to > size)
		to = size;
	if (to <= *donep)
		return;
	stage_io_add_unread(io, to - *donep, 0);
	*donep = to;
}

/* What is written counts here, before it is written. -ENOSPC, -EDQUOT with the sentence. */
static inline int stage_io_charge(struct stage_io *io, uint64_t bytes, uint64_t files,
				  struct error *err)
{
	return io && io->ops->charge ? io->ops->charge(io, bytes, files, err) : 0;
}

/* A line that stagectl shows. Control bytes are escaped. */
void stage_io_warn(struct stage_io *io, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How many at once: usual where there is no limit (0), else the limit, and most at most. A higher
 * limit never means fewer. */
static inline size_t stage_io_get_most(size_t limit, size_t usual, size_t most)
{
	if (limit == 0)
		return usual;
	return limit < most ? limit : most;
}
