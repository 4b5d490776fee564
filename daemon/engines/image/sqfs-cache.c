/*
 * The keys are spread over shards, each with a lock, a hash and an LRU list of its own, so that
 * threads that read different blocks rarely meet. All buffers of a cache have the same size (the
 * image's block size, or 8 KiB for metadata), so an evicted one is used again as it is: freeing and
 * mapping 128 KiB for each block costs more page faults than its decompression costs time.
 *
 * A slot is in one of three places: on the LRU list (nobody holds it), held (n_users > 0), or
 * unhashed on its way out (a failed fill, whose last user frees it).
 */
#include "daemon/engines/image/sqfs-cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/util/buffer.h"
#include "common/util/list.h"

enum {
	CACHE_MAX_SHARDS = 16,
	CACHE_MIN_SLOTS = 8, /* slots of a shard */
};

struct cache_slot {
	struct sqfs_block block; /* the first member, so a block's address is that of its slot */
	uint64_t key;
	struct cache_slot *hash_next;
	struct list lru;
	uint32_t n_users;
	bool filling;
	int error;
};

struct cache_shard {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct cache_slot **hash;
	size_t hash_mask;
	struct list lru; /* the oldest block is first */
	size_t n_slots, max_slots;
	struct sqfs_cache_stats stats;
} __attribute__((aligned(64)));

struct sqfs_cache {
	uint32_t unit;
	uint32_t n_shards;
	struct cache_shard shards[CACHE_MAX_SHARDS];
};

static uint64_t cache_mix(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key ^ (key >> 29);
}

static struct cache_shard *cache_get_shard(struct sqfs_cache *c, uint64_t key)
{
	return &c->shards[(cache_mix(key) >> 56) & (c->n_shards - 1)];
}

static struct cache_slot **cache_get_bucket(struct cache_shard *s, uint64_t key)
{
	return &s->hash[cache_mix(key) & s->hash_mask];
}

static int shard_init(struct cache_shard *s, size_t max_slots)
{
	size_t n = 16;

	while (n < max_slots * 2)
		n *= 2;
	s->hash = calloc(n, sizeof(*s->hash));
	if (!s->hash)
		return -ENOMEM;
	s->hash_mask = n - 1;
	s->max_slots = max_slots;
	list_init(&s->lru);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->filled, NULL);
	return 0;
}

int sqfs_cache_new(struct sqfs_cache **cp, size_t limit, uint32_t unit)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	size_t n_slots = limit / unit;
	uint32_t n_shards = 1;
	void *mem = NULL;
	int r;

	while (n_shards < CACHE_MAX_SHARDS && n_slots / (n_shards * 2) >= CACHE_MIN_SLOTS)
		n_shards *= 2;
	n_slots /= n_shards;
	if (n_slots < CACHE_MIN_SLOTS)
		n_slots = CACHE_MIN_SLOTS;

	if (posix_memalign(&mem, 64, sizeof(*c)) != 0)
		return -ENOMEM;
	c = mem;
	*c = (struct sqfs_cache){ .unit = unit };
	for (; c->n_shards < n_shards; c->n_shards++) {
		r = shard_init(&c->shards[c->n_shards], n_slots);
		if (r < 0)
			return r;
	}
	*cp = steal_ptr(c);
	return 0;
}

static void slot_free(struct cache_slot *slot)
{
	free(slot->block.data);
	free(slot);
}

static void shard_deinit(struct cache_shard *s)
{
	for (size_t i = 0; i <= s->hash_mask; i++) {
		struct cache_slot *next;

		for (struct cache_slot *slot = s->hash[i]; slot; slot = next) {
			next = slot->hash_next;
			slot_free(slot);
		}
	}
	free(s->hash);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->filled);
}

void sqfs_cache_free(struct sqfs_cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->n_shards; i++)
		shard_deinit(&c->shards[i]);
	free(c);
}

static void shard_unhash(struct cache_shard *s, struct cache_slot *slot)
{
	struct cache_slot **p = cache_get_bucket(s, slot->key);

	while (*p != slot)
		p = &(*p)->hash_next;
	*p = slot->hash_next;
}

static struct cache_slot *shard_find(struct cache_shard *s, uint64_t key)
{
	for (struct cache_slot *slot = *cache_get_bucket(s, key); slot; slot = slot->hash_next)
		if (slot->key == key)
			return slot;
	return NULL;
}

/* Gets a slot to fill: a new one while there is room or no slot can be evicted, otherwise the
 * oldest one. */
static struct cache_slot *shard_take_slot(struct cache_shard *s, uint32_t unit)
{
	struct cache_slot *slot;

