/*
 * Each file or link is a job in the queue of a writer (untar-queue.h), which does one job after the
 * other. The files of a directory go to one writer, unless another writer has much less to do,
 * because two writers that make files in one directory wait for each other. Jobs with the same name
 * must go to the same writer while one of them is not done, so that they are done in order. For
 * that there is a small table by the hash of the name, with the writer and the number of the job.
 * Two names that share an entry are treated as the same name.
 *
 * A file that is too large for one job is written by several jobs, one after the other in the same
 * queue, and the writer keeps it open. Their pieces end at the ends of huge pages.
 */
#include "daemon/engines/archive/untar-writers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"
#include "common/util/fnv.h"
#include "common/util/page.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-range-copy.h"
#include "daemon/engines/archive/untar-queue.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/copy/block.h"
#include "daemon/engines/copy/stage-io.h"

#define HUGE_SIZE (2u << 20)
#define MOVE_COST (8u << 20) /* so much less has a writer to do who takes a directory over */
#define N_NAMES 16384

struct name {
	struct queue *queue;
	uint64_t nth; /* number among the queue's jobs */
};

struct writers {
	struct tree *tree;
	struct stage_io *io;
	struct range_copy *ranges;
	unsigned n;
	struct queue *v[RANGE_COPY_MAX_WRITERS];
	uint64_t n_jobs;
	struct failure failure;
	const struct tree_dir *last_dir; /* the last directory, and its queue */
	struct queue *last_queue;

	/* The file that is being added: */
	struct job job;
	struct iovec iovs[JOB_MAX_IOVS];
	struct block *blocks[JOB_MAX_IOVS];
	uint64_t gathered;
	uint64_t charged_to; /* bytes before this offset are charged, or a hole */
	struct queue *to;
	char path[MEMBER_PATH_SIZE];

	struct name names[N_NAMES];
};

