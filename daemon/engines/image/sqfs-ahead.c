/*
 * A reader is identified by the file's inode. Its position is in a small table, where the position
 * of another file may replace it; then read-ahead begins a little later. Several threads answer the
 * requests of one reader, and out of order, so a request near the position counts as the next one.
 * The number of the next block is taken under the slot's lock, and the block is filled outside the
 * lock. Each following request adds one more thread, until all blocks of the read-ahead are filled
 * or no thread is idle.
 */
#include "daemon/engines/image/sqfs-ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"

enum {
	AHEAD_SLOTS = 64,
	AHEAD_NEAR = 1 << 20, /* bytes by which sequential requests may be out of order */
};

struct ahead_slot {
	pthread_mutex_t lock;
	uint64_t ref;  /* reference of the inode plus one; 0: the slot is free */
	uint64_t end;  /* end of the last read */
	uint64_t next; /* next block to decompress */
};

struct sqfs_ahead {
	struct sqfs_image *img;
	const atomic_uint *n_idle;
	unsigned max_blocks;
	struct ahead_slot slots[AHEAD_SLOTS];
};

int sqfs_ahead_new(struct sqfs_ahead **ap, struct sqfs_image *img, const atomic_uint *n_idle,
		   unsigned max_blocks)
{
	struct sqfs_ahead *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->img = img;
	a->n_idle = n_idle;
	a->max_blocks = max_blocks;
	for (size_t i = 0; i < AHEAD_SLOTS; i++)
		pthread_mutex_init(&a->slots[i].lock, NULL);
	*ap = a;
	return 0;
}

void sqfs_ahead_free(struct sqfs_ahead *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < AHEAD_SLOTS; i++)
		pthread_mutex_destroy(&a->slots[i].lock);
	free(a);
}

/* Records the reader's place. Returns true if it reads in order. */
static bool slot_note(struct ahead_slot *s, uint64_t ref, uint64_t pos, uint64_t end)
{
	bool follows = s->ref == ref + 1 && pos <= s->end + AHEAD_NEAR && end + AHEAD_NEAR > s->end;

	if (!follows) {
		s->ref = ref + 1;
		s->end = end;
		s->next = 0;
	} else if (end > s->end) {
		s->end = end;
	}
	return follows;
}

/* Gets the next block to decompress. Returns false if there is none. */
static bool ahead_take(struct sqfs_ahead *a, struct ahead_slot *s, const struct sqfs_inode *inode,
		       uint64_t *blockp)
{
	uint64_t block;
	bool take;

	pthread_mutex_lock(&s->lock);
	block = s->end >> sqfs_image_get_super(a->img)->block_log;
	if (s->next < block)
		s->next = block;
	take = s->ref == inode->ref + 1 && s->next < block + a->max_blocks &&
	       s->next < inode->file.n_blocks;
	if (take)
		*blockp = s->next++;
	pthread_mutex_unlock(&s->lock);
	return take;
}

/* Decompresses a block. Errors are ignored here: the reader will get them. */
static void ahead_fill(struct sqfs_image *img, const struct sqfs_inode *inode, uint64_t block)
{
	const struct sqfs_block *data;
	struct sqfs_blocks b;
	uint64_t offset;
	uint32_t word;
	int r;

	if (sqfs_blocks_begin(&b, img, inode, block) < 0)
		return;
	r = sqfs_blocks_next(&b, &offset, &word);
	sqfs_blocks_end(&b);
	if (r == 0 && SQFS_BLOCK_SIZE(word) != 0 && !(word & SQFS_BLOCK_STORED) &&
	    sqfs_image_get_data(img, offset, word, &data) == 0)
		sqfs_image_put_data(img, data);
}

void sqfs_ahead_run(struct sqfs_ahead *a, const struct sqfs_inode *inode, uint64_t pos, size_t size)
{
	struct ahead_slot *s = &a->slots[inode->number % AHEAD_SLOTS];
	uint64_t block;
	bool follows;

	if (inode->type != SQFS_TYPE_FILE || inode->file.n_blocks < 2 || pos >= inode->size)
		return;
	if (size > inode->size - pos)
		size = (size_t)(inode->size - pos);
	pthread_mutex_lock(&s->lock);
	follows = slot_note(s, inode->ref, pos, pos + size);
	pthread_mutex_unlock(&s->lock);
	while (follows && atomic_load(a->n_idle) > 0 && ahead_take(a, s, inode, &block))
		ahead_fill(a->img, inode, block);
}
