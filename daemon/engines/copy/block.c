/*
 * The free blocks are a stack. The block that was returned last is taken first, while it is still
 * in the processor's cache. So a pool whose blocks are returned soon never touches most of its
 * memory.
 */
#include "daemon/engines/copy/block.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

struct block_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct block *free;
	size_t n_made, n_out, max;
	size_t block_size;
	bool stopped, freed;
};

struct block *block_get(struct block *b)
{
	atomic_fetch_add_explicit(&b->n_refs, 1, memory_order_relaxed);
	return b;
}

static void destroy(struct block *b)
{
	if (b->buf)
		munmap(b->buf, b->capacity);
	free(b);
}

/* Frees a pool when all its blocks have been put and none can be taken any more. */
static void destroy_pool(struct block_pool *p)
{
	struct block *b;

	while ((b = p->free)) {
		p->free = b->next;
		destroy(b);
	}
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void give_back(struct block_pool *p, struct block *b)
{
	bool last;

	pthread_mutex_lock(&p->lock);
	if (p->n_made > p->max) {
		p->n_made--;
		destroy(b);
	} else {
		b->next = p->free;
		p->free = b;
	}
	p->n_out--;
	last = p->freed && p->n_out == 0;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (last)
		destroy_pool(p);
}

void block_put(struct block *b)
{
	if (!b || atomic_fetch_sub_explicit(&b->n_refs, 1, memory_order_acq_rel) != 1)
		return;
	if (b->pool)
		give_back(b->pool, b);
	else
		destroy(b);
}

int block_pool_new(struct block_pool **pp, size_t n_blocks, size_t block_size)
{
	struct block_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->max = n_blocks;
	p->block_size = block_size;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	*pp = p;
	return 0;
}

void block_pool_set_max(struct block_pool *p, size_t n_blocks)
{
	struct block *b;

	pthread_mutex_lock(&p->lock);
	p->max = n_blocks;
	while (p->n_made > p->max && (b = p->free)) {
		p->free = b->next;
		p->n_made--;
		destroy(b);
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void block_pool_stop(struct block_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stopped = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void block_pool_free(struct block_pool *p)
{
	bool last;

	if (!p)
		return;
	block_pool_stop(p);
	pthread_mutex_lock(&p->lock);
	p->freed = true;
	last = p->n_out == 0;
	pthread_mutex_unlock(&p->lock);
	if (last)
		destroy_pool(p);
}

/* Allocates a block with mmap(), so that it is page-aligned and its pages take no memory until they
 * are used. */
static struct block *make(struct block_pool *p)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->capacity = p->block_size;
	b->buf = mmap(NULL, b->capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (b->buf == MAP_FAILED) {
		free(b);
		return NULL;
	}
	b->pool = p;
	return b;
}

bool block_pool_is_empty(struct block_pool *p)
{
	bool empty;

	pthread_mutex_lock(&p->lock);
	empty = !p->free && p->n_made >= p->max;
	pthread_mutex_unlock(&p->lock);
	return empty;
}

int block_pool_take(struct block_pool *p, struct block **bp)
{
	struct block *b;
	int r = 0;

	pthread_mutex_lock(&p->lock);
	while (!p->stopped && !p->free && p->n_made >= p->max)
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->stopped) {
		r = -ECANCELED;
	} else if ((b = p->free)) {
		p->free = b->next;
	} else if ((b = make(p))) {
		p->n_made++;
	} else {
		r = -ENOMEM;
	}
	if (r == 0)
		p->n_out++;
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		return r;
	atomic_store_explicit(&b->n_refs, 1, memory_order_relaxed);
	b->data = b->buf;
	b->size = 0;
	*bp = b;
	return 0;
}

int block_new_around(struct block **bp, const void *data, size_t size)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->data = data;
	b->size = size;
	atomic_store_explicit(&b->n_refs, 1, memory_order_relaxed);
	*bp = b;
	return 0;
}

int block_new_left(struct block **bp, int fd, uint64_t at, size_t size)
{
	int r = block_new_around(bp, NULL, size);

	if (r == 0) {
		(*bp)->fd = fd;
		(*bp)->at = at;
	}
	return r;
}
