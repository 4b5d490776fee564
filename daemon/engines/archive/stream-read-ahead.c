/*
 * A file as a stream. Threads read ahead, block by block. If a single read is slow because the data
 * is on a remote server, several reads at consecutive offsets take the time of one. If the data is
 * in the page cache, more than one thread only takes CPU time from the writers: a tar of big files
 * took a third longer. So the stream begins with one thread, and a read that would have to wait
 * (cached.h) starts another one. A file system that cannot report this is treated as remote. The
 * kernel's read-ahead is switched off (posix_fadvise(2)), because it works for one reader, which
 * would fetch the next blocks for all threads, one after the other.
 *
 * Each thread takes a block first and then the next offset, so that a thread with an offset never
 * waits for a block. Otherwise, all blocks could be at offsets after the one that the reader waits
 * for.
 *
 * Ranges are left to other readers (stream_leave()) only if the file seems to be in memory. To find
 * this out, a block is read now and then. If many ranges are taken back (stream_take_back()), a
 * thread that reads ahead would read bytes that others read again. Then the consumer reads by
 * itself: small blocks first, and larger ones the longer nothing is taken back, until the thread
 * reads ahead again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error.h"
#include "daemon/engines/archive/cached.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/copy/stage-io.h"

/* If a read of 1 MiB takes 5 ms (200 MB/s), eight reads at the same time reach more than 1 GB/s. */
#define READ_THREADS 8

/* Maximum size of a range that is not read; after that, a block is read. */
#define LEAVE_MAX (256u << 20)

/* The first small block has room for the headers of a member with long names, and the beginning of
 * its data. Each next one is twice as large. */
#define STEP_FIRST 2048
#define STEP_LAST (128u << 10)
#define EDGE 512 /* small blocks end at multiples of this; a tar's header has this size */
/* If so many small reads in a row had to wait, the file is not cached. A single one may be due to a
 * page that read-ahead has marked (cached.h). */
#define MANY_MISSES 2

struct read_ahead {
	struct stream stream;
	struct stage_io *io;
	struct hash *hash;
	int fd;
	pthread_t threads[READ_THREADS];
	size_t n_threads;
	atomic_bool may_grow; /* more threads may be added */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t next, taken;	   /* number of the next block to read, and to hand out */
	uint64_t offset, position; /* offsets in the file: of block next, and of the reader */
	uint64_t size;		   /* size of the file at the beginning */
	uint64_t left_before;	   /* `left` comes before the block with this number */
	struct block *left;	   /* the range that is not read; NULL: none */
	struct block *ready[STREAM_READ_BLOCKS]; /* index: number of the block */
	bool walks;				 /* the thread pauses after its present block */
	size_t step;				 /* during a pause: size of the reader's next
						  * small block */
	unsigned n_misses;
	uint64_t again; /* bytes that were taken back: they were counted as progress, and the
			 * reader counts them again */
	uint64_t end;	/* number of the first block that does not exist */
	int end_reason; /* the reason: 0 or -errno */
	struct error end_error;
	bool stopped;
};

/* Adds a block to the hash and to progress. Called in the order of the blocks. Returns 1. */
static int pass_on(struct read_ahead *f, struct block *b)
{
	const uint64_t again = b->size < f->again ? b->size : f->again;

	f->again -= again;
	if (f->hash)
		hash_add_block(f->hash, b);
	stage_io_add_progress(f->io, b->size - again, 0);
	return 1;
}

/* ---- the threads ---- */

/* Records that the stream ends before block `number`. */
static void end_at(struct read_ahead *f, uint64_t number, int reason, const struct error *err)
{
	if (number >= f->end)
		return;
	f->end = number;
	f->end_reason = reason;
	if (reason < 0)
		f->end_error = *err;
}

static void deliver(struct read_ahead *f, uint64_t number, struct block *b, int r,
		    const struct error *err)
{
	pthread_mutex_lock(&f->lock);
	if (r < 0 || b->size == 0)
		end_at(f, number, r, err);
	else if (b->size < b->capacity)
		end_at(f, number + 1, 0, NULL);
	if (number < f->end) {
		f->ready[number % STREAM_READ_BLOCKS] = b;
		b = NULL;
	}
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	block_put(b);
}

/* Takes the number of the next block. Returns false if no block may be read now. */
static bool take_number(struct read_ahead *f, uint64_t *numberp, uint64_t *offsetp)
{
	bool taken;

	pthread_mutex_lock(&f->lock);
	taken = !f->walks && f->next < f->end && !f->stopped;
	if (taken) {
		*numberp = f->next++;
		*offsetp = f->offset;
		f->offset += BLOCK_SIZE;
	}
	pthread_mutex_unlock(&f->lock);
	return taken;
}

