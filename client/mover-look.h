/*
 * mover-look: finds movers and the progress of their copies, by running squeue and stage-mover.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct submit_copy;

/* As squeue has it. */
struct mover_entry {
	uint32_t id;
	const char *state, *elapsed, *limit, *partition, *reason, *name;
};

struct mover_list {
	char *text;
	struct mover_entry *items;
	size_t n_items;
};

/* The movers of this user that are pending, about to run, running or suspended. 0, or -errno with
 * err where squeue does not tell within a minute; *l has nothing to free then. */
int mover_list_read(struct mover_list *l, struct error *err);
void mover_list_deinit(struct mover_list *l);
/* The one that is at the copy of that key; NULL: none. Lent. */
const struct mover_entry *mover_list_find(const struct mover_list *l, const char *key);

/* "pending (Priority)", "running for 1:02 of at most 12:00:00": into buf, which is returned. */
char *mover_entry_to_string(const struct mover_entry *e, char *buf, size_t size);

/* Is the copy in c->dir one of the whole source? What takes too long to look at is not known to be.
 * *whyp: why not, one line; the caller frees; may be NULL, and then is left alone. */
bool mover_copy_is_whole(const struct submit_copy *c, char **whyp);

struct mover_progress {
	bool begun;	       /* something is there of a copy that is being made */
	uint64_t bytes, files; /* done */
	uint64_t size;	       /* of a file alone, 0: not known */
	char *source;	       /* NULL: not known */
};

/* dir: of one copy. What can't be told within half a minute is not begun. */
void mover_progress_read(struct mover_progress *p, const char *dir);
void mover_progress_deinit(struct mover_progress *p);
/* "1.2 GiB of 3 GiB (40 %)", "1.2 GiB, 20 files", "nothing yet": into buf, which is returned. */
char *mover_progress_to_string(const struct mover_progress *p, char *buf, size_t size);

/* Prints a table of all movers of this user: which copies they make, and how far they are. Returns
 * how many there are, or -errno. */
int mover_look_print(struct error *err);
