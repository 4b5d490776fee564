/*
 * What is to be made is a job. Jobs go to a writer in batches, which hold the blocks that the jobs'
 * data lies in, through a ring of batches; each writer works its ring off in order.
 *
 * A directory stays with a writer as long as the others have no much less to do: two that make
 * files in one directory wait for each other. A name is different: as long as something of that
 * name is under way, whatever else gets it goes to the same writer, so that they come in
 * order. For that there is a small table of names by hash: which writer, and the number of the
 * job. Two names that share an entry are taken for the same.
 *
 * A file that is larger than what is gathered for one job is written by several, one after the
 * other in the same ring: the writer keeps it open. Their pieces end where huge pages do.
 */
#include "daemon/worker/untar-writers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/block.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/member-path.h"
#include "daemon/worker/stream.h"
#include "daemon/worker/untar-reader.h"

#define MAX_WRITERS 16
#define RING_BATCHES 32
#define BATCH_JOBS 64
#define BATCH_BLOCKS 64
#define BATCH_DATA (1u << 20)
#define BATCH_ROOM (32u << 10)
#define HUGE_SIZE (2u << 20)
#define JOB_IOVS 16
#define FILE_COST (8u << 10) /* making a file is taken for as much work as writing so many bytes   \
			      */
#define MOVE_COST (8u << 20) /* so much less has a writer to do who takes a directory over */
#define N_NAMES 16384

enum {
	JOB_BEGIN = 1, /* makes the file */
	JOB_END = 2,
	JOB_LINK = 4, /* a symbolic link */
};

struct job {
	uint64_t number; /* of all, in the order in which they were said */
	size_t room;	 /* that it takes in its batch */
	unsigned flags, n_iovs;
	bool sparse;
	struct tree_place place;
	struct tree_meta meta;
	uint64_t size, offset; /* of the file; of the data in it */
	size_t path_size;      /* with its NUL */
			       /* then its iovecs, its path, and the target of a link */
};

struct batch {
	size_t used, n_jobs, n_blocks;
	uint64_t cost, data;
	struct block *blocks[BATCH_BLOCKS];
	char room[BATCH_ROOM] __attribute__((aligned(16)));
};

struct writer {
	struct writers *all;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t head, tail; /* batches given and done so far */
	bool ended;
	uint64_t n_given; /* jobs, put into batches at least */
	_Atomic uint64_t n_done, cost;
	int fd;		       /* of a file that goes on */
	struct batch *filling; /* the giver's, next in the ring; NULL: none yet */
	struct batch *ring[RING_BATCHES];
};

struct name {
	struct writer *writer;
	uint64_t nth; /* of the writer's jobs */
};

struct writers {
	struct tree *tree;
	struct ctx *ctx;
	unsigned n;
	struct writer *v[MAX_WRITERS];
	uint64_t n_jobs;
	const struct tree_dir *last_dir; /* and who has it */
	struct writer *last_writer;

	/* the earliest error */
	_Atomic uint64_t failed; /* number of its job; NONE_FAILED */
	pthread_mutex_t lock;
	struct error error;

	/* the file that is being said */
	struct job job;
	struct iovec iovs[JOB_IOVS];
	struct block *blocks[JOB_IOVS];
	uint64_t gathered;
	struct writer *to;
	char path[MEMBER_PATH_SIZE];

	struct name names[N_NAMES];
};

#define NONE_FAILED UINT64_MAX

/* ---- in the writers ---- */

static void fail(struct writers *w, uint64_t number, const struct error *err)
{
	pthread_mutex_lock(&w->lock);
	if (number < atomic_load(&w->failed)) {
		w->error = *err;
		atomic_store(&w->failed, number);
	}
	pthread_mutex_unlock(&w->lock);
}

static int write_all(int fd, struct iovec *iovs, unsigned n_iovs, uint64_t offset, const char *path,
		     struct error *err)
{
	ssize_t n;

