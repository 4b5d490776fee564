/*
 * mover-look: finds movers and the progress of their copies, by running squeue and stage-mover.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct submit_copy;

/* One mover in the output of squeue. */
struct mover_entry {
	uint32_t id;
	const char *state, *elapsed, *limit, *partition, *reason, *name;
};

struct mover_list {
	char *text;
	struct mover_entry *items;
	size_t n_items;
};

/* Reads the movers of this user that are pending, configuring, running or suspended. Returns 0, or
 * -errno with err if squeue does not answer within a minute; *l needs no deinit then. */
int mover_list_read(struct mover_list *l, struct error *err);
void mover_list_deinit(struct mover_list *l);
/* Returns the mover that makes the copy with that key, or NULL. Lent. */
const struct mover_entry *mover_list_find(const struct mover_list *l, const char *key);

/* Writes "pending (Priority)" or "running for 1:02 of at most 12:00:00" into buf and returns
 * buf. */
char *mover_entry_to_string(const struct mover_entry *e, char *buf, size_t size);

/* Returns whether the copy in c->dir is a complete copy of the source. A check that takes too long
 * counts as no. *whyp: the reason in one line, which the caller frees; NULL if there is none. whyp
 * may be NULL. */
bool mover_copy_is_whole(const struct submit_copy *c, char **whyp);

struct mover_progress {
	bool begun;	       /* part of an incomplete copy exists */
	uint64_t bytes, files; /* copied so far */
	uint64_t size;	       /* of the source if it is a single file; 0: not known */
	char *source;	       /* NULL: not known */
};

/* Reads the progress of the copy in dir. If this takes more than half a minute, `begun` is
 * false. */
void mover_progress_read(struct mover_progress *p, const char *dir);
void mover_progress_deinit(struct mover_progress *p);
/* Writes "1.2 GiB of 3 GiB (40 %)", "1.2 GiB, 20 files" or "nothing yet" into buf and returns
 * buf. */
char *mover_progress_to_string(const struct mover_progress *p, char *buf, size_t size);

/* Prints a table of all movers of this user: which copies they make, and how far they are. Returns
 * how many there are, or -errno. */
int mover_look_print(struct error *err);
