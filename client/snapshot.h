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
	const char *waits; /* the reason why it is queued; "": it waits for its turn */
	enum stage_state state;
	uint64_t bytes, total, files, n_files; /* total and n_files: 0 if unknown */
	uint64_t rate;			       /* bytes a second; 0: not known */
	uint64_t eta_ms, elapsed_ms, pid;
	int code;
};

/* Reads a message. Takes *kvp when it returns 0. Returns -EPROTO if the message has no name or an
 * unknown state. */
int snapshot_from_kv(struct snapshot *s, struct kv **kvp);
void snapshot_deinit(struct snapshot *s);

#define SNAPSHOT_STATE_TEXT 64

/* Writes the state for people: "queued: credentials". Returns buf. */
const char *snapshot_get_state(const struct snapshot *s, char buf[static SNAPSHOT_STATE_TEXT]);

/* Returns 0 to 100, or -1 if not known. 100 only if the dataset is ready. */
int snapshot_get_percent(const struct snapshot *s);

/* Writes the members of a dataset into the open object. */
void snapshot_to_json(const struct snapshot *s, struct json *j);

struct snapshot_list {
	struct snapshot *items;
	size_t n_items;
	size_t *slots; /* private: a hash table of positions in items; NULL: it has to be made */
	size_t n_slots;
};

/* Adds the message, or replaces the item with the same node and name. Takes *kvp when it returns 0.
 * *sp is lent until the next call; sp may be NULL. */
int snapshot_list_update(struct snapshot_list *l, struct kv **kvp, const struct snapshot **sp);
/* Does the same for messages about datasets, and ignores others. For struct rpc_handler, with the
 * list as arg. */
void snapshot_list_on_message(void *arg, const char *op, struct kv **kvp);
/* Sorts the items by the nodes' names, where n2 is before n10, and then by the datasets' names. */
void snapshot_list_sort(struct snapshot_list *l);
/* Adds the message without looking for an older item. Takes *kvp when it returns 0. */
int snapshot_list_add(struct snapshot_list *l, struct kv **kvp);
void snapshot_list_deinit(struct snapshot_list *l);

/* Returns the exit status for the whole list: 0, the code of the first failure, or
 * STAGE_EXIT_NOT_READY. Released datasets do not count, unless all are released. */
int snapshot_list_get_exit(const struct snapshot_list *l);

/* Returns the unfinished dataset that needs the longest time, or NULL. *n_unfinishedp: the number
 * of unfinished datasets. */
const struct snapshot *snapshot_list_get_slowest(const struct snapshot_list *l,
						 size_t *n_unfinishedp);