	while (n_iovs > 0) {
		n = pwritev(fd, iovs, (int)n_iovs, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "write %s", path);
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

static int do_job(struct writer *self, struct job *job, struct error *err)
{
	struct tree *t = self->all->tree;
	struct iovec *iovs = (struct iovec *)(job + 1);
	const char *path = (const char *)(iovs + job->n_iovs);
	int r = 0;

	if (job->flags & JOB_LINK)
		return tree_make_symlink(t, &job->place, path, path + job->path_size, &job->meta,
					 err);
	if (job->flags & JOB_BEGIN)
		r = tree_make_file(t, &job->place, path, &job->meta, job->size, job->sparse,
				   &self->fd, err);
	if (r == 0)
		r = write_all(self->fd, iovs, job->n_iovs, job->offset, path, err);
	if (r == 0 && job->flags & JOB_END)
		r = tree_end_file(t, self->fd, path, &job->meta, err);
	return r;
}

static void run_job(struct writer *self, struct job *job)
{
	struct writers *w = self->all;
	struct error err = ERROR_INIT;

	if (job->number < atomic_load(&w->failed) && do_job(self, job, &err) < 0)
		fail(w, job->number, &err);
	if (job->flags & JOB_END) {
		fd_closep(&self->fd);
		self->fd = -1;
		tree_put_place(&job->place);
	}
}

static void run_batch(struct writer *self, struct batch *b)
{
	uint64_t n_ended = 0;
	struct job *job;

	for (size_t at = 0; at < b->used; at += job->room) {
		job = (struct job *)(b->room + at);
		n_ended += (job->flags & JOB_END) != 0;
		run_job(self, job);
	}
	for (size_t i = 0; i < b->n_blocks; i++)
		block_put(b->blocks[i]);
	if (self->all->ctx)
		ctx_add_progress(self->all->ctx, 0, n_ended);
}

static void *writer_thread(void *arg)
{
	struct writer *self = arg;
	struct batch *b;

	pthread_mutex_lock(&self->lock);
	for (;;) {
		while (self->head == self->tail && !self->ended)
			pthread_cond_wait(&self->changed, &self->lock);
		if (self->head == self->tail)
			break;
		b = self->ring[self->tail % RING_BATCHES];
		pthread_mutex_unlock(&self->lock);
		run_batch(self, b);
		pthread_mutex_lock(&self->lock);
		atomic_fetch_add(&self->n_done, b->n_jobs);
		atomic_fetch_sub(&self->cost, b->cost);
		b->used = b->n_jobs = b->n_blocks = 0;
		b->cost = b->data = 0;
		self->tail++;
		pthread_cond_broadcast(&self->changed);
	}
	pthread_mutex_unlock(&self->lock);
	fd_closep(&self->fd);
	return NULL;
}

/* ---- batches ---- */

/* The batch that is being filled. NULL: out of memory. */
static struct batch *get_batch(struct writer *to)
{
	struct batch **bp = &to->ring[to->head % RING_BATCHES];

	if (to->filling)
		return to->filling;
	pthread_mutex_lock(&to->lock);
	while (to->head - to->tail == RING_BATCHES)
		pthread_cond_wait(&to->changed, &to->lock);
	pthread_mutex_unlock(&to->lock);
	if (!*bp) {
		*bp = malloc(sizeof(**bp));
		if (!*bp)
			return NULL;
		(*bp)->used = (*bp)->n_jobs = (*bp)->n_blocks = 0;
		(*bp)->cost = (*bp)->data = 0;
	}
	to->filling = *bp;
	return *bp;
}

static void give_batch(struct writer *to)
{
	if (!to->filling)
		return;
	atomic_fetch_add(&to->cost, to->filling->cost);
	pthread_mutex_lock(&to->lock);
	to->head++;
	to->filling = NULL;
	pthread_cond_broadcast(&to->changed);
	pthread_mutex_unlock(&to->lock);
}

/* Until the first nth of its jobs are done. */
static void wait_for(struct writer *to, uint64_t nth)
{
	if (atomic_load(&to->n_done) >= nth)
		return;
	give_batch(to);
	pthread_mutex_lock(&to->lock);
	while (atomic_load(&to->n_done) < nth)
		pthread_cond_wait(&to->changed, &to->lock);
	pthread_mutex_unlock(&to->lock);
}

/* One more reference each, or the one that the batch has. */
static void add_blocks(struct batch *b, struct block *const *blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (b->n_blocks == 0 || b->blocks[b->n_blocks - 1] != blocks[i])
			b->blocks[b->n_blocks++] = block_get(blocks[i]);
	}
}

/* Puts the job into a batch of its writer. link: its target, or NULL. */
static int put_job(struct writers *w, const char *link, struct error *err)
{
	size_t link_size = link ? strlen(link) + 1 : 0;
	size_t iovs_size = w->job.n_iovs * sizeof(struct iovec);
	struct writer *to = w->to;
	struct batch *b = get_batch(to);
	char *p;

	w->job.room = sizeof(w->job) + iovs_size + w->job.path_size + link_size;
	w->job.room = (w->job.room + 15) / 16 * 16;
	if (b &&
	    (b->used + w->job.room > BATCH_ROOM || b->n_blocks + w->job.n_iovs > BATCH_BLOCKS)) {
		give_batch(to);
		b = get_batch(to);
	}
	if (!b)
		return error_set(err, ENOMEM, "out of memory");
	p = b->room + b->used;
	w->job.number = w->n_jobs++;
	memcpy(p, &w->job, sizeof(w->job));
	memcpy(p + sizeof(w->job), w->iovs, iovs_size);
	memcpy(p + sizeof(w->job) + iovs_size, w->path, w->job.path_size);
	if (link)
		memcpy(p + sizeof(w->job) + iovs_size + w->job.path_size, link, link_size);
	add_blocks(b, w->blocks, w->job.n_iovs);
	b->used += w->job.room;
	b->n_jobs++;
	b->cost += w->gathered + (w->job.flags & JOB_END ? FILE_COST : 0);
	b->data += w->gathered;
	to->n_given++;
	if (b->n_jobs == BATCH_JOBS || b->data >= BATCH_DATA)
		give_batch(to);
	return 0;
}

static void drop_blocks(struct writers *w)
{
	for (unsigned i = 0; i < w->job.n_iovs; i++)
		block_put(w->blocks[i]);
	w->job.n_iovs = 0;
}

/* What is gathered so far is a job; the next one goes on where it ends. */
static int put_gathered(struct writers *w, unsigned flags, struct error *err)
{
	int r;

	w->job.flags |= flags;
	r = put_job(w, NULL, err);
	drop_blocks(w);
	w->job.flags = 0;
	w->job.offset += w->gathered;
	w->gathered = 0;
	return r;
}

/* ---- who gets it ---- */

static struct name *get_name(struct writers *w, const char *path, size_t n)
{
	uint32_t h = 2166136261u;