	if (s->n_slots >= s->max_slots && !list_is_empty(&s->lru)) {
		slot = list_entry(s->lru.next, struct cache_slot, lru);
		list_remove(&slot->lru);
		shard_unhash(s, slot);
		return slot;
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return NULL;
	slot->block.data = buffer_new(unit);
	if (!slot->block.data) {
		free(slot);
		return NULL;
	}
	list_init(&slot->lru);
	s->n_slots++;
	return slot;
}

/* Drops one use of the slot. The lock must be held. */
static void shard_put(struct cache_shard *s, struct cache_slot *slot)
{
	if (--slot->n_users > 0)
		return;
	if (slot->error == 0 && s->n_slots <= s->max_slots) {
		list_append(&s->lru, &slot->lru);
		return;
	}
	if (slot->error == 0)
		shard_unhash(s, slot);
	s->n_slots--;
	slot_free(slot);
}

static int shard_wait(struct cache_shard *s, struct cache_slot *slot)
{
	int r;

	if (slot->n_users++ == 0)
		list_remove(&slot->lru);
	if (slot->filling)
		s->stats.n_waits++;
	else
		s->stats.n_hits++;
	while (slot->filling)
		pthread_cond_wait(&s->filled, &s->lock);
	r = slot->error;
	if (r < 0)
		shard_put(s, slot);
	return r;
}

static int shard_fill(struct cache_shard *s, struct cache_slot *slot, sqfs_fill_fn fill, void *arg)
{
	int r;

	pthread_mutex_unlock(&s->lock);
	slot->block.size = 0;
	slot->block.next = 0;
	r = fill(arg, slot->key, &slot->block);
	pthread_mutex_lock(&s->lock);

	slot->filling = false;
	pthread_cond_broadcast(&s->filled);
	if (r < 0) {
		slot->error = r;
		shard_unhash(s, slot);
		shard_put(s, slot);
	}
	return r;
}

int sqfs_cache_acquire(struct sqfs_cache *c, uint64_t key, sqfs_fill_fn fill, void *arg,
		       const struct sqfs_block **blockp)
{
	struct cache_shard *s = cache_get_shard(c, key);
	struct cache_slot *slot;
	int r;

	pthread_mutex_lock(&s->lock);
	slot = shard_find(s, key);
	if (slot) {
		r = shard_wait(s, slot);
	} else {
		struct cache_slot **bucket = cache_get_bucket(s, key);

		slot = shard_take_slot(s, c->unit);
		if (!slot) {
			pthread_mutex_unlock(&s->lock);
			return -ENOMEM;
		}
		slot->key = key;
		slot->n_users = 1;
		slot->filling = true;
		slot->error = 0;
		slot->hash_next = *bucket;
		*bucket = slot;
		s->stats.n_fills++;
		r = shard_fill(s, slot, fill, arg);
	}
	pthread_mutex_unlock(&s->lock);
	if (r < 0)
		return r;
	*blockp = &slot->block;
	return 0;
}

const struct sqfs_block *sqfs_cache_find(struct sqfs_cache *c, uint64_t key)
{
	struct cache_shard *s = cache_get_shard(c, key);
	struct cache_slot *slot;

	pthread_mutex_lock(&s->lock);
	slot = shard_find(s, key);
	if (slot && slot->filling)
		slot = NULL;
	if (slot) {
		if (slot->n_users++ == 0)
			list_remove(&slot->lru);
		s->stats.n_hits++;
	}
	pthread_mutex_unlock(&s->lock);
	return slot ? &slot->block : NULL;
}

void sqfs_cache_release(struct sqfs_cache *c, const struct sqfs_block *block)
{
	struct cache_slot *slot = (struct cache_slot *)block;
	struct cache_shard *s;

	if (!block)
		return;
	s = cache_get_shard(c, slot->key);
	pthread_mutex_lock(&s->lock);
	shard_put(s, slot);
	pthread_mutex_unlock(&s->lock);
}

static void shard_set_limit(struct cache_shard *s, size_t max_slots)
{
	pthread_mutex_lock(&s->lock);
	s->max_slots = max_slots;
	while (s->n_slots > max_slots && !list_is_empty(&s->lru)) {
		struct cache_slot *slot = list_entry(s->lru.next, struct cache_slot, lru);

		list_remove(&slot->lru);
		shard_unhash(s, slot);
		s->n_slots--;
		slot_free(slot);
	}
	pthread_mutex_unlock(&s->lock);
}

void sqfs_cache_set_limit(struct sqfs_cache *c, size_t limit)
{
	size_t n_slots = limit / c->unit / c->n_shards;

	for (uint32_t i = 0; i < c->n_shards; i++)
		shard_set_limit(&c->shards[i], n_slots > 0 ? n_slots : 1);
}

void sqfs_cache_get_stats(struct sqfs_cache *c, struct sqfs_cache_stats *stats)
{
	*stats = (struct sqfs_cache_stats){ 0 };
	for (uint32_t i = 0; i < c->n_shards; i++) {
		struct cache_shard *s = &c->shards[i];

		pthread_mutex_lock(&s->lock);
		stats->n_hits += s->stats.n_hits;
		stats->n_fills += s->stats.n_fills;
		stats->n_waits += s->stats.n_waits;
		stats->n_buffers += s->n_slots;
		pthread_mutex_unlock(&s->lock);
	}
}
