#include "daemon/engines/copy/link-table.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define LINK_BUCKETS 16384

struct entry {
	struct entry *next;
	dev_t dev;
	ino_t ino;
	char path[];
};

struct link_table {
	pthread_mutex_t lock;
	struct entry *buckets[LINK_BUCKETS];
};

int link_table_new(struct link_table **tp)
{
	struct link_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	*tp = t;
	return 0;
}

void link_table_free(struct link_table *t)
{
	struct entry *e, *next;

	if (!t)
		return;
	for (size_t i = 0; i < LINK_BUCKETS; i++) {
		for (e = t->buckets[i]; e; e = next) {
			next = e->next;
			free(e);
		}
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct entry **get_bucket(struct link_table *t, const struct stat *st)
{
	return &t->buckets[((uint64_t)st->st_ino * 0x9e3779b97f4a7c15ULL >> 40) % LINK_BUCKETS];
}

const char *link_table_find_or_lock(struct link_table *t, const struct stat *st)
{
	const struct entry *e;

	pthread_mutex_lock(&t->lock);
	for (e = *get_bucket(t, st); e; e = e->next) {
		if (e->dev == st->st_dev && e->ino == st->st_ino) {
			pthread_mutex_unlock(&t->lock);
			return e->path;
		}
	}
	return NULL;
}

void link_table_unlock_and_add(struct link_table *t, const struct stat *st, const char *path)
{
	struct entry *e = path ? malloc(sizeof(*e) + strlen(path) + 1) : NULL, **bucket;

	if (e) { /* if there is no memory, the next name becomes a separate file */
		bucket = get_bucket(t, st);
		e->next = *bucket;
		e->dev = st->st_dev;
		e->ino = st->st_ino;
		strcpy(e->path, path);
		*bucket = e;
	}
	pthread_mutex_unlock(&t->lock);
}
