/*
 * snapshot: a dataset as the daemon described it last, and a list of them.
 *
 * Commands that show states keep one list and feed it every `dataset` message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/protocol/stage-state.h"
#include "common/util/cleanup.h"

struct json;

struct snapshot {
	struct kv *kv; /* owns the texts */
	const char *name, *source, *dest, *method, *tier, *path, *kind, *reason, *cause, *rule,
		*format;
	const char *plan, *why, *warning, *node;
	const char *waits; /* for what it is queued; "": for its turn */
	enum stage_state state;
	uint64_t bytes, total, files, n_files; /* totals: 0 is unknown */
	uint64_t rate, eta_ms, elapsed_ms, pid;
	int code;
};

/* Takes *kvp when it returns 0; -EPROTO for a message without a name or with a strange state. */
int snapshot_from_kv(struct snapshot *s, struct kv **kvp);
void snapshot_deinit(struct snapshot *s);

#define SNAPSHOT_STATE_TEXT 64

/* For people: "queued: credentials". Returns buf. */
const char *snapshot_get_state(const struct snapshot *s, char buf[static SNAPSHOT_STATE_TEXT]);

/* 0..100; 100 only when ready; -1: not known. */
int snapshot_get_percent(const struct snapshot *s);

/* The members of a dataset, into the object that is open. */
void snapshot_to_json(const struct snapshot *s, struct json *j);

struct snapshot_list {
	struct snapshot *items;
	size_t n_items;
};

/* Adds, or takes the place of the one with the same node and name. Takes *kvp when it returns
 * 0. The place is lent to *sp (may be NULL) until the next call. */
int snapshot_list_update(struct snapshot_list *l, struct kv **kvp, const struct snapshot **sp);
/* Adds, without a look at those that are there. Takes *kvp when it returns 0. */
int snapshot_list_add(struct snapshot_list *l, struct kv **kvp);
void snapshot_list_deinit(struct snapshot_list *l);

/* Exit status for all of them: 0, the code of the first failure, or STAGE_EXIT_NOT_READY. What was
 * released does not count, unless there is nothing else. */
int snapshot_list_get_exit(const struct snapshot_list *l);

/* The one that holds the others up: not ready, with the longest time to go. NULL: none. */
const struct snapshot *snapshot_list_get_slowest(const struct snapshot_list *l, size_t *n_behindp);