/* Puts the job into its queue. link: the target of a link, or NULL. */
static int put_job(struct writers *w, const char *link, struct error *err)
{
	w->job.number = w->n_jobs++;
	if (queue_put(w->to, &w->job, w->iovs, w->blocks, w->path, link) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static void drop_blocks(struct writers *w)
{
	for (unsigned i = 0; i < w->job.n_iovs; i++)
		block_put(w->blocks[i]);
	w->job.n_iovs = 0;
}

/* Puts the gathered data as a job. The next job of the file continues there. */
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
	uint64_t h = fnv_add(FNV_INIT, path, n);

	return &w->names[(h ^ h >> 32) % N_NAMES];
}

static struct queue *get_idlest(const struct writers *w)
{
	struct queue *best = w->v[0];

	for (unsigned i = 1; i < w->n; i++) {
		if (queue_get_cost(w->v[i]) < queue_get_cost(best))
			best = w->v[i];
	}
	return best;
}

/* Chooses a queue for w->path. */
static struct queue *choose_writer(struct writers *w, const struct tree_dir *dir)
{
	struct name *name = get_name(w, w->path, w->job.path_size - 1);
	struct queue *to = w->last_queue, *idlest = get_idlest(w);

	if (w->last_dir != dir || queue_get_cost(to) > queue_get_cost(idlest) + MOVE_COST)
		to = idlest;
	w->last_dir = dir;
	w->last_queue = to;
	if (name->queue && !queue_is_done(name->queue, name->nth))
		to = name->queue;
	*name = (struct name){ to, 0 };
	return to;
}

/* Records that the job that was put last is the last one of this path. */
static void note_name(struct writers *w)
{
	get_name(w, w->path, w->job.path_size - 1)->nth = queue_get_n_put(w->to);
}

static void settle(void *arg, const char *path, size_t n)
{
	struct writers *w = arg;
	struct name *name;

	if (path) {
		name = get_name(w, path, n);
		if (name->queue)
			queue_wait(name->queue, name->nth);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		queue_give(w->v[i]);
	for (unsigned i = 0; i < w->n; i++)
		queue_wait(w->v[i], queue_get_n_put(w->v[i]));
}

/* ---- what is said ---- */

static int check_failure(struct writers *w, struct error *err)
{
	return atomic_load(&w->failure.number) == FAILURE_NONE ? 0 : failure_tell(&w->failure, err);
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
	int r = check_failure(w, err);

	if (r < 0)
		return r;
	r = tree_get_file_place(w->tree, path, size, sparse, &place, err);
	if (r < 0)
		return r;
	begin(w, path, meta, &place, JOB_BEGIN);
	w->job.size = size;
	w->job.sparse = sparse;
	w->charged_to = sparse ? 0 : size;
	return 0;
}

/* Gathers bytes of a piece, at most up to the next huge page. */
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
	if ((offset + n) % HUGE_SIZE == 0 || w->job.n_iovs == JOB_MAX_IOVS)
		r = put_gathered(w, 0, err);
	return r;
}

/* Puts a job for data that the writer reads itself. It keeps the order of the jobs. */
static int put_left(struct writers *w, const struct piece *p, struct error *err)
{
	int r = w->gathered > 0 ? put_gathered(w, 0, err) : 0;

	if (r < 0)
		return r;
	w->job.offset = p->offset;
	w->job.in = p->block->fd;
	w->job.in_at = p->block->at;
	w->job.n_left = p->size;
	w->gathered = p->size;
	return put_gathered(w, JOB_LEFT, err);
}

/* Charges whole pages, as the file takes them: a file with one byte in each page has no hole. */
static int charge(struct writers *w, const struct piece *p, struct error *err)
{
	const uint64_t end = p->offset + p->size;
	uint64_t from = p->offset / page_get_size() * page_get_size();

	if (!w->io || end <= w->charged_to)
		return 0;
	if (from < w->charged_to)
		from = page_round_up(w->charged_to);
	w->charged_to = page_round_up(end);
	return w->charged_to > from ? stage_io_charge(w->io, w->charged_to - from, 0, err) : 0;
}

int writers_add_piece(struct writers *w, const struct piece *p, struct error *err)
{
	size_t n, room;
	int r = check_failure(w, err);

	if (r < 0)
		return r;
	r = charge(w, p, err);
	if (r == 0 && !p->data)
		return put_left(w, p, err);
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
	int r = check_failure(w, err);

	if (r < 0)
		return r;
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
	int r = check_failure(w, err);

	if (r < 0)
		return r;
	settle(w, path, strlen(path));
	settle(w, to, strlen(to));
	r = tree_add_hardlink(w->tree, path, to, err);
	if (r == 0 && w->io)
		stage_io_add_progress(w->io, 0, 1);
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
		failure_note(&w->failure, w->n_jobs, &err);
	for (unsigned i = 0; i < w->n; i++)
		queue_give(w->v[i]);
}

/* ---- the whole ---- */

int writers_new(struct writers **wp, struct tree *tree, struct stage_io *io, unsigned n_threads,
		struct error *err)
{
	struct writers *w = calloc(1, sizeof(*w));
	int r = 0;

	if (!w)
		return error_set(err, ENOMEM, "out of memory");
	w->tree = tree;
	w->io = io;
	atomic_store(&w->failure.number, FAILURE_NONE);
	pthread_mutex_init(&w->failure.lock, NULL);
	n_threads = n_threads < RANGE_COPY_MAX_WRITERS ? n_threads : RANGE_COPY_MAX_WRITERS;
	r = range_copy_new(&w->ranges, io);
	while (r == 0 && w->n < n_threads &&
	       (r = queue_new(&w->v[w->n], tree, io, &w->failure, w->ranges)) == 0)
		w->n++;
	if (w->n == 0) { /* fewer writers than requested are enough */
		writers_free(w);
		return error_errno(err, -r, "start thread");
	}
	tree_set_settle(tree, settle, w);
	*wp = w;
	return 0;
}

/* Ends all queues. Then each job is done or was skipped. */
static void end_all(struct writers *w)
{
	drop_blocks(w);
	for (unsigned i = 0; i < w->n; i++)
		queue_end(w->v[i]);
	for (unsigned i = 0; i < w->n; i++)
		queue_free(w->v[i]);
	w->n = 0;
	tree_set_settle(w->tree, NULL, NULL);
}

int writers_finish(struct writers *w, int r, struct error *err)
{
	if (stage_io_is_cancelled(w->io)) {
		atomic_store(&w->failure.number, 0);
		end_all(w);
		return r < 0 ? r : stage_io_check(w->io, err);
	}
	end_all(w);
	if (atomic_load(&w->failure.number) == FAILURE_NONE)
		return r;
	return failure_tell(&w->failure, err);
}

void writers_free(struct writers *w)
{
	if (!w)
		return;
	atomic_store(&w->failure.number, 0);
	if (w->n > 0)
		end_all(w);
	range_copy_free(w->ranges);
	pthread_mutex_destroy(&w->failure.lock);
	free(w);
}
