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
		char *key; /* name and text */
	} * items;
	size_t n_items;
};

/* Adds a message `warning`. Takes *kvp when it returns 0. Returns -EPROTO or -ENOMEM. */
int warnings_add(struct warnings *w, struct kv **kvp);
void warnings_deinit(struct warnings *w);

/* Asks the daemon for the warnings that it has not sent to anybody before. on_message gets each
 * message `warning`. Failures are ignored, because the data is there. Blocks for at most ten
 * seconds. Signals stay pending or have their usual effect. */
void warnings_ask(struct rpc *rpc, char *const *names, size_t n_names,
		  void (*on_message)(void *arg, const char *op, struct kv **kvp), void *arg);

/* Returns whether this process asks for warnings and prints them. In a step, only the first task of
 * the first node does. A task that does not print must not ask: the texts would be lost. Warnings
 * of the other nodes stay in their daemons for a later wait. */
bool warnings_are_told_here(void);

/* Writes "<prefix>: imagenet: warning: <text>". Names the nodes if other nodes in list have the
 * dataset, but not this text. Prints nothing if there is no warning. */
void warnings_print(FILE *f, const struct warnings *w, const struct snapshot_list *list,
		    const char *prefix);