/* Waits while the reader reads small blocks itself. The thread holds no block in this time, because
 * the reader needs them. Returns false if there is nothing more to read. */
static bool rest(struct read_ahead *f)
{
	bool goes_on;

	pthread_mutex_lock(&f->lock);
	while (f->walks && !f->stopped)
		pthread_cond_wait(&f->changed, &f->lock);
	goes_on = f->next < f->end && !f->stopped;
	pthread_mutex_unlock(&f->lock);
	return goes_on;
}

static void *read_thread(void *arg);

/* Adds a thread, if more are allowed. The lock must be held. */
static void add_thread(struct read_ahead *f)
{
	if (f->n_threads < READ_THREADS && !f->stopped && f->next < f->end &&
	    pthread_create(&f->threads[f->n_threads], NULL, read_thread, f) == 0)
		f->n_threads++;
	if (f->n_threads == READ_THREADS)
		atomic_store(&f->may_grow, false);
}

/* Reads the cached part of a block. If a part is not cached, adds a thread. */
static void fill_at_once(struct read_ahead *f, struct block *b, uint64_t offset)
{
	b->size = cached_read_pages(f->fd, b->buf, b->capacity, offset);
	if (b->size == b->capacity)
		return;
	pthread_mutex_lock(&f->lock);
	add_thread(f);
	pthread_mutex_unlock(&f->lock);
}

