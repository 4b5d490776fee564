/*
 * A few threads copy the image's ranges one after the other. Each uses its own open file, because
 * some file systems read ahead, and limit the rate, for each open file. They have a lower priority
 * than the threads that answer readers. Each piece of a range is recorded as soon as it is written,
 * so sequential readers soon find it in the copy.
 */
#include "daemon/engines/image/sqfs-hydrate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/dataset/dataset.h"
#include "common/sandbox/sandbox.h"
#include "common/util/buffer.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-copy.h"
#include "daemon/engines/image/sqfs-image.h"

#define HYDRATE_THREADS 4
#define HYDRATE_RANGE (8 * SQFS_COPY_PIECE)
#define HYDRATE_NICE 10

struct sqfs_hydrate {
	struct stage_io *io;
	int in, out;
	struct stat st;
	struct sqfs_copy *copy;
	_Atomic uint64_t next; /* next range to copy */
	_Atomic uint64_t left; /* bytes that were not copied yet */
	atomic_bool stop;
	unsigned n_threads;
	pthread_t threads[HYDRATE_THREADS];
};

/* Reports a failure once. The other threads stop, too. */
static void give_up(struct sqfs_hydrate *h, const struct error *err)
{
	if (atomic_exchange(&h->stop, true) || stage_io_is_cancelled(h->io))
		return;
	stage_io_warn(h->io, "the copy of the mounted image has failed, its source is read: %s",
		      err->text);
}

/* Called when all bytes were copied. If the image has changed in between, the copy may be a
 * mixture, so this is checked. */
static void complete(struct sqfs_hydrate *h)
{
	struct error err = ERROR_INIT;

	if (copy_file_finish(h->in, h->out, &h->st, &err) < 0)
		stage_io_warn(h->io,
			      "the mounted image: %s; submit the job again when nobody writes to "
			      "the image",
			      err.text);
	else
		log_print(LOG_LEVEL_INFO, h->io->ds->name,
			  "the copy of the mounted image is complete");
}

/* Checks that the file was not truncated: a missing part would look like a hole, or like zeros. */
static int check_size(int in, uint64_t size, struct error *err)
{
	struct stat now;
	int r = copy_file_look(in, &now);

	if (r < 0)
		return error_errno(err, -r, "look at it again");
	if ((uint64_t)now.st_size < size)
		return error_set(err, ESTALE, "became shorter while it was read");
	return 0;
}

static int copy_range(struct sqfs_hydrate *h, int in, uint64_t from, char *buf, struct error *err)
{
	uint64_t size = (uint64_t)h->st.st_size, end = from + HYDRATE_RANGE, to, us;
	int r;

	for (; from < end && from < size && !atomic_load(&h->stop); from = to) {
		to = size - from < SQFS_COPY_PIECE ? size : from + SQFS_COPY_PIECE;
		r = copy_file_part(h->io, in, h->out, from, to, copy_file_is_sparse(&h->st), buf,
				   COPY_BUFFER_SIZE, &us, err);
		if (r == 0)
			r = check_size(in, to, err);
		if (r < 0)
			return r;
		sqfs_copy_add(h->copy, from);
		if (atomic_fetch_sub(&h->left, to - from) == to - from)
			complete(h);
	}
	return 0;
}

static int copy_ranges(struct sqfs_hydrate *h, int in, struct error *err)
{
	_cleanup_(freep) char *buf = buffer_new(COPY_BUFFER_SIZE);
	uint64_t from;
	int r;

	if (!buf)
		return error_set(err, ENOMEM, "out of memory");
	while (!atomic_load(&h->stop) &&
	       (from = atomic_fetch_add(&h->next, HYDRATE_RANGE)) < (uint64_t)h->st.st_size) {
		r = copy_range(h, in, from, buf, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void *hydrate_thread(void *arg)
{
	struct error err = ERROR_INIT;
	struct sqfs_hydrate *h = arg;
	_cleanup_(fd_closep) int own = fd_reopen(h->in, O_RDONLY);

	setpriority(PRIO_PROCESS, 0, HYDRATE_NICE); /* on Linux, this changes only this thread:
						     * sched(7) */
	sandbox_enter_beside_server();
	if (copy_ranges(h, own < 0 ? h->in : own, &err) < 0)
		give_up(h, &err);
	return NULL;
}

int sqfs_hydrate_new(struct sqfs_hydrate **hp, struct stage_io *io, struct sqfs_image *img, int in,
		     int out, const struct stat *st, struct error *err)
{
	_cleanup_(sqfs_hydrate_freep) struct sqfs_hydrate *h = calloc(1, sizeof(*h));

	if (!h)
		return error_set(err, ENOMEM, "no memory to copy the image");
	h->io = io;
	h->in = in;
	h->out = out;
	h->st = *st;
	h->left = (uint64_t)st->st_size;
	h->copy = sqfs_copy_new(out, (uint64_t)st->st_size);
	if (!h->copy)
		return error_set(err, ENOMEM, "no memory to copy the image");
	sqfs_image_set_copy(img, h->copy);
	*hp = steal_ptr(h);
	return 0;
}

void sqfs_hydrate_start(struct sqfs_hydrate *h)
{
	const size_t most = stage_io_get_most(h->io->max_readers, HYDRATE_THREADS, HYDRATE_THREADS);
	struct error err = ERROR_INIT;

	while (h->n_threads < most &&
	       pthread_create(&h->threads[h->n_threads], NULL, hydrate_thread, h) == 0)
		h->n_threads++;
	if (h->n_threads == 0) {
		error_errno(&err, EAGAIN, "start a thread");
		give_up(h, &err);
	}
}

void sqfs_hydrate_free(struct sqfs_hydrate *h)
{
	if (!h)
		return;
	atomic_store(&h->stop, true);
	for (unsigned i = 0; i < h->n_threads; i++)
		pthread_join(h->threads[i], NULL);
	sqfs_copy_free(h->copy);
	free(h);
}
