/*
 * The name and the parent of a node never change while it exists, and the kernel holds the nodes of
 * its current requests. So paths are composed without a lock.
 */
#include "tests/bench/slow-nodes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct slow_node {
	struct slow_node *parent, *next; /* next: in its bucket */
	uint64_t n_refs;		 /* the kernel's, and one of each node below */
	unsigned bucket;
	char name[];
};

static unsigned hash(const struct slow_node *parent, const char *name)
{
	uint64_t h = (uintptr_t)parent * 0x9E3779B97F4A7C15u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001B3u;
	return (h ^ h >> 29) % SLOW_BUCKETS;
}

static struct slow_node *node_new(struct slow_node *parent, const char *name)
{
	size_t size = strlen(name) + 1;
	struct slow_node *node = calloc(1, sizeof(*node) + size);

	if (!node)
		return NULL;
	node->parent = parent;
	memcpy(node->name, name, size);
	return node;
}

int slow_nodes_init(struct slow_nodes *t)
{
	t->root = node_new(NULL, "");
	if (!t->root)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	return 0;
}

void slow_nodes_deinit(struct slow_nodes *t)
{
	for (unsigned i = 0; i < SLOW_BUCKETS; i++)
		while (t->buckets[i]) {
			struct slow_node *next = t->buckets[i]->next;

			free(t->buckets[i]);
			t->buckets[i] = next;
		}
	free(t->root);
	pthread_mutex_destroy(&t->lock);
}

static struct slow_node *find(struct slow_nodes *t, struct slow_node *parent, const char *name)
{
	unsigned bucket = hash(parent, name);
	struct slow_node *node = t->buckets[bucket];

	while (node && (node->parent != parent || strcmp(node->name, name) != 0))
		node = node->next;
	if (node)
		return node;
	node = node_new(parent, name);
	if (!node)
		return NULL;
	node->bucket = bucket;
	node->next = t->buckets[bucket];
	t->buckets[bucket] = node;
	parent->n_refs++;
	return node;
}

struct slow_node *slow_nodes_get(struct slow_nodes *t, struct slow_node *parent, const char *name)
{
	struct slow_node *node;

	pthread_mutex_lock(&t->lock);
	node = find(t, parent, name);
	if (node)
		node->n_refs++;
	pthread_mutex_unlock(&t->lock);
	return node;
}

static void drop(struct slow_nodes *t, struct slow_node *node)
{
	struct slow_node **link = &t->buckets[node->bucket];

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	free(node);
}

void slow_nodes_forget(struct slow_nodes *t, struct slow_node *node, uint64_t n)
{
	pthread_mutex_lock(&t->lock);
	while (node != t->root) {
		struct slow_node *parent = node->parent;

		node->n_refs -= n < node->n_refs ? n : node->n_refs;
		if (node->n_refs > 0)
			break;
		drop(t, node);
		node = parent;
		n = 1;
	}
	pthread_mutex_unlock(&t->lock);
}

/* Writes s in front of *startp, with a slash between. */
static bool prepend(const struct slow_path *path, char **startp, const char *s)
{
	size_t size = strlen(s), have = (size_t)(*startp - path->text);
	bool slash = **startp != '\0';

	if (size + slash > have)
		return false;
	if (slash)
		*--*startp = '/';
	*startp -= size;
	memcpy(*startp, s, size);
	return true;
}

const char *slow_node_path(const struct slow_node *node, const char *name, struct slow_path *path)
{
	char *start = path->text + sizeof(path->text) - 1;

	*start = '\0';
	if (name && !prepend(path, &start, name))
		return NULL;
	for (; node->parent; node = node->parent)
		if (!prepend(path, &start, node->name))
			return NULL;
	return *start ? start : ".";
}
