/*
 * Jobs are in a ring of batches. A batch holds the blocks that contain the data of its jobs. The
 * producer fills the batch at the head, and the writer works on the batch at the tail. A job is in
 * its batch with everything that belongs to it: iovecs, path, target of a link.
 */
#include "daemon/engines/archive/untar-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "daemon/engines/archive/untar-range-copy.h"
#include "daemon/engines/copy/block.h"
#include "daemon/engines/copy/stage-io.h"

#define RING_BATCHES 32
#define BATCH_JOBS 64
#define BATCH_BLOCKS 64
#define BATCH_DATA (1u << 20)
#define BATCH_ROOM (32u << 10)
/* Making a file counts as much as writing so many bytes. */
#define FILE_COST (8u << 10)

struct batch {
	size_t used, n_jobs, n_blocks;
	uint64_t cost, data;
	struct block *blocks[BATCH_BLOCKS];
	char room[BATCH_ROOM] __attribute__((aligned(16)));
};

struct queue {
	struct tree *tree;
	struct stage_io *io;
	struct failure *failure;
	struct range_copy *ranges;
	struct range_copy_writer helper;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t head, tail; /* numbers of batches given and done so far */
	size_t wake_at;	   /* the value of tail for which the other thread waits; 0: it does not
			    * wait */
	bool ended;
	uint64_t n_put;
	_Atomic uint64_t n_done, cost;
	int fd;		       /* the file whose jobs are not complete */
	struct batch *filling; /* the batch that the other thread fills, next in the ring; NULL:
				* none yet */
	struct batch *ring[RING_BATCHES];
};

void failure_note(struct failure *f, uint64_t number, const struct error *err)
{
	pthread_mutex_lock(&f->lock);
	if (number < atomic_load(&f->number)) {
		f->error = *err;
		atomic_store(&f->number, number);
	}
	pthread_mutex_unlock(&f->lock);
}

int failure_tell(struct failure *f, struct error *err)
{
	int r;

	pthread_mutex_lock(&f->lock);
	if (err)
		*err = f->error;
	r = f->error.code;
	pthread_mutex_unlock(&f->lock);
	return r;
}

/* ---- in the thread ---- */

/* Writes data. Most files are one piece, for which pwrite() is faster than pwritev(). */
static ssize_t write_some(int fd, const struct iovec *iovs, unsigned n_iovs, uint64_t offset)
{
	if (n_iovs == 1)
		return pwrite(fd, iovs->iov_base, iovs->iov_len, (off_t)offset);
	return pwritev(fd, iovs, (int)n_iovs, (off_t)offset);
}

static int write_all(int fd, struct iovec *iovs, unsigned n_iovs, uint64_t offset, const char *path,
		     struct error *err)
{
	ssize_t n;