	while (n-- > 0)
		h = (h ^ (unsigned char)*path++) * 16777619u;
	return &w->names[(h ^ h >> 16) % N_NAMES];
}

static uint64_t get_cost(const struct writer *v)
{
	return atomic_load_explicit(&v->cost, memory_order_relaxed) +
	       (v->filling ? v->filling->cost : 0);
}

static struct writer *get_idlest(const struct writers *w)
{
	struct writer *best = w->v[0];

	for (unsigned i = 1; i < w->n; i++) {
		if (get_cost(w->v[i]) < get_cost(best))
			best = w->v[i];
	}
	return best;
}

/* path is w's. */
static struct writer *choose_writer(struct writers *w, const struct tree_dir *dir)
{
	struct name *name = get_name(w, w->path, w->job.path_size - 1);
	struct writer *to = w->last_writer, *idlest = get_idlest(w);

	if (w->last_dir != dir || get_cost(to) > get_cost(idlest) + MOVE_COST)
		to = idlest;
	w->last_dir = dir;
	w->last_writer = to;
	if (name->writer && atomic_load(&name->writer->n_done) < name->nth)
		to = name->writer;
	*name = (struct name){ to, 0 };
	return to;
}

/* The last job of the path is the next one that is put. */
static void note_name(struct writers *w)
{
	get_name(w, w->path, w->job.path_size - 1)->nth = w->to->n_given;
}

static void settle(void *arg, const char *path, size_t n)
{
	struct writers *w = arg;
	struct name *name;

	if (path) {
		name = get_name(w, path, n);
		if (name->writer)
			wait_for(name->writer, name->nth);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		give_batch(w->v[i]);
	for (unsigned i = 0; i < w->n; i++)
		wait_for(w->v[i], w->v[i]->n_given);
}

/* ---- what is said ---- */

static int tell_failure(struct writers *w, struct error *err)
{
	int r;

	pthread_mutex_lock(&w->lock);
	if (err)
		*err = w->error;
	r = w->error.code;
	pthread_mutex_unlock(&w->lock);
	return r;
}

static void begin(struct writers *w, const char *path, const struct tree_meta *meta,
		  const struct tree_place *place, unsigned flags)
{
	w->job = (struct job){ .flags = flags, .meta = *meta, .place = *place };
	w->job.path_size = strlen(path) + 1;
	memcpy(w->path, path, w->job.path_size);
	w->gathered = 0;
	w->to = choose_writer(w, place->dir);
}

int writers_begin_file(struct writers *w, const char *path, const struct tree_meta *meta,
		       uint64_t size, bool sparse, struct error *err)
{
	struct tree_place place;
	int r;

	if (atomic_load(&w->failed) != NONE_FAILED)
		return tell_failure(w, err);
	r = tree_get_file_place(w->tree, path, size, sparse, &place, err);
	if (r < 0)
		return r;
	begin(w, path, meta, &place, JOB_BEGIN);
	w->job.size = size;
	w->job.sparse = sparse;
	return 0;
}

/* One piece of at most what is left until the next huge page. */
static int gather(struct writers *w, const struct piece *p, size_t at, size_t n, struct error *err)
{
	uint64_t offset = p->offset + at;
	int r = 0;

	if (w->gathered > 0 && offset != w->job.offset + w->gathered)
		r = put_gathered(w, 0, err);
	if (r < 0)
		return r;
	if (w->gathered == 0)
		w->job.offset = offset;
	w->blocks[w->job.n_iovs] = block_get(p->block);
	w->iovs[w->job.n_iovs++] = (struct iovec){ (void *)(p->data + at), n };
	w->gathered += n;
	if ((offset + n) % HUGE_SIZE == 0 || w->job.n_iovs == JOB_IOVS)
		r = put_gathered(w, 0, err);
	return r;
}

int writers_add_piece(struct writers *w, const struct piece *p, struct error *err)
{
	size_t n, room;
	int r = 0;

	if (atomic_load(&w->failed) != NONE_FAILED)
		return tell_failure(w, err);
	if (w->ctx && (w->job.sparse || p->offset + p->size > w->job.size))
		r = ctx_charge(w->ctx, p->size, 0, err);
	for (size_t at = 0; at < p->size && r == 0; at += n) {
		room = HUGE_SIZE - (p->offset + at) % HUGE_SIZE;
		n = p->size - at < room ? p->size - at : room;
		r = gather(w, p, at, n, err);
	}
	return r;
}

int writers_end_file(struct writers *w, struct error *err)
{
	int r = put_gathered(w, JOB_END, err);

	note_name(w);
	return r;
}

int writers_add_symlink(struct writers *w, const char *path, const char *to,
			const struct tree_meta *meta, struct error *err)
{
	struct tree_place place;
	int r;

	if (atomic_load(&w->failed) != NONE_FAILED)
		return tell_failure(w, err);
	if (strlen(to) >= MEMBER_PATH_SIZE)
		return error_errno(err, ENAMETOOLONG, "make link %s", path);
	r = tree_get_link_place(w->tree, path, &place, err);
	if (r < 0)
		return r;
	begin(w, path, meta, &place, JOB_LINK | JOB_END);
	r = put_job(w, to, err);
	note_name(w);
	return r;
}

int writers_add_hardlink(struct writers *w, const char *path, const char *to, struct error *err)
{
	int r;

	if (atomic_load(&w->failed) != NONE_FAILED)
		return tell_failure(w, err);
	settle(w, path, strlen(path));
	settle(w, to, strlen(to));
	r = tree_add_hardlink(w->tree, path, to, err);
	if (r == 0 && w->ctx)
		ctx_add_progress(w->ctx, 0, 1);
	return r;
}

void writers_flush(void *arg)
{
	struct writers *w = arg;
	struct error err = ERROR_INIT;
	unsigned n_blocks = 0;

	for (unsigned i = 0; i < w->job.n_iovs; i++)
		n_blocks += i == 0 || w->blocks[i] != w->blocks[i - 1];
	if (n_blocks > STREAM_MAY_HOLD && put_gathered(w, 0, &err) < 0)
		fail(w, w->n_jobs, &err);
	for (unsigned i = 0; i < w->n; i++)
		give_batch(w->v[i]);
}

/* ---- the whole ---- */

static void free_writer(struct writer *v)
{
	for (size_t i = 0; i < RING_BATCHES; i++)
		free(v->ring[i]);
	pthread_cond_destroy(&v->changed);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

static int add_writer(struct writers *w)
{
	struct writer *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return -ENOMEM;
	v->all = w;
	v->fd = -1;
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->changed, NULL);
	r = pthread_create(&v->thread, NULL, writer_thread, v);
	if (r) {
		free_writer(v);
		return -r;
	}
	w->v[w->n++] = v;
	return 0;
}

int writers_new(struct writers **wp, struct tree *tree, struct ctx *ctx, unsigned n_threads,
		struct error *err)
{
	struct writers *w = calloc(1, sizeof(*w));
	int r = 0;

	if (!w)
		return error_set(err, ENOMEM, "out of memory");
	w->tree = tree;
	w->ctx = ctx;
	atomic_store(&w->failed, NONE_FAILED);
	pthread_mutex_init(&w->lock, NULL);
	n_threads = n_threads < MAX_WRITERS ? n_threads : MAX_WRITERS;
	do
		r = add_writer(w);
	while (r == 0 && w->n < n_threads);
	if (w->n == 0) { /* fewer than were asked for do as well */
		writers_free(w);
		return error_errno(err, -r, "start thread");
	}
	tree_set_settle(tree, settle, w);
	*wp = w;
	return 0;
}

/* All that was given is done, or passed over. */
static void join(struct writers *w)
{
	drop_blocks(w);
	for (unsigned i = 0; i < w->n; i++) {
		struct writer *v = w->v[i];

		give_batch(v);
		pthread_mutex_lock(&v->lock);
		v->ended = true;
		pthread_cond_broadcast(&v->changed);
		pthread_mutex_unlock(&v->lock);
	}
	for (unsigned i = 0; i < w->n; i++) {
		pthread_join(w->v[i]->thread, NULL);
		free_writer(w->v[i]);
	}
	w->n = 0;
	tree_set_settle(w->tree, NULL, NULL);
}

int writers_finish(struct writers *w, int r, struct error *err)
{
	if (w->ctx && ctx_is_cancelled(w->ctx)) {
		atomic_store(&w->failed, 0);
		join(w);
		return r < 0 ? r : ctx_check(w->ctx, err);
	}
	join(w);
	return atomic_load(&w->failed) == NONE_FAILED ? r : tell_failure(w, err);
}

void writers_free(struct writers *w)
{
	if (!w)
		return;
	atomic_store(&w->failed, 0);
	if (w->n > 0)
		join(w);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
