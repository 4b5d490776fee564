/*
 * warnings: facts about a dataset that its user should know (left out, replaced, done in another
 * way). Each is printed once, where the user sees it.
 *
 * The daemon gives each text to the first one who asks for it, so a job with many tasks and steps
 * has it once in its output. Of the nodes that are asked together, those with the same text are one
 * line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "client/rpc.h"

struct snapshot_list;

struct warnings {
	struct warning {
		struct kv *kv; /* owns the texts */
		const char *node, *name, *text;
	} * items;
	size_t n_items;
};

/* Of a message `warning`. Takes *kvp when it returns 0; -EPROTO, -ENOMEM. */
int warnings_add(struct warnings *w, struct kv **kvp);
void warnings_deinit(struct warnings *w);

/* Asks for those that nobody was given before; on_message gets a message `warning` each. Failures
 * are passed over: the data is there. Blocks for at most ten seconds; signals stay pending or do
 * what they do. */
void warnings_ask(struct rpc *rpc, char *const *names, size_t n_names,
		  void (*on_message)(void *arg, const char *op, struct kv **kvp), void *arg);

/* Of the tasks of a step only the first one of its first node asks and prints. A task that does not
 * print must not ask: the texts would be lost. Those of the other nodes stay for a later wait. */
bool warnings_are_told_here(void);

/*
 * Writes "<prefix>: imagenet: warning: <text>". Nodes are named where others that have the dataset,
 * by list, do not have the same text. Nothing at all where there is no warning.
 */
void warnings_print(FILE *f, const struct warnings *w, const struct snapshot_list *list,
		    const char *prefix);
