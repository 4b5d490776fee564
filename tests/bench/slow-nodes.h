/*
 * slow-nodes: the names of a tree that the kernel has looked up. The tree does not change. A node
 * is a name below another node, and its address is the node id of the kernel. It exists as long as
 * the kernel holds it or something below it.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdint.h>

struct slow_node;

enum { SLOW_BUCKETS = 1 << 16 };
struct slow_nodes {
	pthread_mutex_t lock;
	struct slow_node *root;
	struct slow_node *buckets[SLOW_BUCKETS];
};

/* Room for any path, as it is seen from the root. */
struct slow_path {
	char text[PATH_MAX];
};

/* 0 or -ENOMEM. */
int slow_nodes_init(struct slow_nodes *t);
void slow_nodes_deinit(struct slow_nodes *t);

/* The node of a name, known once more from now on; NULL: no memory. */
struct slow_node *slow_nodes_get(struct slow_nodes *t, struct slow_node *parent, const char *name);
/* The kernel forgets it n times. Nothing for the root. */
void slow_nodes_forget(struct slow_nodes *t, struct slow_node *node, uint64_t n);

/*
 * Path of the node, or of a name in it (NULL: itself), for openat(2) and its like; "." is the root.
 * Lies in *path. NULL: too long.
 */
const char *slow_node_path(const struct slow_node *node, const char *name, struct slow_path *path);
