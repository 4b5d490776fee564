/*
 * The thread fills batches of blocks, and the walk takes them. The walk is faster, so it is woken
 * only when some batches are filled. Of a header, the thread reads only the kind and the size. The
 * walk checks it, and asks only for places to which checked headers lead.
 *
 * The thread stops after a block from which it cannot know the next one: zeros, a header that it
 * does not know, or one with a map. It also stops if its reads become slow, because many threads
 * are better then (tar-ahead.h).
 */
#include "daemon/engines/archive/tar-chain.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/engines/archive/read-timer.h"
#include "daemon/engines/archive/timed-cond.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-parser.h"

enum {
	CHAIN_BLOCKS = 512, /* in a batch */
	CHAIN_BATCHES = 8,
	CHAIN_WAKE = 4, /* filled batches for which the walk is woken */
	CHAIN_STACK = 256 << 10,
	CHAIN_PATIENCE = 16,   /* allowed number of new places, in addition to one for each */
	CHAIN_FOR_EACH = 1024, /* of so many known blocks */
};

/* Blocks of the file, and their offsets. */
struct batch {
	size_t n;
	uint64_t at[CHAIN_BLOCKS];
	unsigned char blocks[CHAIN_BLOCKS][UNTAR_BLOCK];
};

struct tar_chain {
	int fd;
	uint64_t size; /* size of the file */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	bool ended;	    /* the thread does not know the next block */
	size_t first, next; /* numbers of the walk's batch and of the thread's, modulo the number of
			     * batches */
	uint64_t from;	    /* where the thread continues in a new turn */
	unsigned turn;
	/* only for the walk: */
	bool is_held; /* it uses the first batch */
	size_t used;  /* block of this batch that it needs next */
	uint64_t n_known, n_new;
	struct batch batches[CHAIN_BATCHES];
};

/* The state of the thread. */
struct follower {
	struct tar_chain *chain;
	struct read_timer timer;
	unsigned turn;
	uint64_t at;
	uint64_t n_body;	   /* blocks of a long name or of records that are not read yet */
	size_t n_ready;		   /* blocks that were read and are not in use yet */
	size_t n_headers, n_usual; /* blocks before the content of this member, and of the last */
};

/* ---- the thread ---- */

/* Reads the next block, with those after it that the last member needed, too. Returns false if
 * there is none, or if reads are slow. */
static bool read_blocks(struct follower *f, struct batch *b)
{
	size_t n_blocks = f->n_usual > f->n_headers ? f->n_usual - f->n_headers : 1;
	uint64_t begin;
	ssize_t n;

	if (f->n_ready > 0)
		return true;
	if (n_blocks > CHAIN_BLOCKS - b->n)
		n_blocks = CHAIN_BLOCKS - b->n;
	begin = read_timer_begin(&f->timer);
	do
		n = pread(f->chain->fd, b->blocks[b->n], n_blocks * UNTAR_BLOCK, (off_t)f->at);
	while (n < 0 && errno == EINTR);
	read_timer_end(&f->timer, begin);
	f->n_ready = n > 0 ? (size_t)n / UNTAR_BLOCK : 0;
	return f->n_ready > 0 && !read_timer_is_slow(&f->timer);
}

static void keep_block(struct follower *f, struct batch *b)
{
	b->at[b->n++] = f->at;
	f->at += UNTAR_BLOCK;
	f->n_ready--;
	f->n_headers++;
}

/* Goes on to the block after a header that was kept. Returns false if this is not known. */
static bool follow(struct follower *f, enum untar_kind kind, uint64_t size)
{
	uint64_t n_blocks = size / UNTAR_BLOCK + (size % UNTAR_BLOCK > 0);

	if (kind < UNTAR_MEMBER || kind == UNTAR_OLD_SPARSE || f->at > f->chain->size ||
	    size > f->chain->size - f->at)
		return false;
	if (kind != UNTAR_MEMBER) {
		f->n_body = n_blocks;
		return size <= UNTAR_MAX_PAX;
	}
	f->at += n_blocks * UNTAR_BLOCK;
	f->n_usual = f->n_headers;
	f->n_headers = 0;
	f->n_ready = n_blocks > 0 ? 0 : f->n_ready;
	return true;
}

