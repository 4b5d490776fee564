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
	/* Writes the reason of the cancellation to err. Returns -ECANCELED. */
	int (*get_reason)(const struct stage_io *io, struct error *err);
	/* The functions below call these. NULL: nothing is counted. */
	void (*add_progress)(struct stage_io *io, uint64_t bytes, uint64_t files);
	void (*add_unread)(struct stage_io *io, uint64_t bytes, uint64_t files);
	int (*charge)(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err);
	void (*warn)(struct stage_io *io, const char *text);
};

struct stage_io {
	const struct stage_io_ops *ops;
	const struct dataset *ds; /* the dataset, for its options; NULL: none */
	unsigned n_threads;	  /* at least 1 */
	bool is_n_threads_given;  /* the user or the site has set n_threads, so it must not grow */
	unsigned max_readers;	  /* concurrent operations on the source; 0: as many as help */
};

/* Returns true if the engine must stop. It is cheap, so each loop that copies calls it. */
static inline bool stage_io_is_cancelled(const struct stage_io *io)
{
	return io && io->ops->is_cancelled && io->ops->is_cancelled(io);
}

/* Does the same with an error: returns 0 or -ECANCELED. */
static inline int stage_io_check(const struct stage_io *io, struct error *err)
{
	return stage_io_is_cancelled(io) ? io->ops->get_reason(io, err) : 0;
}

/* Counts bytes that were read from the source, and files that were made. It is cheap. Waits if the
 * source may not be read faster. */
static inline void stage_io_add_progress(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	if (io && io->ops->add_progress)
		io->ops->add_progress(io, bytes, files);
}

/* Counts bytes that need not be read. Does not wait for the permitted rate. */
static inline void stage_io_add_unread(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	if (io && io->ops->add_unread)
		io->ops->add_unread(io, bytes, files);
}

/* Does the same for all bytes up to `to` in a source of size bytes. *donep of them were counted
 * before. */
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

/* Must be called before bytes are written or files are made. Returns 0, or -ENOSPC or -EDQUOT with
 * a message. */
static inline int stage_io_charge(struct stage_io *io, uint64_t bytes, uint64_t files,
				  struct error *err)
{
	return io && io->ops->charge ? io->ops->charge(io, bytes, files, err) : 0;
}

/* Prints a line, which stagectl shows. Control bytes are escaped. */
void stage_io_warn(struct stage_io *io, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the number of concurrent operations: usual if limit is 0, else limit, but at most `most`.
 * A higher limit never results in fewer. */
static inline size_t stage_io_get_most(size_t limit, size_t usual, size_t most)
{
	if (limit == 0)
		return usual;
	return limit < most ? limit : most;
}
