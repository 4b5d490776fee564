#include "daemon/engines/copy/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <nettle/sha2.h>

#include "common/util/error.h"
#include "daemon/engines/copy/block.h"

#define HASH_BLOCKS 4 /* maximum number of blocks that wait for the thread */

struct hash {
	struct sha256_ctx sha;
	pthread_t thread;
	bool has_thread, ended;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct block *queue[HASH_BLOCKS];
	size_t head, tail; /* blocks added and done so far */
};

int hash_new(struct hash **hp)
{
	struct hash *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	sha256_init(&h->sha);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
	*hp = h;
	return 0;
}

/* Waits until the thread has processed the queued blocks, and ends it. */
static void join(struct hash *h)
{
	if (!h->has_thread)
		return;
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	h->has_thread = h->ended = false;
}

void hash_free(struct hash *h)
{
	if (!h)
		return;
	join(h);
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static void *hash_thread(void *arg)
{
	struct hash *h = arg;
	struct block *b;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		while (h->head == h->tail && !h->ended)
			pthread_cond_wait(&h->changed, &h->lock);
		if (h->head == h->tail)
			break;
		b = h->queue[h->tail % HASH_BLOCKS];
		pthread_mutex_unlock(&h->lock);
		sha256_update(&h->sha, b->size, b->data);
		block_put(b);
		pthread_mutex_lock(&h->lock);
		h->tail++;
		pthread_cond_broadcast(&h->changed);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

void hash_add_block(struct hash *h, struct block *b)
{
	if (!h->has_thread)
		h->has_thread = pthread_create(&h->thread, NULL, hash_thread, h) == 0;
	if (!h->has_thread) {
		hash_add(h, b->data, b->size);
		return;
	}
	pthread_mutex_lock(&h->lock);
	while (h->head - h->tail == HASH_BLOCKS)
		pthread_cond_wait(&h->changed, &h->lock);
	h->queue[h->head++ % HASH_BLOCKS] = block_get(b);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

void hash_add(struct hash *h, const void *data, size_t size)
{
	sha256_update(&h->sha, size, data);
}

void hash_get(struct hash *h, char text[static HASH_TEXT_SIZE])
{
	uint8_t digest[SHA256_DIGEST_SIZE];

	join(h);
	sha256_digest(&h->sha, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
}

int hash_check(struct hash *h, const char *expected, const char *what, struct error *err)
{
	char text[HASH_TEXT_SIZE];

	hash_get(h, text);
	if (!strcmp(text, expected))
		return 0;
	error_set(err, EBADMSG, "%s: its SHA-256 is %s, not %s", what, text, expected);
	return error_set_hint(err, -EBADMSG, "check the sum in verify=, or make or copy it again");
}