/* Fills a batch. Returns false if the thread does not know how to go on. */
static bool fill(struct follower *f, struct batch *b)
{
	enum untar_kind kind;
	uint64_t size;

	b->n = 0;
	f->n_ready = 0;
	while (b->n < CHAIN_BLOCKS) {
		if (!read_blocks(f, b))
			return false;
		if (f->n_body > 0) {
			f->n_body--;
			keep_block(f, b);
			continue;
		}
		kind = untar_header_guess(b->blocks[b->n], &size);
		keep_block(f, b);
		if (!follow(f, kind, size))
			return false;
	}
	return true;
}

static struct batch *get_batch(struct tar_chain *c, size_t i)
{
	return &c->batches[i % CHAIN_BATCHES];
}

static void begin_turn(struct follower *f)
{
	struct tar_chain *c = f->chain;

	*f = (struct follower){ .chain = c, .turn = c->turn, .at = c->from, .n_usual = 1 };
}

static void *chain_thread(void *arg)
{
	struct tar_chain *c = arg;
	struct follower f = { .chain = c };
	struct batch *b;
	bool goes_on;

	pthread_mutex_lock(&c->lock);
	while (!c->closed) {
		if (c->ended || c->next - c->first == CHAIN_BATCHES) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		if (f.turn != c->turn)
			begin_turn(&f);
		b = get_batch(c, c->next);
		pthread_mutex_unlock(&c->lock);
		goes_on = fill(&f, b);
		pthread_mutex_lock(&c->lock);
		if (f.turn != c->turn)
			continue;
		c->next += b->n > 0;
		c->ended = !goes_on;
		if (c->ended || c->next - c->first >= CHAIN_WAKE)
			pthread_cond_signal(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start_thread(struct tar_chain *c)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, CHAIN_STACK);
	r = pthread_create(&c->thread, &attr, chain_thread, c);
	pthread_attr_destroy(&attr);
	return r;
}

static void destroy(struct tar_chain *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

struct tar_chain *tar_chain_new(int fd, uint64_t size, uint64_t at)
{
	struct tar_chain *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->size = size;
	c->from = at;
	c->turn = 1;
	pthread_mutex_init(&c->lock, NULL);
	timed_cond_init(&c->changed);
	if (start_thread(c) == 0)
		return c;
	destroy(c);
	return NULL;
}

void tar_chain_free(struct tar_chain *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	destroy(c);
}

/* ---- the walk ---- */

/* Gives the held batch back, and takes the next one. Returns 1; 0: there is none; -EAGAIN. */
static int next_batch(struct tar_chain *c)
{
	struct timespec until = timed_cond_get_end(TAR_CHAIN_WAIT_MS);
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (c->is_held) {
		c->is_held = false;
		c->first++;
		pthread_cond_signal(&c->changed);
	}
	while (c->first == c->next && !c->ended && r == 0)
		r = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	c->is_held = c->first != c->next;
	c->used = 0;
	if (c->is_held)
		r = 1;
	else
		r = c->ended ? 0 : -EAGAIN;
	pthread_mutex_unlock(&c->lock);
	return r;
}

int tar_chain_get(struct tar_chain *c, uint64_t at, const unsigned char **datap)
{
	const struct batch *b;
	int r = 1;

	while (r > 0) {
		b = get_batch(c, c->first);
		for (; c->is_held && c->used < b->n; c->used++) {
			if (b->at[c->used] > at)
				return 0;
			if (b->at[c->used] < at)
				continue;
			c->n_known++;
			*datap = b->blocks[c->used];
			return 1;
		}
		r = next_batch(c);
	}
	return r;
}

void tar_chain_go_to(struct tar_chain *c, uint64_t at)
{
	pthread_mutex_lock(&c->lock);
	c->n_new++;
	c->turn++;
	c->from = at;
	c->first = c->next;
	c->is_held = false;
	c->ended = false;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

bool tar_chain_is_useless(const struct tar_chain *c)
{
	return c->n_new > CHAIN_PATIENCE + c->n_known / CHAIN_FOR_EACH;
}