	while (n_iovs > 0) {
		n = write_some(fd, iovs, n_iovs, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_errno(err, n < 0 ? errno : EIO, "write %s", path);
		offset += (uint64_t)n;
		while (n_iovs > 0 && (size_t)n >= iovs->iov_len) {
			n -= (ssize_t)iovs->iov_len;
			iovs++;
			n_iovs--;
		}
		if (n > 0) {
			iovs->iov_base = (char *)iovs->iov_base + n;
			iovs->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* Copies data from the archive's file. -ENODATA, as from the archive's reader, if the archive is
 * too short. */
static int copy_left(struct queue *q, const struct job *job, const char *path, struct error *err)
{
	const struct archive_range range = {
		job->in, q->fd, job->in_at, job->offset, job->offset + job->n_left,
	};
	int r = range_copy_run(q->ranges, &q->helper, &range, err);

	if (r == -ESTALE)
		return error_set(err, ENODATA, "truncated tar archive");
	if (r < 0)
		error_prefix(err, "%s", path);
	return r;
}

static int do_job(struct queue *q, struct job *job, struct error *err)
{
	struct tree *t = q->tree;
	struct iovec *iovs = (struct iovec *)(job + 1);
	const char *path = (const char *)(iovs + job->n_iovs);
	int r = 0;

	if (job->flags & JOB_LINK)
		return tree_make_symlink(t, &job->place, path, path + job->path_size, &job->meta,
					 err);
	if (job->flags & JOB_BEGIN)
		r = tree_make_file(t, &job->place, path, &job->meta, job->size, job->sparse, &q->fd,
				   err);
	if (r == 0)
		r = write_all(q->fd, iovs, job->n_iovs, job->offset, path, err);
	if (r == 0 && job->flags & JOB_LEFT)
		r = copy_left(q, job, path, err);
	if (r == 0 && job->flags & JOB_END)
		r = tree_end_file(t, &q->fd, path, &job->meta, err);
	return r;
}

static void run_job(struct queue *q, struct job *job)
{
	struct error err = ERROR_INIT;

	if (job->number < atomic_load(&q->failure->number) && do_job(q, job, &err) < 0)
		failure_note(q->failure, job->number, &err);
	if (job->flags & JOB_LEFT)
		range_copy_settle(q->ranges, job->n_left);
	if (job->flags & JOB_END) {
		fd_closep(&q->fd);
		tree_put_place(&job->place);
	}
}

static void run_batch(struct queue *q, struct batch *b)
{
	uint64_t n_ended = 0;
	struct job *job;

	for (size_t at = 0; at < b->used; at += job->room) {
		job = (struct job *)(b->room + at);
		n_ended += (job->flags & JOB_END) != 0;
		run_job(q, job);
	}
	for (size_t i = 0; i < b->n_blocks; i++)
		block_put(b->blocks[i]);
	stage_io_add_progress(q->io, 0, n_ended);
}

/* Waits for a batch, or for something to help with. Returns false at the end. q must be locked. */
static bool wait_for_work(struct queue *q)
{
	while (q->head == q->tail && !range_copy_wants_help(q->ranges, &q->helper)) {
		if (q->ended && range_copy_is_settled(q->ranges))
			return false;
		pthread_cond_wait(&q->changed, &q->lock);
	}
	return true;
}

static void *queue_thread(void *arg)
{
	struct queue *q = arg;
	struct batch *b;

	pthread_mutex_lock(&q->lock);
	while (wait_for_work(q)) {
		if (q->head == q->tail) {
			pthread_mutex_unlock(&q->lock);
			range_copy_help(q->ranges, &q->helper);
			pthread_mutex_lock(&q->lock);
			continue;
		}
		b = q->ring[q->tail % RING_BATCHES];
		pthread_mutex_unlock(&q->lock);
		run_batch(q, b);
		pthread_mutex_lock(&q->lock);
		atomic_fetch_add(&q->n_done, b->n_jobs);
		atomic_fetch_sub(&q->cost, b->cost);
		b->used = b->n_jobs = b->n_blocks = 0;
		b->cost = b->data = 0;
		q->tail++;
		if (q->tail >= q->wake_at)
			pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	fd_closep(&q->fd);
	return NULL;
}

/* ---- batches ---- */

/* Returns the batch that is being filled. NULL: no memory. */
static struct batch *get_batch(struct queue *q)
{
	struct batch **bp = &q->ring[q->head % RING_BATCHES];

	if (q->filling)
		return q->filling;
	pthread_mutex_lock(&q->lock);
	if (q->head - q->tail == RING_BATCHES) /* wake up only when half of the ring is free */
		q->wake_at = q->head - RING_BATCHES / 2;
	while (q->tail < q->wake_at)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
	if (!*bp) {
		*bp = malloc(sizeof(**bp));
		if (!*bp)
			return NULL;
		(*bp)->used = (*bp)->n_jobs = (*bp)->n_blocks = 0;
		(*bp)->cost = (*bp)->data = 0;
	}
	q->filling = *bp;
	return *bp;
}

void queue_give(struct queue *q)
{
	if (!q->filling)
		return;
	atomic_fetch_add(&q->cost, q->filling->cost);
	pthread_mutex_lock(&q->lock);
	q->head++;
	q->filling = NULL;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void queue_wait(struct queue *q, uint64_t nth)
{
	if (atomic_load(&q->n_done) >= nth)
		return;
	queue_give(q);
	pthread_mutex_lock(&q->lock);
	q->wake_at = 0;
	while (atomic_load(&q->n_done) < nth)
		pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
}

/* Adds references to the blocks to the batch. Consecutive pieces of one block share a reference. */
static void add_blocks(struct batch *b, struct block *const *blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (b->n_blocks == 0 || b->blocks[b->n_blocks - 1] != blocks[i])
			b->blocks[b->n_blocks++] = block_get(blocks[i]);
	}
}

int queue_put(struct queue *q, struct job *job, const struct iovec *iovs,
	      struct block *const *blocks, const char *path, const char *link)
{
	size_t link_size = link ? strlen(link) + 1 : 0, iovs_size = job->n_iovs * sizeof(*iovs);
	struct batch *b = get_batch(q);
	uint64_t data = 0;
	char *p;

	job->room = sizeof(*job) + iovs_size + job->path_size + link_size;
	job->room = (job->room + 15) / 16 * 16;
	if (b && (b->used + job->room > BATCH_ROOM || b->n_blocks + job->n_iovs > BATCH_BLOCKS)) {
		queue_give(q);
		b = get_batch(q);
	}
	if (!b)
		return -ENOMEM;
	p = b->room + b->used;
	p = mempcpy(p, job, sizeof(*job));
	p = mempcpy(p, iovs, iovs_size);
	p = mempcpy(p, path, job->path_size);
	memcpy(p, link ? link : "", link_size);
	add_blocks(b, blocks, job->n_iovs);
	for (unsigned i = 0; i < job->n_iovs; i++)
		data += iovs[i].iov_len;
	if (job->flags & JOB_LEFT) {
		data += job->n_left;
		range_copy_announce(q->ranges, job->n_left);
	}
	b->used += job->room;
	b->n_jobs++;
	b->cost += data + (job->flags & JOB_END ? FILE_COST : 0);
	b->data += data;
	q->n_put++;
	if (b->n_jobs == BATCH_JOBS || b->data >= BATCH_DATA)
		queue_give(q);
	return 0;
}

uint64_t queue_get_n_put(const struct queue *q)
{
	return q->n_put;
}

bool queue_is_done(const struct queue *q, uint64_t nth)
{
	return atomic_load(&q->n_done) >= nth;
}

uint64_t queue_get_cost(const struct queue *q)
{
	return atomic_load_explicit(&q->cost, memory_order_relaxed) +
	       (q->filling ? q->filling->cost : 0);
}

/* ---- the whole ---- */

static void destroy(struct queue *q)
{
	range_copy_leave(q->ranges, &q->helper);
	for (size_t i = 0; i < RING_BATCHES; i++)
		free(q->ring[i]);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

int queue_new(struct queue **qp, struct tree *tree, struct stage_io *io, struct failure *failure,
	      struct range_copy *ranges)
{
	struct queue *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return -ENOMEM;
	q->tree = tree;
	q->io = io;
	q->failure = failure;
	q->fd = -1;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->ranges = ranges;
	q->helper = (struct range_copy_writer){ .lock = &q->lock, .changed = &q->changed };
	range_copy_join(ranges, &q->helper);
	r = pthread_create(&q->thread, NULL, queue_thread, q);
	if (r)
		destroy(q);
	else
		*qp = q;
	return -r;
}

void queue_end(struct queue *q)
{
	queue_give(q);
	pthread_mutex_lock(&q->lock);
	q->ended = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	queue_end(q);
	pthread_join(q->thread, NULL);
	destroy(q);
}
