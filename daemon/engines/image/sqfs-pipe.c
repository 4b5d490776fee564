/*
 * A pipe holds references to pages of the page cache, one slot each, so the data is copied only
 * once, into the pages of the reader's file. The size of a pipe is its number of slots: 128 KiB
 * that begin anywhere take 33, and the head takes one more. A pipe that is not empty after use is
 * closed.
 *
 * The kernel counts the slots of all pipes of a user (pipe-user-pages-soft, pipe(7)). Beyond that
 * limit, each new pipe of his programs has 8 KiB instead of 64. So idle pipes are few, and any
 * thread takes the one that was used last: requests come to all threads in turn, and a pipe for
 * each thread would be eight for one reader.
 */
#include "daemon/engines/image/sqfs-pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/cleanup.h"

enum {
	PIPE_PAGE = 4096, /* larger pages need fewer slots */
	PIPE_MIN_SLOTS = 64,
	PIPE_MAX_IDLE = 4,
	PIPE_MAX_SIZE = INT32_MAX / 4,
};

struct pipe {
	int fds[2];
	size_t n_slots;
	struct pipe *next;
};

static pthread_mutex_t pipe_lock = PTHREAD_MUTEX_INITIALIZER; /* for the next two */
static struct pipe *pipe_idle;				      /* the last used is first */
static unsigned pipe_n_idle;
static atomic_bool pipe_useless; /* the image's file system does not support splice, or no pipe
				  * can be made */

static void pipe_free(struct pipe *p)
{
	if (!p)
		return;
	fd_closep(&p->fds[0]);
	fd_closep(&p->fds[1]);
	free(p);
}
DEFINE_FREEP(struct pipe, pipe_free)

/* Returns an idle pipe, or a new one. */
static struct pipe *pipe_take(void)
{
	_cleanup_(pipe_freep) struct pipe *p = NULL;

	pthread_mutex_lock(&pipe_lock);
	p = pipe_idle;
	if (p) {
		pipe_idle = p->next;
		pipe_n_idle--;
	}
	pthread_mutex_unlock(&pipe_lock);
	if (p)
		return steal_ptr(p);
	p = malloc(sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct pipe){ .fds = { -1, -1 } };
	if (pipe2(p->fds, O_CLOEXEC) < 0)
		return NULL;
	return steal_ptr(p);
}

static void pipe_keep(struct pipe *p)
{
	pthread_mutex_lock(&pipe_lock);
	if (pipe_n_idle < PIPE_MAX_IDLE) {
		p->next = pipe_idle;
		pipe_idle = p;
		pipe_n_idle++;
		p = NULL;
	}
	pthread_mutex_unlock(&pipe_lock);
	pipe_free(p);
}

static int pipe_grow(struct pipe *p, size_t n_slots)
{
	size_t n = PIPE_MIN_SLOTS;
	int size;

	if (n_slots <= p->n_slots)
		return 0;
	while (n < n_slots)
		n *= 2;
	size = fcntl(p->fds[1], F_SETPIPE_SZ, (int)(n * PIPE_PAGE));
	if (size < 0)
		size = fcntl(p->fds[1], F_GETPIPE_SZ);
	if (size < 0)
		return -EOPNOTSUPP;
	p->n_slots = (size_t)size / (size_t)sysconf(_SC_PAGESIZE);
	return n_slots <= p->n_slots ? 0 : -EOPNOTSUPP;
}

static int pipe_fill(struct pipe *p, int fd, uint64_t offset, size_t size)
{
	loff_t at = (loff_t)offset;

	while (size > 0) {
		ssize_t n = splice(fd, &at, p->fds[1], NULL, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EINVAL)
			atomic_store(&pipe_useless, true);
		if (n < 0)
			return errno == EINVAL ? -EOPNOTSUPP : -errno;
		if (n == 0)
			return -EIO;
		size -= (size_t)n;
	}
	return 0;
}

static int pipe_drain(struct pipe *p, int out, size_t size)
{
	ssize_t n = splice(p->fds[0], NULL, out, NULL, size, 0);

	if (n < 0)
		return -errno;
	return (size_t)n < size ? -EIO : 0;
}

/* Counts the pipe's slots that the spans need. Each span may begin and end within a page. Returns
 * false if no pipe is large enough. */
static bool count_slots(const struct sqfs_span *spans, size_t n_spans, size_t *n_slotsp,
			size_t *sizep)
{
	*n_slotsp = 1;
	*sizep = 0;
	for (size_t i = 0; i < n_spans; i++) {
		if (spans[i].size > PIPE_MAX_SIZE || spans[i].offset > INT64_MAX - spans[i].size ||
		    *sizep > PIPE_MAX_SIZE)
			return false;
		*n_slotsp += spans[i].size / PIPE_PAGE + 2;
		*sizep += spans[i].size;
	}
	return true;
}

int sqfs_pipe_send(int out, const void *head, size_t head_size, int fd,
		   const struct sqfs_span *spans, size_t n_spans, sqfs_check_fn check, void *arg)
{
	_cleanup_(pipe_freep) struct pipe *p = NULL;
	size_t n_slots, size;
	int r;

	if (!count_slots(spans, n_spans, &n_slots, &size) || atomic_load(&pipe_useless))
		return -EOPNOTSUPP;
	p = pipe_take();
	if (!p) {
		atomic_store(&pipe_useless, true);
		return -EOPNOTSUPP;
	}
	r = pipe_grow(p, n_slots);
	if (r < 0) /* is closed, so that the next reader gets a larger one */
		return r;
	r = write(p->fds[1], head, head_size) == (ssize_t)head_size ? 0 : -EOPNOTSUPP;
	for (size_t i = 0; i < n_spans && r == 0; i++)
		r = pipe_fill(p, fd, spans[i].offset, spans[i].size);
	if (r == 0)
		r = check(arg);
	if (r == 0)
		r = pipe_drain(p, out, head_size + size);
	if (r == 0)
		pipe_keep(steal_ptr(p));
	return r;
}