static void give_up(struct read_ahead *f)
{
	struct error err = ERROR_INIT;

	pthread_mutex_lock(&f->lock);
	end_at(f, f->next, error_set(&err, ENOMEM, "out of memory"), &err);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static void *read_thread(void *arg)
{
	struct read_ahead *f = arg;
	struct error err = ERROR_INIT;
	struct block *b;
	uint64_t number, offset;
	int r = 0;

	while (rest(f) && (r = block_pool_take(f->stream.pool, &b)) == 0) {
		if (!take_number(f, &number, &offset)) {
			block_put(b);
			continue;
		}
		r = stage_io_check(f->io, &err);
		if (r == 0 && atomic_load_explicit(&f->may_grow, memory_order_relaxed))
			fill_at_once(f, b, offset);
		if (r == 0)
			r = stream_fill_block(f->fd, b, b->capacity, offset, &err);
		deliver(f, number, b, r, &err);
	}
	if (r == -ENOMEM)
		give_up(f);
	return NULL;
}

/* Returns true if the source is fast. On a slow source, many reads at a time are better than one
 * read of each writer. */
static bool is_near(const struct read_ahead *f)
{
	return f->n_threads == 1;
}

/* ---- walking ---- */

/* Returns true if the reader must read the next block itself, because all blocks of the thread were
 * handed out. f must be locked. */
static bool is_walking(const struct read_ahead *f)
{
	return f->walks && f->taken == f->next && f->next < f->end && !f->stopped;
}

static void end_walk(struct read_ahead *f)
{
	pthread_mutex_lock(&f->lock);
	f->walks = false;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* Reads a small block in the reader's thread. The other threads pause, so their blocks are free. */
static int walk(struct read_ahead *f, struct block **bp, struct error *err)
{
	const size_t size = f->step - f->offset % EDGE;
	_cleanup_(block_putp) struct block *b = NULL;
	ssize_t n;
	int r;

	r = stage_io_check(f->io, err);
	if (r == 0)
		r = stream_take_block(&f->stream, &b, err);
	if (r < 0)
		return r;
	n = cached_read(f->fd, b->buf, size, f->offset);
	b->size = n > 0 ? (size_t)n : 0;
	f->n_misses = b->size == size ? 0 : f->n_misses + 1;
	r = b->size == size ? 0 : stream_fill_block(f->fd, b, size, f->offset, err);
	if (r < 0 || b->size == 0)
		return r;
	f->position = f->offset += b->size;
	f->step *= 2;
	if (f->n_misses == MANY_MISSES || f->step > STEP_LAST)
		end_walk(f);
	*bp = steal_ptr(b);
	return pass_on(f, *bp);
}

static bool ahead_take_back(struct stream *s, size_t back, uint64_t n)
{
	struct read_ahead *f = (struct read_ahead *)s;
	uint64_t begin = f->position - back;
	bool taken = false;

	pthread_mutex_lock(&f->lock);
	if (n <= LEAVE_MAX && !f->hash && is_near(f) && begin < f->size && n <= f->size - begin) {
		if (!f->walks)
			f->n_misses = 0;
		f->walks = true;
		f->step = STEP_FIRST;
		taken = is_walking(f) && !f->left &&
			block_new_left(&f->left, f->fd, begin, (size_t)n) == 0;
	}
	if (taken) {
		f->left_before = f->next;
		f->again += back;
		f->position = begin;
		f->offset = begin + n;
	}
	pthread_mutex_unlock(&f->lock);
	return taken;
}

/* ---- taking blocks ---- */

static bool ahead_is_ready(struct stream *s)
{
	struct read_ahead *f = (struct read_ahead *)s;
	bool ready;

	pthread_mutex_lock(&f->lock);
	if (f->left && f->taken == f->left_before)
		ready = true;
	else if (is_walking(f))
		ready = !block_pool_is_empty(f->stream.pool);
	else
		ready = f->ready[f->taken % STREAM_READ_BLOCKS];
	pthread_mutex_unlock(&f->lock);
	return ready;
}

/* Gets a block that the threads have read, or the range that is not read. */
static int take_ready(struct read_ahead *f, struct block **bp, struct error *err)
{
	struct block **slot = &f->ready[f->taken % STREAM_READ_BLOCKS];
	int r = 1;

	if (f->left && f->taken == f->left_before)
		slot = &f->left;
	while (!*slot && f->taken < f->end && !f->stopped)
		pthread_cond_wait(&f->changed, &f->lock);
	if (f->stopped) {
		r = error_set(err, ECANCELED, "stopped");
	} else if (*slot) {
		f->taken += slot != &f->left;
		*bp = steal_ptr(*slot);
		f->position += (*bp)->size;
	} else {
		r = f->end_reason;
		if (r < 0 && err)
			*err = f->end_error;
	}
	return r;
}

static int ahead_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct read_ahead *f = (struct read_ahead *)s;
	bool walks;
	int r = 0;

	pthread_mutex_lock(&f->lock);
	walks = is_walking(f) && !f->left;
	if (!walks)
		r = take_ready(f, bp, err);
	pthread_mutex_unlock(&f->lock);
	if (walks)
		return walk(f, bp, err);
	return r > 0 && (*bp)->data ? pass_on(f, *bp) : r;
}

/* Leaves out whole blocks, from the next one that no thread reads. Bytes after the end of the file
 * are not left out: the reader must find the end. */
static void ahead_leave(struct stream *s, uint64_t n, bool needed)
{
	struct read_ahead *f = (struct read_ahead *)s;
	uint64_t end, size;

	pthread_mutex_lock(&f->lock);
	end = f->position < f->size && n < f->size - f->position ? f->position + n : f->size;
	end = end / BLOCK_SIZE * BLOCK_SIZE;
	size = end > f->offset ? end - f->offset : 0;
	if (needed && size > LEAVE_MAX)
		size = LEAVE_MAX;
	if (size >= STREAM_LEAVE_MIN && !f->hash && !f->left && f->next < f->end &&
	    (!needed || is_near(f)) &&
	    block_new_left(&f->left, f->fd, f->offset, (size_t)size) == 0) {
		f->left_before = f->next;
		f->offset += size;
	} else {
		size = 0;
	}
	pthread_mutex_unlock(&f->lock);
	if (!needed && f->io)
		stage_io_add_unread(f->io, size, 0);
}

static void ahead_stop(struct stream *s)
{
	struct read_ahead *f = (struct read_ahead *)s;

	pthread_mutex_lock(&f->lock);
	f->stopped = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static void ahead_close(struct stream *s)
{
	struct read_ahead *f = (struct read_ahead *)s;

	stream_stop(s);
	for (size_t i = 0; i < f->n_threads; i++)
		pthread_join(f->threads[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(f->ready); i++)
		block_put(f->ready[i]);
	block_put(f->left);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- making one ---- */

int stream_new_read_ahead(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
			  struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = ahead_next_block,
		.is_ready = ahead_is_ready,
		.stop = ahead_stop,
		.leave = ahead_leave,
		.take_back = ahead_take_back,
		.close = ahead_close,
	};
	struct read_ahead *f = calloc(1, sizeof(*f));
	struct block_pool *pool;
	struct stat st;
	int e;

	if (!f || block_pool_new(&pool, STREAM_READ_BLOCKS, BLOCK_SIZE) < 0) {
		free(f);
		return error_set(err, ENOMEM, "out of memory");
	}
	*f = (struct read_ahead){ { &ops, pool }, io, hash, fd, .end = UINT64_MAX };
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		f->size = (uint64_t)st.st_size;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	atomic_store(&f->may_grow, true);
	f->n_threads = 1;
	e = pthread_create(&f->threads[0], NULL, read_thread, f);
	*sp = &f->stream;
	if (e == 0)
		return 0;
	f->n_threads = 0;
	stream_close(&f->stream);
	return error_errno(err, e, "start thread");
}
